// SPDX-License-Identifier: Apache-2.0
/// @file block_list: doubly linked lists over block ids, for eviction policies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <pagoda/shape.hpp>

namespace pagoda {

/// Blocks in an order of their own, in one list or several. A block is in at most one of them, so that a policy with
/// several queues pays for the links once. Lists are numbered from 0. Nothing allocates after construction.
///
/// Units:      8 bytes a block.
/// Requires:   ids from 0 to num_blocks - 1; lists from 0 to lists - 1.
/// Complexity: O(1) for every call but the constructor.
class block_list {
 public:
  /// Throws: invalid_argument for fewer than one block or list, and for so many that a link cannot name them.
  explicit block_list(std::int32_t num_blocks, std::int32_t lists = 1) : num_blocks_(num_blocks) {
    check_range("num_blocks", num_blocks, 1, INT32_MAX - 1);
    check_range("lists", lists, 1, INT32_MAX - num_blocks);
    links_.resize(static_cast<std::size_t>(num_blocks) + static_cast<std::size_t>(lists));
    for (std::int32_t i = 0; i < lists; ++i) at(num_blocks + i) = {num_blocks + i, num_blocks + i};
  }

  /// Blocks in all lists together.
  std::int32_t size() const noexcept { return size_; }

  bool empty(std::int32_t list = 0) const noexcept { return at(num_blocks_ + list).next == num_blocks_ + list; }

  /// Whether the block is in a list.
  bool contains(block_id id) const noexcept { return at(static_cast<std::int32_t>(id)).next != nothing; }

  /// The first block of a list, or block_id::none.
  block_id front(std::int32_t list = 0) const noexcept {
    return empty(list) ? block_id::none : block_id{at(num_blocks_ + list).next};
  }

  /// Requires: the block is in no list.
  void push_front(block_id id, std::int32_t list = 0) noexcept {
    link_before(at(num_blocks_ + list).next, static_cast<std::int32_t>(id));
  }
  void push_back(block_id id, std::int32_t list = 0) noexcept {
    link_before(num_blocks_ + list, static_cast<std::int32_t>(id));
  }

  /// Requires: the block is in a list.
  void unlink(block_id id) noexcept {
    link& gone = at(static_cast<std::int32_t>(id));
    at(gone.previous).next = gone.next;
    at(gone.next).previous = gone.previous;
    gone = {};
    --size_;
  }

  /// Takes the first block out of a list and returns it, or block_id::none.
  block_id pop_front(std::int32_t list = 0) noexcept {
    const block_id first = front(list);
    if (first != block_id::none) unlink(first);
    return first;
  }

 private:
  static constexpr std::int32_t nothing = -1;

  struct link {
    std::int32_t previous = nothing;
    std::int32_t next = nothing;
  };

  link& at(std::int32_t index) noexcept { return links_[static_cast<std::size_t>(index)]; }
  const link& at(std::int32_t index) const noexcept { return links_[static_cast<std::size_t>(index)]; }

  void link_before(std::int32_t place, std::int32_t index) noexcept {
    const std::int32_t previous = at(place).previous;
    at(index) = {previous, place};
    at(previous).next = index;
    at(place).previous = index;
    ++size_;
  }

  std::vector<link> links_;  // of the blocks, then a ring's head for each list: no end needs a branch
  std::int32_t num_blocks_;
  std::int32_t size_ = 0;
};

}  // namespace pagoda
