// SPDX-License-Identifier: Apache-2.0
// The part of a project that nvcc compiles.
#include <pagoda/pagoda.cuh>

PAGODA_INSTANTIATE_CUDA_RUNTIME;
PAGODA_INSTANTIATE_CUDA_APPEND(pagoda::int8_per_token, pagoda::int8_per_token);
