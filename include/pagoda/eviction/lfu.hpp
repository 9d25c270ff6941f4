// SPDX-License-Identifier: Apache-2.0
/// @file lfu: the block that is used least goes first; old fame fades.
#pragma once

#include <cstdint>
#include <string_view>

#include <pagoda/eviction.hpp>
#include <pagoda/eviction/block_heap.hpp>

namespace pagoda {

/// Least frequently used with dynamic aging (LFU-DA). A block's key is age + hits + 1 when it is inserted, the smallest
/// key goes first, and of equal ones the block inserted longest ago. The age is the key of the block evicted last, so
/// that a block with many hits of long ago falls behind as others come and go: without it, such blocks would fill the
/// cache for ever.
///
/// Units:      24 bytes a block.
/// Complexity: O(log size) for insert, erase and evict.
/// Source:     Arlitt et al. 2000, "Evaluating content management techniques for web proxy caches", section 4.
class lfu {
 public:
  static constexpr std::string_view name = "lfu";

  explicit lfu(std::int32_t num_blocks) : order_(num_blocks) {}

  void insert(const cached_block& block) noexcept {
    order_.push(block.id, {age_ + std::uint64_t{block.hits} + 1, ++inserted_});
  }

  void erase(block_id id) noexcept { order_.erase(id); }

  block_id evict() noexcept {
    const block_id first = order_.front();
    if (first == block_id::none) return first;
    age_ = order_.key(first).worth;
    return order_.pop_front();
  }

  std::int32_t size() const noexcept { return order_.size(); }

 private:
  struct key {
    std::uint64_t worth = 0;
    std::uint64_t inserted = 0;

    friend bool operator<(const key& a, const key& b) noexcept {
      return a.worth != b.worth ? a.worth < b.worth : a.inserted < b.inserted;
    }
  };

  block_heap<key> order_;
  std::uint64_t age_ = 0;
  std::uint64_t inserted_ = 0;
};

static_assert(eviction_policy<lfu>);

}  // namespace pagoda
