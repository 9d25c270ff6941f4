// SPDX-License-Identifier: Apache-2.0
// What the interpreter does not know it refuses when the file is loaded, and names the line.
#include <doctest/doctest.h>

#include "snippet.hpp"

namespace {

using pagoda_test::first_body_line;
using pagoda_test::snippet_run;
using pagoda_test::snippet_text;
namespace ptx = pagoda_test::ptx;

/// Loading the body fails at its second line with a message that contains `why`.
void check_refused(const std::string& second_line, std::string_view why) {
  CAPTURE(second_line);
  std::string message;
  int line = 0;
  try {
    ptx::module::parse(snippet_text("mov.u32 %r5, 1;\n" + second_line + "\nmov.u32 %r6, 1;"), "refused.ptx");
  } catch (const ptx::load_error& error) {
    message = error.what();
    line = error.line();
  }
  CAPTURE(message);
  CHECK(message.find(why) != std::string::npos);
  CHECK(message.find("refused.ptx:" + std::to_string(first_body_line + 1) + ":") == 0);
  CHECK(line == first_body_line + 1);
}

TEST_CASE("unknown instructions") {
  check_refused("frobnicate.u32 %r5, %r6;", "unknown instruction 'frobnicate.u32' with operands '11'");
  check_refused("add.rn.u32 %r5, %r6, %r7;", "unknown instruction 'add.rn.u32'");
  check_refused("ld.global.v8.u32 %r5, [%d0];", "unknown instruction 'ld.global.v8.u32'");
  check_refused("cp.async.bulk.commit_group;", "unknown instruction 'cp.async.bulk.commit_group'");
  check_refused("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f0, %f1}, {%r0, %r1}, {%r2}, {%f0, %f1};",
                "m16n8k8");
  check_refused("add.u32 %r5, %r6;", "with operands '11'");
  check_refused("add.u32 {%r5, %r4}, %r6, %r7;", "with operands '211'");
  check_refused("call.uni helper, (%r5);", "");
}

TEST_CASE("names and numbers") {
  check_refused("mov.u32 %r5, %r64;", "'%r64' is neither declared nor a number");
  check_refused("mov.u32 %r5, nowhere;", "'nowhere' is neither declared nor a number");
  check_refused("mov.u32 %r5, 12x;", "neither declared nor a number");
  check_refused("bra nowhere;", "no label 'nowhere'");
  check_refused("@%q1 mov.u32 %r5, 1;", "'%q1' is neither declared nor a number");
  check_refused("mov.u32 %r5 1;", "expected ';', found '1'");
  check_refused(".branchtargets a, b;", "unknown directive '.branchtargets'");
}

TEST_CASE("files") {
  CHECK_THROWS_WITH_AS(ptx::module::load("no/such/file.ptx"), doctest::Contains("cannot be read"), ptx::load_error);
  CHECK_THROWS_WITH_AS(ptx::module::parse(".version 9.0\n.entry open()\n{\n", "open.ptx"),
                       doctest::Contains("do not close"), ptx::load_error);
  CHECK_THROWS_WITH_AS(ptx::module::parse(".version 9.0\n.surprise\n", "file.ptx"), doctest::Contains("file.ptx:2:"),
                       ptx::load_error);
  CHECK(ptx::module::parse(".version 9.0\n.func helper()\n{\nfrobnicate;\n}\n.extern .func printer(.param .b64 x)\n;\n",
                           "f.ptx")
            .entries()
            .empty());
}

TEST_CASE("names inside braces are their own") {
  snippet_run how = {.threads = 32};
  how.run(
      "{ .reg .b32 t; .reg .pred p; mov.u32 t, 5; setp.eq.u32 p, t, 5; @p bra skip; mov.u32 t, 9; skip: mov.u32 %r5, "
      "t; }\n"
      "{ .reg .b32 t; .reg .pred p; mov.u32 t, 7; setp.eq.u32 p, t, 5; @p bra skip; add.u32 t, t, 1; skip: mov.u32 "
      "%r6, t; }\n"
      "st.global.u32 [%d1], %r5;\nst.global.u32 [%d1+4], %r6;");
  CHECK(how.to[0] == 5);
  CHECK(how.to[1] == 8);
}

TEST_CASE("variables of a module") {
  const std::string text =
      ".version 9.0\n.target sm_80\n.address_size 64\n"
      ".global .align 4 .b8 table[8] = {1, 0, 0, 0, 255, 255, 255, 255};\n"
      ".const .align 4 .f32 numbers[2] = {0f3F800000, 0f40000000};\n"
      ".visible .entry read(.param .u64 to)\n{\n.reg .b64 %d<4>;\n.reg .b32 %r<4>;\n"
      "ld.param.u64 %d0, [to];\nmov.u64 %d1, table;\nld.global.nc.s32 %r0, [%d1+4];\nst.global.u32 [%d0], %r0;\n"
      "ld.const.f32 %r1, [numbers+4];\nst.global.u32 [%d0+4], %r1;\nret;\n}\n";
  const ptx::module module = ptx::module::parse(text, "variables.ptx");
  std::vector<std::uint32_t> to(2);
  const void* argument = to.data();
  ptx::machine(module.entry("read"), {.ranges = {ptx::global_range(to)}})
      .launch({1, 1, 1}, 1, 0, std::as_bytes(std::span(&argument, 1)));
  CHECK(to[0] == 0xffffffffu);
  CHECK(to[1] == 0x40000000u);
}

}  // namespace
