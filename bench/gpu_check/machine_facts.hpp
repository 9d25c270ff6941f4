// SPDX-License-Identifier: Apache-2.0
/// @file What the report says about the machine.
#pragma once

#include <cstdint>
#include <string>

namespace pagoda_check {

struct machine_facts {
  std::string name;
  std::int32_t compute_capability = 0;  ///< 10 * major + minor
  std::int32_t multiprocessors = 0;
  std::int64_t l2_bytes = 0;
  std::int64_t memory_bytes = 0;
  std::int32_t clock_mhz = 0;         ///< the most; 0: not known
  std::int32_t memory_clock_mhz = 0;  ///< the most; 0: not known
  std::int32_t driver_version = 0;
  std::int32_t runtime_version = 0;
};

/// Device-to-device copies of a buffer much larger than the L2 cache. Units: GB/s, read and written bytes.
struct copy_rates {
  double memcpy_rate = 0;
  double kernel_rate = 0;
  double best() const { return memcpy_rate > kernel_rate ? memcpy_rate : kernel_rate; }
};

}  // namespace pagoda_check
