// SPDX-License-Identifier: Apache-2.0
#include <pagoda/cuda/instantiate.cuh>
#include <pagoda/quantizer/fp8_e4m3.hpp>

PAGODA_INSTANTIATE_CUDA(pagoda::fp8_e4m3, pagoda::fp8_e4m3, 128);
