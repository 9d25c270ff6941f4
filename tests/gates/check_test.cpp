// SPDX-License-Identifier: Apache-2.0
// Budgets: each rule alone can fail, and its message names kernel, architecture, value and limit.
#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "check.hpp"
#include "probe_files.hpp"

namespace {

using pagoda_gates::budget;
using pagoda_gates::check;
using pagoda_gates::measurement;

measurement good() {
  measurement m;
  m.name = "void pagoda::simt::entry<pagoda::kernels::some<128> >(pagoda::kernels::some<128>::arguments)";
  m.architecture = 90;
  m.threads = 128;
  m.registers = 160;
  m.instructions = 1000;
  m.loop_instructions = 600;
  m.loop_tiles = 2;
  m.loop_mma = 32;
  m.loop_copies_16 = 32;
  m.async_copies_16 = 64;
  m.loop_loads_16 = 2;
  m.mma = 32;
  m.resident_blocks = 2;
  m.bytes_in_flight = 96 * 1024;
  return m;
}

budget limits() {
  budget b;
  b.registers = {150, 160};
  b.blocks = {1, 2};
  b.kib_in_flight = {64, 96};
  b.loop_instructions = {290, 300};
  b.loop_copies_16 = 32;
  b.loop_loads_16 = 2;
  return b;
}

/// The one fault of a measurement.
std::string fault_of(const measurement& m) {
  const std::vector<std::string> faults = check(m, limits());
  REQUIRE(faults.size() == 1);
  return faults[0];
}

template <class Change>
std::string fault_after(Change change) {
  measurement m = good();
  change(m);
  return fault_of(m);
}

}  // namespace

TEST_CASE("a kernel at its limits passes") {
  CHECK(check(good(), limits()).empty());
}

TEST_CASE("every rule fails alone, with kernel, architecture, value and limit") {
  const std::string head = "some<128> on sm_90: ";
  CHECK(fault_after([](measurement& m) { m.registers = 161; }) == head + "registers of a thread is 161, limit 160");
  CHECK(fault_after([](measurement& m) { m.frame_bytes = 8; }) ==
        head + "bytes of local memory of a thread is 8, limit 0");
  CHECK(fault_after([](measurement& m) { m.spill_bytes = 4; }) == head + "bytes that spill is 4, limit 0");
  CHECK(fault_after([](measurement& m) { m.generic_accesses = 1; }) ==
        head + "accesses through generic pointers is 1, limit 0");
  CHECK(fault_after([](measurement& m) { m.repeated_long_divisions = 1; }) ==
        head + "64-bit divisions in loops is 1, limit 0");
  CHECK(fault_after([](measurement& m) { m.unknown_instructions = 3; }) == head + "unknown instructions is 3, limit 0");
  CHECK(fault_after([](measurement& m) { m.is_flow_complete = false; }) ==
        head + "has branches that cannot be followed");
  CHECK(fault_after([](measurement& m) { m.resident_blocks = 1; }) ==
        head + "blocks on a multiprocessor is 1, at least 2");
  CHECK(fault_after([](measurement& m) { m.bytes_in_flight = 95 * 1024; }) ==
        head + "KiB in flight on a multiprocessor is 95, at least 96");
  CHECK(fault_after([](measurement& m) { m.async_copies_4 = 1; }) == head + "4-byte copies is 1, limit 0");
  CHECK(fault_after([](measurement& m) { m.loop_loads_16 = 1; }) == head + "16-byte loads in loops is 1, at least 2");
  CHECK(fault_after([](measurement& m) { m.loop_narrow_loads = 1; }) == head + "narrower loads in loops is 1, limit 0");
  CHECK(fault_after([](measurement& m) { m.loop_mma = 0; }) ==
        head + "tensor-core instructions in the main loop is 0, at least 1");
  CHECK(fault_after([](measurement& m) { m.loop_instructions = 601; }) ==
        head + "instructions of the main loop for 16 tokens is 300.5, limit 300");
  CHECK(fault_after([](measurement& m) { m.loop_copies_16 = 31; }) ==
        head + "16-byte copies in the main loop is 31, expected 32");
}

TEST_CASE("limits belong to an architecture") {
  measurement m = good();
  m.architecture = 80;
  CHECK(check(m, limits()).size() == 2);  // registers and loop instructions
  m.architecture = 70;
  CHECK_THROWS_AS(check(m, limits()), std::invalid_argument);
}

TEST_CASE("kernels are matched with their whole type") {
  using pagoda_gates::is_entry_of;
  const std::string kernel = "void pagoda::simt::entry<a::b<a::c, 128> >(a::b<a::c, 128>::arguments)";
  CHECK(is_entry_of(kernel, "a::b<a::c, 128>"));
  CHECK_FALSE(is_entry_of(kernel, "a::b<a::c, 12>"));
  CHECK_FALSE(is_entry_of(kernel, "b<a::c, 128>"));
  CHECK(is_entry_of("void pagoda::simt::entry<a::b>(a::b::arguments)", "a::b"));
  CHECK(pagoda_gates::type_name<std::vector<int>>().find("std::vector<int") == 0);
}

TEST_CASE("what probes break is found, and so is a kernel or a budget that stands alone") {
  for (const int architecture : pagoda_gates::probed_architectures()) {
    CAPTURE(architecture);
    const cubin::module_file module = cubin::module_file::load(pagoda_gates::probe_file("probes", architecture));
    const auto faults_of = [&](const char* name) { return check(pagoda_gates::measure(module.find(name)), budget{}); };
    const auto has = [](const std::vector<std::string>& faults, const std::string& part) {
      return std::any_of(faults.begin(), faults.end(),
                         [&](const std::string& fault) { return fault.find(part) != std::string::npos; });
    };
    CHECK(faults_of("probe_loop_of_loads").empty());
    CHECK(has(faults_of("probe_spills"), "probe_spills on sm_" + std::to_string(architecture) + ": bytes that spill"));
    CHECK(has(faults_of("probe_local_array"), "bytes of local memory of a thread is 256, limit 0"));
    CHECK(has(faults_of("probe_generic"), "accesses through generic pointers is 2, limit 0"));
    CHECK(has(faults_of("probe_division_in_loop"), "64-bit divisions in loops is 1, limit 0"));
    CHECK(has(faults_of("probe_mma"), "4-byte copies is 1, limit 0"));

    const cubin::module_file twins = cubin::module_file::load(pagoda_gates::probe_file("twin", architecture));
    std::vector<budget> table(3);
    table[0].group = table[1].group = "twins";
    table[0].kernel = "pagoda_gates::twin_decode<4>";
    table[0].loop_narrow_loads = 1;
    table[1].kernel = "pagoda_gates::twin_decode<5>";
    table[2].group = "others";
    table[2].kernel = "pagoda_gates::twin_decode<1>";
    const auto faults = check_group("twins", table, twins);
    const std::string on = " on sm_" + std::to_string(architecture);
    CHECK(faults.size() == 6);  // of six kernels one has its budget, and one budget has no kernel
    CHECK(has(faults, "pagoda_gates::twin_decode<1>" + on + " has no budget in group twins"));
    CHECK(has(faults, "plain_decode<4>" + on + " has no budget in group twins"));
    CHECK(has(faults, "pagoda_gates::twin_decode<5> of group twins is not in the cubin"));
    CHECK(has(check_group("nobody", table, twins), "group nobody has no budget"));
  }
}
