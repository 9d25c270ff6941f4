// SPDX-License-Identifier: Apache-2.0
/// @file The CUDA runtime behind runtime.hpp. Every call is checked.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

#include <cuda_runtime_api.h>

#include <pagoda/cuda/runtime.hpp>
#include <pagoda/simt/device_context.cuh>
#include <pagoda/simt/kernel_name.hpp>

namespace pagoda::cuda {

namespace detail {

inline void raise(cudaError_t code, const std::string& call) {
  static_cast<void>(cudaGetLastError());  // so that the next call does not meet this error again
  failure why{static_cast<int>(code), cudaGetErrorName(code), cudaGetErrorString(code)};
  static_cast<void>(cudaDriverGetVersion(&why.driver_version));
  static_cast<void>(cudaRuntimeGetVersion(&why.runtime_version));
  raise(why, call);
}

inline void check(cudaError_t code, const char* call) {
  if (code != cudaSuccess) raise(code, call);
}

inline cudaStream_t native(stream_ref stream) {
  return static_cast<cudaStream_t>(stream.get());
}

inline void check_bytes(cudaError_t code, const char* call, std::int64_t bytes) {
  if (code != cudaSuccess) raise(code, call + (" of " + std::to_string(bytes) + " bytes"));
}

inline int current_device() {
  int device = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  return device;
}

/// Has a kernel's launch numbers been set on a device? Kept for the first devices; asked anew for others.
inline constexpr int remembered_devices = 64;

}  // namespace detail

template <class Unused>
void* runtime_api<Unused>::allocate(std::int64_t bytes) {
  void* memory = nullptr;
  detail::check_bytes(cudaMalloc(&memory, static_cast<std::size_t>(bytes)), "cudaMalloc", bytes);
  return memory;
}

template <class Unused>
void* runtime_api<Unused>::allocate(std::int64_t bytes, stream_ref stream) {
  void* memory = nullptr;
  detail::check_bytes(cudaMallocAsync(&memory, static_cast<std::size_t>(bytes), detail::native(stream)),
                      "cudaMallocAsync", bytes);
  return memory;
}

// A failed release has no remedy at run time: the process loses the bytes, as it would with a failed free().
template <class Unused>
void runtime_api<Unused>::release(void* memory) noexcept {
  if (cudaFree(memory) != cudaSuccess) static_cast<void>(cudaGetLastError());
}

template <class Unused>
void runtime_api<Unused>::release(void* memory, stream_ref stream) noexcept {
  if (cudaFreeAsync(memory, detail::native(stream)) != cudaSuccess) static_cast<void>(cudaGetLastError());
}

template <class Unused>
void* runtime_api<Unused>::allocate_pinned(std::int64_t bytes) {
  void* memory = nullptr;
  detail::check_bytes(cudaMallocHost(&memory, static_cast<std::size_t>(bytes)), "cudaMallocHost", bytes);
  return memory;
}

template <class Unused>
void runtime_api<Unused>::release_pinned(void* memory) noexcept {
  if (cudaFreeHost(memory) != cudaSuccess) static_cast<void>(cudaGetLastError());
}

template <class Unused>
void runtime_api<Unused>::copy(void* to, const void* from, std::int64_t bytes, stream_ref stream) {
  detail::check_bytes(
      cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDefault, detail::native(stream)),
      "cudaMemcpyAsync", bytes);
}

template <class Unused>
void runtime_api<Unused>::fill(void* to, int byte, std::int64_t bytes, stream_ref stream) {
  detail::check_bytes(cudaMemsetAsync(to, byte, static_cast<std::size_t>(bytes), detail::native(stream)),
                      "cudaMemsetAsync", bytes);
}

template <class Unused>
void* runtime_api<Unused>::make_event() {
  cudaEvent_t event = nullptr;
  detail::check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags");
  return event;
}

