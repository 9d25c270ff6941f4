// SPDX-License-Identifier: Apache-2.0
/// @file The statistics of a row (or group) that lies over the lanes of a warp: the same numbers that row_codec finds.
#pragma once

#include <cstddef>
#include <cstdint>

#include <pagoda/kernels/attention_arguments.hpp>
#include <pagoda/kernels/row_encoder.hpp>
#include <pagoda/quantizer.hpp>
#include <pagoda/simt/execution_context.hpp>

namespace pagoda::kernels {

/// The smaller of two numbers, in one instruction on the device. Of a zero and a minus zero it is either.
PAGODA_KERNEL_FUNCTION float smaller(float a, float b) {
#if defined(__CUDA_ARCH__)
  return fminf(a, b);
#else
  return b < a ? b : a;
#endif
}

/// The larger of two numbers; see smaller.
PAGODA_KERNEL_FUNCTION float larger(float a, float b) {
#if defined(__CUDA_ARCH__)
  return fmaxf(a, b);
#else
  return b > a ? b : a;
#endif
}

/// The smallest and largest of the numbers that one lane has seen, and whether one was NaN.
struct lane_stats {
  float min = -minus_infinity;
  float max = minus_infinity;
  bool has_nan = false;

  PAGODA_KERNEL_FUNCTION void add(float x) {
    min = smaller(min, x);
    max = larger(max, x);
    has_nan = has_nan || !(x == x);
  }
  PAGODA_KERNEL_FUNCTION void add(const float (&values)[8]) {
    PAGODA_KERNEL_UNROLL
    for (int i = 0; i < 8; ++i) add(values[i]);
  }

  /// Adds the eights 0 to Eights - 1, as far as there are any: `eights` may be less, or more.
  template <int Eights, class Context>
  PAGODA_KERNEL_FUNCTION void add_eights(Context& ctx, element_type type, const std::byte* first, int eights) {
    PAGODA_KERNEL_UNROLL_ONCE
    for (int k = 0; k < Eights && k < eights; k += 2) {
      float values[2][8];  // both are asked for before the first is used
      load_eight(ctx, type, first + 8 * k * element_bytes(type), values[0]);
      const bool has_second = k + 1 < Eights && k + 1 < eights;
      if (has_second) load_eight(ctx, type, first + 8 * (k + 1) * element_bytes(type), values[1]);
      add(values[0]);
      if (has_second) add(values[1]);
    }
  }

  /// Both NaN if any number was: which NaN is not a row_codec's, for hardware keeps no payloads.
  PAGODA_KERNEL_FUNCTION row_stats result() const {
    const float nan = pagoda::detail::float_from_bits(pagoda::detail::canonical_nan_bits);
    return has_nan ? row_stats{nan, nan} : row_stats{min, max};
  }
};

/// Reads one element.
template <class Context>
PAGODA_KERNEL_FUNCTION float load_element(Context& ctx, element_type type, const std::byte* p) {
  if (type == element_type::float32) return ctx.ldg(reinterpret_cast<const float*>(p));
  const std::uint16_t bits = ctx.ldg(reinterpret_cast<const std::uint16_t*>(p));
  return type == element_type::half ? to_float(half{bits}) : to_float(bfloat16{bits});
}

/// Reads consecutive elements one by one and finds their statistics, zeros' signs as row_codec::stats gives them: of
/// equal numbers it takes the first, in the order of its 16 accumulators. No other lane takes part.
template <class Context>
PAGODA_KERNEL_FUNCTION row_stats read_stats(Context& ctx, element_type type, const std::byte* first, int size) {
  lane_stats stats;
  float zero = 0.0f;
  int zero_rank = size * 16;
  const int full = size / 16 * 16;
  PAGODA_KERNEL_UNROLL_ONCE
  for (int i = 0; i < size; ++i) {
    const float x = load_element(ctx, type, first + i * element_bytes(type));
    stats.add(x);
    // Accumulator n takes every 16th element from n on; the first takes what is left over, too.
    const int rank = i < full ? i % 16 * size + i / 16 : full / 16 + i - full;
    if (x == 0.0f && rank < zero_rank) {
      zero = x;
      zero_rank = rank;
    }
  }
  if (stats.min == 0.0f) stats.min = zero;
  if (stats.max == 0.0f) stats.max = zero;
  return stats.result();
}

/// Joins what `Lanes` neighbouring lanes have seen of `size` consecutive elements. Every lane of the warp calls it; a
/// lane without elements brings empty statistics.
/// Requires: Lanes is a power of two, and the lanes begin at a multiple of it.
template <int Lanes, class Context>
PAGODA_KERNEL_FUNCTION row_stats join_stats(Context& ctx, lane_stats stats, element_type type, const std::byte* first,
                                            int size) {
  PAGODA_KERNEL_UNROLL
  for (int distance = Lanes / 2; distance > 0; distance /= 2) {
    stats.min = smaller(stats.min, ctx.shfl_xor(stats.min, distance));
    stats.max = larger(stats.max, ctx.shfl_xor(stats.max, distance));
  }
  const std::uint32_t with_nan = ctx.ballot(stats.has_nan) >> (ctx.lane() / Lanes * Lanes);
  stats.has_nan = (with_nan & (simt::full_mask >> (simt::warp_size - Lanes))) != 0;
  // The sign of a zero is lost in a minimum. Rows whose smallest or largest element is zero are rare.
  if (!stats.has_nan && (stats.min == 0.0f || stats.max == 0.0f)) return read_stats(ctx, type, first, size);
  return stats.result();
}

}  // namespace pagoda::kernels
