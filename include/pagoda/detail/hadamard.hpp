// SPDX-License-Identifier: Apache-2.0
/// @file Rotates rows by a normalised Hadamard matrix: orthogonal, every entry 1 or -1 over sqrt(dim).
///
/// H = S (x) B: a Sylvester matrix S of a power of two over a small matrix B of order 8 (Sylvester's), 12 or 20
/// (Paley's first construction), 28 or 36 (his second). B is multiplied out, S is applied in butterflies. Sums are made
/// in one order everywhere, host or device, and multiplying with a sign is exact: the bits do not depend on the
/// machine. Source: Paley, "On orthogonal matrices", 1933.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <pagoda/config.hpp>

namespace pagoda::detail {

/// The order of B for rows of `dim` elements; 0 if there is no construction.
constexpr int rotation_base(std::int64_t dim) noexcept {
  if (dim < 8 || dim > 576 || dim % 8 != 0) return 0;
  std::int64_t odd = dim;
  while (odd % 2 == 0) odd /= 2;
  return odd == 1 ? 8 : odd <= 9 ? static_cast<int>(4 * odd) : 0;
}

/// Whether rows of `dim` elements can be rotated: 1, 3, 5, 7 or 9 times a power of two, a multiple of 8 up to 576.
constexpr bool can_rotate(std::int64_t dim) noexcept {
  return rotation_base(dim) != 0;
}

/// 1 for a square modulo the prime, -1 for no square, 0 for 0.
constexpr int legendre_symbol(int a, int prime) noexcept {
  a = (a % prime + prime) % prime;
  if (a == 0) return 0;
  for (int x = 1; 2 * x < prime; ++x) {
    if (x * x % prime == a) return 1;
  }
  return -1;
}

/// Entry (i, j) of B, 1 or -1, for the orders that rotation_base gives.
constexpr int rotation_sign(int order, int i, int j) noexcept {
  if (order == 8) return __builtin_popcount(static_cast<unsigned>(i & j)) % 2 == 0 ? 1 : -1;
  if (order < 28) {  // 1 + C with a skew C: a row and a column of ones around the symbols modulo order - 1
    if (i == j || i == 0) return 1;
    return j == 0 ? -1 : legendre_symbol(i - j, order - 1);
  }
  // A symmetric C of half the order, each entry a block of four.
  const int row = i / 2;
  const int column = j / 2;
  const bool both_odd = i % 2 == 1 && j % 2 == 1;
  if (row == column) return i % 2 == 0 && j % 2 == 0 ? 1 : -1;
  const int entry = row == 0 || column == 0 ? 1 : legendre_symbol(row - column, order / 2 - 1);
  return both_odd ? -entry : entry;
}

inline constexpr int max_rotation_base = 36;

/// What a device needs to rotate rows of one length.
struct rotation {
  std::int32_t dim = 0;
  std::int32_t base = 0;
  float factor = 0;                             ///< 1 / sqrt(dim)
  std::uint64_t negative[max_rotation_base]{};  ///< bit j of number i: whether input j is subtracted for output i
};

/// Requires: can_rotate(dim).
inline rotation make_rotation(std::int64_t dim, bool back) noexcept {
  rotation result{.dim = static_cast<std::int32_t>(dim),
                  .base = rotation_base(dim),
                  .factor = static_cast<float>(1 / std::sqrt(static_cast<double>(dim)))};
  for (int i = 0; i < result.base; ++i) {
    for (int j = 0; j < result.base; ++j) {
      const int sign = back ? rotation_sign(result.base, j, i) : rotation_sign(result.base, i, j);
      result.negative[i] |= std::uint64_t{sign < 0} << j;
    }
  }
  return result;
}

inline namespace PAGODA_ISA {

/// B or its transpose: at[j][i] is what input j counts for output i.
template <class T, int Order, bool Back>
struct rotation_table {
  T at[static_cast<std::size_t>(Order)][static_cast<std::size_t>(Order)];
};
template <class T, int Order, bool Back>
inline constexpr rotation_table<T, Order, Back> rotation_table_v = [] {
  rotation_table<T, Order, Back> table{};
  for (int j = 0; j < Order; ++j) {
    for (int i = 0; i < Order; ++i) {
      table.at[j][i] = static_cast<T>(Back ? rotation_sign(Order, j, i) : rotation_sign(Order, i, j));
    }
  }
  return table;
}();

template <int Order, bool Back, class T>
void rotate_pieces(T* row, std::int64_t dim) noexcept {
  const auto& table = rotation_table_v<T, Order, Back>;
  for (T* piece = row; piece != row + dim; piece += Order) {
    T sums[static_cast<std::size_t>(Order)] = {};
    for (int j = 0; j < Order; ++j) {
      const T x = piece[j];
      for (int i = 0; i < Order; ++i) sums[i] += x * table.at[j][i];
    }
    std::memcpy(piece, sums, sizeof(sums));
  }
}

// Never inlined: the factor's product must be rounded before a caller adds to it.
template <bool Back, class T>
__attribute__((noinline)) void rotate_row(T* row, std::int64_t dim) noexcept {
  const int base = rotation_base(dim);
  if (base == 8) rotate_pieces<8, Back>(row, dim);
  if (base == 12) rotate_pieces<12, Back>(row, dim);
  if (base == 20) rotate_pieces<20, Back>(row, dim);
  if (base == 28) rotate_pieces<28, Back>(row, dim);
  if (base == 36) rotate_pieces<36, Back>(row, dim);
  for (std::int64_t distance = base; distance < dim; distance *= 2) {
    for (std::int64_t begin = 0; begin < dim; begin += 2 * distance) {
      T* low = row + begin;
      T* high = low + distance;
      for (std::int64_t i = 0; i < distance; ++i) {
        const T difference = low[i] - high[i];
        low[i] += high[i];
        high[i] = difference;
      }
    }
  }
  const auto factor = static_cast<T>(1 / std::sqrt(static_cast<double>(dim)));
  for (std::int64_t i = 0; i < dim; ++i) row[i] *= factor;
}

/// row = H row. Elements are float or double. No allocation.
/// Requires: can_rotate(dim).
template <class T>
void rotate(T* row, std::int64_t dim) noexcept {
  rotate_row<false>(row, dim);
}

/// row = H^T row: undoes rotate. Requires: can_rotate(dim).
template <class T>
void rotate_back(T* row, std::int64_t dim) noexcept {
  rotate_row<true>(row, dim);
}

}  // namespace PAGODA_ISA
}  // namespace pagoda::detail
