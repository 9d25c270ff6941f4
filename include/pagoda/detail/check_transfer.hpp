// SPDX-License-Identifier: Apache-2.0
/// @file What two storages must have in common for blocks to move between them.
#pragma once

#include <type_traits>

#include <pagoda/block_storage.hpp>
#include <pagoda/copy_list.hpp>

namespace pagoda::detail {

/// A transfer moves encoded bytes as they lie, so both storages must hold a block in the same way; their memories and
/// numbers of blocks may differ.
/// Throws: invalid_argument for storages of another shape, block size or pool order, for one storage twice and for a
///         list that is not of transfer(); out_of_range for a block that its storage lacks and for an unknown group.
template <class FromKeys, class FromValues, class FromLayout, class FromMemory, class ToKeys, class ToValues,
          class ToLayout, class ToMemory>
void check_transfer(const block_storage<FromKeys, FromValues, FromLayout, FromMemory>& from,
                    const block_storage<ToKeys, ToValues, ToLayout, ToMemory>& to, const copy_list& copies, int group) {
  static_assert(std::is_same_v<FromKeys, ToKeys> && std::is_same_v<FromValues, ToValues>,
                "pagoda: blocks move as encoded bytes: both storages must have the same quantizers of keys and values");
  static_assert(std::is_same_v<FromLayout, ToLayout>,
                "pagoda: blocks move as encoded bytes: both storages must have the same layout");
  const storage_shape& shape = from.shape();
  const storage_shape& other = to.shape();
  if (shape.layers != other.layers || shape.kv_heads != other.kv_heads || shape.key_dim() != other.key_dim() ||
      shape.value_dim() != other.value_dim()) {
    fail("transfer from a storage of ", shape.layers, " layers, ", shape.kv_heads, " kv heads and head dims ",
         shape.key_dim(), " and ", shape.value_dim(), " to one of ", other.layers, " layers, ", other.kv_heads,
         " kv heads and head dims ", other.key_dim(), " and ", other.value_dim(), ": build both with one shape");
  }
  if (from.block_size() != to.block_size()) {
    fail("transfer from a storage with blocks of ", from.block_size(), " tokens to one with blocks of ",
         to.block_size(), ": build both with one block size");
  }
  if (from.order() != to.order()) {
    fail("transfer between a storage by_layer and one by_block: build both with one pool_order");
  }
  if (from.block_bytes(block_id{0}, 0).data() == to.block_bytes(block_id{0}, 0).data()) {
    fail("transfer from a storage to itself: pass the storage of each manager");
  }
  check_transfer_copies(copies, group, from.block_size(), from.blocks(), to.blocks());
}

}  // namespace pagoda::detail
