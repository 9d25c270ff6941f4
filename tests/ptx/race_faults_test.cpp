// SPDX-License-Identifier: Apache-2.0
// Faults of shared memory that several threads use: races, and asynchronous copies that have not landed.
#include "fault_checks.hpp"

namespace {

using pagoda_test::check_clean;
using pagoda_test::check_fault;
using pagoda_test::snippet_run;

const std::string write_own = "st.shared.u32 [%r3], %r0;\n";
/// The address of another thread's word into %r4: of thread ^ n.
std::string other(int n) {
  return "xor.b32 %r4, %r0, " + std::to_string(n) + ";\nshl.b32 %r4, %r4, 2;\nadd.u32 %r4, %r4, %r1;\n";
}
const std::string read_other = "ld.shared.u32 %r5, [%r4];\n";
const std::string write_other = "st.shared.u32 [%r4], %r0;\n";
const std::string sync = "bar.sync 0;\n";
const std::string sync_warp = "bar.warp.sync -1;\n";

TEST_CASE("races between warps") {
  // The first warp has run before the second starts.
  const std::string second_reads = "setp.ge.u32 %p1, %r0, 32;\n@%p1 " + read_other;
  check_fault(other(32) + write_own + second_reads, "race: reads byte 0 of shared memory, written by thread 0",
              "ld.shared");
  check_clean(other(32) + write_own + sync + second_reads);
  check_fault(other(32) + write_own + sync_warp + second_reads, "race: reads byte", "ld.shared");
  check_fault(other(32) + write_own + write_other, "race: writes byte", "st.shared");
  check_clean(other(32) + write_own + sync + write_other);
  // Read by the first warp, then written by the second.
  const std::string second_writes = "setp.ge.u32 %p1, %r0, 32;\n@%p1 " + write_other;
  check_fault(other(32) + write_own + sync + "ld.shared.u32 %r5, [%r3];\n" + second_writes, "read by thread 0",
              "[%r4]");
  check_clean(other(32) + write_own + sync + "ld.shared.u32 %r5, [%r3];\n" + sync + second_writes);
}

TEST_CASE("races within a warp") {
  check_fault(other(1) + write_own + read_other, "race: reads byte", "ld.shared");
  check_clean(other(1) + write_own + sync_warp + read_other);
  check_clean(other(1) + write_own + sync + read_other);
  check_fault(other(1) + write_own + sync_warp + read_other + write_own, "read by thread", "[%r3]");
  check_clean(other(1) + write_own + sync_warp + read_other + sync_warp + write_own);
  // A shuffle is no barrier.
  check_fault(other(1) + write_own + "shfl.sync.bfly.b32 %r6, %r0, 1, 31, -1;\n" + read_other, "race: reads byte",
              "ld.shared");
  // Two lanes store to one place at once.
  check_fault("st.shared.u32 [%r1], %r0;", "race: writes byte 0", "st.shared");
  check_clean("setp.eq.u32 %p1, %r0, 7;\n@%p1 st.shared.u32 [%r1], %r0;");
  check_clean("red.shared.add.u32 [%r1], 1;");
}

TEST_CASE("what is a race can be turned off") {
  snippet_run how;
  how.options.check_races = false;
  check_clean(other(32) + write_own + read_other, how);
}

TEST_CASE("the two halves of a word belong to whom they belong") {
  const std::string halves = "shl.b32 %r4, %r0, 1;\nadd.u32 %r4, %r4, %r1;\n";
  check_clean(halves + "st.shared.u16 [%r4], %h0;\nst.shared.u16 [%r4], %h1;");
  check_fault(halves + "st.shared.u16 [%r4], %h0;\nand.b32 %r5, %r4, -4;\nld.shared.u32 %r6, [%r5];",
              "race: reads byte", "ld.shared.u32");
}

TEST_CASE("ldmatrix reads for the whole warp and orders nothing") {
  const std::string rows = "shl.b32 %r4, %r0, 4;\nadd.u32 %r4, %r4, %r1;\n";
  const std::string write_row = "st.shared.v4.u32 [%r4], {%r0, %r0, %r0, %r0};\n";
  const std::string load = "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r5, %r6, %r7, %r8}, [%r4];\n";
  const snippet_run warp = {.threads = 32};
  check_fault(rows + write_row + load, "race: reads byte", "ldmatrix", warp);
  check_clean(rows + write_row + sync_warp + load, warp);
  check_fault(rows + write_row + sync_warp + load + write_row, "read by thread", "st.shared.v4", warp);
  check_clean(rows + write_row + sync_warp + load + sync_warp + write_row, warp);
}

const std::string copy =
    "shl.b32 %r4, %r0, 4;\nadd.u32 %r5, %r4, %r1;\ncvt.u64.u32 %d4, %r4;\nadd.s64 %d5, %d0, %d4;\n"
    "cp.async.cg.shared.global [%r5], [%d5], 16;\ncp.async.commit_group;\n";
const std::string wait = "cp.async.wait_group 0;\n";
const std::string read_copy = "ld.shared.u32 %r6, [%r5];\n";

TEST_CASE("asynchronous copies that have not landed") {
  const snippet_run warp = {.threads = 32};
  check_fault(copy + read_copy, "has not landed", "ld.shared", warp);
  check_clean(copy + wait + read_copy, warp);
  check_clean(copy + "cp.async.wait_all;\n" + read_copy, warp);
  check_fault(copy + "cp.async.wait_group 1;\n" + read_copy, "has not landed", "ld.shared", warp);
  check_clean(copy + "cp.async.commit_group;\ncp.async.wait_group 1;\n" + read_copy, warp);
  check_fault(copy + "st.shared.u32 [%r5], %r0;", "writes byte", "st.shared", warp);
  check_clean(copy + wait + "st.shared.u32 [%r5], %r0;", warp);
  check_fault(copy + "cp.async.cg.shared.global [%r5], [%d5], 16;", "has not landed", "cp.async", warp);
  check_fault(copy + "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r6}, [%r5];", "has not landed", "ldmatrix", warp);
  check_fault(copy + wait + "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r6}, [%r5];", "race", "ldmatrix", warp);
  check_clean(copy + wait + sync_warp + "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r6}, [%r5];", warp);
}

TEST_CASE("what one thread copied, another reads after a barrier") {
  const std::string neighbour = "xor.b32 %r5, %r5, 16;\n";
  const snippet_run warp = {.threads = 32};
  check_fault(copy + wait + neighbour + read_copy, "race: reads byte", "ld.shared", warp);
  check_clean(copy + wait + sync_warp + neighbour + read_copy, warp);
  // The barrier must come after the wait.
  check_fault(copy + sync_warp + wait + neighbour + read_copy, "race: reads byte", "ld.shared", warp);
  // A stage is copied to again while others read it.
  check_fault(copy + wait + sync_warp + neighbour + read_copy + "xor.b32 %r5, %r5, 16;\n" +
                  "cp.async.cg.shared.global [%r5], [%d5], 16;",
              "read by thread", "cp.async", warp);
}

TEST_CASE("data lands at the wait") {
  snippet_run how = {.threads = 32};
  how.run(copy + wait + read_copy + "st.global.u32 [%d3], %r6;");
  for (std::uint32_t t = 0; t < 32; ++t) CHECK(how.to[t] == 100 + 4 * t);
  // Half of the bytes are read, the others are zeros.
  how.run(
      "setp.ne.u32 %p1, %r0, 0;\n@%p1 ret;\n"
      "cp.async.ca.shared.global [%r1], [%d0], 16, 8;\ncp.async.wait_all;\n"
      "ld.shared.v4.u32 {%r4, %r5, %r6, %r7}, [%r1];\nst.global.v4.u32 [%d1], {%r4, %r5, %r6, %r7};");
  CHECK(how.to[0] == 100);
  CHECK(how.to[1] == 101);
  CHECK(how.to[2] == 0);
  CHECK(how.to[3] == 0);
}

TEST_CASE("shared memory that nobody has written") {
  snippet_run strict;
  strict.options.check_uninitialized = true;
  check_fault("ld.shared.u32 %r4, [%r3];", "which nobody has written", "ld.shared", strict);
  check_clean("st.shared.u32 [%r3], %r0;\nld.shared.u32 %r4, [%r3];", strict);
  snippet_run how;
  how.run("ld.shared.u32 %r4, [%r3];\nst.global.u32 [%d3], %r4;");
  CHECK(how.to[5] == 0xffffffffu);
}

}  // namespace
