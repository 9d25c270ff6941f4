// SPDX-License-Identifier: Apache-2.0
/// @file Rows to code, and what they read back as.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <pagoda/quantizer/row_codec.hpp>

namespace pagoda_test {

/// A row as it reads back.
template <class Q>
std::vector<float> coded(const std::vector<float>& row) {
  const auto dim = static_cast<std::int64_t>(row.size());
  // Guards behind both arrays: exactly the promised bytes are written.
  std::vector<std::byte> codes(static_cast<std::size_t>(pagoda::code_bytes<Q>(dim)) + 4, std::byte{0xa5});
  std::vector<std::byte> scales(static_cast<std::size_t>(pagoda::row_scale_bytes<Q>(dim)) + 4, std::byte{0xa5});
  pagoda::row_codec<Q>::encode(row.data(), dim, codes.data(), scales.data());
  for (std::size_t i = 1; i <= 4; ++i) {
    CHECK(codes[codes.size() - i] == std::byte{0xa5});
    CHECK(scales[scales.size() - i] == std::byte{0xa5});
  }
  std::vector<float> result(row.size());
  pagoda::row_codec<Q>::decode(codes.data(), scales.data(), dim, result.data());
  return result;
}

struct named_row {
  std::string name;
  std::vector<float> values;
};

/// Rows of every finite kind that quantizers meet.
inline std::vector<named_row> finite_rows(std::size_t dim) {
  constexpr float denormal = std::numeric_limits<float>::denorm_min();
  std::mt19937 random(11);
  std::normal_distribution<float> normal;
  std::cauchy_distribution<float> cauchy;
  std::vector<named_row> rows;
  const auto add = [&](const char* name, auto&& value) {
    std::vector<float> row(dim);
    for (std::size_t i = 0; i < dim; ++i) row[i] = value(i);
    rows.push_back({name, row});
  };
  for (int repeat = 0; repeat < 20; ++repeat) {
    add("Gaussian", [&](std::size_t) { return normal(random); });
    add("heavy-tailed", [&](std::size_t) { return std::fmin(std::fmax(cauchy(random), -30000.0f), 30000.0f); });
    add("one outlier", [&](std::size_t i) { return i == dim / 2 ? -500.0f : normal(random); });
    add("outlier channels", [&](std::size_t i) { return i % 29 == 3 ? 60.0f + normal(random) : normal(random); });
    add("offset", [&](std::size_t) { return 40.0f + normal(random); });
    add("small", [&](std::size_t) { return 1e-6f * normal(random); });
    add("denormal", [&](std::size_t) { return denormal * static_cast<float>(static_cast<int>(random() % 999) - 499); });
    add("denormal scale", [&](std::size_t) { return 1e-37f * normal(random); });
  }
  for (const float constant : {0.0f, -0.0f, 1.0f, -3.75f, denormal, 1e-38f, 60000.0f}) {
    add("constant", [&](std::size_t) { return constant; });
  }
  return rows;
}

}  // namespace pagoda_test
