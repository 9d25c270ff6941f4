// SPDX-License-Identifier: Apache-2.0
/// @file The narrow element types of a cache and their scalar conversions, bit for bit those of CUDA's host functions.
///
/// The integer bodies give the same bits whatever the rounding or denormal mode is. Where the device has an instruction
/// for a conversion, device code uses it: it gives these bits, NaN included.
#pragma once

#include <concepts>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include <pagoda/config.hpp>

namespace pagoda {

/// IEEE binary16: 1 sign, 5 exponent, 10 mantissa bits. `operator==` compares bits, so NaN equals itself and -0 is not
/// +0.
struct half {
  std::uint16_t bits;
  friend constexpr bool operator==(const half&, const half&) = default;
};

/// The upper half of a float: 1 sign, 8 exponent, 7 mantissa bits. `operator==` compares bits.
struct bfloat16 {
  std::uint16_t bits;
  friend constexpr bool operator==(const bfloat16&, const bfloat16&) = default;
};

/// 8-bit float E4M3FN: no infinities, NaN is 0x7f and 0xff, largest value 448. `operator==` compares bits.
struct float8_e4m3 {
  std::uint8_t bits;
  friend constexpr bool operator==(const float8_e4m3&, const float8_e4m3&) = default;
};

/// 8-bit float E5M2: IEEE-like with infinities, largest finite value 57344. `operator==` compares bits.
struct float8_e5m2 {
  std::uint8_t bits;
  friend constexpr bool operator==(const float8_e5m2&, const float8_e5m2&) = default;
};

/// The element types that engines hand in as keys, values and queries.
template <class T>
concept floating_element = (std::is_same_v<std::remove_cv_t<T>, float> || std::is_same_v<std::remove_cv_t<T>, half> ||
                            std::is_same_v<std::remove_cv_t<T>, bfloat16>);

/// The same, where results go.
template <class T>
concept writable_element = floating_element<T> && !std::is_const_v<T>;

namespace detail {

/// Every type that to_float and from_float know.
template <class T>
concept convertible_element = floating_element<T> || std::same_as<std::remove_cv_t<T>, float8_e4m3> ||
    std::same_as<std::remove_cv_t<T>, float8_e5m2>;

// std::bit_cast is not callable from device code without a compiler option; the builtin is.
PAGODA_HOST_DEVICE constexpr std::uint32_t float_bits(float value) {
  return __builtin_bit_cast(std::uint32_t, value);
}
PAGODA_HOST_DEVICE constexpr float float_from_bits(std::uint32_t bits) {
  return __builtin_bit_cast(float, bits);
}

/// An integer below 2^23 as a float, without the slow conversion instruction of a GPU.
PAGODA_HOST_DEVICE constexpr float small_integer(std::uint32_t value) {
  return float_from_bits(value | 0x4b000000u) - 8388608.0f;  // 2^23, whose last mantissa bit counts 1
}

/// The NaN that CUDA's conversions return: positive, quiet, every mantissa bit set.
inline constexpr std::uint32_t canonical_nan_bits = 0x7fffffffu;

/// Widens the finite magnitude (no sign bit) of a small IEEE-like format to float bits; always exact.
template <std::uint32_t MantissaBits, std::uint32_t Bias>
PAGODA_HOST_DEVICE constexpr std::uint32_t widen_magnitude(std::uint32_t magnitude) {
  if ((magnitude >> MantissaBits) != 0) return (magnitude << (23 - MantissaBits)) + ((127 - Bias) << 23);
  // A subnormal counts units of 2^(1 - Bias - MantissaBits), which is a normal float.
  constexpr std::uint32_t unit_bits = (128 - Bias - MantissaBits) << 23;
  return float_bits(static_cast<float>(magnitude) * float_from_bits(unit_bits));
}

/// Rounds the magnitude of a float, given as bits and not a NaN, to a small IEEE-like format, to nearest even.
/// The result counts codes as if the format had no largest exponent: the caller clamps it.
template <std::uint32_t MantissaBits, std::uint32_t Bias>
PAGODA_HOST_DEVICE constexpr std::uint32_t narrow_magnitude(std::uint32_t magnitude) {
  constexpr std::uint32_t dropped = 23 - MantissaBits;
  constexpr std::uint32_t first_normal = 128 - Bias;  // the float's exponent field of the smallest normal code
  const std::uint32_t exponent = magnitude >> 23;
  std::uint32_t shift = dropped;
  std::uint32_t value = magnitude - ((127 - Bias) << 23);
  if (exponent < first_normal) {
    shift = dropped + first_normal - exponent;
    if (shift > 24) return 0;  // below half of the smallest subnormal
    value = (magnitude & 0x007fffffu) | 0x00800000u;
  }
  const std::uint32_t odd = (value >> shift) & 1u;
  return (value + ((1u << (shift - 1)) - 1u) + odd) >> shift;
}

/// The code of one fp8 format: rounds to nearest even, saturates at MaxCode, maps every NaN to 0x7f.
template <std::uint32_t MantissaBits, std::uint32_t Bias, std::uint32_t MaxCode>
PAGODA_HOST_DEVICE constexpr std::uint8_t narrow_float8(float value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  if (!__builtin_is_constant_evaluated()) {
    std::uint16_t pair;
    if constexpr (MantissaBits == 3) {
      asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %1;" : "=h"(pair) : "f"(value));
    } else {
      asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %1;" : "=h"(pair) : "f"(value));
    }
    return static_cast<std::uint8_t>(pair & 0xffu);
  }
#endif
  const std::uint32_t bits = float_bits(value);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return 0x7f;
  const std::uint32_t code = narrow_magnitude<MantissaBits, Bias>(magnitude);
  return static_cast<std::uint8_t>(((bits >> 24) & 0x80u) | (code < MaxCode ? code : MaxCode));
}

PAGODA_HOST_DEVICE constexpr half narrow_half(float value) {
#ifdef __CUDA_ARCH__
  if (!__builtin_is_constant_evaluated()) {
    half result;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(result.bits) : "f"(value));
    return result;
  }
#endif
  const std::uint32_t bits = float_bits(value);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return half{0x7fff};
  const std::uint32_t code = narrow_magnitude<10, 15>(magnitude);
  return half{static_cast<std::uint16_t>(((bits >> 16) & 0x8000u) | (code < 0x7c00u ? code : 0x7c00u))};
}

/// The same, but a finite value becomes a finite half: the nearest one. Infinities and NaN stay what they are.
PAGODA_HOST_DEVICE constexpr half narrow_finite_half(float value) {
  const bool is_finite = value - value == 0;
  if (is_finite) value = value < -65504.0f ? -65504.0f : value > 65504.0f ? 65504.0f : value;
  return narrow_half(value);
}

PAGODA_HOST_DEVICE constexpr bfloat16 narrow_bfloat16(float value) {
#ifdef __CUDA_ARCH__
  if (!__builtin_is_constant_evaluated()) {
    bfloat16 result;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(result.bits) : "f"(value));
    return result;
  }
#endif
  const std::uint32_t bits = float_bits(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return bfloat16{0x7fff};
  return bfloat16{static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}

}  // namespace detail

/// Returns the value as it is, so that generic code needs no special case for float.
PAGODA_HOST_DEVICE constexpr float to_float(float value) {
  return value;
}

/// Widens exactly. Every NaN becomes the positive NaN 0x7fffffff, as __half2float gives on the host.
PAGODA_HOST_DEVICE constexpr float to_float(half value) {
#ifdef __CUDA_ARCH__
  if (!__builtin_is_constant_evaluated()) {
    float result;
    asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(value.bits));
    return result;
  }
#endif
  const std::uint32_t magnitude = value.bits & 0x7fffu;
  if (magnitude > 0x7c00u) return detail::float_from_bits(detail::canonical_nan_bits);
  const std::uint32_t sign = (value.bits & 0x8000u) << 16;
  if (magnitude == 0x7c00u) return detail::float_from_bits(sign | 0x7f800000u);
  return detail::float_from_bits(sign | detail::widen_magnitude<10, 15>(magnitude));
}

