// SPDX-License-Identifier: Apache-2.0
/// @file The online softmax of one query row over one tile: dot products become weights.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include <pagoda/attention/online_softmax.hpp>
#include <pagoda/host/tile_kernels.hpp>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"  // clang++ without AVX, at calls that are inlined

namespace pagoda::host::detail {
inline namespace PAGODA_ISA {

using pagoda::detail::horizontal_max;

/// Whether a scale, and an offset, of each row are left out of its elements, to be applied to scores and weights.
template <class Quantizer>
struct folded {
  using scale_type = typename Quantizer::scale_type;
  static constexpr bool scales = has_scale_v<scale_type> && Quantizer::group == 0;
  static constexpr bool offsets = scales && requires(scale_type scale) { scale.offset; };
};

/// What turns one row's dot products into softmax weights. Arrays have tile_tokens elements, with finite padding up to
/// a multiple of 16; those of numbers that a quantizer does not store are not read.
struct softmax_input {
  const float* key_scales = nullptr;
  const float* key_offsets = nullptr;
  const float* value_scales = nullptr;
  const float* value_offsets = nullptr;
  const float* distances = nullptr;    // key position minus query position; null: no ALiBi
  const std::int32_t* mask = nullptr;  // all ones where the rows see the token; null: they see all
  float soft_cap = 0;
};

/// The same for each row.
struct row_input {
  float query_sum = 0;  // of the scaled query, for key_offsets
  float alibi_slope = 0;
};

/// The softmax of one row over the tiles of a chunk.
struct row_state {
  softmax_state softmax;
  float offset = 0;  // sum of weight * value offset, which every lane of the output shares
};

/// cap * tanh(score / cap). Keeps NaN, and gives the cap itself for infinite scores.
PAGODA_ALWAYS_INLINE lanes capped(const lanes& score, float cap) {
  const lanes x = score / cap;
  // Near 0, where 1 - 2 / (exp(2 x) + 1) would lose the digits that x has, the Taylor series is exact to a float.
  const lanes square = x * x;
  lanes series = broadcast<width>(62.0f / 2835.0f);
  series = fma(series, square, broadcast<width>(-17.0f / 315.0f));
  series = fma(series, square, broadcast<width>(2.0f / 15.0f));
  series = fma(series, square, broadcast<width>(-1.0f / 3.0f));
  const lanes small = fma(series * square, x, x);
  const lanes large = 1.0f - 2.0f / (pagoda::detail::exp<width>(x + x) + 1.0f);
  return cap * (square < 0.0625f ? small : large);
}

/// The lanes of a mask, for a choice between two vectors.
PAGODA_ALWAYS_INLINE vec<std::int32_t, width> seen_of(const std::int32_t* mask) {
  vec<std::int32_t, width> seen;
  std::memcpy(&seen, mask, sizeof(seen));
  return seen;
}

/// The scores of Rows rows from their dot products, where they lie; those from count on become -infinity.
/// Shapes: in [Rows]; largest [Rows] receives the largest of each, lane by lane.
template <class KeyQuantizer, int Rows, bool Plain>
PAGODA_ALWAYS_INLINE void finish_scores(float* scores, std::int64_t count, const softmax_input& in,
                                        const row_input* rows, lanes (&largest)[static_cast<std::size_t>(Rows)]) {
  constexpr float lowest = -std::numeric_limits<float>::infinity();
  PAGODA_UNROLL
  for (int r = 0; r < Rows; ++r) largest[r] = broadcast<width>(lowest);
  for (std::int64_t t = 0; t < count; t += width) {
    [[maybe_unused]] lanes scale;
    if constexpr (folded<KeyQuantizer>::scales) load_float<width>(in.key_scales + t, scale);
    [[maybe_unused]] lanes offset;
    if constexpr (folded<KeyQuantizer>::offsets) load_float<width>(in.key_offsets + t, offset);
    PAGODA_UNROLL
    for (int r = 0; r < Rows; ++r) {
      lanes score;
      load_float<width>(scores + r * tile_tokens + t, score);
      if constexpr (folded<KeyQuantizer>::scales) score = score * scale;
      if constexpr (folded<KeyQuantizer>::offsets) score = fma(offset, broadcast<width>(rows[r].query_sum), score);
      if constexpr (!Plain) {
        if (in.soft_cap > 0) score = capped(score, in.soft_cap);
        if (in.distances != nullptr) {
          lanes distance;
          load_float<width>(in.distances + t, distance);
          score = fma(distance, broadcast<width>(rows[r].alibi_slope), score);
        }
      }
      if constexpr (!Plain) {
        if (in.mask != nullptr) score = seen_of(in.mask + t) ? score : broadcast<width>(lowest);
      }
      if (count - t < width) {
        for (std::int64_t i = count - t; i < width; ++i) score[i] = lowest;
      }
      largest[r] = score > largest[r] ? score : largest[r];
      store_float<width>(score, scores + r * tile_tokens + t);
    }
  }
}

/// Rescales what a row has accumulated if the tile has a larger score than all before.
inline void raise_max(float tile_max, row_state& state, float* output, std::int64_t dim) noexcept {
  if (!(tile_max > state.softmax.max)) return;
  const float factor = std::exp(state.softmax.max - tile_max);
  state.softmax.max = tile_max;
  state.softmax.sum *= factor;
  state.offset *= factor;
  const lanes factors = broadcast<width>(factor);
  for (std::int64_t d = 0; d < dim; d += width) {
    lanes old;
    load_float<width>(output + d, old);
    store_float<width>(old * factors, output + d);
  }
}

/// Replaces the dot products of Rows rows with the weights of the values, and rescales what the rows have accumulated.
/// Shapes: scores [Rows, tile_tokens], of which count are given; zero from count to the next multiple of 16 afterwards;
/// rows and states [Rows]; output [Rows, padded(dim)].
template <class KeyQuantizer, class ValueQuantizer, int Rows>
void softmax_tile(float* scores, std::int64_t count, const softmax_input& in, const row_input* rows, row_state* states,
                  float* output, std::int64_t dim) noexcept {
  constexpr float lowest = -std::numeric_limits<float>::infinity();
  for (std::int64_t t = count; t % 16 != 0; ++t) {
    PAGODA_UNROLL
    for (int r = 0; r < Rows; ++r) scores[r * tile_tokens + t] = 0;
  }
  lanes largest[static_cast<std::size_t>(Rows)];
  if (in.soft_cap <= 0 && in.distances == nullptr && in.mask == nullptr) {
    finish_scores<KeyQuantizer, Rows, true>(scores, count, in, rows, largest);
  } else {
    finish_scores<KeyQuantizer, Rows, false>(scores, count, in, rows, largest);
  }
  lanes max[static_cast<std::size_t>(Rows)];
  lanes sum[static_cast<std::size_t>(Rows)];
  lanes offset_sum[static_cast<std::size_t>(Rows)];
  PAGODA_UNROLL
  for (int r = 0; r < Rows; ++r) {
    raise_max(horizontal_max(largest[r]), states[r], output + r * padded(dim), dim);
    // A row whose every score is -infinity has seen nothing: its weights are 0, not NaN.
    max[r] = broadcast<width>(states[r].softmax.max == lowest ? 0.0f : states[r].softmax.max);
    sum[r] = offset_sum[r] = lanes{};
  }
  for (std::int64_t t = 0; t < count; t += width) {
    [[maybe_unused]] lanes scale;
    if constexpr (folded<ValueQuantizer>::scales) load_float<width>(in.value_scales + t, scale);
    [[maybe_unused]] lanes offset;
    if constexpr (folded<ValueQuantizer>::offsets) load_float<width>(in.value_offsets + t, offset);
    PAGODA_UNROLL
    for (int r = 0; r < Rows; ++r) {
      lanes weight;
      load_float<width>(scores + r * tile_tokens + t, weight);
      weight = pagoda::detail::exp_of_nonpositive<width>(weight - max[r]);
      sum[r] = sum[r] + weight;
      if constexpr (folded<ValueQuantizer>::offsets) {
        const bool masked = in.mask != nullptr;
        offset_sum[r] = fma(weight, masked ? (seen_of(in.mask + t) ? offset : lanes{}) : offset, offset_sum[r]);
      }
      if constexpr (folded<ValueQuantizer>::scales) weight = weight * scale;
      // Not 0 times whatever the scale of a token is that the row does not see.
      if (in.mask != nullptr) weight = seen_of(in.mask + t) ? weight : lanes{};
      store_float<width>(weight, scores + r * tile_tokens + t);
    }
  }
  PAGODA_UNROLL
  for (int r = 0; r < Rows; ++r) {
    states[r].softmax.sum += horizontal_sum(sum[r]);
    if constexpr (folded<ValueQuantizer>::offsets) states[r].offset += horizontal_sum(offset_sum[r]);
  }
}

}  // namespace PAGODA_ISA
}  // namespace pagoda::host::detail

#pragma GCC diagnostic pop
