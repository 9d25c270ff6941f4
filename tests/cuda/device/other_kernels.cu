// SPDX-License-Identifier: Apache-2.0
// Kernels of more pairs, in a file of their own: with tensor cores, and with CUDA cores only.
#include <pagoda/pagoda.cuh>

PAGODA_EXTERN_CUDA(pagoda::identity<pagoda::half>, pagoda::identity<pagoda::half>);
PAGODA_INSTANTIATE_CUDA(pagoda::int8_per_token, pagoda::int8_per_token, 64);
PAGODA_INSTANTIATE_CUDA(pagoda::identity<float>, pagoda::identity<float>);

using rotated_int8 = pagoda::hadamard<pagoda::int8_per_token>;
PAGODA_INSTANTIATE_CUDA(rotated_int8, rotated_int8, 64);
