// SPDX-License-Identifier: Apache-2.0
/// @file The inner loops of host attention in 16-bit integers: for quantizers whose codewords are whole numbers.
///
/// Queries and weights are rounded to 16 bits with one scale a row; products are summed exactly in 32 bits, pair by
/// pair. Scales of keys and values are applied outside, as everywhere.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#include <pagoda/detail/vector_int16.hpp>
#include <pagoda/host/tile_kernels.hpp>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"  // clang++ without AVX, at calls that are inlined

namespace pagoda::host::detail {
inline namespace PAGODA_ISA {

using pagoda::detail::add_wrapping;
using pagoda::detail::multiply_add_pairs;
using pagoda::detail::multiply_pairs;
using pagoda::detail::subtract_wrapping;

/// Whether the integer loops are compiled: only where they are faster than the others.
inline constexpr bool has_int16_unit = PAGODA_HAS_AVX2;

using shorts = vec<std::int16_t, 2 * width>;
using integers = vec<std::int32_t, width>;

/// The largest query in 16 bits such that no dot product with codewords up to `limit` leaves 32 bits. Until the bias is
/// taken off, sums may.
constexpr std::int32_t int16_query_limit(std::int64_t dim, float limit) noexcept {
  const std::int64_t fits = std::numeric_limits<std::int32_t>::max() / (dim * static_cast<std::int64_t>(limit));
  return fits < 32767 ? static_cast<std::int32_t>(fits) : 32767;
}

/// Rounds a row of floats to integers up to `limit`. Returns the scale; NaN where an element is not finite, or all are
/// so small (below 2^-110) that the scale would be no normal float: then the integers are 0.
/// Shapes: from [padded(dim)], zero from dim on; to [padded(dim)].
inline float round_to_int16(const float* from, std::int64_t dim, std::int32_t limit, std::int16_t* to) noexcept {
  lanes largest{};
  lanes sum{};  // NaN and infinities stay in it, whatever a maximum makes of them
  for (std::int64_t d = 0; d < dim; d += width) {
    lanes value;
    load_float<width>(from + d, value);
    const lanes magnitude = value < 0.0f ? -value : value;
    largest = magnitude > largest ? magnitude : largest;
    sum = sum + (value - value);
  }
  const float amax = pagoda::detail::horizontal_max(largest);
  const float poison = horizontal_sum(sum);
  const bool usable = poison == 0.0f && amax >= 0x1p-110f;
  const lanes factor = broadcast<width>(usable ? static_cast<float>(limit) / amax : 0.0f);
  for (std::int64_t d = 0; d < padded(dim); d += width) {
    lanes value{};
    if (usable) load_float<width>(from + d, value);
    // Adding 1.5 * 2^23 rounds to the nearest integer and leaves it in the low bits.
    const integers level = __builtin_bit_cast(integers, value * factor + 12582912.0f);
    const auto narrow = __builtin_convertvector(level, vec<std::int16_t, width>);
    std::memcpy(to + d, &narrow, sizeof(narrow));
  }
  if (usable) return amax / static_cast<float>(limit);
  return amax == 0.0f && poison == 0.0f ? 0.0f : std::numeric_limits<float>::quiet_NaN();
}

/// Codewords d to d + W - 1 of a row, and the bias; only the first 16 of 32, and zeros, where the row ends with them.
/// Rows are padded to 16 bytes, so a multiple of 16 codes may always be read.
template <class Quantizer, int W = 2 * width>
PAGODA_ALWAYS_INLINE void load_shorts(const std::byte* row, std::int64_t d, [[maybe_unused]] std::int64_t dim,
                                      vec<std::int16_t, W>& values) {
  const std::byte* from = row + d * Quantizer::bits / 8;
  if constexpr (W == 32) {
    if (d + 16 >= dim) {
      vec<std::int16_t, 16> last{};
      Quantizer::template load_int16<16>(from, last);
      values = vec<std::int16_t, W>{};
      std::memcpy(&values, &last, sizeof(last));
      return;
    }
  }
  static_assert(
      requires(vec<std::int16_t, W> & lanes) { Quantizer::template load_int16<W>(from, lanes); },
      "pagoda: this quantizer's load_int16 does not take this W: it has to take 16, and 32 with AVX-512");
  vec<std::int16_t, W> loaded{};  // as in code_rows
  Quantizer::template load_int16<W>(from, loaded);
  values = loaded;
}

/// The sum of `size` integers, a multiple of 16. Requires: it fits 32 bits.
inline std::int32_t sum_of(const std::int16_t* values, std::int64_t size) noexcept {
  vec<std::int32_t, 8> sums{};
  for (std::int64_t i = 0; i < size; i += 16) {
    vec<std::int16_t, 16> next;
    std::memcpy(&next, values + i, sizeof(next));
    sums += multiply_pairs(next, vec<std::int16_t, 16>{} + std::int16_t{1});
  }
  std::int32_t sum = 0;
  for (int i = 0; i < 8; ++i) sum += sums[i];
  return sum;
}

/// Lane i of the result is the sum of a[i], modulo 2^32.
PAGODA_ALWAYS_INLINE vec<std::int32_t, 8> integer_sum8(const integers (&a)[8]) {
#if PAGODA_HAS_AVX2
  __m256i v[8];
  for (int i = 0; i < 8; ++i) {
#if PAGODA_HAS_AVX512
    const auto low = __builtin_shufflevector(a[i], a[i], 0, 1, 2, 3, 4, 5, 6, 7);
    const auto high = __builtin_shufflevector(a[i], a[i], 8, 9, 10, 11, 12, 13, 14, 15);
    v[i] = __m256i(add_wrapping<8>(low, high));
#else
    v[i] = __m256i(a[i]);
#endif
  }
  const __m256i quads0123 = _mm256_hadd_epi32(_mm256_hadd_epi32(v[0], v[1]), _mm256_hadd_epi32(v[2], v[3]));
  const __m256i quads4567 = _mm256_hadd_epi32(_mm256_hadd_epi32(v[4], v[5]), _mm256_hadd_epi32(v[6], v[7]));
  const __m256i low = _mm256_permute2x128_si256(quads0123, quads4567, 0x20);
  const __m256i high = _mm256_permute2x128_si256(quads0123, quads4567, 0x31);
  return __builtin_bit_cast(vec<std::int32_t, 8>, _mm256_add_epi32(low, high));
#else
  vec<std::uint32_t, 8> result{};
  for (int i = 0; i < 8; ++i) {
    for (int j = 0; j < width; ++j) result[i] += static_cast<std::uint32_t>(a[i][j]);
  }
  return __builtin_bit_cast(vec<std::int32_t, 8>, result);
#endif
}

/// sums[r * Tokens + i] += elements d to d + 2 * width - 1 of query r times those of key i, in pairs.
template <class KeyQuantizer, int Rows, int Tokens>
PAGODA_ALWAYS_INLINE void multiply_shorts(const std::int16_t* queries, std::int64_t stride, std::int64_t d,
                                          std::int64_t dim,
                                          const std::byte* const (&key_rows)[static_cast<std::size_t>(Tokens)],
                                          integers (&sums)[static_cast<std::size_t>(Rows * Tokens)]) {
  shorts key[static_cast<std::size_t>(Tokens)];
  PAGODA_UNROLL
  for (int i = 0; i < Tokens; ++i) load_shorts<KeyQuantizer>(key_rows[i], d, dim, key[i]);
  PAGODA_UNROLL
  for (int r = 0; r < Rows; ++r) {
    shorts query;
    std::memcpy(&query, queries + r * stride + d, sizeof(query));
    PAGODA_UNROLL
    for (int i = 0; i < Tokens; ++i) {
      sums[r * Tokens + i] = multiply_add_pairs(sums[r * Tokens + i], key[i], query);
    }
  }
}

/// Dot products of Rows rounded queries with all keys of a tile, scaled back: see score_tile.
/// Shapes: queries [Rows, padded(dim)] and their scales [Rows]; scores [Rows, tile_tokens].
template <class KeyQuantizer, int Rows>
void score_tile_int16(const std::int16_t* queries, const float* query_scales, std::int64_t dim, const tile_rows& keys,
                      std::int64_t count, float* scores, const lines_ahead& ahead) noexcept {
  constexpr int together = 8 / Rows;
  const std::int64_t stride = padded(dim);
  vec<float, 8> scale{};
  vec<std::int32_t, 8> bias{};  // of the sums
  for (int r = 0; r < Rows; ++r) {
    std::int64_t sum = 0;
    if constexpr (int16_bias_v<KeyQuantizer> != 0) sum = sum_of(queries + r * stride, stride);
    for (int i = r * together; i < (r + 1) * together; ++i) {
      scale[i] = query_scales[r];
      bias[i] = static_cast<std::int32_t>(sum * int16_bias_v<KeyQuantizer>);
    }
  }
  constexpr std::int64_t step = step_lanes * width;
  const std::int64_t full = dim / step * step;
  ahead_steps asked(ahead, (count + 7) / 8 * Rows * (dim / step));
  for (std::int64_t t = 0; t < count; t += 8) {
    vec<float, 8> totals[static_cast<std::size_t>(Rows)];
    PAGODA_UNROLL
    for (int n = 0; n < Rows; ++n) {
      const std::int64_t first = t + n * together;
      const std::byte* rows[static_cast<std::size_t>(together)];
      // Past the tile's end the last key is read again; those scores are not used.
      PAGODA_UNROLL
      for (int i = 0; i < together; ++i) rows[i] = keys[std::min(first + i, count - 1)];
      integers sums[8];
      PAGODA_UNROLL
      for (int i = 0; i < 8; ++i) sums[i] = integers{};
      for (std::int64_t d = 0; d < full; d += step) {
        asked.step();
        multiply_shorts<KeyQuantizer, Rows, together>(queries, stride, d, dim, rows, sums);
        multiply_shorts<KeyQuantizer, Rows, together>(queries, stride, d + 2 * width, dim, rows, sums);
      }
      if (full < dim) {
        multiply_shorts<KeyQuantizer, Rows, together>(queries, stride, full, dim, rows, sums);
        if (full + 2 * width < dim) {
          multiply_shorts<KeyQuantizer, Rows, together>(queries, stride, full + 2 * width, dim, rows, sums);
        }
      }
      totals[n] = __builtin_convertvector(subtract_wrapping<8>(integer_sum8(sums), bias), vec<float, 8>) * scale;
    }
    store_scores<Rows>(totals, scores + t);
  }
}

/// Pairs of the elements of two rows, register by register as the hardware interleaves them.
PAGODA_ALWAYS_INLINE void interleave(const shorts& first, const shorts& second, shorts (&pairs)[2]) {
#if PAGODA_HAS_AVX512
  pairs[0] = __builtin_bit_cast(shorts, _mm512_maskz_unpacklo_epi16(0xffffffffu, __m512i(first), __m512i(second)));
  pairs[1] = __builtin_bit_cast(shorts, _mm512_maskz_unpackhi_epi16(0xffffffffu, __m512i(first), __m512i(second)));
#elif PAGODA_HAS_AVX2
  pairs[0] = __builtin_bit_cast(shorts, _mm256_unpacklo_epi16(__m256i(first), __m256i(second)));
  pairs[1] = __builtin_bit_cast(shorts, _mm256_unpackhi_epi16(__m256i(first), __m256i(second)));
#else
  for (int i = 0; i < 2 * width; ++i) {
    pairs[i / width][2 * i % (2 * width)] = first[i];
    pairs[i / width][2 * i % (2 * width) + 1] = second[i];
  }
#endif
}

/// The sums of such pairs less the bias, as floats in the order of the elements.
PAGODA_ALWAYS_INLINE void in_order(const integers (&sums)[2], std::int32_t bias, lanes (&result)[2]) {
  const lanes a = __builtin_convertvector(sums[0] - bias, lanes);
  const lanes b = __builtin_convertvector(sums[1] - bias, lanes);
#if PAGODA_HAS_AVX512
  result[0] = __builtin_shufflevector(a, b, 0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23);
  result[1] = __builtin_shufflevector(a, b, 8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28, 29, 30, 31);
#elif PAGODA_HAS_AVX2
  result[0] = __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11);
  result[1] = __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15);
#else
  result[0] = a;
  result[1] = b;
#endif
}

