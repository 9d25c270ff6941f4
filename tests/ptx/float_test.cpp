// SPDX-License-Identifier: Apache-2.0
// Floating-point instructions at their edges: rounding, NaN, subnormals, saturation.
#include <limits>

#include "evaluate.hpp"

namespace {

using pagoda_test::argument;
using pagoda_test::check_evaluations;

constexpr float inf = std::numeric_limits<float>::infinity();
constexpr unsigned nan_of_cuda = 0x7fffffffu;
constexpr unsigned some_nan = 0xffc12345u;
constexpr float least_normal = 0x1p-126f;

TEST_CASE("rounding once or twice") {
  check_evaluations({
      // (1 + 2^-12)^2 = 1 + 2^-11 + 2^-24: the product alone loses the last bit.
      {"mul.f32", {1.0f + 0x1p-12f, 1.0f + 0x1p-12f}, 1.0f + 0x1p-11f},
      {"fma.rn.f32", {1.0f + 0x1p-12f, 1.0f + 0x1p-12f, -(1.0f + 0x1p-11f)}, 0x1p-24f},
      {"add.f32", {1.0f, 0x1p-24f}, 1.0f},
      {"add.rn.f32", {1.0f, 0x1.8p-24f}, 1.0f + 0x1p-23f},
      {"add.rz.f32", {1.0f, 0x1.8p-24f}, 1.0f},
      {"add.rp.f32", {1.0f, 0x1p-60f}, 1.0f + 0x1p-23f},
      {"add.rm.f32", {-1.0f, -0x1p-60f}, -(1.0f + 0x1p-23f)},
      {"fma.rz.f32", {-1.0f, 1.0f, -0x1.8p-24f}, -1.0f},
      {"fma.rm.f32", {1.0f + 0x1p-12f, 1.0f + 0x1p-12f, 0.0f}, 1.0f + 0x1p-11f},
      {"fma.rp.f32", {1.0f + 0x1p-12f, 1.0f + 0x1p-12f, 0.0f}, 1.0f + 0x1p-11f + 0x1p-23f},
      {"sub.f32", {1.0f, 3.0f}, -2.0f},
      {"div.rn.f32", {1.0f, 3.0f}, 1.0f / 3.0f},
      {"div.full.f32", {6.0f, 3.0f}, 2.0f},
      {"rcp.approx.ftz.f32", {4.0f}, 0.25f},
      {"rcp.rn.f32", {0.0f}, inf},
      {"sqrt.rn.f32", {2.0f}, 1.41421356f},
      {"rsqrt.approx.f32", {4.0f}, 0.5f},
      {"ex2.approx.f32", {-3.0f}, 0.125f},
      {"ex2.approx.ftz.f32", {-126.5f}, 0.0f},
      {"ex2.approx.f32", {-127.0f}, 0x1p-127f},
      {"ex2.approx.ftz.f32", {-inf}, 0.0f},
      {"lg2.approx.f32", {8.0f}, 3.0f},
      {"lg2.approx.ftz.f32", {0x1p-127f}, -inf},
      {"lg2.approx.f32", {0x1p-127f}, -127.0f},
      {"lg2.approx.f32", {-1.0f}, nan_of_cuda},
      {"tanh.approx.f32", {0.0f}, 0.0f},
      {"add.f64", {1.0, 0x1p-52}, 1.0 + 0x1p-52},
      {"fma.rn.f64", {1.0 + 0x1p-30, 1.0 + 0x1p-30, -(1.0 + 0x1p-29)}, 0x1p-60},
      {"div.rn.f64", {1.0, 3.0}, 1.0 / 3.0},
  });
}

TEST_CASE("NaN, infinities and zeros") {
  check_evaluations({
      {"add.f32", {inf, -inf}, nan_of_cuda},
      {"mul.f32", {some_nan, 1.0f}, nan_of_cuda},
      {"fma.rn.f32", {0.0f, inf, 1.0f}, nan_of_cuda},
      {"min.f32", {some_nan, 1.0f}, 1.0f},
      {"max.f32", {1.0f, some_nan}, 1.0f},
      {"max.f32", {some_nan, some_nan}, nan_of_cuda},
      {"min.NaN.f32", {some_nan, 1.0f}, nan_of_cuda},
      {"max.NaN.f32", {1.0f, some_nan}, nan_of_cuda},
      {"min.f32", {0.0f, -0.0f}, -0.0f},
      {"min.f32", {-0.0f, 0.0f}, -0.0f},
      {"max.f32", {0.0f, -0.0f}, 0.0f},
      {"max.f32", {-0.0f, 0.0f}, 0.0f},
      {"max.f32", {-inf, -1.0f}, -1.0f},
      {"neg.f32", {0.0f}, -0.0f},
      {"abs.f32", {-inf}, inf},
      {"copysign.f32", {-1.0f, 3.0f}, -3.0f},
      {"copysign.f32", {1.0f, some_nan}, some_nan & 0x7fffffffu},
      {"testp.finite.f32", {inf}, 0},
      {"testp.subnormal.f32", {0x1p-130f}, 1},
      {"testp.notanumber.f32", {some_nan}, 1},
      {"mov.f32", {some_nan}, some_nan},
      {"selp.f32", {some_nan, 1.0f, 1}, some_nan},
  });
}

TEST_CASE("subnormals and saturation") {
  check_evaluations({
      {"add.f32", {0x1p-127f, 0.0f}, 0x1p-127f},
      {"add.ftz.f32", {0x1p-127f, 0.0f}, 0.0f},
      {"add.ftz.f32", {-0x1p-127f, -0.0f}, -0.0f},
      {"mul.ftz.f32", {0x1p-100f, -0x1p-30f}, -0.0f},
      {"mul.f32", {0x1p-100f, 0x1p-30f}, 0x1p-130f},
      {"fma.rn.ftz.f32", {least_normal, 0.5f, 0.0f}, 0.0f},
      {"min.ftz.f32", {-0x1p-127f, 0.0f}, -0.0f},
      {"setp.gt.f32", {0x1p-127f, 0.0f}, 1},
      {"setp.gt.ftz.f32", {0x1p-127f, 0.0f}, 0},
      {"add.sat.f32", {0.75f, 0.75f}, 1.0f},
      {"add.sat.f32", {-0.75f, 0.25f}, 0.0f},
      {"mul.sat.f32", {some_nan, 0.25f}, 0.0f},
      {"fma.rn.sat.f32", {0.5f, 0.5f, 0.25f}, 0.5f},
      {"cvt.sat.f32.f32", {1.5f}, 1.0f},
  });
}

TEST_CASE("comparisons with a NaN") {
  for (const char* ordered :
       {"setp.eq.f32", "setp.ne.f32", "setp.lt.f32", "setp.le.f32", "setp.gt.f32", "setp.ge.f32", "setp.num.f32"}) {
    check_evaluations(
        {{ordered, {some_nan, 1.0f}, 0}, {ordered, {1.0f, some_nan}, 0}, {ordered, {some_nan, some_nan}, 0}});
  }
  for (const char* unordered : {"setp.equ.f32", "setp.neu.f32", "setp.ltu.f32", "setp.leu.f32", "setp.gtu.f32",
                                "setp.geu.f32", "setp.nan.f32"}) {
    check_evaluations(
        {{unordered, {some_nan, 1.0f}, 1}, {unordered, {1.0f, some_nan}, 1}, {unordered, {some_nan, some_nan}, 1}});
  }
  check_evaluations({
      {"setp.eq.f32", {0.0f, -0.0f}, 1},
      {"setp.ne.f32", {1.0f, 2.0f}, 1},
      {"setp.equ.f32", {1.0f, 2.0f}, 0},
      {"setp.ltu.f32", {1.0f, 2.0f}, 1},
      {"setp.ltu.f32", {2.0f, 2.0f}, 0},
      {"setp.leu.f32", {2.0f, 2.0f}, 1},
      {"setp.gtu.f32", {2.0f, 2.0f}, 0},
      {"setp.geu.f32", {2.0f, 3.0f}, 0},
      {"setp.num.f32", {2.0f, 3.0f}, 1},
      {"setp.nan.f32", {2.0f, 3.0f}, 0},
      {"setp.lt.or.f32", {some_nan, 1.0f, 1}, 1},
      {"setp.gt.f64", {2.0, 1.0}, 1},
  });
}

TEST_CASE("floats to integers") {
  check_evaluations({
      {"cvt.rni.s32.f32", {2.5f}, 2L},
      {"cvt.rni.s32.f32", {3.5f}, 4L},
      {"cvt.rni.s32.f32", {-2.5f}, -2L},
      {"cvt.rzi.s32.f32", {-2.9f}, -2L},
      {"cvt.rmi.s32.f32", {-2.1f}, -3L},
      {"cvt.rpi.s32.f32", {2.1f}, 3L},
      {"cvt.rzi.s32.f32", {3e9f}, 0x7fffffffL},
      {"cvt.rzi.s32.f32", {-3e9f}, -2147483648L},
      {"cvt.rzi.u32.f32", {-5.0f}, 0L},
      {"cvt.rzi.u32.f32", {inf}, 0xffffffffL},
      {"cvt.rzi.s32.f32", {some_nan}, 0L},
      {"cvt.rzi.u64.f32", {0x1p63f}, 0x8000000000000000UL},
      {"cvt.rzi.s64.f32", {0x1p63f}, 0x7fffffffffffffffL},
      {"cvt.rni.s8.f32", {200.0f}, 127L},
      {"cvt.rni.sat.s8.f32", {-200.0f}, -128L},
      {"cvt.rni.sat.u8.f32", {254.5f}, 254L},
      {"cvt.rzi.ftz.s32.f32", {0x1p-127f}, 0L},
      {"cvt.rpi.s32.f32", {0x1p-127f}, 1L},
      {"cvt.rpi.ftz.s32.f32", {0x1p-127f}, 0L},
      {"cvt.rzi.s32.f16", {0xc500u}, -5L},
      {"cvt.rni.f32.f32", {2.5f}, 2.0f},
      {"cvt.rmi.f32.f32", {-0.5f}, -1.0f},
      {"cvt.rzi.f32.f32", {-0.5f}, -0.0f},
  });
}

TEST_CASE("integers to floats, and floats to floats") {
  check_evaluations({
      {"cvt.rn.f32.s32", {-5}, -5.0f},
      {"cvt.rn.f32.u32", {0xffffffffu}, 0x1p32f},
      {"cvt.rn.f32.s64", {0x7fffffffffffffffL}, 0x1p63f},
      {"cvt.rn.f32.u8", {0x1ffu}, 255.0f},
      {"cvt.rn.f32.s8", {0xffu}, -1.0f},
      {"cvt.rn.f64.s32", {-5}, -5.0},
      {"cvt.rn.f16.s32", {2049}, 0x6800u},
      {"cvt.rn.f16.s32", {2051}, 0x6802u},
      // 2^25 + 2^17 + 1 lies above the tie of bfloat16, but as a float it is the tie.
      {"cvt.rn.bf16.s32", {0x02020001}, 0x4c01u},
      {"cvt.rn.bf16.s32", {0x02020000}, 0x4c00u},
      {"cvt.f32.f16", {0x3c01u}, 1.0f + 0x1p-10f},
      {"cvt.f32.f16", {0x0001u}, 0x1p-24f},
      {"cvt.f32.f16", {0xfe12u}, nan_of_cuda},
      {"cvt.rn.f16.f32", {65520.0f}, 0x7c00u},
      {"cvt.rz.f16.f32", {65520.0f}, 0x7bffu},
      {"cvt.rz.f16.f32", {-(1.0f + 0x1.8p-10f)}, 0xbc01u},
      {"cvt.rn.f16.f32", {-(1.0f + 0x1.8p-10f)}, 0xbc02u},
      {"cvt.rn.f16.f32", {some_nan}, 0x7fffu},
      {"cvt.rn.relu.f16.f32", {-2.0f}, 0u},
      {"cvt.f32.bf16", {0x3f81u}, 1.0f + 0x1p-7f},
      {"cvt.rn.bf16.f32", {1.0f + 0x1p-8f}, 0x3f80u},
      {"cvt.rn.bf16.f32", {1.0f + 0x1.8p-7f}, 0x3f82u},
      {"cvt.rn.f16x2.f32", {1.0f, 2.0f}, 0x3c004000u},
      {"cvt.rn.bf16x2.f32", {1.0f, 2.0f}, 0x3f804000u},
      {"cvt.rn.satfinite.e4m3x2.f32", {1.0f, 1000.0f}, 0x387eu},
      {"cvt.rn.satfinite.e5m2x2.f32", {-1.0f, 1e9f}, 0xbc7bu},
      {"cvt.rn.satfinite.e4m3x2.f16x2", {0x3c00c000u}, 0x38c0u},
      {"cvt.rn.f16x2.e4m3x2", {0x38c0u}, 0x3c00c000u},
      {"cvt.rn.f16x2.e4m3x2", {0x017fu}, 0x18007fffu},
      {"cvt.rn.f16x2.e5m2x2", {0x3cbcu}, 0x3c00bc00u},
      {"cvt.f64.f32", {0x1p-149f}, 0x1p-149},
      {"cvt.rn.f32.f64", {1.0 + 0x1p-24}, 1.0f},
      {"cvt.rn.f32.f64", {1.0 + 0x1.8p-24}, 1.0f + 0x1p-23f},
  });
}

TEST_CASE("halves and bfloat16, alone and in pairs") {
  check_evaluations({
      {"add.f16", {0x3c00u, 0x3c01u}, 0x4000u},
      {"mul.f16", {0x3c01u, 0x3c01u}, 0x3c02u},
      {"fma.rn.f16", {0x3c01u, 0x3c01u, 0xbc02u}, 0x0010u},
      // 1 * 1 + 2^-24 rounds to 1, and so does the tie 1 + 2^-11; a shade above it does not.
      {"fma.rn.f16", {0x1000u, 0x3c00u, 0x3c00u}, 0x3c00u},
      {"fma.rn.f16", {0x1001u, 0x3c00u, 0x3c00u}, 0x3c01u},
      // 3 * 683 = 2049 is a tie; 2^-24 more is not, though a float does not see it.
      {"fma.rn.f16", {0x4200u, 0x6156u, 0u}, 0x6800u},
      {"fma.rn.f16", {0x4200u, 0x6156u, 0x0001u}, 0x6801u},
      // 14 * 37 = 518 is a tie of bfloat16; 2^-100 less is not, though a double does not see it.
      {"fma.rn.bf16", {0x4160u, 0x4214u, 0u}, 0x4402u},
      {"fma.rn.bf16", {0x4160u, 0x4214u, 0x8d80u}, 0x4401u},
      {"fma.rn.bf16", {0x3f81u, 0x3f81u, 0xbf82u}, 0x3880u},
      {"min.f16", {0x7e00u, 0x3c00u}, 0x3c00u},
      {"max.NaN.f16", {0x7e00u, 0x3c00u}, 0x7fffu},
      {"neg.bf16", {0x3f80u}, 0xbf80u},
      {"setp.gt.f16", {0x4000u, 0x3c00u}, 1},
      {"add.rn.f16x2", {0x3c004000u, 0x3c00c000u}, 0x40000000u},
      {"sub.rn.f16x2", {0x64056403u, 0x64006400u}, 0x45004200u},
      {"mul.f16x2", {0x40003c00u, 0x42003800u}, 0x46003800u},
      {"fma.rn.f16x2", {0x40003c00u, 0x42003800u, 0x3c003800u}, 0x47003c00u},
      {"fma.rn.bf16x2", {0x40003f80u, 0x40403f00u, 0x3f803f00u}, 0x40e03f80u},
      {"max.f16x2", {0x3c00bc00u, 0x40007e00u}, 0x4000bc00u},
      {"min.bf16x2", {0x3f80bf80u, 0x40003f80u}, 0x3f80bf80u},
      {"abs.f16x2", {0xbc00bc00u}, 0x3c003c00u},
      {"neg.f16x2", {0xbc003c00u}, 0x3c00bc00u},
  });
}

}  // namespace
