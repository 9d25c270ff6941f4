// SPDX-License-Identifier: Apache-2.0
/// @file int4_per_token: affine 4-bit codes with one scale and one offset for each head vector, both halves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>

#include <pagoda/detail/half2.hpp>
#include <pagoda/detail/store_codes.hpp>
#include <pagoda/detail/vector_int16.hpp>
#include <pagoda/quantizer.hpp>

namespace pagoda {

/// Stores each element as one of 16 levels from the row's smallest element to its largest: offset = min,
/// scale = (max - offset) / 15, both rounded to half, 4 bytes a row. Codes are made with the rounded numbers.
///
/// Error: half a step, (max - min) / 30, and where the offset's rounding is more than that, min * 2^-11; plus the
/// rounding of the scale, (max - min) * 2^-14, and 2^-21, as halves below 2^-14 are spaced evenly. A row of zeros is
/// exact; a constant row is as exact as a half. A row that holds an infinity or a NaN decodes to values that are not
/// finite, and touches no other row.
/// Range: a minimum beyond +-65504 and a scale beyond 65504 are stored as 65504 of that sign; the row's elements are
/// then held at the ends of what its levels reach, and the error has no bound.
/// Source: per-token asymmetric quantisation, as for the values in KIVI (Liu et al. 2024).
struct int4_per_token {
  using scale_type = affine_scale<half>;
  static constexpr std::string_view name = "int4";
  static constexpr int bits = 4;
  static constexpr int group = 0;

  PAGODA_HOST_DEVICE static constexpr scale_type fit(row_stats stats) noexcept {
    const half offset = detail::narrow_finite_half(stats.min);
    const float range = stats.max - to_float(offset);
    return {detail::narrow_finite_half(range < 0 ? 0.0f : range / 15.0f), offset};
  }

  PAGODA_HOST_DEVICE static constexpr std::uint32_t encode(float value, scale_type scale) noexcept {
    const float step = to_float(scale.scale);
    float level = step > 0 ? (value - to_float(scale.offset)) / step : 0.0f;
    // Rounding may leave both ends of the row a little outside the levels.
    level = level < 15.0f ? level : 15.0f;
    level = level > 0.0f ? level : 0.0f;
    // Adding 2^23 rounds to the nearest integer, ties to even, and leaves it in the low bits.
    return detail::float_bits(level + 8388608.0f) & 15u;
  }

  PAGODA_HOST_DEVICE static constexpr float codeword(std::uint32_t code) noexcept {
    return detail::small_integer(code & 15u);
  }

  static constexpr float error_bound(row_stats stats) noexcept {
    const float low = stats.min < 0 ? -stats.min : stats.min;
    const float range = stats.max - stats.min;
    if (!(low <= 65504.0f && range <= 15 * 65504.0f)) return std::numeric_limits<float>::infinity();
    return range * (1.0f / 30.0f + 0x1p-14f) + low * 0x1p-11f + 0x1p-21f;
  }

  template <int W>
  PAGODA_ALWAYS_INLINE static void load_float(const std::byte* codes, vec<float, W>& values) {
    detail::load_uint4<W>(codes, values);
  }

  template <int W>
  PAGODA_ALWAYS_INLINE static void store_float(const vec<float, W>& values, const scale_type& scale, std::byte* codes) {
    detail::store_uint4<W>(values, scale_of(scale), offset_of(scale), codes);
  }

  template <int W>
  PAGODA_ALWAYS_INLINE static void load_int16(const std::byte* codes, vec<std::int16_t, W>& values) {
    detail::load_uint4<W>(codes, values);
  }

  using half2_type = half;
  static constexpr int half2_pairs = 4;
  static constexpr float codeword_limit = 15;

  /// Odd pairs hold 16 times the codeword: their codes stay where they lie in the word.
  PAGODA_HOST_DEVICE static constexpr int half2_exponent(int pair) noexcept { return pair % 2 == 0 ? 0 : -4; }

  PAGODA_HOST_DEVICE static constexpr void unpack_half2(std::uint32_t word, std::uint32_t (&pairs)[4]) noexcept {
    constexpr std::uint32_t magic = 0x64006400u;  // 1024, whose last mantissa bit counts 1
    const std::uint32_t upper = word >> 8;
    pairs[0] = detail::half2_sub(detail::and_or(word, 0x000f000fu, magic), magic);
    pairs[1] = detail::half2_sub(detail::and_or(word, 0x00f000f0u, magic), magic);
    pairs[2] = detail::half2_sub(detail::and_or(upper, 0x000f000fu, magic), magic);
    pairs[3] = detail::half2_sub(detail::and_or(upper, 0x00f000f0u, magic), magic);
  }
};

static_assert(quantizer<int4_per_token> && is_tensor_core_v<int4_per_token>);

}  // namespace pagoda
