// SPDX-License-Identifier: Apache-2.0
// Plain CUDA source on a CPU. The same kernel with one barrier left out gives the same numbers here, and a data race
// that the thread sanitizer reports. Arguments: "correct" or "broken"; the test that runs it counts the reports.
#include <cstdio>
#include <cstring>
#include <vector>

#include "cuda_on_cpu.hpp"

namespace {

/// to[b] = sum of block b's numbers; from is reversed within the block on the way, to use shared memory both ways.
template <bool Broken>
__global__ void reversed_and_summed(const float* from, float* reversed, float* sums) {
  __shared__ float tile[128];
  __shared__ float parts[4];
  const unsigned i = threadIdx.x;
  const unsigned first = blockIdx.x * blockDim.x;
  tile[i] = __ldg(from + first + i);
  if (!Broken) __syncthreads();  // what is left out
  float x = tile[blockDim.x - 1 - i];
  reversed[first + i] = x;
  for (int lanes = 16; lanes > 0; lanes /= 2) x += __shfl_xor_sync(0xffffffffu, x, lanes);
  if (i % 32 == 0) parts[i / 32] = x;
  __syncthreads();
  if (i == 0) sums[blockIdx.x] = parts[0] + parts[1] + parts[2] + parts[3];
  __syncthreads();
}

}  // namespace

int main(int argc, char** argv) {
  const bool broken = argc == 2 && std::strcmp(argv[1], "broken") == 0;
  if (argc != 2 || (!broken && std::strcmp(argv[1], "correct") != 0)) {
    std::fputs("usage: plain_cuda correct|broken\n", stderr);
    return 2;
  }
  constexpr unsigned blocks = 3;
  std::vector<float> from(blocks * 128);
  for (unsigned i = 0; i < from.size(); ++i) from[i] = static_cast<float>(i);
  std::vector<float> reversed(from.size());
  std::vector<float> sums(blocks);
  cuda_on_cpu::launch("reversed_and_summed", {blocks, 1, 1}, 128, [&] {
    if (broken) {
      reversed_and_summed<true>(from.data(), reversed.data(), sums.data());
    } else {
      reversed_and_summed<false>(from.data(), reversed.data(), sums.data());
    }
  });
  if (broken) return 0;  // its numbers mean nothing
  for (unsigned b = 0; b < blocks; ++b) {
    if (sums[b] != static_cast<float>(128 * 128 * b + 128 * 127 / 2)) {
      std::fprintf(stderr, "block %u: sum %g\n", b, static_cast<double>(sums[b]));
      return 1;
    }
    for (unsigned i = 0; i < 128; ++i) {
      if (reversed[b * 128 + i] != from[b * 128 + 127 - i]) {
        std::fprintf(stderr, "block %u: element %u\n", b, i);
        return 1;
      }
    }
  }
  std::puts("3 blocks reversed and summed");
  return 0;
}
