// SPDX-License-Identifier: Apache-2.0
/// @file tokens_heads_dim: each token's heads lie together, all keys of the block before all values.
#pragma once

#include <pagoda/layout.hpp>

namespace pagoda {

/// [K: slot][head] then [V: slot][head]
///
/// What many engines and transfer protocols hold (NHD). Attention strides over heads, so it reads slower on a CPU.
struct tokens_heads_dim {
  static constexpr std::string_view name = "tokens_heads_dim";

  static constexpr block_planes place(const block_geometry& g) {
    const std::int64_t key_token = checked_multiply(g.heads, g.key_row_bytes, "key bytes of a token");
    const std::int64_t value_token = checked_multiply(g.heads, g.value_row_bytes, "value bytes of a token");
    const std::int64_t keys = checked_multiply(g.slots, key_token, "key bytes of a block");
    const std::int64_t values = checked_multiply(g.slots, value_token, "value bytes of a block");
    return {.keys = {.offset = 0, .head = g.key_row_bytes, .slot = key_token},
            .values = {.offset = keys, .head = g.value_row_bytes, .slot = value_token},
            .size_bytes = checked_add(keys, values, "bytes of a block")};
  }
};

static_assert(block_layout<tokens_heads_dim>);

}  // namespace pagoda
