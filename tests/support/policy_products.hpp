// SPDX-License-Identifier: Apache-2.0
/// @file The policies that tests run over: the built-in ones, three quantizers and a layout of a user's own, and the
/// one list of their products.
#pragma once

#include <cmath>
#include <cstdint>
#include <string_view>
#include <tuple>

#include <pagoda/block_storage.hpp>
#include <pagoda/dtype.hpp>
#include <pagoda/layout/heads_tokens_dim.hpp>
#include <pagoda/layout/tokens_heads_dim.hpp>
#include <pagoda/quantizer/fp8_e4m3.hpp>
#include <pagoda/quantizer/fp8_e5m2.hpp>
#include <pagoda/quantizer/hadamard.hpp>
#include <pagoda/quantizer/identity.hpp>
#include <pagoda/quantizer/int4_grouped.hpp>
#include <pagoda/quantizer/int4_per_token.hpp>
#include <pagoda/quantizer/int8_grouped.hpp>
#include <pagoda/quantizer/int8_per_token.hpp>

namespace pagoda_test {

using f32 = pagoda::identity<float>;
using f16 = pagoda::identity<pagoda::half>;
using bf16 = pagoda::identity<pagoda::bfloat16>;
using int8 = pagoda::int8_per_token;
using int4 = pagoda::int4_per_token;
using fp8 = pagoda::fp8_e4m3;
using e5m2 = pagoda::fp8_e5m2;
using int8g32 = pagoda::int8_grouped<32>;
using int4g32 = pagoda::int4_grouped<32>;
template <class Q>
using rotated = pagoda::hadamard<Q>;

/// Every quantizer of the library that does not rotate, and those that are usually rotated.
using plain_quantizers = std::tuple<f32, f16, bf16, fp8, e5m2, int8, int4, int8g32, int4g32>;
using rotated_quantizers = std::tuple<rotated<int8>, rotated<int4>, rotated<int8g32>, rotated<int4g32>, rotated<fp8>,
                                      rotated<e5m2>, rotated<f16>>;
using built_in_quantizers = decltype(std::tuple_cat(plain_quantizers{}, rotated_quantizers{}));

/// The code of the nearest of the levels low to high; NaN gives low.
inline std::int32_t nearest_level(float level, float low, float high) {
  level = level > low ? level : low;
  return static_cast<std::int32_t>(std::nearbyint(level < high ? level : high));
}

/// 8-bit codes around 128, one scale a row; the required members and nothing else.
struct user_int8 {
  using scale_type = pagoda::linear_scale<float>;
  static constexpr std::string_view name = "user_int8";
  static constexpr int bits = 8;
  static constexpr int group = 0;
  static scale_type fit(pagoda::row_stats stats) { return {stats.amax() / 100.0f}; }
  static std::uint32_t encode(float value, scale_type scale) {
    const float level = scale.scale > 0 ? value / scale.scale : 0.0f;
    return static_cast<std::uint32_t>(nearest_level(level, -100.0f, 100.0f) + 128);
  }
  static float codeword(std::uint32_t code) { return static_cast<float>(code) - 128.0f; }
};

/// 4-bit codes from a row's smallest to its largest element; scale and offset are stored in half.
struct user_int4 {
  using scale_type = pagoda::affine_scale<pagoda::half>;
  static constexpr std::string_view name = "user_int4";
  static constexpr int bits = 4;
  static constexpr int group = 0;
  static scale_type fit(pagoda::row_stats stats) {
    return {pagoda::from_float<pagoda::half>((stats.max - stats.min) / 15.0f),
            pagoda::from_float<pagoda::half>(stats.min)};
  }
  static std::uint32_t encode(float value, scale_type scale) {
    const float step = pagoda::to_float(scale.scale);
    const float level = step > 0 ? (value - pagoda::to_float(scale.offset)) / step : 0.0f;
    return static_cast<std::uint32_t>(nearest_level(level, 0.0f, 15.0f));
  }
  static float codeword(std::uint32_t code) { return static_cast<float>(code); }
  /// Half a step, and the rounding of step (15 times) and offset to half.
  static float error_bound(pagoda::row_stats stats) {
    const float range = stats.max - stats.min;
    return range / 30.0f + (range + 2 * stats.amax()) * 0x1p-10f + 0x1p-20f;
  }
};

/// 8-bit codes, one scale for each 16 lanes, with a wide hook.
struct user_int8_grouped {
  using scale_type = pagoda::linear_scale<float>;
  static constexpr std::string_view name = "user_int8g16";
  static constexpr int bits = 8;
  static constexpr int group = 16;
  static scale_type fit(pagoda::row_stats stats) { return int8::fit(stats); }
  static std::uint32_t encode(float value, scale_type scale) { return int8::encode(value, scale); }
  static float codeword(std::uint32_t code) { return int8::codeword(code); }
  static float error_bound(pagoda::row_stats stats) { return int8::error_bound(stats); }
  template <int W>
  static void load_float(const std::byte* codes, pagoda::vec<float, W>& values) {
    int8::load_float<W>(codes, values);
  }
};

/// Keys [head][chunk][slot] of 16 bytes, as vLLM's kernels like them; values [chunk][slot][head] behind them.
struct user_chunked {
  static constexpr std::string_view name = "user_chunked";
  static constexpr pagoda::block_planes place(const pagoda::block_geometry& g) {
    const std::int64_t key_head = g.slots * g.key_row_bytes;
    const std::int64_t keys = pagoda::checked_multiply(g.heads, key_head, "key bytes of a block");
    const std::int64_t values =
        pagoda::checked_multiply(g.heads * g.slots, g.value_row_bytes, "value bytes of a block");
    return {.keys = {.offset = 0, .head = key_head, .slot = 16, .chunk = 16 * g.slots},
            .values = {.offset = keys, .head = 16, .slot = 16 * g.heads, .chunk = 16 * g.heads * g.slots},
            .size_bytes = pagoda::checked_add(keys, values, "bytes of a block")};
  }
};

/// One product of policies. Block sizes are numbers at run time: see block_sizes.
template <class Keys, class Values, class Layout>
struct product {
  using key_quantizer = Keys;
  using value_quantizer = Values;
  using layout = Layout;
  using storage = pagoda::block_storage<Keys, Values, Layout>;
};

inline constexpr std::int32_t block_sizes[] = {1, 16, 64};

template <class Quantizer>
using over_layouts =
    std::tuple<product<Quantizer, Quantizer, pagoda::heads_tokens_dim>,
               product<Quantizer, Quantizer, pagoda::tokens_heads_dim>, product<Quantizer, Quantizer, user_chunked>>;

/// Every quantizer on every layout, and pairs whose keys and values differ.
using all_products = decltype(std::tuple_cat(
    over_layouts<f32>{}, over_layouts<f16>{}, over_layouts<bf16>{}, over_layouts<int8>{}, over_layouts<int4>{},
    over_layouts<fp8>{}, over_layouts<user_int8>{}, over_layouts<user_int4>{}, over_layouts<user_int8_grouped>{},
    std::tuple<product<int8, f16, user_chunked>, product<user_int4, bf16, pagoda::tokens_heads_dim>,
               product<f32, user_int8_grouped, pagoda::heads_tokens_dim>>{}));

using all_quantizers = std::tuple<f32, f16, bf16, int8, int4, fp8, user_int8, user_int4, user_int8_grouped>;
using all_layouts = std::tuple<pagoda::heads_tokens_dim, pagoda::tokens_heads_dim, user_chunked>;

static_assert(pagoda::quantizer<user_int8> && pagoda::quantizer<user_int4> && pagoda::quantizer<user_int8_grouped>);
static_assert(!pagoda::is_vectorized_v<user_int8> && pagoda::is_vectorized_v<user_int8_grouped>);
static_assert(pagoda::block_layout<user_chunked>);

}  // namespace pagoda_test
