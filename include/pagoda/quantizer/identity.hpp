// SPDX-License-Identifier: Apache-2.0
/// @file identity<T>: elements are stored as they are, rounded to T.
#pragma once

#include <cstdint>
#include <limits>
#include <string_view>
#include <type_traits>

#include <pagoda/dtype.hpp>
#include <pagoda/quantizer.hpp>

namespace pagoda {

namespace detail {

/// The tensor-core members of identity<T>: a word of codes is a pair as it is. float has none.
template <class T>
struct identity_half2_hooks {
  using half2_type = T;
  static constexpr int half2_pairs = 1;
  static constexpr float codeword_limit = std::is_same_v<T, half> ? 65504.0f : 0x1.fep127f;

  PAGODA_HOST_DEVICE static constexpr int half2_exponent(int) noexcept { return 0; }
  PAGODA_HOST_DEVICE static constexpr void unpack_half2(std::uint32_t word, std::uint32_t (&pairs)[1]) noexcept {
    pairs[0] = word;
  }
};
template <>
struct identity_half2_hooks<float> {};

}  // namespace detail

/// Stores each element as a T: float, half or bfloat16. No scale.
///
/// Error: half an ulp of T: |x| * 2^-11 for half (at least 2^-25, the subnormals), |x| * 2^-8 for bfloat16
/// (at least 2^-134), 0 for float.
/// Values beyond T's range become infinities; NaN stays NaN.
template <class T>
struct identity : detail::identity_half2_hooks<T> {
  static_assert(std::is_same_v<T, float> || std::is_same_v<T, half> || std::is_same_v<T, bfloat16>,
                "pagoda: identity<T> stores float, half or bfloat16");

  using element_type = T;
  using scale_type = no_scale;
  static constexpr std::string_view name = dtype_name<T>;
  static constexpr int bits = 8 * static_cast<int>(sizeof(T));
  static constexpr int group = 0;

  PAGODA_HOST_DEVICE static constexpr scale_type fit(row_stats) noexcept { return {}; }

  PAGODA_HOST_DEVICE static constexpr std::uint32_t encode(float value, scale_type) noexcept {
    if constexpr (std::is_same_v<T, float>) {
      return detail::float_bits(value);
    } else {
      return from_float<T>(value).bits;
    }
  }

  PAGODA_HOST_DEVICE static constexpr float codeword(std::uint32_t code) noexcept {
    if constexpr (std::is_same_v<T, float>) {
      return detail::float_from_bits(code);
    } else {
      return to_float(T{static_cast<std::uint16_t>(code)});
    }
  }

  static constexpr float error_bound(row_stats stats) noexcept {
    if constexpr (std::is_same_v<T, float>) {
      return 0.0f;
    } else if constexpr (std::is_same_v<T, half>) {
      return stats.amax() < 65520.0f ? stats.amax() * 0x1p-11f + 0x1p-25f : std::numeric_limits<float>::infinity();
    } else {
      return stats.amax() < 0x1.ffp127f ? stats.amax() * 0x1p-8f + 0x1p-134f : std::numeric_limits<float>::infinity();
    }
  }

  template <int W>
  PAGODA_ALWAYS_INLINE static void load_float(const std::byte* codes, vec<float, W>& values) {
    detail::load_float<W>(reinterpret_cast<const T*>(codes), values);
  }

  template <int W>
  PAGODA_ALWAYS_INLINE static void store_float(const vec<float, W>& values, const scale_type&, std::byte* codes) {
    detail::store_float<W>(values, reinterpret_cast<T*>(codes));
  }
};

static_assert(quantizer<identity<float>> && quantizer<identity<half>> && quantizer<identity<bfloat16>>);
static_assert(is_tensor_core_v<identity<half>> && is_tensor_core_v<identity<bfloat16>> &&
              !is_tensor_core_v<identity<float>>);

}  // namespace pagoda
