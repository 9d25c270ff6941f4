// SPDX-License-Identifier: Apache-2.0
/// @file Whether this machine has a CUDA device.
#pragma once

#include <string>

#include <pagoda/cuda/runtime.hpp>

namespace pagoda_test {

/// Empty if there is a device; otherwise why there is none.
inline std::string why_no_device() {
  try {
    pagoda::cuda::device_backend::properties();
    return {};
  } catch (const pagoda::cuda::cuda_error& error) {
    return error.what();
  }
}

}  // namespace pagoda_test
