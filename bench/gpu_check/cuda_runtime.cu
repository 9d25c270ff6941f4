// SPDX-License-Identifier: Apache-2.0
#include <pagoda/cuda/instantiate.cuh>

PAGODA_INSTANTIATE_CUDA_RUNTIME;
