// SPDX-License-Identifier: Apache-2.0
/// @file The inner loops of host attention for few query rows: rows of floats against one tile of keys and values.
///
/// A tile is a list of row pointers, so the kernels know nothing of blocks, layouts or masks. One row's result takes
/// the same operations in the same order however many rows share a pass: passes of 4, 2 and 1 are bitwise alike.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <pagoda/detail/vector_math.hpp>
#include <pagoda/quantizer.hpp>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"  // clang++ without AVX, at calls that are inlined

namespace pagoda::host::detail {
inline namespace PAGODA_ISA {

using pagoda::detail::broadcast;
using pagoda::detail::fma;
using pagoda::detail::horizontal_sum;
using pagoda::detail::horizontal_sum4;
using pagoda::detail::horizontal_sum8;
using pagoda::detail::load_float;
using pagoda::detail::store_float;

/// Floats of one register.
inline constexpr int width = PAGODA_HAS_AVX512 ? 16 : 8;
using lanes = vec<float, width>;

/// Tokens of a tile.
inline constexpr int tile_tokens = 64;

/// Elements of a row of working memory: a multiple of the widest register, so that whole registers fit.
constexpr std::int64_t padded(std::int64_t dim) noexcept {
  return (dim + 15) / 16 * 16;
}

/// The rows of one kv head in a tile: row t begins at base[t] + offset.
struct tile_rows {
  const std::byte* const* base = nullptr;
  std::int64_t offset = 0;

  PAGODA_ALWAYS_INLINE const std::byte* operator[](std::int64_t t) const { return base[t] + offset; }
};

/// Neighbouring bytes of a plane, of head 0.
struct byte_span {
  const std::byte* begin;
  std::int64_t bytes;

  std::int64_t lines() const noexcept { return (bytes + 63) / 64; }
};

/// Cache lines that are read soon. A pass asks for them one by one while it computes, so that they come from memory
/// meanwhile: the hardware's own prefetch stops at the end of each row of a block, and a burst would wait for itself.
struct lines_ahead {
  const byte_span* spans = nullptr;
  std::int64_t head_offset = 0;
  std::int64_t begin = 0;  ///< of the lines of all spans
  std::int64_t end = 0;
  bool to_first_cache = false;

  /// The part of pass number `pass` of some.
  lines_ahead part(std::int64_t pass, std::int64_t passes) const noexcept {
    lines_ahead result = *this;
    result.begin = begin + (end - begin) * pass / passes;
    result.end = begin + (end - begin) * (pass + 1) / passes;
    return result;
  }
};

/// Asks for lines ahead in even steps.
class ahead_steps {
 public:
  ahead_steps(const lines_ahead& lines, std::int64_t steps)
      : span_(lines.spans), head_offset_(lines.head_offset), to_first_cache_(lines.to_first_cache) {
    left_ = lines.end - lines.begin;
    if (left_ == 0) return;
    each_ = (left_ + steps - 1) / std::max<std::int64_t>(1, steps);
    every_ = std::max<std::int64_t>(1, steps / left_);
    wait_ = every_;
    std::int64_t skipped = lines.begin;
    for (; skipped >= span_->lines(); ++span_) skipped -= span_->lines();
    line_ = span_->begin + head_offset_ + 64 * skipped;
    span_end_ = span_->begin + head_offset_ + span_->bytes;
  }

  PAGODA_ALWAYS_INLINE void step() {
    if (--wait_ != 0) return;
    wait_ = every_;
    if (to_first_cache_ && left_ > each_ && line_ + 64 * each_ < span_end_) {
      // No branch a line: where rows are so short, arithmetic is the bound, and every instruction counts.
      const std::byte* line = line_;
      left_ -= each_;
      line_ += 64 * each_;
      for (; line != line_; line += 64) __builtin_prefetch(line, 0, 3);
      return;
    }
    for (std::int64_t n = each_; n != 0 && left_ != 0; --n) {
      if (to_first_cache_) {
        __builtin_prefetch(line_, 0, 3);
      } else {
        __builtin_prefetch(line_, 0, 2);
      }
      --left_;
      line_ += 64;
      if (line_ >= span_end_ && left_ != 0) {
        ++span_;
        line_ = span_->begin + head_offset_;
        span_end_ = line_ + span_->bytes;
      }
    }
  }

 private:
  const byte_span* span_;
  std::int64_t head_offset_;
  bool to_first_cache_;
  const std::byte* line_ = nullptr;
  const std::byte* span_end_ = nullptr;
  std::int64_t left_ = 0;   // lines
  std::int64_t each_ = 0;   // lines at once
  std::int64_t every_ = 1;  // steps
  std::int64_t wait_ = 0;   // steps to go; below 0 if there are no lines
};

/// How often a pass asks: after that many registers of a row of keys, and after that many tokens of a stripe of values.
/// More often costs more than it hides, more rarely the lines come in bursts.
inline constexpr std::int64_t step_lanes = 4;
inline constexpr std::int64_t step_tokens = 4;

/// Rows that were unpacked to floats.
struct float_rows {
  template <int W>
  PAGODA_ALWAYS_INLINE static void load(const std::byte* row, std::int64_t d, vec<float, W>& values) {
    load_float<W>(reinterpret_cast<const float*>(row) + d, values);
  }
};

/// Rows of packed codes, read as codewords.
template <class Quantizer>
struct code_rows {
  template <int W>
  PAGODA_ALWAYS_INLINE static void load(const std::byte* row, std::int64_t d, vec<float, W>& values) {
    static_assert(
        requires(vec<float, W> & lanes) { Quantizer::template load_float<W>(row, lanes); },
        "pagoda: this quantizer's load_float does not take this W: it has to take 8, and 16 with AVX-512");
    vec<float, W> loaded{};  // a loop over its lanes reads what it changes, as compilers see it
    Quantizer::template load_float<W>(row + d * Quantizer::bits / 8, loaded);
    values = loaded;
  }
};

/// Elements d to d + W - 1 of a row; only the first 8 of 16, and zeros, where the row ends there.
template <class Rows, int W = width>
PAGODA_ALWAYS_INLINE void load_lanes(const std::byte* row, std::int64_t d, [[maybe_unused]] std::int64_t dim,
                                     vec<float, W>& values) {
  if constexpr (W == 16) {
    if (d + W > dim) {
      vec<float, 8> last;
      Rows::template load<8>(row, d, last);
      values = pagoda::detail::widened(last);
      return;
    }
  }
  Rows::template load<W>(row, d, values);
}

/// sums[r * Tokens + i] += elements d to d + width - 1 of query r times those of key i.
template <class Keys, int Rows, int Tokens>
PAGODA_ALWAYS_INLINE void multiply_lanes(const float* queries, std::int64_t stride, std::int64_t d, std::int64_t dim,
                                         const std::byte* const (&key_rows)[static_cast<std::size_t>(Tokens)],
                                         lanes (&sums)[static_cast<std::size_t>(Rows * Tokens)]) {
  lanes key[static_cast<std::size_t>(Tokens)];
  PAGODA_UNROLL
  for (int i = 0; i < Tokens; ++i) load_lanes<Keys>(key_rows[i], d, dim, key[i]);
  PAGODA_UNROLL
  for (int r = 0; r < Rows; ++r) {
    lanes query;
    load_float<width>(queries + r * stride + d, query);
    PAGODA_UNROLL
    for (int i = 0; i < Tokens; ++i) sums[r * Tokens + i] = fma(key[i], query, sums[r * Tokens + i]);
  }
}

/// sums[r * Tokens + i] = the lane-wise products of query r and key t + i, added up.
template <class Keys, int Rows, int Tokens>
PAGODA_ALWAYS_INLINE void multiply_rows(const float* queries, std::int64_t dim, const tile_rows& keys, std::int64_t t,
                                        ahead_steps& asked, lanes (&sums)[static_cast<std::size_t>(Rows * Tokens)]) {
  const std::int64_t stride = padded(dim);
  const std::byte* key_rows[static_cast<std::size_t>(Tokens)];
  PAGODA_UNROLL
  for (int i = 0; i < Tokens; ++i) key_rows[i] = keys[t + i];
  PAGODA_UNROLL
  for (int i = 0; i < Rows * Tokens; ++i) sums[i] = lanes{};
  constexpr std::int64_t step = step_lanes * width;
  const std::int64_t full = dim / step * step;
  for (std::int64_t d = 0; d < full; d += step) {
    asked.step();
    PAGODA_UNROLL
    for (int i = 0; i < step_lanes; ++i) {
      multiply_lanes<Keys, Rows, Tokens>(queries, stride, d + i * width, dim, key_rows, sums);
    }
  }
  for (std::int64_t d = full; d < dim; d += width) {
    multiply_lanes<Keys, Rows, Tokens>(queries, stride, d, dim, key_rows, sums);
  }
}

/// Writes eight scores of each of Rows rows. totals[n] holds those of tokens n * 8 / Rows on, 8 / Rows of each row, row
/// by row.
template <int Rows>
PAGODA_ALWAYS_INLINE void store_scores(const vec<float, 8> (&totals)[static_cast<std::size_t>(Rows)], float* scores) {
  if constexpr (Rows == 1) {
    store_float<8>(totals[0], scores);
  } else if constexpr (Rows == 2) {
    store_float<8>(__builtin_shufflevector(totals[0], totals[1], 0, 1, 2, 3, 8, 9, 10, 11), scores);
    store_float<8>(__builtin_shufflevector(totals[0], totals[1], 4, 5, 6, 7, 12, 13, 14, 15), scores + tile_tokens);
  } else {
    static_assert(Rows == 4);
    const vec<float, 8> low01 = __builtin_shufflevector(totals[0], totals[1], 0, 1, 8, 9, 4, 5, 12, 13);
    const vec<float, 8> high01 = __builtin_shufflevector(totals[0], totals[1], 2, 3, 10, 11, 6, 7, 14, 15);
    const vec<float, 8> low23 = __builtin_shufflevector(totals[2], totals[3], 0, 1, 8, 9, 4, 5, 12, 13);
    const vec<float, 8> high23 = __builtin_shufflevector(totals[2], totals[3], 2, 3, 10, 11, 6, 7, 14, 15);
    store_float<8>(__builtin_shufflevector(low01, low23, 0, 1, 2, 3, 8, 9, 10, 11), scores);
    store_float<8>(__builtin_shufflevector(high01, high23, 0, 1, 2, 3, 8, 9, 10, 11), scores + tile_tokens);
    store_float<8>(__builtin_shufflevector(low01, low23, 4, 5, 6, 7, 12, 13, 14, 15), scores + 2 * tile_tokens);
    store_float<8>(__builtin_shufflevector(high01, high23, 4, 5, 6, 7, 12, 13, 14, 15), scores + 3 * tile_tokens);
  }
}

/// Scores of four rows for tokens t to t + Tokens - 1. Shapes: scores [tile_tokens, 4].
template <class Keys, int Tokens>
PAGODA_ALWAYS_INLINE void score_tokens(const float* queries, std::int64_t dim, const tile_rows& keys, std::int64_t t,
                                       ahead_steps& asked, float* scores) {
  lanes sums[static_cast<std::size_t>(4 * Tokens)];
  multiply_rows<Keys, 4, Tokens>(queries, dim, keys, t, asked, sums);
  PAGODA_UNROLL
  for (int i = 0; i < Tokens; ++i) {
    const vec<float, 4> four = horizontal_sum4(sums[i], sums[Tokens + i], sums[2 * Tokens + i], sums[3 * Tokens + i]);
    std::memcpy(scores + 4 * (t + i), &four, sizeof(four));
  }
}

/// score_tile for four rows, three tokens at a time: eight sums would just hide the latency of FMA if its ports always
/// took turns, twelve do in practice, and fill 16 registers with three keys and a query.
template <class Keys>
void score_four_rows(const float* queries, std::int64_t dim, const tile_rows& keys, std::int64_t count, float* scores,
                     const lines_ahead& ahead) noexcept {
  alignas(64) float by_token[4 * tile_tokens];
  ahead_steps asked(ahead, (count / 3 + count % 3) * (dim / (step_lanes * width)));
  const std::int64_t full = count / 3 * 3;
  for (std::int64_t t = 0; t < full; t += 3) score_tokens<Keys, 3>(queries, dim, keys, t, asked, by_token);
  for (std::int64_t t = full; t < count; ++t) score_tokens<Keys, 1>(queries, dim, keys, t, asked, by_token);
  for (std::int64_t t = count; t % 4 != 0; ++t) {
    for (int r = 0; r < 4; ++r) by_token[4 * t + r] = 0;
  }
  for (std::int64_t t = 0; t < count; t += 4) {
    vec<float, 8> low;
    vec<float, 8> high;
    load_float<8>(by_token + 4 * t, low);
    load_float<8>(by_token + 4 * t + 8, high);
    const vec<float, 4> rows[4] = {
        __builtin_shufflevector(low, high, 0, 4, 8, 12), __builtin_shufflevector(low, high, 1, 5, 9, 13),
        __builtin_shufflevector(low, high, 2, 6, 10, 14), __builtin_shufflevector(low, high, 3, 7, 11, 15)};
    PAGODA_UNROLL
    for (int r = 0; r < 4; ++r) std::memcpy(scores + r * tile_tokens + t, &rows[r], sizeof(rows[r]));
  }
}

/// Dot products of Rows queries with all keys of a tile.
/// Shapes: queries [Rows, padded(dim)], zero from dim on; scores [Rows, tile_tokens]; ahead: lines to ask for
/// meanwhile.
template <class Keys, int Rows>
void score_tile(const float* queries, std::int64_t dim, const tile_rows& keys, std::int64_t count, float* scores,
                const lines_ahead& ahead) noexcept {
  if constexpr (Rows == 4) {
    score_four_rows<Keys>(queries, dim, keys, count, scores, ahead);
  } else {
    constexpr int together = 8 / Rows;
    ahead_steps asked(ahead, (count / 8 * Rows + count % 8) * (dim / (step_lanes * width)));
    const std::int64_t full = count / 8 * 8;
    for (std::int64_t t = 0; t < full; t += 8) {
      vec<float, 8> totals[static_cast<std::size_t>(Rows)];
      PAGODA_UNROLL
      for (int n = 0; n < Rows; ++n) {
        lanes sums[8];
        multiply_rows<Keys, Rows, together>(queries, dim, keys, t + n * together, asked, sums);
        totals[n] = horizontal_sum8(sums);
      }
      store_scores<Rows>(totals, scores + t);
    }
    for (std::int64_t t = full; t < count; ++t) {
      lanes sums[static_cast<std::size_t>(Rows)];
      multiply_rows<Keys, Rows, 1>(queries, dim, keys, t, asked, sums);
      PAGODA_UNROLL
      for (int r = 0; r < Rows; ++r) scores[r * tile_tokens + t] = horizontal_sum(sums[r]);
    }
  }
}

/// sums[r * Vectors + v] += weights[r] * a row's elements from d + v * width on.
template <class Values, int Rows, int Vectors>
PAGODA_ALWAYS_INLINE void accumulate_row(const float* weights, const std::byte* row, std::int64_t dim, std::int64_t d,
                                         lanes (&sums)[static_cast<std::size_t>(Rows * Vectors)]) {
  lanes value[static_cast<std::size_t>(Vectors)];
  PAGODA_UNROLL
  for (int v = 0; v < Vectors; ++v) load_lanes<Values>(row, d + v * width, dim, value[v]);
  PAGODA_UNROLL
  for (int r = 0; r < Rows; ++r) {
    const lanes weight = broadcast<width>(weights[r * tile_tokens]);
    PAGODA_UNROLL
    for (int v = 0; v < Vectors; ++v) sums[r * Vectors + v] = fma(value[v], weight, sums[r * Vectors + v]);
  }
}

/// output[r][d to d + width * Vectors) += sum over t of weights[r][t] * value t.
template <class Values, int Rows, int Vectors>
PAGODA_ALWAYS_INLINE void accumulate_stripe(const float* weights, const tile_rows& values, std::int64_t count,
                                            std::int64_t dim, std::int64_t d, float* output, ahead_steps& asked) {
  const std::int64_t stride = padded(dim);
  lanes sums[static_cast<std::size_t>(Rows * Vectors)];
  PAGODA_UNROLL
  for (int i = 0; i < Rows * Vectors; ++i) {
    load_float<width>(output + i / Vectors * stride + d + i % Vectors * width, sums[i]);
  }
  const std::int64_t full = count / step_tokens * step_tokens;
  for (std::int64_t t = 0; t < full; t += step_tokens) {
    asked.step();
    PAGODA_UNROLL
    for (int i = 0; i < step_tokens; ++i) {
      accumulate_row<Values, Rows, Vectors>(weights + t + i, values[t + i], dim, d, sums);
    }
  }
  for (std::int64_t t = full; t < count; ++t) {
    accumulate_row<Values, Rows, Vectors>(weights + t, values[t], dim, d, sums);
  }
  PAGODA_UNROLL
  for (int i = 0; i < Rows * Vectors; ++i) {
    store_float<width>(sums[i], output + i / Vectors * stride + d + i % Vectors * width);
  }
}

/// The most stripes of three registers out of so many, such that stripes of two take the rest.
constexpr std::int64_t stripes_of_three(std::int64_t registers) noexcept {
  const std::int64_t most = registers / 3;
  return registers % 3 == 1 ? std::max<std::int64_t>(0, most - 1) : most;
}

/// Adds the weighted values of a tile to Rows outputs.
/// Shapes: weights [Rows, tile_tokens]; output [Rows, padded(dim)].
template <class Values, int Rows>
void accumulate_tile(const float* weights, const tile_rows& values, std::int64_t count, std::int64_t dim, float* output,
                     const lines_ahead& ahead) noexcept {
  constexpr int together = 8 / Rows;
  constexpr std::int64_t stripe = width * together;
  const std::int64_t threes = Rows == 4 ? stripes_of_three(dim / width) : 0;  // twelve sums, as in score_four_rows
  const std::int64_t rest = dim - threes * 3 * width;
  ahead_steps asked(ahead, count / step_tokens * (threes + rest / stripe + (rest % stripe + width - 1) / width));
  std::int64_t d = 0;
  if constexpr (Rows == 4) {
    for (; d < threes * 3 * width; d += 3 * width) {
      accumulate_stripe<Values, Rows, 3>(weights, values, count, dim, d, output, asked);
    }
  }
  for (; d + stripe <= dim; d += stripe) {
    accumulate_stripe<Values, Rows, together>(weights, values, count, dim, d, output, asked);
  }
  for (; d < dim; d += width) {
    accumulate_stripe<Values, Rows, 1>(weights, values, count, dim, d, output, asked);
  }
}

}  // namespace PAGODA_ISA
}  // namespace pagoda::host::detail

#pragma GCC diagnostic pop
