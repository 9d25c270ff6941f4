// SPDX-License-Identifier: Apache-2.0
/// @file What the benchmarks need to know of the machine.
#pragma once

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <string>

#include <unistd.h>

namespace pagoda_bench {

/// Bytes of the largest cache that the system reports; 32 MiB if it reports none.
inline std::int64_t last_level_cache_bytes() {
  std::int64_t largest = 0;
  for (int index = 0; index < 8; ++index) {
    std::ifstream file("/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/size");
    std::int64_t size = 0;
    std::string unit;
    if (!(file >> size >> unit)) continue;
    largest = std::max(largest, size << (unit == "K" ? 10 : unit == "M" ? 20 : 0));
  }
#ifdef _SC_LEVEL3_CACHE_SIZE
  if (largest == 0) largest = std::max<std::int64_t>(0, sysconf(_SC_LEVEL3_CACHE_SIZE));
#endif
  return largest > 0 ? largest : std::int64_t{32} << 20;
}

/// Bytes over which cold benchmarks rotate: four times the last-level cache, at least 512 MiB and at most 2 GiB.
inline std::int64_t working_set_bytes() {
  return std::clamp(4 * last_level_cache_bytes(), std::int64_t{512} << 20, std::int64_t{2048} << 20);
}

}  // namespace pagoda_bench
