// SPDX-License-Identifier: Apache-2.0
/// @file 16-token tiles of coded rows in shared memory, and the tensor-core products over them.
///
/// Tokens are the 16 rows of an mma and query rows its 8 columns, so that a key is read and unpacked once for all
/// queries that share it. Codes stay packed in shared memory; they become pairs of 16-bit floats in registers.
/// Source: KV on M, queries on N: LMDeploy's TurboMind, kernels/attention/impl_81616.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include <pagoda/detail/half2.hpp>
#include <pagoda/kernels/attention_arguments.hpp>
#include <pagoda/quantizer.hpp>
#include <pagoda/simt/execution_context.hpp>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion"  // g++ 12, at array bounds that are template arguments

namespace pagoda::kernels {

/// Tokens of a tile: the rows of one mma.
inline constexpr int tile_rows = 16;

/// How the coded rows of one head lie in shared memory: in 16-byte chunks, placed so that the eight lanes of a phase
/// meet different banks. A chunk may hold codes past Dim; queries are zero there.
template <class Quantizer, int Dim>
struct code_tile {
  static_assert(Dim % 16 == 0 && Dim >= 16 && Dim <= 256, "pagoda: tensor cores take head dims of 16 to 256, by 16");

  static constexpr int chunks = static_cast<int>(row_bytes<Quantizer>(Dim)) / 16;  // of a row
  static constexpr int word_codes = 32 / Quantizer::bits;
  static constexpr int word_pairs = 16 / Quantizer::bits;
  static constexpr int padded_dim = chunks * 4 * word_codes;
  static constexpr int mmas = padded_dim / 16;
  static constexpr int scale_bytes = static_cast<int>(scale_bytes_v<typename Quantizer::scale_type>);

  // Rows of whole 128-byte lines swap chunks; shorter or odd ones are spread by a gap behind each row.
  static constexpr bool whole_lines = chunks % 8 == 0;
  static constexpr int key_stride = chunks > 8 && (chunks % 8 == 2 || chunks % 8 == 3) ? chunks / 8 * 8 + 4 : chunks;
  static constexpr int value_stride = whole_lines || chunks == 4 || chunks == 2 ? chunks : chunks | 1;

  /// The byte offset of a chunk of row `row | row_bits`, `chunk | chunk_bits`: the parts that a thread knows at run
  /// time and constants with other bits, so that the exclusive ors of the constants are made when compiling.
  PAGODA_HOST_DEVICE static constexpr int key_place(int row, int chunk, int row_bits = 0, int chunk_bits = 0) noexcept {
    return place(key_stride, row, chunk, row_bits, chunk_bits, key_swap(row), key_swap(row_bits));
  }
  PAGODA_HOST_DEVICE static constexpr int value_place(int row, int chunk, int row_bits = 0,
                                                      int chunk_bits = 0) noexcept {
    return place(value_stride, row, chunk, row_bits, chunk_bits, value_swap(row), value_swap(row_bits));
  }
  PAGODA_HOST_DEVICE static constexpr int key_bytes(int rows) noexcept { return rows * key_stride * 16; }
  PAGODA_HOST_DEVICE static constexpr int value_bytes(int rows) noexcept { return rows * value_stride * 16; }

  PAGODA_HOST_DEVICE static constexpr int key_swap(int row) noexcept { return whole_lines ? (row & 1) << 2 : 0; }
  PAGODA_HOST_DEVICE static constexpr int value_swap(int row) noexcept {
    return whole_lines ? row & 7 : chunks == 4 ? (row >> 1) & 3 : chunks == 2 ? (row >> 2) & 1 : 0;
  }

  /// The element that row `m` of the `i`-th value product is, and the pair of a word that it was unpacked from.
  PAGODA_HOST_DEVICE static constexpr int value_element(int i, int m) noexcept {
    if constexpr (word_codes == 2) return i * 16 + m;
    if constexpr (word_codes == 4) return i * 16 + 2 * (m & 7) + (m >> 3);
    return (i >> 1) * 32 + 4 * (m & 7) + 2 * (i & 1) + (m >> 3);
  }
  PAGODA_HOST_DEVICE static constexpr int value_pair(int i, int m) noexcept {
    if constexpr (word_codes == 2) return 0;
    if constexpr (word_codes == 4) return m >> 3;
    return 2 * (i & 1) + (m >> 3);
  }

