// SPDX-License-Identifier: Apache-2.0
/// @file The generic attention kernel, compiled once for each pair of quantizers that its tests use.
#pragma once

#include <pagoda/kernels/generic_attention.hpp>
#include <pagoda/simt/host_context.hpp>

#include "kernel_calls.hpp"

namespace pagoda_test {

/// 8-bit codes with one half a row: the narrowest scale that there is.
struct user_narrow_scale {
  using scale_type = pagoda::linear_scale<pagoda::half>;
  static constexpr std::string_view name = "user_narrow_scale";
  static constexpr int bits = 8;
  static constexpr int group = 0;
  static scale_type fit(pagoda::row_stats stats) { return {pagoda::from_float<pagoda::half>(stats.amax() / 120.0f)}; }
  static std::uint32_t encode(float value, scale_type scale) {
    const float step = pagoda::to_float(scale.scale);
    return static_cast<std::uint32_t>(nearest_level(step > 0 ? value / step : 0.0f, -127.0f, 127.0f)) & 255u;
  }
  static float codeword(std::uint32_t code) { return static_cast<float>(static_cast<std::int8_t>(code)); }
};

/// 4-bit codes between the ends of each 16 lanes: the widest scale that there is, and an offset for each group.
struct user_wide_scale {
  using scale_type = pagoda::affine_scale<float>;
  static constexpr std::string_view name = "user_wide_scale";
  static constexpr int bits = 4;
  static constexpr int group = 16;
  static scale_type fit(pagoda::row_stats stats) { return {(stats.max - stats.min) / 15.0f, stats.min}; }
  static std::uint32_t encode(float value, scale_type scale) {
    const float level = scale.scale > 0 ? (value - scale.offset) / scale.scale : 0.0f;
    return static_cast<std::uint32_t>(nearest_level(level, 0.0f, 15.0f));
  }
  static float codeword(std::uint32_t code) { return static_cast<float>(code); }
};

template <class KeyQuantizer, class ValueQuantizer>
void run_generic(pagoda::simt::host_context& ctx,
                 const pagoda::kernels::attention_arguments<KeyQuantizer, ValueQuantizer>& args) {
  using pagoda::kernels::generic_attention;
  if (args.view.key_dim <= 256 && args.view.value_dim <= 256) {
    generic_attention<KeyQuantizer, ValueQuantizer, 256>::run(ctx, args);
  } else {
    generic_attention<KeyQuantizer, ValueQuantizer, 576>::run(ctx, args);
  }
}

/// The kernels for narrow and for wide rows as one, with their bodies elsewhere.
template <class KeyQuantizer, class ValueQuantizer>
struct generic_kernel : pagoda::kernels::generic_attention<KeyQuantizer, ValueQuantizer> {
  static void run(pagoda::simt::host_context& ctx,
                  const pagoda::kernels::attention_arguments<KeyQuantizer, ValueQuantizer>& args) {
    run_generic(ctx, args);
  }
};

/// run_kernels with the generic kernel.
template <class Case>
attention_result run_generic(const Case& batch, const pagoda::attention_options& options,
                             pagoda::simt::host_machine& machine, std::int64_t max_grid = 5) {
  using view_type = typename Case::view_type;
  return run_kernels<generic_kernel<typename view_type::key_quantizer, typename view_type::value_quantizer>>(
      batch, options, machine, max_grid);
}

/// How far the kernel's result lies from the reference.
template <class Case>
attention_error generic_error(const Case& batch, const pagoda::attention_options& options = {}) {
  pagoda::simt::host_machine machine;
  return compare(run_generic(batch, options, machine), batch.reference(options), batch.output_shape().dim);
}

#define PAGODA_TEST_FOR_GENERIC_PAIRS(visit) \
  PAGODA_TEST_FOR_SAME_QUANTIZERS(visit);    \
  PAGODA_TEST_FOR_MIXED_QUANTIZERS(visit);   \
  PAGODA_TEST_FOR_SCALE_WIDTHS(visit)
#define PAGODA_TEST_FOR_SCALE_WIDTHS(visit)  \
  visit(user_wide_scale, user_wide_scale);   \
  visit(user_narrow_scale, user_wide_scale); \
  visit(user_wide_scale, int8);              \
  visit(f32, user_narrow_scale)

#define PAGODA_TEST_DECLARE_GENERIC(K, V)                           \
  extern template void run_generic(pagoda::simt::host_context& ctx, \
                                   const pagoda::kernels::attention_arguments<K, V>& args)
#define PAGODA_TEST_DEFINE_GENERIC(K, V) \
  template void run_generic(pagoda::simt::host_context& ctx, const pagoda::kernels::attention_arguments<K, V>& args)

PAGODA_TEST_FOR_GENERIC_PAIRS(PAGODA_TEST_DECLARE_GENERIC);  // defined in generic_kernel.cpp

}  // namespace pagoda_test
