// SPDX-License-Identifier: Apache-2.0
/// @file execute: performs a copy_list on host storage.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include <pagoda/block_storage.hpp>
#include <pagoda/cache.hpp>
#include <pagoda/copy_list.hpp>
#include <pagoda/detail/check_transfer.hpp>

namespace pagoda::host {

namespace detail {

/// Calls visit(pointer, bytes) for every piece of the row of (block, head, slot), in a fixed order.
template <class KeyQuantizer, class ValueQuantizer, class Visit>
void visit_row_pieces(const cache_view<KeyQuantizer, ValueQuantizer>& layer, block_id block, std::int64_t head,
                      std::int64_t slot, Visit&& visit) {
  const auto row = [&](const plane_view& plane, std::int64_t bytes) {
    for (std::int64_t begin = 0; begin < bytes; begin += 16) {
      visit(plane.row(block, head, slot) + begin / 16 * plane.chunk_stride,
            static_cast<std::size_t>(bytes - begin < 16 ? bytes - begin : 16));
    }
  };
  const auto scales = [&](const plane_view& plane, std::int64_t bytes) {
    if (bytes > 0) visit(plane.row(block, head, slot), static_cast<std::size_t>(bytes));
  };
  row(layer.keys, code_bytes<KeyQuantizer>(layer.key_dim));
  scales(layer.key_scales, row_scale_bytes<KeyQuantizer>(layer.key_dim));
  if (layer.values_lie_in_keys()) return;
  row(layer.values, code_bytes<ValueQuantizer>(layer.value_dim));
  scales(layer.value_scales, row_scale_bytes<ValueQuantizer>(layer.value_dim));
}

/// Moves rows in every layer: all are read before any is written.
template <class Storage>
void move_rows(Storage& storage, std::span<const row_copy> rows) {
  std::vector<std::byte> staged;
  for (std::int32_t layer = 0; layer < storage.shape().layers; ++layer) {
    const auto view = storage.layer_view(layer);
    staged.clear();
    for (const row_copy& copy : rows) {
      for (std::int64_t head = 0; head < view.kv_heads; ++head) {
        visit_row_pieces(view, copy.from_block, head, copy.from_slot, [&](const std::byte* piece, std::size_t bytes) {
          staged.insert(staged.end(), piece, piece + bytes);
        });
      }
    }
    const std::byte* next = staged.data();
    for (const row_copy& copy : rows) {
      for (std::int64_t head = 0; head < view.kv_heads; ++head) {
        visit_row_pieces(view, copy.to_block, head, copy.to_slot, [&](std::byte* piece, std::size_t bytes) {
          std::memcpy(piece, next, bytes);
          next += bytes;
        });
      }
    }
  }
}

}  // namespace detail

/// Performs the copies that a manager asked for, in every layer of the storage, as if everything were read before
/// anything is written. Rows move as encoded bytes.
///
/// Requires:   the list comes from the manager whose blocks the storage holds; `group` is the storage's layer group.
/// Throws:     out_of_range for a block that the storage lacks or a group that the manager lacks, invalid_argument for
/// a
///             storage of another block size and for the copies of a transfer(); before anything is copied.
/// Complexity: O(bytes moved). Rows are staged in memory allocated for the call; whole blocks are not.
template <class KeyQuantizer, class ValueQuantizer, class Layout, class Memory>
void execute(block_storage<KeyQuantizer, ValueQuantizer, Layout, Memory>& storage, const copy_list& copies,
             int group = only_group) {
  static_assert(is_host_accessible_v<Memory>, "pagoda: this storage lies in device memory: call cuda::execute");
  check_copies(copies, group, storage.block_size(), storage.blocks());
  // A manager copies shared blocks to fresh ones, so no block is both read and written.
  for (std::int32_t layer = 0; layer < storage.shape().layers; ++layer) {
    for (const block_copy& copy : copies.blocks(group)) {
      const std::span<const std::byte> from = storage.block_bytes(copy.from, layer);
      std::memcpy(storage.block_bytes(copy.to, layer).data(), from.data(), from.size());
    }
  }
  if (!copies.rows(group).empty()) detail::move_rows(storage, copies.rows(group));
}

/// The same for a cache and the copies of its own steps.
template <class... Policies>
void execute(basic_cache<Policies...>& cache, const copy_list& copies) {
  host::execute(cache.storage(), copies);
}

/// Performs the copies of a transfer(): whole blocks of one storage to blocks of another, in every layer. Both have the
/// same quantizers, layout and shape; memories and numbers of blocks may differ.
///
/// Requires:   the storages hold the blocks of the managers that the transfer was from and to; `group` is their layer
///             group; their bytes do not overlap.
/// Throws:     before anything is copied, invalid_argument for storages that differ in shape, block size or pool order,
///             for one storage twice and for copies that are not of a transfer; out_of_range for a block that its
///             storage lacks or a group that the managers lack.
/// Complexity: O(bytes moved).
template <class FromKeys, class FromValues, class FromLayout, class FromMemory, class ToKeys, class ToValues,
          class ToLayout, class ToMemory>
void execute(const block_storage<FromKeys, FromValues, FromLayout, FromMemory>& from,
             block_storage<ToKeys, ToValues, ToLayout, ToMemory>& to, const copy_list& copies, int group = only_group) {
  static_assert(is_host_accessible_v<FromMemory> && is_host_accessible_v<ToMemory>,
                "pagoda: one of these storages lies in device memory: call cuda::execute");
  pagoda::detail::check_transfer(from, to, copies, group);
  for (std::int32_t layer = 0; layer < from.shape().layers; ++layer) {
    for (const block_copy& copy : copies.blocks(group)) {
      const std::span<const std::byte> bytes = from.block_bytes(copy.from, layer);
      std::memcpy(to.block_bytes(copy.to, layer).data(), bytes.data(), bytes.size());
    }
  }
}

/// The same for two caches, and a transfer() between their managers.
template <class... From, class... To>
void execute(const basic_cache<From...>& from, basic_cache<To...>& to, const copy_list& copies) {
  host::execute(from.storage(), to.storage(), copies);
}

}  // namespace pagoda::host
