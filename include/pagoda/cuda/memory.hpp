// SPDX-License-Identifier: Apache-2.0
/// @file Memory policies: bytes on a CUDA device, and pinned bytes of the host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include <pagoda/cuda/runtime.hpp>
#include <pagoda/memory.hpp>

namespace pagoda::cuda {

/// Memory of the current device, not initialised: what a block_storage of CUDA attention lies in. Its addresses are the
/// device's: block_bytes() and the views of such a storage must not be read on the host.
///
/// Made with a stream, it is allocated and freed in the order of that stream and may be used by work behind it; the
/// stream then outlives it. Otherwise its destructor waits for the device.
/// Throws: invalid_argument for a size below 1; out_of_device_memory (a std::bad_alloc) if there is not that much;
///         cuda_error.
template <backend Backend = device_backend>
class basic_device_memory {
 public:
  static constexpr bool host_accessible = false;

  explicit basic_device_memory(std::int64_t size_bytes) : size_bytes_(checked(size_bytes)) {
    data_ = static_cast<std::byte*>(Backend::allocate(size_bytes));
  }
  basic_device_memory(std::int64_t size_bytes, stream_ref stream)
      : size_bytes_(checked(size_bytes)), stream_(stream), ordered_(true) {
    data_ = static_cast<std::byte*>(Backend::allocate(size_bytes, stream));
  }

  basic_device_memory(basic_device_memory&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        size_bytes_(std::exchange(other.size_bytes_, 0)),
        stream_(other.stream_),
        ordered_(other.ordered_) {}
  basic_device_memory& operator=(basic_device_memory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_bytes_, other.size_bytes_);
    std::swap(stream_, other.stream_);
    std::swap(ordered_, other.ordered_);
    return *this;
  }
  ~basic_device_memory() {
    if (data_ == nullptr) return;
    if (ordered_) {
      Backend::release(data_, stream_);
    } else {
      Backend::release(data_);
    }
  }

  std::byte* data() const noexcept { return data_; }
  std::int64_t size_bytes() const noexcept { return size_bytes_; }

 private:
  static std::int64_t checked(std::int64_t size_bytes) {
    check_range("device_memory size_bytes", size_bytes, 1, INT64_MAX);
    return size_bytes;
  }

  std::byte* data_ = nullptr;
  std::int64_t size_bytes_;
  stream_ref stream_{};
  bool ordered_ = false;
};

/// Page-locked memory of the host, not initialised: copies to and from the device run beside other work.
/// Throws: as basic_device_memory.
template <backend Backend = device_backend>
class basic_pinned_memory {
 public:
  explicit basic_pinned_memory(std::int64_t size_bytes) : size_bytes_(size_bytes) {
    check_range("pinned_memory size_bytes", size_bytes, 1, INT64_MAX);
    data_ = static_cast<std::byte*>(Backend::allocate_pinned(size_bytes));
  }
  basic_pinned_memory(basic_pinned_memory&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_bytes_(std::exchange(other.size_bytes_, 0)) {}
  basic_pinned_memory& operator=(basic_pinned_memory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_bytes_, other.size_bytes_);
    return *this;
  }
  ~basic_pinned_memory() {
    if (data_ != nullptr) Backend::release_pinned(data_);
  }

  std::byte* data() const noexcept { return data_; }
  std::int64_t size_bytes() const noexcept { return size_bytes_; }

 private:
  std::byte* data_ = nullptr;
  std::int64_t size_bytes_;
};

using device_memory = basic_device_memory<>;
using pinned_memory = basic_pinned_memory<>;

static_assert(allocating_memory<device_memory> && allocating_memory<pinned_memory>);

}  // namespace pagoda::cuda
