// SPDX-License-Identifier: Apache-2.0
/// @file int8_per_token: symmetric 8-bit codes with one float scale for each head vector.
#pragma once

#include <cstdint>
#include <string_view>

#include <pagoda/quantizer.hpp>

namespace pagoda {

/// Stores each element as a signed 8-bit code and one float scale a row: scale = amax / 127, code = round(x / scale).
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
    // Adding 1.5 * 2^23 rounds to the nearest integer, ties to even, without a library call.
    const float shifted = level + 12582912.0f;
    return static_cast<std::uint32_t>(static_cast<std::int32_t>(shifted - 12582912.0f)) & 255u;
  }

  PAGODA_HOST_DEVICE static constexpr float codeword(std::uint32_t code) noexcept {
    return static_cast<float>(static_cast<std::int8_t>(code));
  }

  static constexpr float error_bound(row_stats stats) noexcept {
    return stats.amax() < 127 * 0x1p-126f ? stats.amax() : stats.amax() * (0.5f / 127.0f + 0x1p-22f);
  }

  template <int W>
  PAGODA_ALWAYS_INLINE static void load_float(const std::byte* codes, vec<float, W>& values) {
    detail::load_float<W>(reinterpret_cast<const std::int8_t*>(codes), values);
  }
};

static_assert(quantizer<int8_per_token>);

}  // namespace pagoda
