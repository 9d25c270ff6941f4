// SPDX-License-Identifier: Apache-2.0
// Checks and measures Pagoda's CUDA part on a GPU, in one command. Build it where nvcc is; the program then needs a
// driver and a C library as new as the builder's, no network and no package:
//
//   cmake --preset release && cmake --build build/release --target gpu_check
//   scp build/release/bin/pagoda_gpu_check gpu-machine: && ssh gpu-machine ./pagoda_gpu_check --json gpu_check.json
#include "check_main.hpp"
#include "cuda_machine.hpp"

#define DECLARE(Quantizer)                                 \
  PAGODA_CHECK_QUANTIZER(extern, cuda_machine, Quantizer); \
  PAGODA_MEASURE_QUANTIZER(extern, cuda_machine, Quantizer)
DECLARE(f16);
DECLARE(bf16);
DECLARE(fp8);
DECLARE(int8);
DECLARE(int4);
PAGODA_CHECK_QUANTIZER(extern, cuda_machine, f32);

int main(int argc, char** argv) {
  return pagoda_check::check_main<pagoda_check::cuda_machine>(argc, argv, {});
}