/// Widens exactly; a NaN keeps its sign and payload, as with __bfloat162float.
PAGODA_HOST_DEVICE constexpr float to_float(bfloat16 value) {
  return detail::float_from_bits(static_cast<std::uint32_t>(value.bits) << 16);
}

/// Widens exactly. Every NaN becomes 0x7fffffff, as with __nv_cvt_fp8_to_halfraw followed by __half2float.
PAGODA_HOST_DEVICE constexpr float to_float(float8_e4m3 value) {
  const std::uint32_t magnitude = value.bits & 0x7fu;
  if (magnitude == 0x7fu) return detail::float_from_bits(detail::canonical_nan_bits);
#ifdef __CUDA_ARCH__
  // The bits of a code, put at bit 7 of a half, read as 2^-8 of its value.
  if (!__builtin_is_constant_evaluated()) {
    return 256.0f * to_float(half{static_cast<std::uint16_t>((value.bits & 0x80u) << 8 | magnitude << 7)});
  }
#endif
  const std::uint32_t sign = (value.bits & 0x80u) << 24;
  return detail::float_from_bits(sign | detail::widen_magnitude<3, 7>(magnitude));
}

/// Widens exactly. Every NaN becomes 0x7fffffff, as with __nv_cvt_fp8_to_halfraw followed by __half2float.
PAGODA_HOST_DEVICE constexpr float to_float(float8_e5m2 value) {
  return to_float(half{static_cast<std::uint16_t>(value.bits << 8)});  // e5m2 is the upper byte of a half
}

