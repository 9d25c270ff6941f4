// SPDX-License-Identifier: Apache-2.0
/// @file What the tests of transfers between managers share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "manager_support.hpp"

namespace pagoda_test {

inline pagoda::manager_config pool_of(std::int32_t blocks,
                                      pagoda::reuse_rule reuse = pagoda::reuse_rule::stream_ordered) {
  return {.groups = {{.num_blocks = blocks, .block_bytes = 1000}},
          .block_size = 4,
          .max_sequences = 8,
          .max_open_steps = 2,
          .reuse = reuse,
          .max_events = 64};
}

inline std::vector<std::int32_t> tokens_from(std::int32_t first, std::int32_t count) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(count));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

/// A sequence of these tokens, computed, published and ended: its blocks are cached.
inline void cache_prefix(pagoda::block_manager& manager, const std::vector<std::int32_t>& tokens,
                         const pagoda::block_advice& advice = {}) {
  const pagoda::sequence seq = manager.make_sequence();
  grow(manager, seq, static_cast<std::int32_t>(tokens.size()));
  manager.publish(seq, {.tokens = tokens}, advice);
}

}  // namespace pagoda_test
