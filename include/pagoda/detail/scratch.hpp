// SPDX-License-Identifier: Apache-2.0
/// @file Working memory that a thread keeps from call to call, so that the steady state allocates nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

#include <pagoda/config.hpp>

namespace pagoda::detail {

/// A growing buffer, aligned to a cache line; its contents are lost when it grows.
class scratch {
 public:
  /// Makes room for `bytes` and starts handing it out anew. Throws: std::bad_alloc.
  void reserve(std::int64_t bytes) {
    if (bytes > capacity_) {
      data_.reset();
      capacity_ = 0;
      data_.reset(
          static_cast<std::byte*>(::operator new (static_cast<std::size_t>(bytes), std::align_val_t{alignment})));
      capacity_ = bytes;
    }
    used_ = 0;
  }

  /// The next `count` elements. Requires: reserve() made room, counting size_of for each call.
  template <class T>
  T* take(std::int64_t count) noexcept {
    T* result = reinterpret_cast<T*>(data_.get() + used_);
    used_ += size_of<T>(count);
    return result;
  }

  /// The bytes that take<T>(count) uses.
  template <class T>
  static constexpr std::int64_t size_of(std::int64_t count) noexcept {
    return (count * static_cast<std::int64_t>(sizeof(T)) + alignment - 1) / alignment * alignment;
  }

 private:
  static constexpr std::int64_t alignment = 64;
  struct deleter {
    void operator()(std::byte* data) const noexcept { ::operator delete (data, std::align_val_t{alignment}); }
  };
  std::unique_ptr<std::byte, deleter> data_;
  std::int64_t capacity_ = 0;
  std::int64_t used_ = 0;
};

}  // namespace pagoda::detail
