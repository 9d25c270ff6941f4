// SPDX-License-Identifier: Apache-2.0
/// @file lru: the block that nobody has held for the longest time goes first. The default.
#pragma once

#include <cstdint>
#include <string_view>

#include <pagoda/eviction.hpp>
#include <pagoda/eviction/block_list.hpp>

namespace pagoda {

/// Least recently used: the block that was inserted longest ago goes first. A sequence gives its blocks back last block
/// first, so that of one prefix the tail goes before the beginning, without which it could not be found.
///
/// Units:      8 bytes a block.
/// Complexity: O(1) for every call.
/// Source:     Mattson et al. 1970, "Evaluation techniques for storage hierarchies".
class lru {
 public:
  static constexpr std::string_view name = "lru";

  explicit lru(std::int32_t num_blocks) : order_(num_blocks) {}

  void insert(const cached_block& block) noexcept { order_.push_back(block.id); }
  void erase(block_id id) noexcept { order_.unlink(id); }
  block_id evict() noexcept { return order_.pop_front(); }
  std::int32_t size() const noexcept { return order_.size(); }

 private:
  block_list order_;
};

static_assert(eviction_policy<lru>);

}  // namespace pagoda
