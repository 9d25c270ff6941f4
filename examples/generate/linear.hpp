// SPDX-License-Identifier: Apache-2.0
/// @file The matrix product of the forward pass: a batch of tokens times a weight matrix.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <pagoda/host/thread_pool.hpp>

/// A weight matrix that maps `columns` inputs to `rows` outputs.
///
/// Kept in panels of 32 rows, [panel][column][row of the panel], padded with zeros, so that the inner loop runs over
/// adjacent outputs: it vectorises without changing the order in which any single output is summed.
class matrix {
 public:
  static constexpr std::int64_t panel_rows = 32;

  matrix() = default;

  /// Shapes: row_major [rows, columns].
  matrix(std::int64_t rows, std::int64_t columns, std::span<const float> row_major);

  std::int64_t rows() const { return rows_; }
  std::int64_t columns() const { return columns_; }
  std::int64_t panels() const { return (rows_ + panel_rows - 1) / panel_rows; }
  const float* panel(std::int64_t index) const { return data_.data() + index * columns_ * panel_rows; }

 private:
  std::int64_t rows_ = 0;
  std::int64_t columns_ = 0;
  std::vector<float> data_;
};

/// output = weights * input, for each token.
///
/// Shapes:  input [tokens, columns]; output [tokens, rows].
/// Effects: an output is the sum over the columns in their order, whatever the number of tokens and threads: results
///          are equal to the bit.
void multiply(const matrix& weights, std::span<const float> input, std::span<float> output, std::int64_t tokens,
              pagoda::host::thread_pool& pool);
