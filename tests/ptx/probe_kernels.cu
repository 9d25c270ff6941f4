// SPDX-License-Identifier: Apache-2.0
#include <pagoda/simt/device_context.cuh>

#include "probe_kernels.hpp"

#define PROBE(...) \
  template __global__ void pagoda::simt::entry<__VA_ARGS__>(const __grid_constant__ typename __VA_ARGS__::arguments);

PROBE(pagoda_test::probe_indices)
PROBE(pagoda_test::probe_warp)
PROBE(pagoda_test::probe_global)
PROBE(pagoda_test::probe_shared)
PROBE(pagoda_test::probe_async)
PROBE(pagoda_test::probe_matrices)
PROBE(pagoda_test::probe_mma<pagoda::half>)
PROBE(pagoda_test::probe_mma<pagoda::bfloat16>)
PROBE(pagoda_test::probe_math)
PROBE(pagoda_test::probe_product)
