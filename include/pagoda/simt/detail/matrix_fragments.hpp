// SPDX-License-Identifier: Apache-2.0
/// @file What the warp's matrix instructions do with the deposits of all 32 lanes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include <pagoda/dtype.hpp>
#include <pagoda/simt/detail/warp_exchange.hpp>

namespace pagoda::simt::detail {

inline std::uint16_t half_word(std::uint32_t word, int index) {
  return static_cast<std::uint16_t>(word >> (16 * index));
}
inline std::uint32_t word_of_halves(std::uint16_t low, std::uint16_t high) {
  return low | (std::uint32_t{high} << 16);
}

/// Brings the offset of a row, takes four registers.
struct matrix_rows {
  std::uint32_t word[4];
};

/// ldmatrix of Count 8 x 8 matrices: lane 8 * i + r brought in word[0] the offset of row r of matrix i.
template <std::size_t Count, bool Transposed>
void load_matrices(const std::byte* shared, deposits<matrix_rows> all) {
  std::uint16_t element[Count][8][8];
  for (std::size_t i = 0; i < Count; ++i) {
    for (std::size_t row = 0; row < 8; ++row) {
      std::memcpy(element[i][row], shared + all.get(static_cast<int>(8 * i + row)).word[0], 16);
    }
  }
  for (int lane = 0; lane < warp_size; ++lane) {
    const int g = lane / 4;
    const int q = lane % 4 * 2;
    matrix_rows result{};
    for (std::size_t i = 0; i < Count; ++i) {
      result.word[i] = Transposed ? word_of_halves(element[i][q][g], element[i][q + 1][g])
                                  : word_of_halves(element[i][g][q], element[i][g][q + 1]);
    }
    all.set(lane, result);
  }
}

/// movmatrix.trans: one 8 x 8 matrix, in the register layout of ldmatrix.
inline void transpose_matrix(deposits<std::uint32_t> all) {
  std::uint16_t element[8][8];
  for (int lane = 0; lane < warp_size; ++lane) {
    for (int i = 0; i < 2; ++i) element[lane / 4][lane % 4 * 2 + i] = half_word(all.get(lane), i);
  }
  for (int lane = 0; lane < warp_size; ++lane) {
    const int q = lane % 4 * 2;
    all.set(lane, word_of_halves(element[q][lane / 4], element[q + 1][lane / 4]));
  }
}

/// Brings the fragments of a and b and the accumulators, takes the new accumulators.
struct mma_fragments {
  std::uint32_t a[4];
  std::uint32_t b[2];
  float d[4];
};

/// d += a * b, 16 x 16 by 16 x 8, accumulated in float in the order of k. Products of 16-bit floats are exact.
template <class Element>
void multiply_fragments(deposits<mma_fragments> all) {
  float a[16][16];
  float b[16][8];
  float d[16][8];
  for (int lane = 0; lane < warp_size; ++lane) {
    const mma_fragments own = all.get(lane);
    const int g = lane / 4;
    const int q = lane % 4 * 2;
    for (int r = 0; r < 4; ++r) {
      for (int i = 0; i < 2; ++i) {
        a[g + r % 2 * 8][q + r / 2 * 8 + i] = to_float(Element{half_word(own.a[r], i)});
        d[g + r / 2 * 8][q + r % 2] = own.d[r];
        if (r < 2) b[q + r * 8 + i][g] = to_float(Element{half_word(own.b[r], i)});
      }
    }
  }
  for (int row = 0; row < 16; ++row) {
    for (int k = 0; k < 16; ++k) {
      for (int column = 0; column < 8; ++column) d[row][column] += a[row][k] * b[k][column];
    }
  }
  for (int lane = 0; lane < warp_size; ++lane) {
    mma_fragments result{};
    for (int r = 0; r < 4; ++r) result.d[r] = d[lane / 4 + r / 2 * 8][lane % 4 * 2 + r % 2];
    all.set(lane, result);
  }
}

}  // namespace pagoda::simt::detail
