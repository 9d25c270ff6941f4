// SPDX-License-Identifier: Apache-2.0
// The kernels of cuda_decode: the only file of the program that nvcc compiles.
#include <pagoda/cuda/instantiate.cuh>
#include <pagoda/pagoda.hpp>

PAGODA_INSTANTIATE_CUDA_RUNTIME;
PAGODA_INSTANTIATE_CUDA(pagoda::identity<pagoda::half>, pagoda::identity<pagoda::half>, 128);
PAGODA_INSTANTIATE_CUDA(pagoda::identity<pagoda::bfloat16>, pagoda::identity<pagoda::bfloat16>, 128);
PAGODA_INSTANTIATE_CUDA(pagoda::fp8_e4m3, pagoda::fp8_e4m3, 128);
PAGODA_INSTANTIATE_CUDA(pagoda::int8_per_token, pagoda::int8_per_token, 128);
PAGODA_INSTANTIATE_CUDA(pagoda::int4_per_token, pagoda::int4_per_token, 128);
