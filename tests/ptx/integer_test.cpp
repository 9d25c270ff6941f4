// SPDX-License-Identifier: Apache-2.0
// Integer and bit instructions at their edges. Results of 32 bits stand in the low half of a register.
#include "evaluate.hpp"

namespace {

using pagoda_test::check_evaluations;

TEST_CASE("sums and products") {
  check_evaluations({
      {"add.s32", {0x7fffffff, 1}, 0x80000000u},
      {"add.u32", {0xffffffffu, 2u}, 1u},
      {"add.s64", {0x7fffffffffffffffL, 1L}, 0x8000000000000000UL},
      {"add.s16", {0x7fff, 1}, 0x8000u},
      {"add.sat.s32", {0x7fffffff, 1}, 0x7fffffffu},
      {"add.sat.s32", {-2147483647, -5}, 0x80000000u},
      {"sub.sat.s32", {-2147483647, 5}, 0x80000000u},
      {"sub.s32", {3, 5}, 0xfffffffeu},
      {"mul.lo.s32", {0x10001, 0x10001}, 0x20001u},
      {"mul.hi.s32", {-1, -1}, 0u},
      {"mul.hi.u32", {0xffffffffu, 0xffffffffu}, 0xfffffffeu},
      {"mul.hi.s32", {-2, 0x40000000}, 0xffffffffu},
      {"mul.hi.u64", {0xffffffffffffffffUL, 0xffffffffffffffffUL}, 0xfffffffffffffffeUL},
      {"mul.hi.s64", {-1L, 2L}, 0xffffffffffffffffUL},
      {"mul.wide.s32", {-3, 0x7fffffff}, -6442450941L},
      {"mul.wide.u32", {0xfffffffdu, 2u}, 0x1fffffffaUL},
      {"mul.wide.s16", {-3, 5}, 0xfffffff1u},
      {"mul.wide.u16", {0xffffu, 0xffffu}, 0xfffe0001u},
      {"mad.lo.s32", {-7, 6, 2}, 0xffffffd8u},
      {"mad.wide.s32", {-7, 6, 2L}, -40L},
      {"mad.wide.u32", {0xffffffffu, 16u, 1UL}, 0xffffffff1UL},
      {"mad.hi.u32", {0x80000000u, 6u, 2u}, 5u},
      {"mad.lo.u64", {0x100000000UL, 0x100000001UL, 7UL}, 0x100000007UL},
      {"sad.s32", {-5, 7, 100}, 112u},
      {"sad.u32", {0xfffffffbu, 7u, 100u}, 0xfffffff4u + 100u},
      {"dp4a.s32.s32", {0xff02fe03u, 0x01020304u, 10u}, static_cast<unsigned>(-1 + 4 - 6 + 12 + 10)},
      {"dp4a.u32.u32", {0xff000001u, 0x02000003u, 10u}, 523u},
  });
}

TEST_CASE("quotients, extremes and signs") {
  check_evaluations({
      {"div.s32", {-7, 2}, 0xfffffffdu},
      {"div.u32", {0xfffffff9u, 2u}, 0x7ffffffcu},
      {"div.s32", {static_cast<int>(0x80000000u), -1}, 0x80000000u},
      {"div.u32", {5u, 0u}, 0xffffffffu},
      {"div.s64", {-7000000000L, 1000000000L}, -7L},
      {"div.u16", {60000u, 7u}, 8571u},
      {"rem.s32", {-7, 2}, 0xffffffffu},
      {"rem.s32", {static_cast<int>(0x80000000u), -1}, 0u},
      {"rem.u64", {7000000001UL, 1000000000UL}, 1UL},
      {"rem.u32", {5u, 0u}, 5u},
      {"min.s32", {-1, 1}, 0xffffffffu},
      {"min.u32", {-1, 1}, 1u},
      {"max.s64", {-1L, 1L}, 1UL},
      {"max.u16", {0xffffu, 1u}, 0xffffu},
      {"max.s16", {0xffffu, 1u}, 1u},
      {"neg.s32", {5}, 0xfffffffbu},
      {"abs.s32", {-5}, 5u},
      {"abs.s32", {static_cast<int>(0x80000000u)}, 0x80000000u},
      {"abs.s64", {-5L}, 5UL},
      // Only the type's bits of a register count.
      {"add.u32", {0x500000001UL, 0x700000002UL}, 3u},
      {"div.s16", {0x1fff8u, 2u}, 0xfffcu},
  });
}

TEST_CASE("shifts beyond the width") {
  check_evaluations({
      {"shl.b32", {1u, 31u}, 0x80000000u},
      {"shl.b32", {1u, 32u}, 0u},
      {"shl.b32", {1u, 0x80000000u}, 0u},
      {"shl.b64", {1UL, 32u}, 0x100000000UL},
      {"shl.b64", {1UL, 64u}, 0UL},
      {"shl.b16", {1u, 15u}, 0x8000u},
      {"shl.b16", {1u, 16u}, 0u},
      {"shr.u32", {0x80000000u, 31u}, 1u},
      {"shr.u32", {0x80000000u, 32u}, 0u},
      {"shr.b32", {0x80000000u, 4u}, 0x08000000u},
      {"shr.s32", {-16, 2u}, 0xfffffffcu},
      {"shr.s32", {-16, 32u}, 0xffffffffu},
      {"shr.s32", {16, 99u}, 0u},
      {"shr.s64", {-16L, 70u}, -1L},
      {"shr.u64", {0x8000000000000000UL, 63u}, 1UL},
      {"shr.u16", {0xffff8000u, 4u}, 0x0800u},
      {"shr.s16", {0x8000u, 4u}, 0xf800u},
      {"shf.l.wrap.b32", {0x80000001u, 0x40000000u, 1u}, 0x80000001u},
      {"shf.l.wrap.b32", {0x80000001u, 0x40000000u, 33u}, 0x80000001u},
      {"shf.l.clamp.b32", {0x80000001u, 0x40000000u, 33u}, 0x80000001u},
      {"shf.l.clamp.b32", {0x12345678u, 0x40000000u, 40u}, 0x12345678u},
      {"shf.r.wrap.b32", {0x80000001u, 0x40000003u, 1u}, 0xc0000000u},
      {"shf.r.clamp.b32", {0x80000001u, 0x40000003u, 32u}, 0x40000003u},
      {"shf.r.wrap.b32", {0x80000001u, 0x40000003u, 32u}, 0x80000001u},
  });
}

TEST_CASE("logic and fields") {
  check_evaluations({
      {"and.b32", {0xf0f0u, 0xff00u}, 0xf000u},
      {"or.b64", {0xf0UL, 0xf00000000UL}, 0xf000000f0UL},
      {"xor.b16", {0x1ff00u, 0xf0f0u}, 0x0ff0u},
      {"not.b32", {0u}, 0xffffffffu},
      {"not.b16", {0u}, 0xffffu},
      {"cnot.b32", {0u}, 1u},
      {"cnot.b32", {8u}, 0u},
      {"and.pred", {1, 1}, 1},
      {"and.pred", {1, 0}, 0},
      {"or.pred", {0, 1}, 1},
      {"xor.pred", {1, 1}, 0},
      {"not.pred", {0}, 1},
      {"lop3.b32", {0xf0f0f0f0u, 0xccccccccu, 0xaaaaaaaau, 0xeau}, (0xf0f0f0f0u & 0xccccccccu) | 0xaaaaaaaau},
      {"lop3.b32", {0xf0f0f0f0u, 0xccccccccu, 0xaaaaaaaau, 0x96u}, 0xf0f0f0f0u ^ 0xccccccccu ^ 0xaaaaaaaau},
      {"lop3.b32",
       {0x12345678u, 0x0f0f0f0fu, 0x00ff00ffu, 0xcau},
       (0x12345678u & 0x0f0f0f0fu) | (~0x12345678u & 0x00ff00ffu)},
      {"prmt.b32", {0x33221100u, 0x77665544u, 0x7531u}, 0x77553311u},
      {"prmt.b32", {0x33221100u, 0x77665544u, 0x0246u}, 0x00224466u},
      {"prmt.b32", {0x80221100u, 0x77665544u, 0x3b98u}, 0x80ff0000u},
      {"bfe.u32", {0xdeadbeefu, 8u, 12u}, 0xdbeu},
      {"bfe.u32", {0xdeadbeefu, 24u, 32u}, 0xdeu},
      {"bfe.u32", {0xdeadbeefu, 8u, 0u}, 0u},
      {"bfe.s32", {0x00000f80u, 7u, 5u}, 0xffffffffu},
      {"bfe.s32", {0x00000780u, 7u, 5u}, 15u},
      {"bfe.s32", {0x80000000u, 28u, 10u}, 0xfffffff8u},
      {"bfe.s32", {0x80000000u, 40u, 4u}, 0xffffffffu},
      {"bfe.u64", {0x123456789abcdef0UL, 60u, 8u}, 1UL},
      {"bfi.b32", {0xffu, 0u, 8u, 4u}, 0xf00u},
      {"bfi.b32", {0u, 0xffffffffu, 28u, 8u}, 0x0fffffffu},
      {"bfi.b64", {0xffUL, 0UL, 60u, 8u}, 0xf000000000000000UL},
      {"popc.b32", {0xf0f0u}, 8u},
      {"popc.b64", {0xffffffffffffffffUL}, 64u},
      {"clz.b32", {0u}, 32u},
      {"clz.b32", {0x00010000u}, 15u},
      {"clz.b64", {1UL}, 63u},
      {"brev.b32", {1u}, 0x80000000u},
      {"brev.b64", {2UL}, 0x4000000000000000UL},
      {"bfind.u32", {0x00010000u}, 16u},
      {"bfind.u32", {0u}, 0xffffffffu},
      {"bfind.s32", {-2}, 0u},
      {"bfind.shiftamt.u32", {0x00010000u}, 15u},
      {"selp.b32", {5u, 6u, 1}, 5u},
      {"selp.b64", {5UL, 6UL, 0}, 6UL},
      {"slct.u32.s32", {5u, 6u, -1}, 6u},
      {"slct.u32.s32", {5u, 6u, 0}, 5u},
  });
}

TEST_CASE("integer comparisons") {
  check_evaluations({
      {"setp.lt.s32", {-1, 1}, 1},
      {"setp.lt.u32", {-1, 1}, 0},
      {"setp.lo.u32", {1u, 0xffffffffu}, 1},
      {"setp.hs.u32", {1u, 0xffffffffu}, 0},
      {"setp.ge.s64", {-1L, 1L}, 0},
      {"setp.gt.u64", {-1L, 1L}, 1},
      {"setp.eq.s16", {0x10005u, 5u}, 1},
      {"setp.ne.b32", {0x100000005UL, 5u}, 0},
      {"setp.le.s32", {5, 5}, 1},
      {"setp.lt.and.s32", {1, 2, 0}, 0},
      {"setp.lt.and.s32", {1, 2, 1}, 1},
      {"setp.gt.or.u32", {1u, 2u, 1}, 1},
      {"setp.eq.xor.u32", {1u, 1u, 1}, 0},
      {"set.lt.u32.s32", {-1, 1}, 0xffffffffu},
      {"set.gt.f32.s32", {1, -1}, 1.0f},
  });
}

TEST_CASE("integer conversions") {
  check_evaluations({
      {"cvt.s64.s32", {-5}, -5L},
      {"cvt.u64.u32", {0xfffffffbu}, 0xfffffffbUL},
      {"cvt.u32.u64", {0x500000007UL}, 7UL},
      {"cvt.u16.u32", {0x12345678u}, 0x5678UL},
      {"cvt.u32.u16", {0x12345678u}, 0x5678UL},
      {"cvt.u32.u8", {0x1ffu}, 0xffUL},
      {"cvt.sat.s8.s32", {300}, 127L},
      {"cvt.sat.s8.s32", {-300}, -128L},
      {"cvt.sat.u8.s32", {-300}, 0L},
      {"cvt.sat.u32.s64", {-1L}, 0L},
      {"cvt.sat.s32.u64", {0xffffffffffffffffUL}, 0x7fffffffL},
      {"cvt.sat.u8.u32", {300u}, 255L},
  });
}

TEST_CASE("a predicate as an operand may be inverted, and setp has a second result") {
  pagoda_test::snippet_run how = {.threads = 2};
  how.run(
      "setp.eq.u32 %p1|%p2, %r0, 0;\nsetp.ge.and.u32 %p3, %r0, 0, !%p1;\nselp.u32 %r4, 1, 0, %p3;\n"
      "selp.u32 %r5, 10, 0, %p2;\nadd.u32 %r4, %r4, %r5;\nst.global.u32 [%d3], %r4;");
  CHECK(how.to[0] == 0);
  CHECK(how.to[1] == 11);
}

TEST_CASE("moves that pack and unpack") {
  pagoda_test::snippet_run how = {.threads = 1};
  how.run(
      "mov.b32 %r4, {0x1234, 0xabcd};\nmov.b32 {%h1, %h2}, %r4;\nmov.b32 %r5, {%h2, %h1};\nmov.b64 %d4, {%r4, %r5};\n"
      "mov.b64 {_, %r6}, %d4;\nst.global.v2.u32 [%d1], {%r4, %r5};\nst.global.u32 [%d1+8], %r6;\n"
      "ld.global.v2.u32 {_, %r7}, [%d0];\nst.global.u32 [%d1+12], %r7;\nld.global.s8 %r8, [%d0];\nmov.u32 %r9, "
      "%laneid;\n"
      "st.global.v2.u32 [%d1+16], {%r8, %r9};");
  CHECK(how.to[0] == 0xabcd1234u);
  CHECK(how.to[1] == 0x1234abcdu);
  CHECK(how.to[2] == 0x1234abcdu);
  CHECK(how.to[3] == 101);
  CHECK(how.to[4] == 100);
  CHECK(how.to[5] == 0);
}

}  // namespace
