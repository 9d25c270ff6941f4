// SPDX-License-Identifier: Apache-2.0
/// @file host_memory: aligned memory of the process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>

#include <pagoda/memory.hpp>

namespace pagoda {

/// Aligned memory of the process, not initialised: pages are taken from the system when blocks are first written.
/// Ranges of 2 MiB and more are aligned to 2 MiB, so that the system may serve them with huge pages.
/// One that was moved from has no bytes: data() is null and size_bytes() 0.
/// Throws: invalid_argument for a size below 1; std::bad_alloc if there is not that much.
class host_memory {
 public:
  explicit host_memory(std::int64_t size_bytes) {
    check_range("host_memory size_bytes", size_bytes, 1, INT64_MAX);
    const std::align_val_t alignment{size_bytes >= huge_page ? std::size_t{huge_page} : std::size_t{storage_alignment}};
    data_ = {static_cast<std::byte*>(::operator new(static_cast<std::size_t>(size_bytes), alignment)),
             deleter{alignment}};
    size_bytes_ = size_bytes;
  }
  host_memory(host_memory&& other) noexcept
      : data_(std::move(other.data_)), size_bytes_(std::exchange(other.size_bytes_, 0)) {}
  host_memory& operator=(host_memory&& other) noexcept {
    data_ = std::move(other.data_);
    size_bytes_ = std::exchange(other.size_bytes_, 0);
    return *this;
  }

  std::byte* data() const noexcept { return data_.get(); }
  std::int64_t size_bytes() const noexcept { return size_bytes_; }

 private:
  static constexpr std::int64_t huge_page = std::int64_t{2} << 20;

  struct deleter {
    std::align_val_t alignment;
    void operator()(std::byte* data) const noexcept { ::operator delete(data, alignment); }
  };

  std::unique_ptr<std::byte, deleter> data_;
  std::int64_t size_bytes_ = 0;
};

static_assert(allocating_memory<host_memory>);

}  // namespace pagoda
