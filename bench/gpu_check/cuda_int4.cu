// SPDX-License-Identifier: Apache-2.0
#include <pagoda/cuda/instantiate.cuh>
#include <pagoda/quantizer/int4_per_token.hpp>

PAGODA_INSTANTIATE_CUDA(pagoda::int4_per_token, pagoda::int4_per_token, 128);
