// SPDX-License-Identifier: Apache-2.0
/// @file block_pool: a fixed number of blocks with reference counts and a free list.
#pragma once

#include <cstdint>
#include <vector>

#include <pagoda/shape.hpp>

namespace pagoda {

/// Counts who uses which block. It holds no bytes and never allocates after construction.
///
/// A block is in one of four states: free; used (one reference or more); retiring: released, but not to be given out
/// before a ticket completes; cached: nobody holds it, but somebody who may find its content again asked to keep() it.
/// The order in which blocks are given out depends on the calls alone.
/// Complexity: O(1) for every call; complete() is O(1) for each block that it takes out of the queue.
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
  std::int32_t cached() const noexcept { return cached_; }
  std::int32_t retiring() const noexcept { return retiring_; }
  std::int32_t used() const noexcept { return size() - free_ - cached_ - retiring_; }

  /// Of the used blocks, those with two references or more.
  std::int32_t shared() const noexcept { return shared_; }

  /// A free block, with one reference, or block_id::none.
  block_id try_allocate() noexcept {
    if (first_free_ == nothing) return block_id::none;
    const std::int32_t index = first_free_;
    record& block = at(index);
    first_free_ = block.next;
    --free_;
    block.next = nothing;
    block.references = 1;
    block.set_after(ticket::none);
    return block_id{index};
  }

  /// As try_allocate. Throws: out_of_blocks if none is free.
  block_id allocate() {
    const block_id block = try_allocate();
    if (block == block_id::none) throw out_of_blocks({.needed = 1, .free = 0, .retiring = retiring_});
    return block;
  }

  /// Adds a reference; the first one of a block that is kept and that nobody held.
  /// Throws: out_of_range for an unknown id; logic_error for a block that is neither used nor kept.
  void share(block_id id) {
    check_id(id);
    record& block = at(static_cast<std::int32_t>(id));
    if (block.references > 0) {
      shared_ += ++block.references == 2 ? 1 : 0;
      return;
    }
    if (block.kept == 0) refuse("share", id);
    if (block.references == cached_references) {
      --cached_;
    } else {
      unlink_retiring(static_cast<std::int32_t>(id));
    }
    block.references = 1;
  }

  /// Takes one reference back. With the last one the block becomes free, or cached if it is kept; with a ticket it
  /// first retires until complete(after). Returns whether it is cached now.
  /// Requires: `after` never decreases from call to call.
  /// Throws:   out_of_range for an unknown id; logic_error for a block that is not in use, as on a second release.
  bool release(block_id id, ticket after = ticket::none) {
    check_id(id);
    const auto index = static_cast<std::int32_t>(id);
    record& block = at(index);
    if (block.references <= 0) refuse("release", id);
    shared_ -= block.references == 2 ? 1 : 0;
    if (after != ticket::none) block.set_after(after);
    if (--block.references > 0) return false;
    if (after == ticket::none) return settle(index);
    push_retiring(index);
    return false;
  }

  /// Marks a used block as one whose content will be looked for after its release.
  /// Throws: out_of_range for an unknown id; logic_error for a block that is not in use.
  void keep(block_id id) {
    check_id(id);
    record& block = at(static_cast<std::int32_t>(id));
    if (block.references <= 0) refuse("keep", id);
    block.kept = 1;
  }

  /// Takes the mark of keep() away; a cached block becomes free. Throws: out_of_range for an unknown id.
  void forget(block_id id) {
    check_id(id);
    const auto index = static_cast<std::int32_t>(id);
    record& block = at(index);
    block.kept = 0;
    if (block.references != cached_references) return;
    --cached_;
    push_free(index);
  }

  /// Whether keep() marked the block. Requires: a block of this pool.
  bool kept(block_id id) const noexcept { return records_[static_cast<std::size_t>(id)].kept != 0; }

  /// Notes that work up to a ticket reads the block, whoever holds it then: what the block holds now stays as it is.
  /// Requires: a used block of this pool; as for release, tickets never decrease.
  void lend(block_id id, ticket until) noexcept { at(static_cast<std::int32_t>(id)).set_after(until); }

  /// Whether work that is not complete may still use the block: it was lent to it, or given back by those who planned
  /// it. Requires: a block of this pool.
  bool lent(block_id id, ticket completed) const noexcept {
    return records_[static_cast<std::size_t>(id)].after() > completed;
  }

  /// Takes every block that retires until `done` or an earlier ticket out of the queue: it becomes free, or cached, and
  /// then on_cached(block) is called.
  template <class OnCached>
  void complete(ticket done, OnCached on_cached) noexcept {
    while (first_retiring_ != nothing && at(first_retiring_).after() <= done) {
      const std::int32_t index = first_retiring_;
      unlink_retiring(index);
      if (settle(index)) on_cached(block_id{index});
    }
  }
  void complete(ticket done) noexcept {
    complete(done, [](block_id) {});
  }

  /// How many hold the block; 0 if nobody does. Throws: out_of_range for an unknown id.
  std::int32_t references(block_id id) const {
    check_id(id);
    const std::int32_t count = records_[static_cast<std::size_t>(id)].references;
    return count > 0 ? count : 0;
  }