template <class Unused>
void runtime_api<Unused>::destroy_event(void* event) noexcept {
  if (cudaEventDestroy(static_cast<cudaEvent_t>(event)) != cudaSuccess) static_cast<void>(cudaGetLastError());
}

template <class Unused>
void runtime_api<Unused>::record(void* event, stream_ref stream) {
  detail::check(cudaEventRecord(static_cast<cudaEvent_t>(event), detail::native(stream)), "cudaEventRecord");
}

template <class Unused>
bool runtime_api<Unused>::finished(void* event) {
  const cudaError_t code = cudaEventQuery(static_cast<cudaEvent_t>(event));
  if (code == cudaErrorNotReady) {
    static_cast<void>(cudaGetLastError());
    return false;
  }
  detail::check(code, "cudaEventQuery");
  return true;
}

template <class Unused>
void runtime_api<Unused>::wait(void* event) {
  detail::check(cudaEventSynchronize(static_cast<cudaEvent_t>(event)), "cudaEventSynchronize");
}

template <class Unused>
void runtime_api<Unused>::synchronize(stream_ref stream) {
  detail::check(cudaStreamSynchronize(detail::native(stream)), "cudaStreamSynchronize");
}

template <class Unused>
device_properties runtime_api<Unused>::properties() {
  device_properties result;
  result.device = detail::current_device();
  int major = 0;
  int minor = 0;
  const auto ask = [&](int& value, cudaDeviceAttr attribute) {
    detail::check(cudaDeviceGetAttribute(&value, attribute, result.device), "cudaDeviceGetAttribute");
  };
  ask(major, cudaDevAttrComputeCapabilityMajor);
  ask(minor, cudaDevAttrComputeCapabilityMinor);
  ask(result.multiprocessors, cudaDevAttrMultiProcessorCount);
  ask(result.shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin);
  result.compute_capability = 10 * major + minor;
  return result;
}

template <class Unused>
template <simt::kernel K>
std::int32_t runtime_api<Unused>::resident_blocks() {
  static std::atomic<std::int32_t> known[detail::remembered_devices];  // by device; 0: not asked yet
  const int device = detail::current_device();
  if (device < detail::remembered_devices) {
    const std::int32_t blocks = known[device].load(std::memory_order_acquire);
    if (blocks > 0) return blocks;
  }
  const auto called = [](const char* call) {
    return std::string(call) + " for kernel " + std::string(simt::kernel_name<K>());
  };
  const auto entry = &simt::entry<K>;
  cudaError_t code = cudaFuncSetAttribute(entry, cudaFuncAttributeMaxDynamicSharedMemorySize, K::shared_bytes);
  if (code != cudaSuccess) detail::raise(code, called("cudaFuncSetAttribute"));
  int blocks = 0;
  code = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, entry, K::threads, K::shared_bytes);
  if (code != cudaSuccess) detail::raise(code, called("cudaOccupancyMaxActiveBlocksPerMultiprocessor"));
  if (device < detail::remembered_devices) known[device].store(blocks, std::memory_order_release);
  return blocks;
}

template <class Unused>
template <simt::kernel K>
void runtime_api<Unused>::launch(simt::index3 grid, const typename K::arguments& arguments, stream_ref stream) {
  void* parameters[] = {const_cast<void*>(static_cast<const void*>(&arguments))};
  const cudaError_t code =
      cudaLaunchKernel(reinterpret_cast<const void*>(&simt::entry<K>), dim3(grid.x, grid.y, grid.z), dim3(K::threads),
                       parameters, K::shared_bytes, detail::native(stream));
  if (code != cudaSuccess) {
    detail::raise(code, "the launch of kernel " + std::string(simt::kernel_name<K>()) + " with " +
                            std::to_string(grid.x) + " blocks of " + std::to_string(K::threads) + " threads and " +
                            std::to_string(K::shared_bytes) + " bytes of shared memory");
  }
}

}  // namespace pagoda::cuda
