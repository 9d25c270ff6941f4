// SPDX-License-Identifier: Apache-2.0
/// @file Numbers for random schedules, the same on every machine.
#pragma once

#include <cstdint>

namespace pagoda::simt::detail {

/// A 64-bit counter and a mixing function over it.
/// Source: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014.
class random_numbers {
 public:
  explicit random_numbers(std::uint64_t seed) : state_(seed) {}

  /// A number in [0, limit). Requires: limit > 0.
  std::uint32_t below(std::uint32_t limit) {
    state_ += 0x9e3779b97f4a7c15u;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    return static_cast<std::uint32_t>(((z >> 32) * limit) >> 32);
  }

 private:
  std::uint64_t state_;
};

}  // namespace pagoda::simt::detail