/// sums += tokens t and t + 1 of a tile, weighted, in pairs; past the end token t + 1 is any, of weight 0.
template <class ValueQuantizer, int Rows, int Vectors>
PAGODA_ALWAYS_INLINE void accumulate_pair(const std::int16_t* weights, const std::byte* first_row,
                                          const std::byte* second_row, std::int64_t dim, std::int64_t d,
                                          integers (&sums)[static_cast<std::size_t>(Rows * Vectors)][2]) {
  shorts pairs[static_cast<std::size_t>(Vectors)][2];
  PAGODA_UNROLL
  for (int v = 0; v < Vectors; ++v) {
    shorts first;
    shorts second;
    load_shorts<ValueQuantizer>(first_row, d + v * 2 * width, dim, first);
    load_shorts<ValueQuantizer>(second_row, d + v * 2 * width, dim, second);
    interleave(first, second, pairs[v]);
  }
  PAGODA_UNROLL
  for (int r = 0; r < Rows; ++r) {
    std::int32_t both;
    std::memcpy(&both, weights + r * tile_tokens, sizeof(both));
    const shorts weight = __builtin_bit_cast(shorts, integers{} + both);
    PAGODA_UNROLL
    for (int v = 0; v < Vectors; ++v) {
      PAGODA_UNROLL
      for (int half_of_pairs = 0; half_of_pairs < 2; ++half_of_pairs) {
        integers& sum = sums[r * Vectors + v][half_of_pairs];
        sum = multiply_add_pairs(sum, pairs[v][half_of_pairs], weight);
      }
    }
  }
}

