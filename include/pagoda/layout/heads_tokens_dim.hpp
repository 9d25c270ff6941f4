// SPDX-License-Identifier: Apache-2.0
/// @file heads_tokens_dim: each head's tokens lie together, its keys before its values. The default.
#pragma once

#include <pagoda/layout.hpp>

namespace pagoda {

/// [head][K rows of all slots | V rows of all slots]
///
/// One head's walk over a block is one stream of memory, which is what attention on a CPU and cp.async rings like best.
struct heads_tokens_dim {
  static constexpr std::string_view name = "heads_tokens_dim";

  static constexpr block_planes place(const block_geometry& g) {
    const std::int64_t key_plane = checked_multiply(g.slots, g.key_row_bytes, "key bytes of a head");
    const std::int64_t value_plane = checked_multiply(g.slots, g.value_row_bytes, "value bytes of a head");
    const std::int64_t head = checked_add(key_plane, value_plane, "bytes of a head");
    return {.keys = {.offset = 0, .head = head, .slot = g.key_row_bytes},
            .values = {.offset = key_plane, .head = head, .slot = g.value_row_bytes},
            .size_bytes = checked_multiply(g.heads, head, "bytes of a block")};
  }
};

static_assert(block_layout<heads_tokens_dim>);

}  // namespace pagoda
