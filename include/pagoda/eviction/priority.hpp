// SPDX-License-Identifier: Apache-2.0
/// @file priority: the block that the caller holds least dear goes first; priorities expire.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

#include <pagoda/eviction.hpp>
#include <pagoda/eviction/block_heap.hpp>

namespace pagoda {

/// The caller's advice decides: the lowest priority goes first, and of equal ones the block inserted longest ago. From
/// its expiry on a block counts as priority 0, and keeps its place in the order of insertion. Without advice it is lru.
/// Priorities outside 0 to highest_priority count as the nearest inside.
///
/// Units:      32 bytes a block.
/// Complexity: O(log size) for insert, erase and evict; advance O(log size) for each block that expires.
class priority {
 public:
  static constexpr std::string_view name = "priority";

  explicit priority(std::int32_t num_blocks) : order_(num_blocks), expiry_(num_blocks) {}

  void insert(const cached_block& block) noexcept {
    const bool expires = block.expires != never_expires;
    const bool expired = expires && block.expires <= now_;
    const std::int32_t level = expired ? 0 : std::clamp(block.priority, 0, highest_priority);
    order_.push(block.id, static_cast<std::uint64_t>(level) << serial_bits | ++inserted_);
    if (expires && level > 0) expiry_.push(block.id, block.expires);
  }

  void erase(block_id id) noexcept {
    order_.erase(id);
    if (expiry_.contains(id)) expiry_.erase(id);
  }

  block_id evict() noexcept {
    const block_id first = order_.front();
    if (first != block_id::none) erase(first);
    return first;
  }

  std::int32_t size() const noexcept { return order_.size(); }

  void advance(std::int64_t now) noexcept {
    now_ = std::max(now_, now);
    for (block_id first = expiry_.front(); first != block_id::none && expiry_.key(first) <= now_;
         first = expiry_.front()) {
      expiry_.erase(first);
      order_.update(first, order_.key(first) & serial_mask);
    }
  }

 private:
  // A key is the priority above a serial number of the insertion: at a billion a second it would last two years.
  static constexpr int serial_bits = 56;
  static constexpr std::uint64_t serial_mask = (std::uint64_t{1} << serial_bits) - 1;

  block_heap<std::uint64_t> order_;
  block_heap<std::int64_t> expiry_;  // of those that will be demoted
  std::uint64_t inserted_ = 0;
  std::int64_t now_ = 0;
};

static_assert(eviction_policy<priority> && has_advance<priority>);

}  // namespace pagoda
