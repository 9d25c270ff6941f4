// SPDX-License-Identifier: Apache-2.0
// The copy that attention is measured against: 16 bytes a thread, four in flight.
#include <string>

#include "cuda_machine.hpp"

#include <cuda_runtime_api.h>

namespace {

constexpr int threads = 256;
constexpr int unrolled = 4;

__global__ void copy_words(uint4* to, const uint4* from, long long count) {
  const long long stride = static_cast<long long>(gridDim.x) * threads * unrolled;
  for (long long i = static_cast<long long>(blockIdx.x) * threads * unrolled + threadIdx.x; i < count; i += stride) {
    uint4 words[unrolled];
#pragma unroll
    for (int k = 0; k < unrolled; ++k) {
      if (i + k * threads < count) words[k] = from[i + k * threads];
    }
#pragma unroll
    for (int k = 0; k < unrolled; ++k) {
      if (i + k * threads < count) to[i + k * threads] = words[k];
    }
  }
}

}  // namespace

void pagoda_check::enqueue_copy_kernel(void* to, const void* from, std::int64_t bytes, int blocks, void* stream) {
  auto* target = static_cast<uint4*>(to);
  const auto* source = static_cast<const uint4*>(from);
  long long count = bytes / 16;
  void* parameters[] = {&target, &source, &count};
  const cudaError_t code = cudaLaunchKernel(reinterpret_cast<const void*>(&copy_words), dim3(blocks), dim3(threads),
                                            parameters, 0, static_cast<cudaStream_t>(stream));
  if (code != cudaSuccess) {
    throw pagoda::cuda::cuda_error(code,
                                   std::string("the launch of the copy kernel failed: ") + cudaGetErrorName(code));
  }
}
