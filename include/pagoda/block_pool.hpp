// SPDX-License-Identifier: Apache-2.0
/// @file block_pool: a fixed number of blocks with reference counts and a free list.
#pragma once

#include <cstdint>
#include <vector>

#include <pagoda/shape.hpp>

namespace pagoda {

/// Counts who uses which block. It holds no bytes and never allocates after construction.
///
/// A block is free, used (one reference or more) or retiring: released, but not to be given out before a ticket
/// completes. The order in which blocks are given out depends on the calls alone.
/// Complexity: O(1) for every call; complete() is O(1) for each block that it frees.
class block_pool {
 public:
  /// Throws: invalid_argument for fewer than one block.
  explicit block_pool(num_blocks count) {
    check_range("num_blocks", count.value, 1, INT32_MAX - 1);
    records_.resize(static_cast<std::size_t>(count.value));
    for (std::int32_t i = count.value - 1; i >= 0; --i) push_free(i);
  }

  std::int32_t size() const noexcept { return static_cast<std::int32_t>(records_.size()); }
  std::int32_t free() const noexcept { return free_; }
  std::int32_t retiring() const noexcept { return retiring_; }
  std::int32_t used() const noexcept { return size() - free_ - retiring_; }

  /// A free block, with one reference, or block_id::none.
  block_id try_allocate() noexcept {
    if (first_free_ == nothing) return block_id::none;
    const std::int32_t index = first_free_;
    record& block = records_[static_cast<std::size_t>(index)];
    first_free_ = block.next;
    --free_;
    block.next = nothing;
    block.references = 1;
    return block_id{index};
  }

  /// As try_allocate. Throws: out_of_blocks if none is free.
  block_id allocate() {
    const block_id block = try_allocate();
    if (block == block_id::none) throw out_of_blocks({.needed = 1, .free = 0, .retiring = retiring_});
    return block;
  }

  /// Adds a reference. Throws: out_of_range for an unknown id, logic_error for a block that is not in use.
  void share(block_id id) { ++used_record(id, "share").references; }

  /// Takes one reference back. With the last one the block becomes free, or retires until complete(after).
  /// Requires: `after` never decreases from call to call.
  /// Throws:   out_of_range for an unknown id; logic_error for a block that is not in use, as on a second release.
  void release(block_id id, ticket after = ticket::none) {
    record& block = used_record(id, "release");
    if (--block.references > 0) return;
    const auto index = static_cast<std::int32_t>(id);
    if (after == ticket::none) {
      push_free(index);
    } else {
      push_retiring(index, after);
    }
  }

  /// Frees every block that retires until `done` or an earlier ticket.
  void complete(ticket done) noexcept {
    while (first_retiring_ != nothing && records_[static_cast<std::size_t>(first_retiring_)].after <= done) {
      const std::int32_t index = first_retiring_;
      first_retiring_ = records_[static_cast<std::size_t>(index)].next;
      if (first_retiring_ == nothing) last_retiring_ = nothing;
      --retiring_;
      push_free(index);
    }
  }

  /// How many hold the block; 0 if it is free or retiring. Throws: out_of_range for an unknown id.
  std::int32_t references(block_id id) const {
    check_id(id);
    const std::int32_t count = records_[static_cast<std::size_t>(id)].references;
    return count > 0 ? count : 0;
  }

  /// Counts the three states anew, by walking the lists. True if they agree with the counters and cover every block
  /// exactly once. Complexity: O(size).
  bool consistent() const {
    std::vector<char> seen(records_.size(), 0);
    const auto walk = [&](std::int32_t first, std::int32_t references) {
      std::int32_t count = 0;
      for (std::int32_t i = first; i != nothing && count <= size(); i = records_[static_cast<std::size_t>(i)].next) {
        char& mark = seen[static_cast<std::size_t>(i)];
        if (mark != 0 || records_[static_cast<std::size_t>(i)].references != references) return size() + 1;
        mark = 1;
        ++count;
      }
      return count;
    };
    if (walk(first_free_, free_references) != free_ || walk(first_retiring_, retiring_references) != retiring_) {
      return false;
    }
    for (std::size_t i = 0; i < records_.size(); ++i) {
      if ((seen[i] == 0) != (records_[i].references > 0)) return false;
    }
    return true;
  }

 private:
  static constexpr std::int32_t nothing = -1;
  static constexpr std::int32_t free_references = 0;
  static constexpr std::int32_t retiring_references = -1;

  struct record {
    std::int32_t references = free_references;
    std::int32_t next = nothing;  // in the free list or in the queue of the retiring
    ticket after = ticket::none;
  };

  void check_id(block_id id) const {
    const auto index = static_cast<std::int32_t>(id);
    if (index < 0 || index >= size()) {
      detail::fail<out_of_range>("block id ", index, " lies outside the pool's 0 to ", size() - 1,
                                 ": pass an id that this pool gave out");
    }
  }

  record& used_record(block_id id, const char* call) {
    check_id(id);
    record& block = records_[static_cast<std::size_t>(id)];
    if (block.references <= 0) {
      detail::fail<logic_error>(call, " of block ", static_cast<std::int32_t>(id), ", which is ",
                                block.references == free_references ? "free" : "retiring",
                                ": release each reference once, and share only blocks in use");
    }
    return block;
  }

  void push_free(std::int32_t index) noexcept {
    record& block = records_[static_cast<std::size_t>(index)];
    block.references = free_references;
    block.next = first_free_;
    first_free_ = index;
    ++free_;
  }

  void push_retiring(std::int32_t index, ticket after) noexcept {
    record& block = records_[static_cast<std::size_t>(index)];
    block.references = retiring_references;
    block.next = nothing;
    block.after = after;
    if (last_retiring_ == nothing) {
      first_retiring_ = index;
    } else {
      records_[static_cast<std::size_t>(last_retiring_)].next = index;
    }
    last_retiring_ = index;
    ++retiring_;
  }

  std::vector<record> records_;
  std::int32_t first_free_ = nothing;  // a stack: the block used last is the one whose bytes are still in a cache
  std::int32_t first_retiring_ = nothing;
  std::int32_t last_retiring_ = nothing;
  std::int32_t free_ = 0;
  std::int32_t retiring_ = 0;
};

}  // namespace pagoda
