// SPDX-License-Identifier: Apache-2.0
/// @file fifo: the block that entered the prefix index first goes first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include <pagoda/eviction.hpp>
#include <pagoda/eviction/block_list.hpp>

namespace pagoda {

/// First in, first out: the order of stored(), however often a block is used. A block whose turn comes while it is held
/// is overdue: it goes as soon as nobody holds it, before all others, and of several overdue ones that which was given
/// back first. A block that was never stored() counts as overdue, too.
///
/// Units:      9 bytes a block.
/// Complexity: O(1) for every call; of evict amortised, as each block is passed over at most once after it was stored.
class fifo {
 public:
  static constexpr std::string_view name = "fifo";

  explicit fifo(std::int32_t num_blocks) : order_(num_blocks, 2) {
    states_.resize(static_cast<std::size_t>(num_blocks), state::held);
  }

  void stored(block_id id) noexcept { order_.push_back(id, in_turn); }

  void forgotten(block_id id) noexcept {
    if (order_.contains(id)) order_.unlink(id);
  }

  void insert(const cached_block& block) noexcept {
    ++size_;
    if (order_.contains(block.id)) {
      state_of(block.id) = state::cached;
    } else {
      state_of(block.id) = state::cached_overdue;
      order_.push_back(block.id, overdue);
    }
  }

  void erase(block_id id) noexcept {
    --size_;
    if (state_of(id) == state::cached_overdue) order_.unlink(id);
    state_of(id) = state::held;
  }

  block_id evict() noexcept {
    if (size_ == 0) return block_id::none;
    block_id next = order_.pop_front(overdue);
    while (next == block_id::none) {
      const block_id oldest = order_.pop_front(in_turn);
      if (state_of(oldest) == state::cached) next = oldest;  // else it is held, in no list from here on: overdue
    }
    --size_;
    state_of(next) = state::held;
    return next;
  }

  std::int32_t size() const noexcept { return size_; }

 private:
  // The lists: blocks in the order of stored(), held ones among them; and overdue ones that nobody holds.
  static constexpr std::int32_t in_turn = 0;
  static constexpr std::int32_t overdue = 1;

  enum class state : std::uint8_t { held, cached, cached_overdue };

  state& state_of(block_id id) noexcept { return states_[static_cast<std::size_t>(id)]; }

  block_list order_;
  std::vector<state> states_;
  std::int32_t size_ = 0;
};

static_assert(eviction_policy<fifo> && has_stored<fifo> && has_forgotten<fifo>);

}  // namespace pagoda
