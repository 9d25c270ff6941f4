// SPDX-License-Identifier: Apache-2.0
// The checks of every quantizer on a GPU. Their kernels are compiled by nvcc, elsewhere.
#include "cuda_machine.hpp"
#include "quantizers.hpp"

PAGODA_DEFINE_CHECK(cuda_machine, f16);
PAGODA_MEASURE_QUANTIZER(, cuda_machine, f16);
PAGODA_DEFINE_CHECK(cuda_machine, bf16);
PAGODA_MEASURE_QUANTIZER(, cuda_machine, bf16);
PAGODA_DEFINE_CHECK(cuda_machine, fp8);
PAGODA_MEASURE_QUANTIZER(, cuda_machine, fp8);
PAGODA_DEFINE_CHECK(cuda_machine, int8);
PAGODA_MEASURE_QUANTIZER(, cuda_machine, int8);
PAGODA_DEFINE_CHECK(cuda_machine, int4);
PAGODA_MEASURE_QUANTIZER(, cuda_machine, int4);
PAGODA_DEFINE_CHECK(cuda_machine, f32);