  /// Whether the block is cached. Throws: out_of_range for an unknown id.
  bool is_cached(block_id id) const {
    check_id(id);
    return records_[static_cast<std::size_t>(id)].references == cached_references;
  }

  /// Counts the states anew, by walking the lists. True if they agree with the counters and cover every block once.
  /// Complexity: O(size).
  bool consistent() const {
    std::vector<char> seen(records_.size(), 0);
    const auto walk = [&](std::int32_t first, std::int32_t references) {
      std::int32_t count = 0;
      std::int32_t last = nothing;
      for (std::int32_t i = first; i != nothing && count <= size(); i = records_[static_cast<std::size_t>(i)].next) {
        const record& block = records_[static_cast<std::size_t>(i)];
        char& mark = seen[static_cast<std::size_t>(i)];
        if (mark != 0 || block.references != references) return size() + 1;
        if (references == retiring_references && block.previous != last) return size() + 1;
        if (references == free_references && block.kept != 0) return size() + 1;
        mark = 1;
        last = i;
        ++count;
      }
      return count;
    };
    if (walk(first_free_, free_references) != free_ || walk(first_retiring_, retiring_references) != retiring_) {
      return false;
    }
    std::int32_t cached = 0;
    std::int32_t shared = 0;
    for (std::size_t i = 0; i < records_.size(); ++i) {
      const record& block = records_[i];
      cached += block.references == cached_references ? 1 : 0;
      shared += block.references > 1 ? 1 : 0;
      if (block.references == cached_references && block.kept == 0) return false;
      if ((seen[i] == 0) != (block.references > 0 || block.references == cached_references)) return false;
    }
    return cached == cached_ && shared == shared_;
  }

 private:
  static constexpr std::int32_t nothing = -1;
  static constexpr std::int32_t free_references = 0;
  static constexpr std::int32_t retiring_references = -1;
  static constexpr std::int32_t cached_references = -2;

  struct record {
    std::int32_t references = free_references;
    std::int32_t next = nothing;  // in the free list or in the queue of the retiring
    std::int32_t previous = nothing;
    std::uint32_t after_low = 0;  // the ticket, in 63 bits of two words: there is a record for every block
    std::uint32_t after_high : 31 = 0;
    std::uint32_t kept : 1 = 0;

    ticket after() const noexcept { return ticket{std::uint64_t{after_high} << 32 | after_low}; }
    void set_after(ticket value) noexcept {
      after_low = static_cast<std::uint32_t>(value);
      after_high = static_cast<std::uint32_t>(static_cast<std::uint64_t>(value) >> 32) & 0x7fffffff;
    }
  };
  static_assert(sizeof(record) == 20);

  record& at(std::int32_t index) noexcept { return records_[static_cast<std::size_t>(index)]; }

  void check_id(block_id id) const {
    const auto index = static_cast<std::int32_t>(id);
    if (index < 0 || index >= size()) {
      detail::fail<out_of_range>("block id ", index, " lies outside the pool's 0 to ", size() - 1,
                                 ": pass an id that this pool gave out");
    }
  }

  [[noreturn]] void refuse(const char* call, block_id id) const {
    const std::int32_t references = records_[static_cast<std::size_t>(id)].references;
    detail::fail<logic_error>(call, " of block ", static_cast<std::int32_t>(id), ", which is ",
                              references == free_references     ? "free"
                              : references == cached_references ? "cached"
                                                                : "retiring",
                              ": release each reference once, and share only blocks in use or kept");
  }

  /// Nobody holds the block and no ticket keeps it. Returns whether it is cached now.
  bool settle(std::int32_t index) noexcept {
    record& block = at(index);
    if (block.kept == 0) {
      push_free(index);
      return false;
    }
    block.references = cached_references;
    ++cached_;
    return true;
  }

  void push_free(std::int32_t index) noexcept {
    record& block = at(index);
    block.references = free_references;
    block.next = first_free_;
    first_free_ = index;
    ++free_;
  }

  void push_retiring(std::int32_t index) noexcept {
    record& block = at(index);
    block.references = retiring_references;
    block.next = nothing;
    block.previous = last_retiring_;
    (last_retiring_ == nothing ? first_retiring_ : at(last_retiring_).next) = index;
    last_retiring_ = index;
    ++retiring_;
  }

  void unlink_retiring(std::int32_t index) noexcept {
    record& block = at(index);
    (block.previous == nothing ? first_retiring_ : at(block.previous).next) = block.next;
    (block.next == nothing ? last_retiring_ : at(block.next).previous) = block.previous;
    block.next = nothing;
    block.previous = nothing;
    --retiring_;
  }

  std::vector<record> records_;
  std::int32_t first_free_ = nothing;  // a stack: the block used last is the one whose bytes are still in a cache
  std::int32_t first_retiring_ = nothing;
  std::int32_t last_retiring_ = nothing;
  std::int32_t free_ = 0;
  std::int32_t cached_ = 0;
  std::int32_t retiring_ = 0;
  std::int32_t shared_ = 0;
};

}  // namespace pagoda
