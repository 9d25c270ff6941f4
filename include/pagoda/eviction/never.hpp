// SPDX-License-Identifier: Apache-2.0
/// @file never: what is cached stays.
#pragma once

#include <cstdint>
#include <string_view>

#include <pagoda/eviction.hpp>

namespace pagoda {

/// Evicts nothing: a cached block goes only when the caller clears the prefixes. For a pool that must hold certain
/// prompts for good, and for tests.
class never {
 public:
  static constexpr std::string_view name = "never";

  explicit never(std::int32_t /*num_blocks*/) noexcept {}

  void insert(const cached_block&) noexcept {}
  void erase(block_id) noexcept {}
  block_id evict() noexcept { return block_id::none; }
  std::int32_t size() const noexcept { return 0; }
};

static_assert(eviction_policy<never>);

}  // namespace pagoda
