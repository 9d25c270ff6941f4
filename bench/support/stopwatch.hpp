// SPDX-License-Identifier: Apache-2.0
/// @file Wall time of a benchmark's loop, for counters that are ratios.
#pragma once

#include <chrono>

namespace pagoda_bench {

class stopwatch {
 public:
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count(); }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace pagoda_bench
