// SPDX-License-Identifier: Apache-2.0
#include <pagoda/kernels/rotate_rows.hpp>
#include <pagoda/simt/device_context.cuh>

template __global__ void pagoda::simt::entry<pagoda::kernels::rotate_rows>(
    const __grid_constant__ pagoda::kernels::rotate_rows::arguments);
