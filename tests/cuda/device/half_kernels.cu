// SPDX-License-Identifier: Apache-2.0
// Kernels of one pair of quantizers, and what a program needs once.
#include <pagoda/pagoda.cuh>

PAGODA_INSTANTIATE_CUDA_RUNTIME;
PAGODA_INSTANTIATE_CUDA(pagoda::identity<pagoda::half>, pagoda::identity<pagoda::half>, 64);
