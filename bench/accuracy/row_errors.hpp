// SPDX-License-Identifier: Apache-2.0
/// @file What coding a row by a quantizer loses.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include <pagoda/quantizer/row_codec.hpp>

namespace pagoda_bench {

inline constexpr std::int64_t error_dim = 128;
inline constexpr std::int64_t error_rows = 4096;

/// Rows of normally distributed elements, the same in every run. With outliers, four channels, the same in all rows,
/// are 20 times as large: keys of language models look like that.
inline std::vector<float> rows_to_code(bool with_outliers) {
  constexpr std::int64_t channels[] = {5, 38, 71, 104};
  std::mt19937 bits(11);
  std::normal_distribution<float> normal;
  std::vector<float> rows(static_cast<std::size_t>(error_rows * error_dim));
  for (float& x : rows) x = normal(bits);
  for (std::int64_t row = 0; with_outliers && row < error_rows; ++row) {
    for (const std::int64_t channel : channels) rows[static_cast<std::size_t>(row * error_dim + channel)] *= 20.0f;
  }
  return rows;
}

/// The relative L2 error of all rows, coded and decoded.
template <class Quantizer>
double coding_error(const std::vector<float>& rows) {
  using codec = pagoda::row_codec<Quantizer>;
  std::vector<std::byte> codes(static_cast<std::size_t>(pagoda::row_bytes<Quantizer>(error_dim)));
  std::vector<std::byte> scales(static_cast<std::size_t>(pagoda::row_scale_bytes<Quantizer>(error_dim)) + 1);
  std::vector<float> decoded(static_cast<std::size_t>(error_dim));
  double difference = 0;
  double norm = 0;
  for (std::size_t begin = 0; begin < rows.size(); begin += decoded.size()) {
    codec::encode(rows.data() + begin, error_dim, codes.data(), scales.data());
    codec::decode(codes.data(), scales.data(), error_dim, decoded.data());
    for (std::size_t i = 0; i < decoded.size(); ++i) {
      const double x = double{rows[begin + i]};
      difference += (double{decoded[i]} - x) * (double{decoded[i]} - x);
      norm += x * x;
    }
  }
  return std::sqrt(difference / norm);
}

}  // namespace pagoda_bench
