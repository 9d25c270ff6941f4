// SPDX-License-Identifier: Apache-2.0
// Faults of threads that should meet: masks, partial warps, barriers, launches.
#include <stdexcept>

#include "fault_checks.hpp"

namespace {

using pagoda_test::check_clean;
using pagoda_test::check_fault;
using pagoda_test::snippet_run;
using pagoda_test::snippet_text;
namespace ptx = pagoda_test::ptx;

const std::string first_half = "and.b32 %r10, %r0, 16;\nsetp.eq.u32 %p1, %r10, 0;\n";
std::string shuffle(const std::string& mask) {
  return "shfl.sync.bfly.b32 %r11, %r0, 1, 31, " + mask + ";\n";
}

TEST_CASE("member masks") {
  check_clean(shuffle("-1"));
  check_fault(first_half + "@%p1 ret;\n" + shuffle("-1"), "names absent lanes: 0 to 15", "shfl");
  check_clean(first_half + "@%p1 ret;\n" + shuffle("0xffff0000"));
  check_fault(shuffle("0x0000ffff"), "does not name the lane that calls", "shfl");
  check_fault(shuffle("-1"), "absent lanes: 8 to 31", "shfl", {.threads = 8});
  check_clean(shuffle("255"), {.threads = 8});
  // The others wait at the block's barrier, and will not come.
  check_fault(first_half + "@%p1 bra wait;\n" + shuffle("-1") + "wait:\nbar.sync 0;", "lanes that do not come", "shfl");
  check_fault("shfl.sync.bfly.b32 %r11, %r0, 16, 31, 0x0000ffff;", "reads lane 16", "shfl", {.threads = 16});
  check_fault(first_half + "selp.u32 %r12, 0x0001ffff, 0xffff0000, %p1;\n" + shuffle("%r12"), "give different masks",
              "shfl");
  check_clean(first_half + "selp.u32 %r12, 0x0000ffff, 0xffff0000, %p1;\n" + shuffle("%r12"));
  check_fault(first_half + "@%p1 ret;\nvote.sync.ballot.b32 %r12, %p1, -1;", "absent lanes", "vote");
  check_fault(first_half + "@%p1 ret;\nbar.warp.sync -1;", "absent lanes", "bar.warp.sync");
  check_fault(first_half + "@%p1 bra end;\nbar.warp.sync 0xffff0000;\nend:\nmov.u32 %r5, 0;", "part of the warp",
              "bar.warp.sync");
}

TEST_CASE("lanes wait for those that come later") {
  // The first half takes a way that lies behind the place where all meet.
  snippet_run how;
  how.run(first_half +
          "mov.u32 %r5, 0;\n@%p1 bra aside;\nmeet:\nadd.u32 %r6, %r0, %r5;\n"
          "shfl.sync.idx.b32 %r7, %r6, 3, 31, -1;\nst.global.u32 [%d3], %r7;\nret;\n"
          "aside:\nmov.u32 %r5, 1000;\nbra meet;");
  for (std::size_t t = 0; t < 64; ++t) CHECK(how.to[t] == (t < 32 ? 1003 : 1035));
}

TEST_CASE("aligned instructions need the whole warp") {
  const std::string load = "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r5}, [%r1];\n";
  const std::string move = "movmatrix.sync.aligned.m8n8.trans.b16 %r5, %r0;\n";
  const std::string multiply =
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f0, %f1, %f2, %f3}, {%r0, %r0, %r0, %r0}, {%r0, %r0}, "
      "{%f0, %f1, %f2, %f3};\n";
  for (const std::string& instruction : {load, move, multiply}) {
    const std::string name = instruction.substr(0, instruction.find('.'));
    check_clean(instruction);
    check_fault(first_half + "@%p1 " + instruction, "an .aligned instruction with a partial warp", name);
    check_fault(first_half + "@%p1 bra end;\n" + instruction + "end:\nmov.u32 %r6, 0;",
                "an .aligned instruction with a partial warp", name);
    check_fault(first_half + "@%p1 ret;\n" + instruction, "only 16 to 31 can come", name);
    check_fault(instruction, "partial warp", name, {.threads = 16});
  }
}

TEST_CASE("barriers of the block") {
  check_clean("bar.sync 0;");
  check_fault("setp.lt.u32 %p1, %r0, 32;\n@%p1 ret;\nbar.sync 0;", "waits for threads that have ended: thread 0",
              "bar.sync");
  check_fault(first_half + "@%p1 ret;\nbar.sync 0;", "waits for threads that have ended", "bar.sync");
  // A predicated barrier that some threads pass by.
  check_fault("setp.lt.u32 %p1, %r0, 32;\n@%p1 bar.sync 0;", "waits for threads that have ended", "bar.sync");
  check_fault("setp.lt.u32 %p1, %r0, 32;\n@%p1 bra one;\nbar.sync 2;\nret;\none:\nbar.sync 1;", "deadlock", "bar.sync");
  check_fault(first_half + "@%p1 bra one;\nbar.sync 0;\nret;\none:\nbar.sync 0;", "different barriers", "bar.sync");
  // Whole warps may wait at different places.
  check_clean("setp.lt.u32 %p1, %r0, 32;\n@%p1 bra one;\nbar.sync 0;\nret;\none:\nbar.sync 0;");
}

TEST_CASE("a launch that does not end") {
  snippet_run how;
  how.options.instruction_limit = 10'000;
  check_fault("again:\nadd.u32 %r5, %r5, 1;\nbra again;", "does not end", "", how);
  check_clean("mov.u32 %r5, 0;\nagain:\nadd.u32 %r5, %r5, 1;\nsetp.lt.u32 %p1, %r5, 1000;\n@%p1 bra again;", how);
}

TEST_CASE("launches that cannot be") {
  const std::string text =
      ".version 9.0\n.target sm_80\n.address_size 64\n.visible .entry small(.param .u32 n)\n"
      ".maxntid 64, 1, 1\n{\n.shared .align 16 .b8 own[1024];\nret;\n}\n"
      ".visible .entry smaller()\n{\nret;\n}\n";
  const ptx::module module = ptx::module::parse(text, "launch.ptx");
  ptx::machine machine(module.entry("small"));
  const std::uint32_t argument = 1;
  const auto bytes = std::as_bytes(std::span(&argument, 1));
  machine.launch({1, 1, 1}, 64, 0, bytes);
  CHECK_THROWS_WITH_AS(machine.launch({1, 1, 1}, 96, 0, bytes), doctest::Contains(".maxntid allows 64"),
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(machine.launch({1, 1, 1}, 0, 0, bytes), doctest::Contains("0 threads"), std::invalid_argument);
  CHECK_THROWS_WITH_AS(machine.launch({1, 0, 1}, 64, 0, bytes), doctest::Contains("empty grid"), std::invalid_argument);
  CHECK_THROWS_WITH_AS(machine.launch({1, 1, 1}, 64, 0, {}), doctest::Contains("the entry takes 4"),
                       std::invalid_argument);
  machine.launch({1, 1, 1}, 64, 226 * 1024, bytes);
  CHECK_THROWS_WITH_AS(machine.launch({1, 1, 1}, 64, 226 * 1024 + 1, bytes), doctest::Contains("shared memory"),
                       std::invalid_argument);
  CHECK(module.entry("smaller")->name == "smaller");
  CHECK_THROWS_WITH_AS(static_cast<void>(module.entry("mall")), doctest::Contains("2 entries contain 'mall'"),
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(static_cast<void>(module.entry("large")), doctest::Contains("0 entries"), std::invalid_argument);
}

}  // namespace
