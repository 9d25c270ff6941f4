// SPDX-License-Identifier: Apache-2.0
// Faults of single accesses: alignment, range, null pointers, parameters.
#include "fault_checks.hpp"

namespace {

using pagoda_test::check_clean;
using pagoda_test::check_fault;
using pagoda_test::snippet_run;

TEST_CASE("misaligned accesses") {
  check_fault("ld.global.v4.u32 {%r4, %r5, %r6, %r7}, [%d0+4];", "misaligned: 16 bytes", "ld.global.v4.u32");
  check_clean("ld.global.v4.u32 {%r4, %r5, %r6, %r7}, [%d0+16];");
  check_fault("ld.global.u64 %d4, [%d0+4];", "misaligned: 8 bytes", "ld.global.u64");
  check_fault("st.global.u16 [%d1+1], %h0;", "misaligned: 2 bytes", "st.global.u16");
  check_clean("st.global.u16 [%d1+2], %h0;");
  check_fault("st.shared.u32 [%r3+2], %r0;", "misaligned: 4 bytes", "st.shared.u32");
  check_fault("cp.async.cg.shared.global [%r3], [%d0], 16;", "misaligned: 16 bytes", "cp.async");
  check_fault("cp.async.ca.shared.global [%r3], [%d0+2], 4;", "misaligned: the source of a cp.async", "cp.async");
  check_clean("cp.async.ca.shared.global [%r3], [%d0+4], 4;");
  check_fault("add.u32 %r4, %r1, 8;\nldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r5}, [%r4];", "misaligned: 16 bytes",
              "ldmatrix", {.threads = 32});
  check_fault("atom.global.add.u32 %r4, [%d1+1], 1;", "misaligned: 4 bytes", "atom.global.add");
}

TEST_CASE("shared memory out of range") {
  const snippet_run small = {.threads = 64, .shared_bytes = 252};
  check_fault("st.shared.u32 [%r3], %r0;", "shared memory out of range: 4 bytes at offset 252 of 252", "st.shared",
              small);
  check_clean("st.shared.u32 [%r3], %r0;", {.threads = 63, .shared_bytes = 252});
  check_fault("ld.shared.u32 %r4, [%r1+-4];", "out of range: 4 bytes at offset -4", "ld.shared");
  check_fault("mov.u32 %r4, 0;\nst.shared.u32 [%r4], %r0;", "shared memory out of range", "st.shared");
  check_fault("cp.async.cg.shared.global [%r1+1024], [%d0], 16;", "out of range: 16 bytes at offset 1024", "cp.async");
  check_fault("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r5}, [%r1+1024];", "out of range", "ldmatrix",
              {.threads = 32});
  check_clean("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r5}, [%r1+1008];", {.threads = 32});
}

TEST_CASE("shared memory through generic addresses") {
  const std::string generic = "mov.b64 %d4, dynamic;\ncvta.shared.u64 %d5, %d4;\nadd.s64 %d6, %d5, %d2;\n";
  snippet_run how;
  how.run(generic + "st.u32 [%d6], %r0;\nld.shared.u32 %r4, [%r3];\nst.global.u32 [%d3], %r4;");
  CHECK(how.to[63] == 63);
  check_fault(generic + "st.u32 [%d6+1024], %r0;", "shared memory out of range", "st.u32");
  check_fault(generic + "st.global.u32 [%d6], %r0;", "not global memory", "st.global");
  check_fault(generic + "cvta.to.global.u64 %d7, %d6;", "not one of global memory", "cvta.to.global");
  check_fault("cvta.to.shared.u64 %d7, %d0;", "not one of shared memory", "cvta.to.shared");
  check_clean(generic + "cvta.to.shared.u64 %d7, %d6;\ncvt.u32.u64 %r4, %d7;\nst.shared.u32 [%r4], %r0;");
}

TEST_CASE("global memory out of range") {
  check_fault("mov.b64 %d4, 0;\nld.global.u32 %r4, [%d4];", "a null pointer and an offset", "ld.global.u32");
  check_fault("mov.b64 %d4, 0;\nld.u32 %r4, [%d4+4096];", "a null pointer and an offset", "ld.u32");
  check_fault("mov.b64 %d4, -16;\nld.global.u32 %r4, [%d4];", "not global memory", "ld.global.u32");
  check_fault("ld.global.u32 %r4, [%d0+4096];", "global memory out of range: 4 bytes", "[%d0+4096]");
  check_clean("ld.global.u32 %r4, [%d0+4092];");
  check_fault("ld.global.u8 %h1, [%d0+-1];", "global memory out of range: 1 bytes", "ld.global.u8");
  check_fault("st.global.v2.u32 [%d1+4096], {%r0, %r0};", "out of range", "st.global.v2");
  check_fault("cp.async.cg.shared.global [%r1], [%d0+4096], 16;", "out of range", "cp.async", {.threads = 1});
  // Nothing is read of a copy that fills with zeros, and only its first bytes of one in part.
  check_clean("cp.async.cg.shared.global [%r1], [%d0+4096], 16, 0;", {.threads = 1});
  check_clean("add.s64 %d4, %d0, 4080;\ncp.async.cg.shared.global [%r1], [%d4], 16, 8;", {.threads = 1});
  // Without ranges any host memory may be read; a null pointer may not.
  check_clean("ld.global.u32 %r4, [%d0+4];", {.limit_ranges = false});
  check_fault("mov.b64 %d4, 64;\nld.global.u32 %r4, [%d4];", "a null pointer", "ld.global", {.limit_ranges = false});
}

TEST_CASE("a fault names the thread") {
  const auto fault = snippet_run{}.fault_of("setp.eq.u32 %p1, %r0, 37;\n@%p1 ld.global.u32 %r4, [%d0+2];");
  REQUIRE(fault.has_value());
  CHECK(fault->thread() == 37);
  CHECK(fault->line() == pagoda_test::first_body_line + 1);
  CHECK(fault->text() == "@%p1 ld.global.u32 %r4, [%d0+2];");
}

TEST_CASE("parameters") {
  check_clean("mov.b64 %d4, to;\nld.param.u64 %d5, [%d4+-8];\nld.global.u32 %r4, [%d5];");
  check_fault("ld.param.u64 %d5, [to+8];", "parameters out of range", "ld.param");
  check_fault("st.param.u64 [to], %d0;", "writes the kernel's parameters", "st.param");
  check_clean("mov.b64 %d4, to;\ncvta.param.u64 %d5, %d4;\nld.u64 %d6, [%d5];\nst.global.u32 [%d6], %r0;",
              {.threads = 1});
}

TEST_CASE("local memory") {
  const std::string local = ".local .align 8 .b8 depot[8];\n.reg .b64 %SP;\nmov.u64 %SP, depot;\n";
  snippet_run how;
  how.run(local + "st.local.u32 [%SP+4], %r0;\nld.local.u32 %r4, [%SP+4];\nst.global.u32 [%d3], %r4;");
  CHECK(how.to[0] == 0);
  CHECK(how.to[63] == 63);
  check_fault(local + "st.local.u32 [%SP+8], %r0;", "local memory out of range", "st.local");
  check_clean(local + "cvta.local.u64 %d4, %SP;\nst.u32 [%d4], %r0;");
}

TEST_CASE("a kernel that traps") {
  check_fault("setp.eq.u32 %p1, %r0, 5;\n@%p1 trap;", "traps", "trap");
  check_clean("setp.eq.u32 %p1, %r0, 64;\n@%p1 trap;");
}

}  // namespace