/// Narrows to T, to nearest even. half and bfloat16 overflow to infinity; both fp8 types saturate at their largest
/// finite value, infinities included. A NaN becomes 0x7fff or 0x7f without its sign; float passes through.
/// Requires: T is float, half, bfloat16, float8_e4m3 or float8_e5m2.
/// Source: results equal __float2half_rn, __float2bfloat16_rn and __nv_cvt_float_to_fp8 with __NV_SATFINITE.
template <detail::convertible_element T>
PAGODA_HOST_DEVICE constexpr T from_float(float value) {
  using element = std::remove_cv_t<T>;
  if constexpr (std::same_as<element, float>) {
    return value;
  } else if constexpr (std::same_as<element, half>) {
    return detail::narrow_half(value);
  } else if constexpr (std::same_as<element, bfloat16>) {
    return detail::narrow_bfloat16(value);
  } else if constexpr (std::same_as<element, float8_e4m3>) {
    return float8_e4m3{detail::narrow_float8<3, 7, 0x7e>(value)};
  } else {
    return float8_e5m2{detail::narrow_float8<2, 15, 0x7b>(value)};
  }
}

/// Returns one 4-bit code of a packed array: byte b holds element 2b in its low and 2b + 1 in its high four bits.
/// Requires: index >= 0, and packed holds at least index / 2 + 1 bytes.
PAGODA_HOST_DEVICE constexpr std::uint32_t unpack_int4(const std::uint8_t* packed, std::int64_t index) {
  return (static_cast<std::uint32_t>(packed[index >> 1]) >> ((index & 1) * 4)) & 15u;
}

/// Returns the byte that holds two 4-bit codes; bits above the lowest four of each are dropped.
PAGODA_HOST_DEVICE constexpr std::uint8_t pack_int4(std::uint32_t low, std::uint32_t high) {
  return static_cast<std::uint8_t>((low & 15u) | ((high & 15u) << 4));
}

/// Reads a 4-bit code as two's complement: 0..7 stay, 8..15 become -8..-1.
PAGODA_HOST_DEVICE constexpr int sign_extend_int4(std::uint32_t code) {
  return static_cast<int>((code & 15u) ^ 8u) - 8;
}

/// The stable name of an element type, for flags, errors and file headers.
template <detail::convertible_element T>
inline constexpr std::string_view dtype_name = std::same_as<std::remove_cv_t<T>, float>         ? "float"
                                               : std::same_as<std::remove_cv_t<T>, half>        ? "half"
                                               : std::same_as<std::remove_cv_t<T>, bfloat16>    ? "bfloat16"
                                               : std::same_as<std::remove_cv_t<T>, float8_e4m3> ? "float8_e4m3"
                                                                                                : "float8_e5m2";

static_assert(std::is_trivially_copyable_v<half> && sizeof(half) == 2);
static_assert(std::is_trivially_copyable_v<bfloat16> && sizeof(bfloat16) == 2);
static_assert(std::is_trivially_copyable_v<float8_e4m3> && sizeof(float8_e4m3) == 1);
static_assert(std::is_trivially_copyable_v<float8_e5m2> && sizeof(float8_e5m2) == 1);

}  // namespace pagoda
