// SPDX-License-Identifier: Apache-2.0
#include <pagoda/cuda/instantiate.cuh>
#include <pagoda/quantizer/identity.hpp>

PAGODA_INSTANTIATE_CUDA(pagoda::identity<pagoda::half>, pagoda::identity<pagoda::half>, 64, 128, 256);