/// output[r][d to d + 2 * width) += scales[r] * (sum over t of weights[r][t] * value t, less biases[r]).
template <class ValueQuantizer, int Rows, int Vectors>
PAGODA_ALWAYS_INLINE void accumulate_stripe_int16(const std::int16_t* weights, const float* scales,
                                                  const std::int32_t* biases, const tile_rows& values,
                                                  std::int64_t count, std::int64_t dim, std::int64_t d, float* output,
                                                  ahead_steps& asked) {
  const std::int64_t stride = padded(dim);
  integers sums[static_cast<std::size_t>(Rows * Vectors)][2];
  PAGODA_UNROLL
  for (int i = 0; i < Rows * Vectors; ++i) sums[i][0] = sums[i][1] = integers{};
  const std::int64_t full = count / step_tokens * step_tokens;
  for (std::int64_t t = 0; t < full; t += step_tokens) {
    asked.step();
    PAGODA_UNROLL
    for (int i = 0; i < step_tokens; i += 2) {
      accumulate_pair<ValueQuantizer, Rows, Vectors>(weights + t + i, values[t + i], values[t + i + 1], dim, d, sums);
    }
  }
  for (std::int64_t t = full; t < count; t += 2) {
    accumulate_pair<ValueQuantizer, Rows, Vectors>(weights + t, values[t], values[std::min(t + 1, count - 1)], dim, d,
                                                   sums);
  }
  PAGODA_UNROLL
  for (int i = 0; i < Rows * Vectors; ++i) {
    const lanes scale = broadcast<width>(scales[i / Vectors]);
    float* to = output + i / Vectors * stride + d + i % Vectors * 2 * width;
    lanes sum[2];
    in_order(sums[i], biases[i / Vectors], sum);
    PAGODA_UNROLL
    for (int half_of_stripe = 0; half_of_stripe < 2; ++half_of_stripe) {
      if (width == 16 && half_of_stripe == 1 && d + i % Vectors * 2 * width + width >= padded(dim)) break;
      lanes old;
      load_float<width>(to + half_of_stripe * width, old);
      store_float<width>(fma(sum[half_of_stripe], scale, old), to + half_of_stripe * width);
    }
  }
}

