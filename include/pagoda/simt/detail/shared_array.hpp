// SPDX-License-Identifier: Apache-2.0
/// @file The host context's arrays in shared memory: every access goes through the block's checks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <utility>

#include <pagoda/simt/detail/block_memory.hpp>

namespace pagoda::simt {

class host_context;

namespace detail {

template <class T>
constexpr std::uint32_t checked_access_bytes() {
  static_assert(std::is_trivially_copyable_v<T>, "a kernel moves plain values only");
  static_assert(sizeof(T) == 1 || sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8 || sizeof(T) == 16,
                "a memory access of the device moves 1, 2, 4, 8 or 16 bytes");
  return sizeof(T);
}
template <class T>
inline constexpr std::uint32_t access_bytes = checked_access_bytes<T>();

/// An array in the shared memory of the block. An element is reached through a proxy that is read or written where it
/// is named: `auto x = array[i]` keeps the proxy and cannot be used, `float x = array[i]` keeps the value.
template <class T>
class host_shared_array {
 public:
  /// An index and the line that wrote it.
  struct index {
    index(int i, const char* file = __builtin_FILE(), int line = __builtin_LINE())  // NOLINT: implicit on purpose
        : value(i), at{file, line} {}
    int value;
    source_position at;
  };

  class element {
   public:
    element(const element&) = delete;
    operator T() && {  // NOLINT: implicit on purpose
      T value;
      memory_.load<access_bytes<T>>(offset_, &value, at_);
      return value;
    }
    element&& operator=(const T& value) && {
      memory_.store<access_bytes<T>>(offset_, &value, at_);
      return std::move(*this);
    }
    element&& operator=(element&& other) && { return std::move(*this) = static_cast<T>(std::move(other)); }
    element&& operator+=(const T& value) && {
      return update([&](T& x) { x = static_cast<T>(x + value); });
    }
    element&& operator-=(const T& value) && {
      return update([&](T& x) { x = static_cast<T>(x - value); });
    }
    element&& operator*=(const T& value) && {
      return update([&](T& x) { x = static_cast<T>(x * value); });
    }
    element&& operator|=(const T& value) && {
      return update([&](T& x) { x = static_cast<T>(x | value); });
    }
    element&& operator&=(const T& value) && {
      return update([&](T& x) { x = static_cast<T>(x & value); });
    }

   private:
    friend class host_shared_array;
    element(block_memory& memory, std::uint32_t offset, source_position at)
        : memory_(memory), offset_(offset), at_(at) {}

    template <class Function>
    element&& update(Function&& function) {
      T value = std::move(*this);
      function(value);
      return std::move(*this) = value;
    }

    block_memory& memory_;
    std::uint32_t offset_;
    source_position at_;
  };

  element operator[](index i) const {
    if (i.value < 0 || i.value >= count_) {
      memory_->threads().fail(i.at, "shared index ", i.value, " is outside the array's [0, ", count_,
                              "): take more elements, or guard the index");
    }
    return element(*memory_, offset_ + static_cast<std::uint32_t>(i.value) * static_cast<std::uint32_t>(sizeof(T)),
                   i.at);
  }

 private:
  friend class simt::host_context;
  host_shared_array(block_memory& memory, std::uint32_t offset, int count)
      : memory_(&memory), offset_(offset), count_(count) {}

  /// Where an access of Bytes at a byte offset of this array of bytes lies in the block's shared memory.
  template <std::uint32_t Bytes>
  std::uint32_t offset_of(int offset, std::string_view what, source_position at) const {
    constexpr int bytes = static_cast<int>(Bytes);
    if (offset < 0 || offset > count_ - bytes) {
      memory_->threads().fail(at, what, " of ", bytes, " bytes at offset ", offset, " is outside the array's ", count_,
                              " bytes: take a larger array, or guard the offset");
    }
    if (offset % bytes != 0) {
      memory_->threads().fail(at, "misaligned ", what, ": offset ", offset, " is not a multiple of ", bytes,
                              ": align it, or take a narrower access");
    }
    return offset_ + static_cast<std::uint32_t>(offset);
  }

  block_memory* memory_;
  std::uint32_t offset_;
  int count_;
};

}  // namespace detail
}  // namespace pagoda::simt
