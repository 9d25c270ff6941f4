// SPDX-License-Identifier: Apache-2.0
/// @file The inner loops of host attention for many query rows: blocks of a matrix product.
///
/// The right factor is packed in panels of panel_width columns, so that a block of rows and a panel meet in registers.
/// Every element of a result is one chain of multiply-adds in the order of the inner index, however rows and columns
/// are grouped: results are bitwise alike.
#pragma once

#include <cstddef>
#include <cstdint>

#include <pagoda/host/tile_kernels.hpp>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"  // clang++ without AVX, at calls that are inlined

namespace pagoda::host::detail {
inline namespace PAGODA_ISA {

/// Columns of a panel: two registers.
inline constexpr int panel_width = 2 * width;

/// Rows that share a panel: with two registers of columns they fill the register file, and hide the latency of FMA.
inline constexpr int panel_rows = PAGODA_HAS_AVX512 ? 12 : 6;

/// Columns, rounded up to whole panels.
constexpr std::int64_t panel_columns(std::int64_t columns) noexcept {
  return (columns + panel_width - 1) / panel_width * panel_width;
}

/// c[r][0 to width * Vectors) = or += sum over k of a[r][k] * b[k].
/// Shapes: a [Rows, count], c [Rows, width * Vectors], both strided; b [count, panel_width].
template <int Rows, int Vectors, bool Add>
PAGODA_ALWAYS_INLINE void multiply_block(const float* a, std::int64_t a_stride, const float* b, std::int64_t count,
                                         float* c, std::int64_t c_stride) {
  lanes sums[static_cast<std::size_t>(Rows)][static_cast<std::size_t>(Vectors)];
  PAGODA_UNROLL
  for (int r = 0; r < Rows; ++r) {
    PAGODA_UNROLL
    for (int v = 0; v < Vectors; ++v) {
      sums[r][v] = lanes{};
      if constexpr (Add) load_float<width>(c + r * c_stride + v * width, sums[r][v]);
    }
  }
  for (std::int64_t k = 0; k < count; ++k) {
    lanes column[static_cast<std::size_t>(Vectors)];
    PAGODA_UNROLL
    for (int v = 0; v < Vectors; ++v) load_float<width>(b + k * panel_width + v * width, column[v]);
    PAGODA_UNROLL
    for (int r = 0; r < Rows; ++r) {
      const lanes factor = broadcast<width>(a[r * a_stride + k]);
      PAGODA_UNROLL
      for (int v = 0; v < Vectors; ++v) sums[r][v] = fma(factor, column[v], sums[r][v]);
    }
  }
  PAGODA_UNROLL
  for (int r = 0; r < Rows; ++r) {
    PAGODA_UNROLL
    for (int v = 0; v < Vectors; ++v) store_float<width>(sums[r][v], c + r * c_stride + v * width);
  }
}

/// The same for any number of rows, of which blocks are taken in turn.
template <int Vectors, bool Add>
void multiply_panel(const float* a, std::int64_t a_stride, std::int64_t rows, const float* b, std::int64_t count,
                    float* c, std::int64_t c_stride) noexcept {
  std::int64_t r = 0;
  for (; r + panel_rows <= rows; r += panel_rows) {
    multiply_block<panel_rows, Vectors, Add>(a + r * a_stride, a_stride, b, count, c + r * c_stride, c_stride);
  }
  for (; r + 4 <= rows; r += 4) {
    multiply_block<4, Vectors, Add>(a + r * a_stride, a_stride, b, count, c + r * c_stride, c_stride);
  }
  for (; r < rows; ++r) {
    multiply_block<1, Vectors, Add>(a + r * a_stride, a_stride, b, count, c + r * c_stride, c_stride);
  }
}

/// scores = queries * keys^T. Shapes: queries [rows, padded(dim)]; keys [panels, dim, panel_width], tokens as columns;
/// scores [rows, tile_tokens].
inline void score_panels(const float* queries, std::int64_t rows, std::int64_t dim, const float* keys,
                         std::int64_t tokens, float* scores) noexcept {
  for (std::int64_t t = 0; t < tokens; t += panel_width) {
    multiply_panel<2, false>(queries, padded(dim), rows, keys + t * dim, dim, scores + t, tile_tokens);
  }
}

/// output += weights * values for tokens begin to end - 1. Shapes: weights [rows, tile_tokens]; values
/// [panels, tile_tokens, panel_width], elements as columns; output [rows, padded(dim)].
inline void accumulate_panels(const float* weights, std::int64_t rows, std::int64_t begin, std::int64_t end,
                              const float* values, std::int64_t dim, float* output) noexcept {
  if (begin >= end) return;
  for (std::int64_t d = 0; d < dim; d += panel_width) {
    const float* panel = values + d * tile_tokens + begin * panel_width;
    if (d + panel_width <= padded(dim)) {
      multiply_panel<2, true>(weights + begin, tile_tokens, rows, panel, end - begin, output + d, padded(dim));
    } else {
      multiply_panel<1, true>(weights + begin, tile_tokens, rows, panel, end - begin, output + d, padded(dim));
    }
  }
}

/// Writes eight rows of eight floats as columns: to[i * panel_width + j] = from[j][i].
PAGODA_ALWAYS_INLINE void transpose8(const float* from, std::int64_t stride, float* to) {
  vec<float, 8> r[8];
  PAGODA_UNROLL
  for (int j = 0; j < 8; ++j) load_float<8>(from + j * stride, r[j]);
  vec<float, 8> pairs[8];
  PAGODA_UNROLL
  for (int j = 0; j < 8; j += 2) {
    pairs[j] = __builtin_shufflevector(r[j], r[j + 1], 0, 8, 1, 9, 4, 12, 5, 13);
    pairs[j + 1] = __builtin_shufflevector(r[j], r[j + 1], 2, 10, 3, 11, 6, 14, 7, 15);
  }
  vec<float, 8> quads[8];
  PAGODA_UNROLL
  for (int j = 0; j < 8; j += 4) {
    quads[j] = __builtin_shufflevector(pairs[j], pairs[j + 2], 0, 1, 8, 9, 4, 5, 12, 13);
    quads[j + 1] = __builtin_shufflevector(pairs[j], pairs[j + 2], 2, 3, 10, 11, 6, 7, 14, 15);
    quads[j + 2] = __builtin_shufflevector(pairs[j + 1], pairs[j + 3], 0, 1, 8, 9, 4, 5, 12, 13);
    quads[j + 3] = __builtin_shufflevector(pairs[j + 1], pairs[j + 3], 2, 3, 10, 11, 6, 7, 14, 15);
  }
  PAGODA_UNROLL
  for (int i = 0; i < 4; ++i) {
    store_float<8>(__builtin_shufflevector(quads[i], quads[i + 4], 0, 1, 2, 3, 8, 9, 10, 11), to + i * panel_width);
    store_float<8>(__builtin_shufflevector(quads[i], quads[i + 4], 4, 5, 6, 7, 12, 13, 14, 15),
                   to + (i + 4) * panel_width);
  }
}

/// Packs unpacked keys for score_panels, with zeros for tokens past the count.
/// Shapes: rows [tile_tokens, padded(dim)]; to [panels, dim, panel_width].
inline void pack_keys(float* rows, std::int64_t count, std::int64_t dim, float* to) noexcept {
  const std::int64_t stride = padded(dim);
  const std::int64_t all = panel_columns(count);
  for (std::int64_t i = count * stride; i < all * stride; ++i) rows[i] = 0;
  for (std::int64_t t = 0; t < all; t += 8) {
    float* panel = to + t / panel_width * panel_width * dim + t % panel_width;
    for (std::int64_t d = 0; d < dim; d += 8) transpose8(rows + t * stride + d, stride, panel + d * panel_width);
  }
}

/// Packs unpacked values for accumulate_panels. Shapes: rows [tile_tokens, padded(dim)]; to
/// [panels, tile_tokens, panel_width].
inline void pack_values(const float* rows, std::int64_t count, std::int64_t dim, float* to) noexcept {
  for (std::int64_t t = 0; t < count; ++t) {
    for (std::int64_t d = 0; d < padded(dim); d += 8) {
      vec<float, 8> values{};
      if (d < dim) load_float<8>(rows + t * padded(dim) + d, values);
      store_float<8>(values, to + d / panel_width * panel_width * tile_tokens + t * panel_width + d % panel_width);
    }
  }
}

}  // namespace PAGODA_ISA
}  // namespace pagoda::host::detail

#pragma GCC diagnostic pop
