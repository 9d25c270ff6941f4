// SPDX-License-Identifier: Apache-2.0
#include <pagoda/simt/device_context.cuh>

#include "half2_kernels.hpp"

template __global__ void pagoda::simt::entry<pagoda_test::list_kernel>(
    const __grid_constant__ pagoda_test::list_kernel::arguments);
