// SPDX-License-Identifier: Apache-2.0
#include "linear.hpp"

#include <algorithm>

matrix::matrix(std::int64_t rows, std::int64_t columns, std::span<const float> row_major)
    : rows_(rows), columns_(columns), data_(static_cast<std::size_t>(panels() * columns * panel_rows)) {
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = 0; column < columns; ++column) {
      const std::int64_t place = (row / panel_rows * columns + column) * panel_rows + row % panel_rows;
      data_[static_cast<std::size_t>(place)] = row_major[static_cast<std::size_t>(row * columns + column)];
    }
  }
}

namespace {

/// One token times one panel. Four columns a pass keep the sums in registers for longer.
void multiply_panel(const float* panel, std::int64_t columns, const float* input, float* sums) {
  constexpr std::int64_t width = matrix::panel_rows;
  for (std::int64_t row = 0; row < width; ++row) sums[row] = 0.0f;
  std::int64_t column = 0;
  for (; column + 4 <= columns; column += 4) {
    const float* weights = panel + column * width;
    const float x0 = input[column];
    const float x1 = input[column + 1];
    const float x2 = input[column + 2];
    const float x3 = input[column + 3];
    for (std::int64_t row = 0; row < width; ++row) {
      sums[row] = sums[row] + x0 * weights[row] + x1 * weights[width + row] + x2 * weights[2 * width + row] +
                  x3 * weights[3 * width + row];
    }
  }
  for (; column < columns; ++column) {
    const float* weights = panel + column * width;
    for (std::int64_t row = 0; row < width; ++row) sums[row] += input[column] * weights[row];
  }
}

}  // namespace

void multiply(const matrix& weights, std::span<const float> input, std::span<float> output, std::int64_t tokens,
              pagoda::host::thread_pool& pool) {
  const auto run_panel = [&](std::int64_t index) {
    const std::int64_t first_row = index * matrix::panel_rows;
    const std::int64_t rows = std::min(matrix::panel_rows, weights.rows() - first_row);
    for (std::int64_t token = 0; token < tokens; ++token) {
      float sums[matrix::panel_rows];
      multiply_panel(weights.panel(index), weights.columns(), input.data() + token * weights.columns(), sums);
      std::copy(sums, sums + rows, output.data() + token * weights.rows() + first_row);
    }
  };
  // Waking threads costs more than a small product.
  constexpr std::int64_t worth_threads = 1 << 17;
  if (tokens * weights.rows() * weights.columns() >= worth_threads) {
    pool.parallel_for(weights.panels(), run_panel);
  } else {
    for (std::int64_t index = 0; index < weights.panels(); ++index) run_panel(index);
  }
}
