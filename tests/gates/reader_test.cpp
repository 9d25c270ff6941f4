// SPDX-License-Identifier: Apache-2.0
// The reader on machine code of probes.cu, against what the probes contain and what ptxas says about them.
#include <algorithm>
#include <cstddef>
#include <fstream>
#include <regex>
#include <set>
#include <stdexcept>
#include <string>

#include <doctest/doctest.h>

#include "cubin/flow.hpp"
#include "cubin/resources.hpp"
#include "probe_files.hpp"

namespace {

using cubin::operation;

cubin::module_file probes(int architecture) {
  return cubin::module_file::load(pagoda_gates::probe_file("probes", architecture));
}

/// Whether some instruction of an operation repeats, and whether all do.
bool any_repeats(const cubin::kernel& k, operation op) {
  const cubin::control_flow flow(k.code);
  for (std::size_t i = 0; i < k.code.size(); ++i) {
    if (k.code[i].is(op) && flow.repeats(i)) return true;
  }
  return false;
}

std::size_t long_divisions(const cubin::kernel& k) {
  return repeated_long_divisions(k, cubin::control_flow(k.code)).size();
}

/// The number before a phrase of ptxas, 0 when the phrase is not there.
int number_before(const std::string& text, const std::string& phrase) {
  std::smatch match;
  return std::regex_search(text, match, std::regex("([0-9]+) " + phrase)) ? std::stoi(match[1]) : 0;
}

}  // namespace

TEST_CASE("registers, shared memory, frames and spills are what ptxas says") {
  for (const int architecture : pagoda_gates::probed_architectures()) {
    CAPTURE(architecture);
    const cubin::module_file module = probes(architecture);
    CHECK(module.architecture() == architecture);
    std::ifstream report(pagoda_gates::probe_file("probes", architecture, ".txt"));
    REQUIRE(report.is_open());
    std::string line;
    std::string kernel;
    std::size_t kernels = 0;
    while (std::getline(report, line)) {
      std::smatch match;
      if (std::regex_search(line, match, std::regex("Compiling entry function '([^']+)'"))) kernel = match[1];
      if (line.find("stack frame") != std::string::npos) {
        CAPTURE(kernel);
        const cubin::kernel& k = module.find(kernel);
        CHECK(k.frame_bytes == number_before(line, "bytes stack frame"));
        // The array's accesses are local, but no spills.
        const bool has_array = kernel == "probe_local_array";
        CHECK((k.local_accesses() > 0) == (has_array || number_before(line, "bytes spill loads") > 0));
        if (!has_array) {
          CHECK(static_cast<int>(k.bytes_of(operation::stl)) == number_before(line, "bytes spill stores"));
          CHECK(static_cast<int>(k.bytes_of(operation::ldl)) == number_before(line, "bytes spill loads"));
        }
      }
      if (line.find("Used") != std::string::npos) {
        CAPTURE(kernel);
        const cubin::kernel& k = module.find(kernel);
        CHECK(k.registers == number_before(line, "registers"));
        CHECK(k.static_shared_bytes == number_before(line, "bytes smem"));
        ++kernels;
      }
    }
    CHECK(kernels == module.kernels().size());
    CHECK(kernels == 12);
    CHECK(module.find("probe_spills").frame_bytes > 0);
    CHECK(module.find("probe_spills").bytes_of(operation::stl) > 0);
    CHECK(module.find("probe_local_array").frame_bytes == 256);
    CHECK(module.find("probe_shared_memory").static_shared_bytes == 5120);
    CHECK(module.find("probe_mma").max_threads == 32);
    CHECK(module.find("probe_generic").max_threads == 0);
  }
}

TEST_CASE("a load in a loop and a store behind it, 16 bytes each") {
  for (const int architecture : pagoda_gates::probed_architectures()) {
    CAPTURE(architecture);
    const cubin::module_file module = probes(architecture);
    const cubin::kernel& k = module.find("probe_loop_of_loads");
    CHECK(k.count(operation::ldg) == 1);
    CHECK(k.count(operation::ldg, 128) == 1);
    CHECK(k.count(operation::stg) == 1);
    CHECK(k.count(operation::stg, 128) == 1);
    CHECK(any_repeats(k, operation::ldg));
    CHECK_FALSE(any_repeats(k, operation::stg));
    const cubin::control_flow flow(k.code);
    REQUIRE(flow.loops().size() == 1);
    CHECK(count(k.code, flow.loops()[0], operation::ldg) == 1);
    CHECK(count(k.code, flow.loops()[0], operation::stg) == 0);
    CHECK(flow.is_complete());
    CHECK_FALSE(tensor_core_loop(k, flow).has_value());
  }
}

TEST_CASE("accesses of every width, one each") {
  for (const int architecture : pagoda_gates::probed_architectures()) {
    CAPTURE(architecture);
    const cubin::module_file module = probes(architecture);
    const cubin::kernel& k = module.find("probe_widths");
    for (const operation op : {operation::ldg, operation::stg, operation::lds, operation::sts}) {
      CAPTURE(static_cast<int>(op));
      for (const int width : {8, 16, 32, 64, 128}) {
        CAPTURE(width);
        // Where the order of memory needs it, sm_90 has LDS instructions that never run.
        const auto found = std::count_if(k.code.begin(), k.code.end(), [=](const cubin::instruction& i) {
          return i.is(op) && i.width() == width && i.is_unconditional();
        });
        CHECK(found == 1);
      }
    }
    CHECK(k.static_shared_bytes == 64 * (1 + 2 + 4 + 8 + 16));
  }
}