 private:
  PAGODA_HOST_DEVICE static constexpr int place(int stride, int row, int chunk, int row_bits, int chunk_bits, int swap,
                                                int swap_bits) noexcept {
    return row * stride * 16 + ((chunk ^ swap) ^ ((chunk_bits ^ swap_bits) & 7)) * 16 + row_bits * stride * 16 +
           ((chunk_bits ^ swap_bits) & ~7) * 16;
  }
};

/// 2^exponent, for small exponents.
PAGODA_HOST_DEVICE constexpr float power_of_two(int exponent) noexcept {
  return __builtin_bit_cast(float, static_cast<std::uint32_t>(127 + exponent) << 23);
}

/// The largest exponent of a word's pairs: queries are scaled down to it, so that none overflows.
template <class Quantizer>
PAGODA_HOST_DEVICE constexpr int common_exponent() noexcept {
  int most = Quantizer::half2_exponent(0);
  for (int i = 1; i < 16 / Quantizer::bits; ++i) {
    if (Quantizer::half2_exponent(i) > most) most = Quantizer::half2_exponent(i);
  }
  return most;
}

/// Rounds two floats to the element type of Q's products.
template <class Quantizer>
PAGODA_KERNEL_FUNCTION std::uint32_t pack_pair(float low, float high) {
  if constexpr (std::is_same_v<typename Quantizer::half2_type, bfloat16>) {
    return pagoda::detail::pack_bfloat162(low, high);
  } else {
    return pagoda::detail::pack_half2(low, high);
  }
}

/// Unpacks Words words of rows g and g + 8 and multiplies them with the lane's query words from `first` on.
template <class Quantizer, int Words, int Columns, int Pairs, class Context>
PAGODA_KERNEL_FUNCTION void multiply_words(Context& ctx, const std::uint32_t (&low)[Words],
                                           const std::uint32_t (&high)[Words],
                                           const std::uint32_t (&query)[Columns][Pairs], int first,
                                           float (&scores)[Columns][4]) {
  constexpr int pairs = 16 / Quantizer::bits;
  std::uint32_t a[Words * pairs];
  std::uint32_t b[Words * pairs];
  PAGODA_KERNEL_UNROLL
  for (int w = 0; w < Words; ++w) {
    std::uint32_t unpacked[pairs];
    Quantizer::unpack_half2(low[w], unpacked);
    PAGODA_KERNEL_UNROLL
    for (int i = 0; i < pairs; ++i) a[w * pairs + i] = unpacked[i];
    Quantizer::unpack_half2(high[w], unpacked);
    PAGODA_KERNEL_UNROLL
    for (int i = 0; i < pairs; ++i) b[w * pairs + i] = unpacked[i];
  }
  PAGODA_KERNEL_UNROLL
  for (int i = 0; i < Words * pairs; i += 2) {
    const std::uint32_t rows[4] = {a[i], b[i], a[i + 1], b[i + 1]};
    PAGODA_KERNEL_UNROLL
    for (int n = 0; n < Columns; ++n) {
      const std::uint32_t columns[2] = {query[n][first + i], query[n][first + i + 1]};
      ctx.mma_m16n8k16(typename Quantizer::half2_type{}, scores[n], rows, columns);
    }
  }
}

/// scores += tile * queries. The order of elements within the products is that of the codes in memory, for keys and
/// queries alike: lane 4g + q takes the q-th part of every 64 bytes of rows g and g + 8.
/// Shapes: query[Columns][padded_dim / 8]; scores as the accumulators of mma_m16n8k16: tokens by query rows.
template <class Quantizer, int Dim, int Columns, class Context>
PAGODA_KERNEL_FUNCTION void multiply_keys(
    Context& ctx, simt::shared_array_t<Context, std::byte> tile, int offset,
    const std::uint32_t (&query)[Columns][code_tile<Quantizer, Dim>::padded_dim / 8], float (&scores)[Columns][4]) {
  using shape = code_tile<Quantizer, Dim>;
  constexpr int pairs = shape::word_pairs;
  const int g = ctx.lane() >> 2;
  const int q = ctx.lane() & 3;
  PAGODA_KERNEL_UNROLL
  for (int j = 0; j < shape::chunks / 4; ++j) {
    simt::words4 low;
    simt::words4 high;
    ctx.lds(tile, offset + shape::key_place(g, q, 0, 4 * j), low);
    ctx.lds(tile, offset + shape::key_place(g, q, 8, 4 * j), high);
    multiply_words<Quantizer, 4>(ctx, low.w, high.w, query, j * 4 * pairs, scores);
  }
  constexpr int whole = shape::chunks / 4 * 4;
  constexpr int rest = shape::chunks % 4;
  if constexpr (rest >= 2) {
    struct alignas(8) words2 {
      std::uint32_t w[2];
    };
    words2 low;
    words2 high;
    ctx.lds(tile, offset + shape::key_place(g, whole + (q >> 1)) + (q & 1) * 8, low);
    ctx.lds(tile, offset + shape::key_place(g + 8, whole + (q >> 1)) + (q & 1) * 8, high);
    multiply_words<Quantizer, 2>(ctx, low.w, high.w, query, whole * pairs, scores);
  }
  if constexpr (rest % 2 == 1) {
    constexpr int last = whole + (rest - 1);
    std::uint32_t low[1];
    std::uint32_t high[1];
    ctx.lds(tile, offset + shape::key_place(g, last) + q * 4, low[0]);
    ctx.lds(tile, offset + shape::key_place(g + 8, last) + q * 4, high[0]);
    multiply_words<Quantizer, 1>(ctx, low, high, query, last * pairs, scores);
  }
}

/// The byte offset, within a staged query row, of the words that multiply_keys wants from lane q, in its order.
/// A staged row holds the row's elements as pairs (i, i + word_codes / 2) of each word, as unpack_half2 gives them.
template <class Quantizer, int Dim, int Columns, class Context>
PAGODA_KERNEL_FUNCTION void load_query_words(
    Context& ctx, simt::shared_array_t<Context, std::byte> staged, int offset, int row_stride,
    std::uint32_t (&query)[Columns][code_tile<Quantizer, Dim>::padded_dim / 8]) {
  using shape = code_tile<Quantizer, Dim>;
  constexpr int pairs = shape::word_pairs;
  const int g = ctx.lane() >> 2;
  const int q = ctx.lane() & 3;
  PAGODA_KERNEL_UNROLL
  for (int n = 0; n < Columns; ++n) {
    const int row = offset + (8 * n + g) * row_stride;
    PAGODA_KERNEL_UNROLL
    for (int j = 0; j < shape::chunks / 4; ++j) {
      PAGODA_KERNEL_UNROLL
      for (int i = 0; i < pairs; ++i) {
        simt::words4 words;
        ctx.lds(staged, row + ((4 * j + q) * pairs + i) * 16, words);
        PAGODA_KERNEL_UNROLL
        for (int k = 0; k < 4; ++k) query[n][(j * pairs + i) * 4 + k] = words.w[k];
      }
    }
    constexpr int whole = shape::chunks / 4 * 4;
    constexpr int rest = shape::chunks % 4;
    PAGODA_KERNEL_UNROLL
    for (int i = 0; i < rest * pairs; ++i) {
      // Two words a lane from the first two chunks of the rest, one from a third (or only) one.
      const int word = rest >= 2 && i < 2 * pairs ? (whole * 4 + q * 2) * pairs + i
                                                  : ((whole + rest - 1) * 4 + q) * pairs + i - (rest - 1) * pairs;
      ctx.lds(staged, row + word * 4, query[n][whole * pairs + i]);
    }
  }
}

/// output += weights * tile, transposed: the rows of the products are the elements of a value row (value_element).
/// Shapes: weights[Columns][2], the b operand of mma_m16n8k16: tokens by query rows, scales of the values included.
template <class Quantizer, int Dim, int Columns, class Context>
PAGODA_KERNEL_FUNCTION void multiply_values(Context& ctx, simt::shared_array_t<Context, std::byte> tile, int offset,
                                            const std::uint32_t (&weights)[Columns][2],
                                            float (&output)[Columns][code_tile<Quantizer, Dim>::mmas][4]) {
  using shape = code_tile<Quantizer, Dim>;
  using element = typename Quantizer::half2_type;
  const int lane = ctx.lane();
  if constexpr (shape::word_codes == 2) {
    // Matrices 0 and 1: tokens 0 to 7 of two chunks; 2 and 3: tokens 8 to 15.
    const int row = (lane & 7) + ((lane >> 4) << 3);
    PAGODA_KERNEL_UNROLL
    for (int i = 0; i < shape::mmas; ++i) {
      std::uint32_t a[4];
      ctx.ldmatrix_x4_trans(a, tile, offset + shape::value_place(row, (lane >> 3) & 1, 0, 2 * i));
      PAGODA_KERNEL_UNROLL
      for (int n = 0; n < Columns; ++n) ctx.mma_m16n8k16(element{}, output[n][i], a, weights[n]);
    }
  } else {
    // A transposed matrix of words holds, for two tokens, word_codes / 2 codes each: unpack_half2 pairs the tokens up.
    constexpr int pairs = shape::word_pairs;
    const auto multiply_chunk = [&](int chunk, std::uint32_t first_tokens, std::uint32_t last_tokens) {
      std::uint32_t first[pairs];
      std::uint32_t last[pairs];
      Quantizer::unpack_half2(first_tokens, first);
      Quantizer::unpack_half2(last_tokens, last);
      PAGODA_KERNEL_UNROLL
      for (int w = 0; w < pairs / 2; ++w) {
        const std::uint32_t a[4] = {first[2 * w], first[2 * w + 1], last[2 * w], last[2 * w + 1]};
        PAGODA_KERNEL_UNROLL
        for (int n = 0; n < Columns; ++n) {
          ctx.mma_m16n8k16(element{}, output[n][chunk * (pairs / 2) + w], a, weights[n]);
        }
      }
    };
    const int row = lane & 15;
    PAGODA_KERNEL_UNROLL
    for (int chunk = 0; chunk + 1 < shape::chunks; chunk += 2) {
      std::uint32_t words[4];
      ctx.ldmatrix_x4_trans(words, tile, offset + shape::value_place(row, lane >> 4, 0, chunk));
      multiply_chunk(chunk, words[0], words[1]);
      multiply_chunk(chunk + 1, words[2], words[3]);
    }
    if constexpr (shape::chunks % 2 == 1) {
      std::uint32_t words[2];
      ctx.ldmatrix_x2_trans(words, tile, offset + shape::value_place(row, shape::chunks - 1));
      multiply_chunk(shape::chunks - 1, words[0], words[1]);
    }
  }
}

}  // namespace pagoda::kernels

#pragma GCC diagnostic pop
