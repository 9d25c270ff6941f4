// SPDX-License-Identifier: Apache-2.0
/// @file What the CUDA part asks of a machine, and the CUDA runtime as the answer. Declared here for any compiler;
/// runtime.cuh defines it, and one .cu file of the program says PAGODA_INSTANTIATE_CUDA_RUNTIME (instantiate.cuh).
#pragma once

#include <concepts>
#include <cstdint>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>

#include <pagoda/cuda/stream.hpp>
#include <pagoda/error.hpp>
#include <pagoda/simt/execution_context.hpp>

namespace pagoda::cuda {

/// A call of the CUDA runtime, or a launch, that failed. The message names the call, CUDA's error and the remedy.
class cuda_error : public std::runtime_error {
 public:
  cuda_error(int code, const std::string& message) : std::runtime_error(message), code_(code) {}
  int code() const noexcept { return code_; }  ///< the cudaError_t

 private:
  int code_;
};

/// The device (or the system, for pinned memory) has not so many bytes left.
class out_of_device_memory : public std::bad_alloc {
 public:
  explicit out_of_device_memory(std::string message) : message_(std::move(message)) {}
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  std::string message_;
};

/// What a launch depends on.
struct device_properties {
  std::int32_t device = 0;              ///< its number
  std::int32_t compute_capability = 0;  ///< 10 * major + minor
  std::int32_t multiprocessors = 0;
  std::int32_t shared_bytes = 0;  ///< of a block, at most, when a kernel asks for more than the usual 48 KiB
};

/// The services of a machine: static members, all of them.
///
/// Copies, fills and launches are enqueued on a stream. allocate and release without a stream may wait for the device.
/// Everything but the noexcept members throws cuda_error or out_of_device_memory.
template <class B>
concept backend = requires(void* to, const void* from, std::int64_t bytes, void* event, stream_ref stream) {
  { B::name } -> std::convertible_to<std::string_view>;
  { B::allocate(bytes) } -> std::same_as<void*>;          ///< device memory, aligned to 256
  { B::allocate(bytes, stream) } -> std::same_as<void*>;  ///< the same in stream order
  { B::release(to) }
  noexcept;
  { B::release(to, stream) }
  noexcept;
  { B::allocate_pinned(bytes) } -> std::same_as<void*>;  ///< host memory that copies reach directly
  { B::release_pinned(to) }
  noexcept;
  B::copy(to, from, bytes, stream);  ///< any direction
  B::fill(to, 0, bytes, stream);
  { B::make_event() } -> std::same_as<void*>;
  { B::destroy_event(event) }
  noexcept;
  B::record(event, stream);
  { B::finished(event) } -> std::same_as<bool>;  ///< all work before the last record is done
  B::wait(event);                                ///< until it is
  B::synchronize(stream);
  { B::properties() } -> std::same_as<device_properties>;  ///< of the current device
};

/// The CUDA runtime, on the current device. A template so that the library stays header-only; use device_backend.
template <class = void>
struct runtime_api {
  static constexpr std::string_view name = "CUDA";

  static void* allocate(std::int64_t bytes);
  static void* allocate(std::int64_t bytes, stream_ref stream);
  static void release(void* memory) noexcept;
  static void release(void* memory, stream_ref stream) noexcept;
  static void* allocate_pinned(std::int64_t bytes);
  static void release_pinned(void* memory) noexcept;
  static void copy(void* to, const void* from, std::int64_t bytes, stream_ref stream);
  static void fill(void* to, int byte, std::int64_t bytes, stream_ref stream);
  static void* make_event();
  static void destroy_event(void* event) noexcept;
  static void record(void* event, stream_ref stream);
  static bool finished(void* event);
  static void wait(void* event);
  static void synchronize(stream_ref stream);
  static device_properties properties();

  /// Blocks of a kernel that a multiprocessor holds at once. Prepares the kernel for launches on the current device.
  template <simt::kernel K>
  static std::int32_t resident_blocks();

  /// Enqueues a kernel that resident_blocks has prepared.
  template <simt::kernel K>
  static void launch(simt::index3 grid, const typename K::arguments& arguments, stream_ref stream);
};

using device_backend = runtime_api<>;
static_assert(backend<device_backend>);

namespace detail {

/// A failed call of the CUDA runtime.
struct failure {
  int code = 0;
  std::string_view name{};
  std::string_view text{};
  int driver_version = 0;   // as cudaDriverGetVersion gives it, 13000 for 13.0; 0: no driver
  int runtime_version = 0;  // of the program
};

inline std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

/// Throws the exception of a failed call.
PAGODA_COLD inline void raise(const failure& why, const std::string& call) {
  constexpr int memory_allocation = 2;  // cudaError_t: numbers that CUDA keeps
  constexpr int insufficient_driver = 35;
  constexpr int no_device = 100;
  constexpr int no_kernel_image = 209;
  constexpr int unsupported_ptx = 222;
  const std::string head =
      "pagoda: " + call + " failed: " + std::string(why.name) + " (" + std::string(why.text) + "): ";
  switch (why.code) {
    case memory_allocation:
      throw out_of_device_memory(head + "ask for fewer blocks or smaller step_limits, or free memory of the device");
    case no_device:
      throw cuda_error(why.code, head + "no CUDA device is visible: run on a machine with one, look at " +
                                     "CUDA_VISIBLE_DEVICES, or use pagoda::host");
    case insufficient_driver:
      if (why.driver_version == 0) {
        throw cuda_error(why.code, head + "no CUDA driver is installed, so there is no CUDA device: install one, or " +
                                       "use pagoda::host");
      }
      throw cuda_error(why.code, head + "the driver is too old: it serves CUDA " + version_text(why.driver_version) +
                                     ", the program needs " + version_text(why.runtime_version) +
                                     ": update the driver, or build with an older toolkit");
    case no_kernel_image:
    case unsupported_ptx:
      throw cuda_error(why.code, head + "the program holds no code for this device: compile its .cu files for the " +
                                     "device's architecture (8.0 or newer)");
    default:
      throw cuda_error(why.code, head + "if an earlier launch is at fault, CUDA_LAUNCH_BLOCKING=1 or " +
                                     "compute-sanitizer tells which");
  }
}

}  // namespace detail
}  // namespace pagoda::cuda