TEST_CASE("64-bit divisions: in a loop, before it, and what only looks like one") {
  for (const int architecture : pagoda_gates::probed_architectures()) {
    CAPTURE(architecture);
    const cubin::module_file module = probes(architecture);
    CHECK(long_divisions(module.find("probe_division_in_loop")) == 1);
    CHECK(long_divisions(module.find("probe_remainder_in_loop")) == 1);
    CHECK(long_divisions(module.find("probe_cheap_division_in_loop")) == 0);
    const cubin::kernel& before = module.find("probe_division_before_loop");
    CHECK(long_divisions(before) == 0);
    REQUIRE(before.functions.size() == 1);
    CHECK(cubin::is_long_division(before.functions[0].name));
    CHECK(any_repeats(before, operation::ldg));
  }
}

TEST_CASE("tensor cores, matrix loads and asynchronous copies in nested loops") {
  for (const int architecture : pagoda_gates::probed_architectures()) {
    CAPTURE(architecture);
    const cubin::module_file module = probes(architecture);
    const cubin::kernel& k = module.find("probe_mma");
    CHECK(k.count(operation::hmma) == 4);
    CHECK(k.count(operation::ldgsts) == 2);
    CHECK(k.count(operation::ldgsts, 128) == 1);
    CHECK(k.count(operation::ldgsts, 32) == 1);
    CHECK_FALSE(any_repeats(k, operation::ldgsts));
    const cubin::control_flow flow(k.code);
    REQUIRE(flow.loops().size() == 2);
    const auto main = tensor_core_loop(k, flow);
    REQUIRE(main.has_value());
    CHECK(flow.loops()[0].contains(*main));
    CHECK(count(k.code, *main, operation::hmma) == 3);
    CHECK(count(k.code, flow.loops()[0], operation::hmma) == 4);
    CHECK(count(k.code, *main, operation::ldsm) == 2);
    CHECK(count(k.code, *main, operation::stg) == 0);
    std::size_t turns = 0;
    for (std::size_t i = main->first; i <= main->last; ++i) {
      if (k.code[i].is(operation::ldsm)) CHECK(k.code[i].name() == "LDSM.x4");
      turns += k.code[i].name() == "MOVM";
    }
    CHECK(turns == 1);
  }
}

TEST_CASE("a pointer that may point anywhere is accessed generically") {
  for (const int architecture : pagoda_gates::probed_architectures()) {
    CAPTURE(architecture);
    const cubin::module_file module = probes(architecture);
    CHECK(module.find("probe_generic").count(operation::ld) == 1);
    CHECK(module.find("probe_generic").count(operation::st) == 1);
    CHECK(module.find("probe_generic").count(operation::ld, 32) == 1);
    CHECK(module.find("probe_widths").count(operation::ld) == 0);
    CHECK(module.find("probe_widths").count(operation::st) == 0);
  }
}

TEST_CASE("every operation of the probes has a name") {
  for (const int architecture : pagoda_gates::probed_architectures()) {
    CAPTURE(architecture);
    const cubin::module_file module = probes(architecture);
    for (const cubin::kernel& k : module.kernels()) {
      CAPTURE(k.name);
      for (const cubin::instruction& i : k.code) {
        CAPTURE(i.text());
        CHECK(i.is_known());
      }
    }
    std::set<std::string> names;
    for (const cubin::instruction& i : module.find("probe_operations").code) names.insert(i.name());
    for (const std::string name :
         {"MUFU.EX2", "MUFU.LG2", "MUFU.RCP", "MUFU.RSQ", "FMNMX",     "FFMA",   "FADD",   "FMUL",
          "FSETP",    "FSEL",     "HADD2",    "HFMA2",    "HMUL2",     "F2FP",   "FRND",   "F2I",
          "F2F.64",   "I2F.64",   "POPC",     "FLO",      "BREV",      "IABS",   "IDP",    "PRMT",
          "LOP3",     "SHF",      "IMAD",     "IMAD.HI",  "ISETP",     "SEL",    "DFMA",   "DSETP",
          "VOTE",     "SHFL",     "MATCH",    "REDUX",    "ATOMG.CAS", "ATOMG",  "MEMBAR", "NANOSLEEP",
          "S2R",      "EXIT",     "BRA",      "BPT",      "LDG.32",    "LDG.64", "STG.32", "STG.64"}) {
      CAPTURE(name);
      CHECK(names.count(name) == 1);
    }
  }
}

TEST_CASE("a kernel is found by a part of its name that only it has") {
  for (const int architecture : pagoda_gates::probed_architectures()) {
    const cubin::module_file module = probes(architecture);
    CHECK(module.find("local_array").name == "probe_local_array");
    CHECK_THROWS_WITH_AS(module.find("probe"), "cubin: several kernels are named like probe", std::runtime_error);
    CHECK_THROWS_WITH_AS(module.find("nobody"), "cubin: no kernel is named like nobody", std::runtime_error);
  }
}
