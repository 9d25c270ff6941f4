// SPDX-License-Identifier: Apache-2.0
/// @file The cubins that the tests read. Without nvcc there are none, and the tests say so.
#pragma once

#include <iostream>
#include <string>
#include <vector>

namespace pagoda_gates {

/// "<stem>.sm_80<suffix>" and "<stem>.sm_90<suffix>" in the folder of the compiled probes.
inline std::string probe_file(const std::string& stem, int architecture, const std::string& suffix = ".cubin") {
#if defined(PAGODA_PROBES)
  return std::string(PAGODA_PROBES) + "/" + stem + ".sm_" + std::to_string(architecture) + suffix;
#else
  return stem + std::to_string(architecture) + suffix;
#endif
}

/// The architectures that there are cubins for: none, and a word about it, without nvcc.
inline std::vector<int> probed_architectures() {
#if defined(PAGODA_PROBES)
  return {80, 90};
#else
  std::cout << "[SKIPPED] nvcc was not found, so there is no machine code to read\n";
  return {};
#endif
}

}  // namespace pagoda_gates
