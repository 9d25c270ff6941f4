// SPDX-License-Identifier: Apache-2.0
/// @file int8_per_token: symmetric 8-bit codes with one float scale for each head vector.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <pagoda/detail/half2.hpp>
#include <pagoda/detail/store_codes.hpp>
#include <pagoda/detail/vector_int16.hpp>
#include <pagoda/quantizer.hpp>

namespace pagoda {

/// Stores each element as an 8-bit code and one float scale a row: scale = amax / 127, code = round(x / scale) + 128.
/// Codes that count from 128 cost the tensor cores one instruction a pair less than signed ones.
///
/// Error: half a step, amax / 254, and the rounding of the division. A row of zeros is exact. A row that holds an
/// infinity or a NaN decodes to values that are not finite, and touches no other row. Rows of denormals
/// (amax < 127 * 2^-126) decode to within amax.
/// Source: per-token symmetric quantisation, as in SmoothQuant (Xiao et al. 2023), section 2.
struct int8_per_token {
  using scale_type = linear_scale<float>;
  static constexpr std::string_view name = "int8";
  static constexpr int bits = 8;
  static constexpr int group = 0;

  PAGODA_HOST_DEVICE static constexpr scale_type fit(row_stats stats) noexcept {
    const float amax = stats.amax();
    // The largest floats give way by 2^-23, so that 127 steps do not round up to infinity.
    const bool at_the_end = amax > 0x1.fffffcp127f && amax <= 0x1.fffffep127f;
    return {(at_the_end ? 0x1.fffffcp127f : amax) / 127.0f};
  }

  PAGODA_HOST_DEVICE static constexpr std::uint32_t encode(float value, scale_type scale) noexcept {
    // A normal scale keeps |value / scale| at 127 and a rounding; only denormal scales need the clamp.
    float level = scale.scale > 0 ? value / scale.scale : 0.0f;
    level = level < 127.0f ? level : 127.0f;
    level = level > -127.0f ? level : -127.0f;
    // Adding 1.5 * 2^23 rounds to the nearest integer, ties to even, and leaves it in the low bits.
    return detail::float_bits(level + (12582912.0f + 128.0f)) & 255u;
  }

  PAGODA_HOST_DEVICE static constexpr float codeword(std::uint32_t code) noexcept {
    return detail::small_integer(code & 255u) - 128.0f;
  }

  static constexpr float error_bound(row_stats stats) noexcept {
    return stats.amax() < 127 * 0x1p-126f ? stats.amax() : stats.amax() * (0.5f / 127.0f + 0x1p-22f);
  }

  template <int W>
  PAGODA_ALWAYS_INLINE static void load_float(const std::byte* codes, vec<float, W>& values) {
    detail::load_biased_int8<W>(codes, values);
  }

  template <int W, class Scale>
  PAGODA_ALWAYS_INLINE static void store_float(const vec<float, W>& values, const Scale& scale, std::byte* codes) {
    detail::store_biased_int8<W>(values, scale_of(scale), codes);
  }

  template <int W>
  PAGODA_ALWAYS_INLINE static void load_int16(const std::byte* codes, vec<std::int16_t, W>& values) {
    detail::load_uint8<W>(codes, values);
  }
  static constexpr int int16_bias = 128;

  using half2_type = half;
  static constexpr int half2_pairs = 2;
  static constexpr float codeword_limit = 127;

  PAGODA_HOST_DEVICE static constexpr int half2_exponent(int) noexcept { return 0; }

  PAGODA_HOST_DEVICE static constexpr void unpack_half2(std::uint32_t word, std::uint32_t (&pairs)[2]) noexcept {
    // A code below 0x64 in its half reads as 1024 + code.
    constexpr std::uint32_t magic = 0x64646464u;
    constexpr std::uint32_t bias = 0x64806480u;  // 1152 = 1024 + 128
    pairs[0] = detail::half2_sub(detail::byte_permute(word, magic, 0x4240), bias);
    pairs[1] = detail::half2_sub(detail::byte_permute(word, magic, 0x4341), bias);
  }
};

static_assert(quantizer<int8_per_token> && is_tensor_core_v<int8_per_token>);

}  // namespace pagoda
