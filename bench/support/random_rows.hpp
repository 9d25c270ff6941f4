// SPDX-License-Identifier: Apache-2.0
/// @file Random head vectors, the same in every run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include <pagoda/dtype.hpp>

namespace pagoda_bench {

/// `count` normally distributed elements.
template <class T>
std::vector<T> random_elements(std::int64_t count, std::uint32_t seed) {
  std::mt19937 bits(seed);
  std::normal_distribution<float> normal;
  std::vector<T> elements(static_cast<std::size_t>(count));
  for (T& element : elements) element = pagoda::from_float<T>(normal(bits));
  return elements;
}

}  // namespace pagoda_bench
