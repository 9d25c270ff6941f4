// SPDX-License-Identifier: Apache-2.0
/// @file The inner loops of host attention: query rows against one tile of keys and values.
///
/// A tile is a list of row pointers, so the kernels know nothing of blocks, layouts or masks. One row's result takes
/// the same operations in the same order however many rows share a pass: passes of 4, 2 and 1 are bitwise alike.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

#include <pagoda/attention/online_softmax.hpp>
#include <pagoda/quantizer.hpp>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"  // clang++ without AVX, at calls that are inlined

namespace pagoda::host::detail {
inline namespace PAGODA_ISA {

using pagoda::detail::broadcast;
using pagoda::detail::exp;
using pagoda::detail::fma;
using pagoda::detail::horizontal_max;
using pagoda::detail::horizontal_sum;
using pagoda::detail::horizontal_sum8;
using pagoda::detail::load_float;
using pagoda::detail::store_float;

using lanes = vec<float, 8>;

/// Tokens of a tile.
inline constexpr int tile_tokens = 64;

/// Rows that were unpacked to floats.
struct float_rows {
  PAGODA_ALWAYS_INLINE static void load(const std::byte* row, std::int64_t d, lanes& values) {
    load_float<8>(reinterpret_cast<const float*>(row) + d, values);
  }
};

/// Rows of packed codes, read as codewords.
template <class Quantizer>
struct code_rows {
  PAGODA_ALWAYS_INLINE static void load(const std::byte* row, std::int64_t d, lanes& values) {
    Quantizer::template load_float<8>(row + d * Quantizer::bits / 8, values);
  }
};

/// Rows that the next pass reads. A pass asks for them bit by bit while it computes, so that they come from memory
/// meanwhile: the hardware's own prefetch stops at the end of each row of a block. Names no rows where that does not
/// pay.
struct rows_ahead {
  const std::byte* const* rows = nullptr;
  std::int64_t row_bytes = 0;

  PAGODA_ALWAYS_INLINE void prefetch(std::int64_t begin, std::int64_t end) const {
    if (rows == nullptr) return;
    for (std::int64_t t = begin; t < end; ++t) {
      // Into L2: L1 has no room for a tile more.
      for (std::int64_t b = 0; b < row_bytes; b += 64) __builtin_prefetch(rows[t] + b, 0, 2);
    }
  }
};

/// scores[r][t] = query r . key t, for Rows queries and Tokens keys at once.
template <class Keys, std::int64_t Rows, std::int64_t Tokens>
PAGODA_ALWAYS_INLINE void score_block(const float* queries, std::int64_t dim, const std::byte* const* keys,
                                      float* scores) {
  lanes sums[static_cast<std::size_t>(Rows * Tokens)];
  PAGODA_UNROLL
  for (std::int64_t i = 0; i < Rows * Tokens; ++i) sums[i] = lanes{};
  for (std::int64_t d = 0; d < dim; d += 8) {
    lanes key[static_cast<std::size_t>(Tokens)];
    PAGODA_UNROLL
    for (std::int64_t t = 0; t < Tokens; ++t) Keys::load(keys[t], d, key[t]);
    PAGODA_UNROLL
    for (std::int64_t r = 0; r < Rows; ++r) {
      lanes query;
      load_float<8>(queries + r * dim + d, query);
      PAGODA_UNROLL
      for (std::int64_t t = 0; t < Tokens; ++t) sums[r * Tokens + t] = fma(key[t], query, sums[r * Tokens + t]);
    }
  }
  if constexpr (Rows * Tokens == 8) {
    const lanes total = horizontal_sum8(sums);
    PAGODA_UNROLL
    for (std::int64_t i = 0; i < 8; ++i) scores[i / Tokens * tile_tokens + i % Tokens] = total[i];
  } else {
    PAGODA_UNROLL
    for (std::int64_t i = 0; i < Rows * Tokens; ++i) {
      scores[i / Tokens * tile_tokens + i % Tokens] = horizontal_sum(sums[i]);
    }
  }
}

/// Dot products of Rows queries with all keys of a tile.
/// Shapes: queries [Rows, dim]; scores [Rows, tile_tokens]; ahead, if any, as many rows as keys.
template <class Keys, std::int64_t Rows>
void score_tile(const float* queries, std::int64_t dim, const std::byte* const* keys, std::int64_t count, float* scores,
                const rows_ahead& ahead) noexcept {
  constexpr std::int64_t together = 8 / Rows;  // eight sums fill the registers and hide the latency of FMA
  std::int64_t t = 0;
  for (; t + together <= count; t += together) {
    ahead.prefetch(t, t + together);
    score_block<Keys, Rows, together>(queries, dim, keys + t, scores + t);
  }
  for (; t < count; ++t) score_block<Keys, Rows, 1>(queries, dim, keys + t, scores + t);
}

/// After that many tokens of a stripe some rows ahead are asked for: a larger burst would wait for itself.
inline constexpr std::int64_t prefetch_tokens = 8;

/// output[r][d to d + 8 * Vectors) += sum over t of weights[r][t] * value t.
template <class Values, std::int64_t Rows, std::int64_t Vectors>
PAGODA_ALWAYS_INLINE void accumulate_stripe(const float* weights, const std::byte* const* values, std::int64_t count,
                                            std::int64_t dim, std::int64_t d, float* output, const rows_ahead& ahead,
                                            std::int64_t ahead_begin, std::int64_t ahead_rows) {
  lanes sums[static_cast<std::size_t>(Rows * Vectors)];
  PAGODA_UNROLL
  for (std::int64_t i = 0; i < Rows * Vectors; ++i) {
    load_float<8>(output + i / Vectors * dim + d + i % Vectors * 8, sums[i]);
  }
  for (std::int64_t begin = 0; begin < count; begin += prefetch_tokens) {
    ahead.prefetch(ahead_begin, std::min(ahead_begin + ahead_rows, count));
    ahead_begin += ahead_rows;
    const std::int64_t end = std::min(begin + prefetch_tokens, count);
    for (std::int64_t t = begin; t < end; ++t) {
      lanes value[static_cast<std::size_t>(Vectors)];
      PAGODA_UNROLL
      for (std::int64_t v = 0; v < Vectors; ++v) Values::load(values[t], d + v * 8, value[v]);
      PAGODA_UNROLL
      for (std::int64_t r = 0; r < Rows; ++r) {
        const lanes weight = broadcast<8>(weights[r * tile_tokens + t]);
        PAGODA_UNROLL
        for (std::int64_t v = 0; v < Vectors; ++v) {
          sums[r * Vectors + v] = fma(value[v], weight, sums[r * Vectors + v]);
        }
      }
    }
  }
  PAGODA_UNROLL
  for (std::int64_t i = 0; i < Rows * Vectors; ++i) {
    store_float<8>(sums[i], output + i / Vectors * dim + d + i % Vectors * 8);
  }
}

/// Adds the weighted values of a tile to Rows outputs.
/// Shapes: weights [Rows, tile_tokens]; output [Rows, dim]; ahead, if any, as many rows as values.
template <class Values, std::int64_t Rows>
void accumulate_tile(const float* weights, const std::byte* const* values, std::int64_t count, std::int64_t dim,
                     float* output, const rows_ahead& ahead) noexcept {
  constexpr std::int64_t together = 8 / Rows;
  const std::int64_t steps = (count + prefetch_tokens - 1) / prefetch_tokens;  // of a stripe
  const std::int64_t all_steps = std::max<std::int64_t>(1, steps * (dim / (8 * together)));
  const std::int64_t ahead_rows = (count + all_steps - 1) / all_steps;
  std::int64_t asked = 0;
  std::int64_t d = 0;
  for (; d + 8 * together <= dim; d += 8 * together) {
    accumulate_stripe<Values, Rows, together>(weights, values, count, dim, d, output, ahead, asked, ahead_rows);
    asked += steps * ahead_rows;
  }
  for (; d < dim; d += 8) accumulate_stripe<Values, Rows, 1>(weights, values, count, dim, d, output, {}, 0, 0);
}

/// What turns one row's dot products into softmax weights. Arrays have tile_tokens elements, with finite padding up to
/// a multiple of 8; null where the quantizer stores no such number.
struct softmax_input {
  const float* key_scales = nullptr;
  const float* key_offsets = nullptr;
  const float* value_scales = nullptr;
  const float* value_offsets = nullptr;
  const float* distances = nullptr;  // key position minus query position; null: no ALiBi
  float query_sum = 0;               // of the scaled query, for key_offsets
  float alibi_slope = 0;
  float soft_cap = 0;
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
  lanes series = broadcast<8>(62.0f / 2835.0f);
  series = fma(series, square, broadcast<8>(-17.0f / 315.0f));
  series = fma(series, square, broadcast<8>(2.0f / 15.0f));
  series = fma(series, square, broadcast<8>(-1.0f / 3.0f));
  const lanes small = fma(series * square, x, x);
  const lanes large = 1.0f - 2.0f / (exp(x + x) + 1.0f);
  return cap * (square < 0.0625f ? small : large);
}

/// Replaces a row's dot products with the weights of its values, and rescales what the row has accumulated.
/// Shapes: scores [tile_tokens], of which count are given; output [dim].
inline void softmax_tile(float* scores, std::int64_t count, const softmax_input& in, row_state& state, float* output,
                         std::int64_t dim) noexcept {
  constexpr float lowest = -std::numeric_limits<float>::infinity();
  for (std::int64_t t = count; t % 8 != 0; ++t) scores[t] = 0;
  lanes largest = broadcast<8>(lowest);
  for (std::int64_t t = 0; t < count; t += 8) {
    lanes score;
    load_float<8>(scores + t, score);
    if (in.key_scales != nullptr) {
      lanes scale;
      load_float<8>(in.key_scales + t, scale);
      score = score * scale;
    }
    if (in.key_offsets != nullptr) {
      lanes offset;
      load_float<8>(in.key_offsets + t, offset);
      score = fma(offset, broadcast<8>(in.query_sum), score);
    }
    if (in.soft_cap > 0) score = capped(score, in.soft_cap);
    if (in.distances != nullptr) {
      lanes distance;
      load_float<8>(in.distances + t, distance);
      score = fma(distance, broadcast<8>(in.alibi_slope), score);
    }
    for (std::int64_t i = count - t; i < 8; ++i) score[i] = lowest;
    largest = score > largest ? score : largest;
    store_float<8>(score, scores + t);
  }
  const float tile_max = horizontal_max(largest);
  if (tile_max > state.softmax.max) {
    const float factor = std::exp(state.softmax.max - tile_max);
    state.softmax.max = tile_max;
    state.softmax.sum *= factor;
    state.offset *= factor;
    const lanes factors = broadcast<8>(factor);
    for (std::int64_t d = 0; d < dim; d += 8) {
      lanes old;
      load_float<8>(output + d, old);
      store_float<8>(old * factors, output + d);
    }
  }
  // A row whose every score is -infinity has seen nothing: its weights are 0, not NaN.
  const lanes max = broadcast<8>(state.softmax.max == lowest ? 0.0f : state.softmax.max);
  lanes sum{};
  lanes offset_sum{};
  for (std::int64_t t = 0; t < count; t += 8) {
    lanes weight;
    load_float<8>(scores + t, weight);
    weight = exp(weight - max);
    sum = sum + weight;
    if (in.value_offsets != nullptr) {
      lanes offset;
      load_float<8>(in.value_offsets + t, offset);
      offset_sum = fma(weight, offset, offset_sum);
    }
    if (in.value_scales != nullptr) {
      lanes scale;
      load_float<8>(in.value_scales + t, scale);
      weight = weight * scale;
    }
    store_float<8>(weight, scores + t);
  }
  state.softmax.sum += horizontal_sum(sum);
  state.offset += horizontal_sum(offset_sum);
}

}  // namespace PAGODA_ISA
}  // namespace pagoda::host::detail

#pragma GCC diagnostic pop
