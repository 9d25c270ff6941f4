// SPDX-License-Identifier: Apache-2.0
/// @file int8_grouped<Group>: symmetric 8-bit codes with one half scale for each Group elements.
#pragma once

#include <cstdint>
#include <limits>
#include <string_view>

#include <pagoda/detail/static_name.hpp>
#include <pagoda/dtype.hpp>
#include <pagoda/fwd.hpp>
#include <pagoda/quantizer.hpp>
#include <pagoda/quantizer/int8_per_token.hpp>

namespace pagoda {

namespace detail {

template <int Group>
inline constexpr auto int8_grouped_name = static_name<16>{}.add("int8g").add(Group);

}  // namespace detail

/// Stores each element as int8_per_token does, with a scale of its group's own: scale = amax / 127 rounded to half,
/// 34 bytes for 32 elements. Codes are made with the rounded scale. An outlier costs its own group only.
///
/// Error: half a step, amax / 254, of the group; the scale's rounding, amax * 2^-18, and 2^-18, as halves below 2^-14
/// are spaced evenly. A group of zeros is exact. A group that holds an infinity or a NaN decodes to values that are not
/// finite, and touches no other group.
/// Range: a scale beyond 65504 (amax above 127 * 65504) is stored as 65504; the group's elements are then held at
/// +-127 * 65504, and the error has no bound.
/// Source: the codes of ggml's Q8_0.
template <int Group>
struct int8_grouped : int8_per_token {
  static_assert(Group >= 16 && Group % 16 == 0,
                "pagoda: int8_grouped<Group> takes a multiple of 16 elements, such as 32");

  using scale_type = linear_scale<half>;
  static constexpr std::string_view name = detail::int8_grouped_name<Group>.view();
  static constexpr int group = Group;

  PAGODA_HOST_DEVICE static constexpr scale_type fit(row_stats stats) noexcept {
    return {detail::narrow_finite_half(stats.amax() / 127.0f)};
  }

  PAGODA_HOST_DEVICE static constexpr std::uint32_t encode(float value, scale_type scale) noexcept {
    return int8_per_token::encode(value, {to_float(scale.scale)});
  }

  static constexpr float error_bound(row_stats stats) noexcept {
    if (!(stats.amax() <= 127 * 65504.0f)) return std::numeric_limits<float>::infinity();
    return stats.amax() * (0.5f / 127.0f + 0x1p-18f) + 0x1p-18f;
  }
};

static_assert(quantizer<int8_grouped<32>> && has_half2_hooks<int8_grouped<32>>);

}  // namespace pagoda
