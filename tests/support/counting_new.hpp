// SPDX-License-Identifier: Apache-2.0
/// @file Replaces the global operator new and delete, so that a test can count allocations and let one of them fail.
/// The replacement is the program's: one source file includes this file as it is, others that count with it define
/// PAGODA_TEST_NEW_IS_REPLACED_ELSEWHERE before they do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace pagoda_test {

/// Counts between construction and destruction. Requires: one at a time, and no other thread that allocates.
class allocation_scope {
 public:
  static constexpr std::int64_t never = -1;

  /// The allocation with number `fail_at`, from 0, throws std::bad_alloc.
  explicit allocation_scope(std::int64_t fail_at = never) noexcept {
    allocated_ = 0;
    bytes_ = 0;
    freed_ = 0;
    fail_at_ = fail_at;
    active_ = true;
  }
  ~allocation_scope() { active_ = false; }
  allocation_scope(const allocation_scope&) = delete;
  allocation_scope& operator=(const allocation_scope&) = delete;

  std::int64_t allocated() const noexcept { return allocated_; }
  /// Asked for in all these allocations, freed ones included.
  std::int64_t bytes() const noexcept { return bytes_; }
  /// Allocations less releases; pieces from before the scope that are released in it count as releases.
  std::int64_t live() const noexcept { return allocated_ - freed_; }

  static void* allocate(std::size_t size, std::size_t alignment) {
    if (active_) {
      if (allocated_ == fail_at_) {
        fail_at_ = never;
        throw std::bad_alloc();
      }
      ++allocated_;
      bytes_ += static_cast<std::int64_t>(size);
    }
    if (size == 0) size = 1;
    void* memory = alignment <= alignof(std::max_align_t)
                       ? std::malloc(size)
                       : std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
    if (memory == nullptr) throw std::bad_alloc();
    return memory;
  }

  static void* try_allocate(std::size_t size) noexcept {
    try {
      return allocate(size, 1);
    } catch (const std::bad_alloc&) {
      return nullptr;
    }
  }

  static void release(void* memory) noexcept {
    if (active_ && memory != nullptr) ++freed_;
    std::free(memory);
  }

 private:
  static inline bool active_ = false;
  static inline std::int64_t allocated_ = 0;
  static inline std::int64_t bytes_ = 0;
  static inline std::int64_t freed_ = 0;
  static inline std::int64_t fail_at_ = never;
};

}  // namespace pagoda_test

#ifndef PAGODA_TEST_NEW_IS_REPLACED_ELSEWHERE
void* operator new(std::size_t size) {
  return pagoda_test::allocation_scope::allocate(size, 1);
}
void* operator new[](std::size_t size) {
  return pagoda_test::allocation_scope::allocate(size, 1);
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return pagoda_test::allocation_scope::try_allocate(size);
}
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept {
  return pagoda_test::allocation_scope::try_allocate(size);
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  return pagoda_test::allocation_scope::allocate(size, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t size, std::align_val_t alignment) {
  return pagoda_test::allocation_scope::allocate(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept {
  pagoda_test::allocation_scope::release(memory);
}
void operator delete[](void* memory) noexcept {
  pagoda_test::allocation_scope::release(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  pagoda_test::allocation_scope::release(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  pagoda_test::allocation_scope::release(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  pagoda_test::allocation_scope::release(memory);
}
void operator delete[](void* memory, std::align_val_t) noexcept {
  pagoda_test::allocation_scope::release(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  pagoda_test::allocation_scope::release(memory);
}
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept {
  pagoda_test::allocation_scope::release(memory);
}
#endif