/// Adds the weighted values of a tile to Rows outputs: see accumulate_tile. Sums over the 64 tokens fit 32 bits, the
/// bias included: 64 * 32767 * (256 + 256) is less than 2^31.
/// Shapes: weights [Rows, tile_tokens], zero from count on; scales [Rows]; output [Rows, padded(dim)].
template <class ValueQuantizer, int Rows>
void accumulate_tile_int16(const std::int16_t* weights, const float* scales, const tile_rows& values,
                           std::int64_t count, std::int64_t dim, float* output, const lines_ahead& ahead) noexcept {
  constexpr int together = 4 / Rows;
  constexpr std::int64_t stripe = 2 * width * together;
  ahead_steps asked(ahead, count / step_tokens * (dim / stripe + (dim % stripe + 2 * width - 1) / (2 * width)));
  std::int32_t biases[static_cast<std::size_t>(Rows)]{};
  if constexpr (int16_bias_v<ValueQuantizer> != 0) {
    for (int r = 0; r < Rows; ++r) {
      biases[r] = int16_bias_v<ValueQuantizer> * sum_of(weights + r * tile_tokens, padded(count));
    }
  }
  std::int64_t d = 0;
  for (; d + stripe <= dim; d += stripe) {
    accumulate_stripe_int16<ValueQuantizer, Rows, together>(weights, scales, biases, values, count, dim, d, output,
                                                            asked);
  }
  for (; d < dim; d += 2 * width) {
    accumulate_stripe_int16<ValueQuantizer, Rows, 1>(weights, scales, biases, values, count, dim, d, output, asked);
  }
}

}  // namespace PAGODA_ISA
}  // namespace pagoda::host::detail

#pragma GCC diagnostic pop
