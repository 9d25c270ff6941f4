// SPDX-License-Identifier: Apache-2.0
/// @file fp8_e4m3: 8-bit floats with one float scale for each head vector.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <pagoda/detail/half2.hpp>
#include <pagoda/detail/store_codes.hpp>
#include <pagoda/quantizer.hpp>

namespace pagoda {

/// Stores each element as an E4M3 float and one float scale a row: scale = amax / 448, so that the largest element has
/// the largest code.
///
/// Error: half a unit in the last of 4 binary digits, |x| / 16, and no more than amax / 28 (the codes from 256 to 448
/// are 32 apart). Elements below amax / 28672 are multiples of amax / 229376. A row of zeros is exact. A row that holds
/// an infinity or a NaN decodes to values that are not finite, and touches no other row. Rows of denormals
/// (amax < 448 * 2^-126) decode to within amax.
/// Codes 0x7f and 0xff, NaN in E4M3, are never stored; here they read as 480 and -480.
/// Source: FP8 formats for deep learning (Micikevicius et al. 2022), with a scale per token.
struct fp8_e4m3 {
  using scale_type = linear_scale<float>;
  static constexpr std::string_view name = "fp8_e4m3";
  static constexpr int bits = 8;
  static constexpr int group = 0;

  PAGODA_HOST_DEVICE static constexpr scale_type fit(row_stats stats) noexcept { return {stats.amax() / 448.0f}; }

  PAGODA_HOST_DEVICE static constexpr std::uint32_t encode(float value, scale_type scale) noexcept {
    // The conversion saturates. Infinity over infinity must not become a code of NaN.
    const float level = scale.scale > 0 ? value / scale.scale : 0.0f;
    return from_float<float8_e4m3>(level == level ? level : 448.0f).bits;
  }

  PAGODA_HOST_DEVICE static constexpr float codeword(std::uint32_t code) noexcept {
    // The bits of a code, put at bit 7 of a half, read as 2^-8 of its value.
    return 256.0f * to_float(half{static_cast<std::uint16_t>((code & 0x80u) << 8 | (code & 0x7fu) << 7)});
  }

  static constexpr float error_bound(row_stats stats) noexcept {
    return stats.amax() < 448 * 0x1p-126f ? stats.amax() : stats.amax() * (1.0f / 28.0f + 0x1p-22f);
  }

  template <int W>
  PAGODA_ALWAYS_INLINE static void load_float(const std::byte* codes, vec<float, W>& values) {
    detail::load_float8_e4m3<W>(codes, values);
  }

  template <int W>
  PAGODA_ALWAYS_INLINE static void store_float(const vec<float, W>& values, const scale_type& scale, std::byte* codes) {
    detail::store_float8<W, 3, 7>(values, scale.scale, 448.0f, codes);
  }

  using half2_type = half;
  static constexpr int half2_pairs = 2;
  static constexpr float codeword_limit = 448;

  PAGODA_HOST_DEVICE static constexpr int half2_exponent(int) noexcept { return 8; }

  PAGODA_HOST_DEVICE static constexpr void unpack_half2(std::uint32_t word, std::uint32_t (&pairs)[2]) noexcept {
    // Each half is a code behind eight copies of its sign. Shifted to bit 7, one copy is the half's sign; the others
    // are cut off.
    pairs[0] = (detail::byte_permute(word, 0, 0xa280) << 7) & 0xbf80bf80u;
    pairs[1] = (detail::byte_permute(word, 0, 0xb391) << 7) & 0xbf80bf80u;
  }
};

static_assert(quantizer<fp8_e4m3> && is_tensor_core_v<fp8_e4m3>);

}  // namespace pagoda
