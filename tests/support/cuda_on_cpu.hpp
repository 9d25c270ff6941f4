// SPDX-License-Identifier: Apache-2.0
// Lets plain CUDA source compile with a host compiler and run on the host context's fibres, so that the thread
// sanitizer can look at it: the file that includes this is instrumented, cuda_on_cpu.cpp is not.
//
// The names are CUDA's, macros among them: nothing else includes this. One block at a time on one OS thread. Shared
// arrays are plain arrays; what the host context knows of them is nothing, what the sanitizer knows is everything.
#pragma once

#include <cstring>

namespace cuda_on_cpu {

struct index {
  unsigned x, y, z;
};

index thread_index();
index block_index();
index block_size();
index grid_size();
void sync_block(const char* file, int line);
void sync_warp(const char* file, int line);
unsigned exchange(unsigned value, int from_lane, unsigned mask, const char* file, int line);

/// Calls body(closure) as every thread of every block. Throws what the host context throws.
void run(const char* name, index grid, int threads, void (*body)(void*), void* closure);

/// kernel<<<grid, threads>>>(): kernel is a function without arguments.
template <class Kernel>
void launch(const char* name, index grid, int threads, Kernel kernel) {
  run(
      name, grid, threads, [](void* closure) { (*static_cast<Kernel*>(closure))(); }, &kernel);
}

}  // namespace cuda_on_cpu

#define __global__
#define __device__
#define __shared__ static thread_local
#define threadIdx (::cuda_on_cpu::thread_index())
#define blockIdx (::cuda_on_cpu::block_index())
#define blockDim (::cuda_on_cpu::block_size())
#define gridDim (::cuda_on_cpu::grid_size())

inline void __syncthreads(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  cuda_on_cpu::sync_block(file, line);
}
inline void __syncwarp(unsigned = 0xffffffffu, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  cuda_on_cpu::sync_warp(file, line);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lanes, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  static_assert(sizeof(T) == 4);
  unsigned word;
  std::memcpy(&word, &value, 4);
  word = cuda_on_cpu::exchange(word, static_cast<int>(threadIdx.x % 32) ^ lanes, mask, file, line);
  std::memcpy(&value, &word, 4);
  return value;
}
template <class T>
T __ldg(const T* from) {
  return *from;
}
