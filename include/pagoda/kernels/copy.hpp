// SPDX-License-Identifier: Apache-2.0
/// @file copy_blocks and move_rows: what a copy_list asks for, on the device.
#pragma once

#include <cstddef>
#include <cstdint>

#include <pagoda/block_storage.hpp>
#include <pagoda/cache_view.hpp>
#include <pagoda/copy_list.hpp>
#include <pagoda/kernels/row_encoder.hpp>
#include <pagoda/quantizer.hpp>
#include <pagoda/simt/execution_context.hpp>

namespace pagoda::kernels {

/// Where one step's copies are listed. Both pointers are to device memory.
template <class Copy>
struct copy_source {
  const Copy* copies = nullptr;
  std::int32_t max_copies = 0;          ///< never are more copies performed
  const std::int32_t* count = nullptr;  ///< one number; null: max_copies is the count

  template <class Context>
  PAGODA_KERNEL_FUNCTION std::uint32_t read_count(Context& ctx) const {
    const std::int32_t listed = count == nullptr ? max_copies : ctx.ldg(count);
    const std::int32_t kept = listed < max_copies ? listed : max_copies;
    return static_cast<std::uint32_t>(kept < 0 ? 0 : kept);
  }
};

/// Copies whole blocks of every layer of a storage, 16 bytes a thread.
///
/// Requires:   no block is both a source and a target (a manager copies shared blocks to fresh ones); the ids lie in
///             the pool; addresses and sizes are multiples of 16.
/// Complexity: O(bytes moved).
struct copy_blocks {
  static constexpr int threads = 256;
  static constexpr int shared_bytes = 0;

  struct arguments {
    std::byte* base = nullptr;      ///< of block 0 in layer 0
    std::int64_t block_stride = 0;  ///< bytes
    std::int64_t piece_stride = 0;  ///< bytes between the pieces of a block
    std::int64_t piece_bytes = 0;   ///< that lie together
    std::int32_t pieces = 0;        ///< of a block: one for each layer, or one for all
    copy_source<block_copy> list{};
  };

  /// The arguments for a storage's own pool. A block of all layers is one piece in by_block pools.
  /// Requires: copies (and count) as copy_source says.
  template <class Storage>
  static arguments make_arguments(const Storage& storage, const copy_source<block_copy>& list) {
    const std::int32_t layers = storage.shape().layers;
    const auto first = storage.block_bytes(block_id{0}, 0);
    const auto last = storage.block_bytes(block_id{0}, layers - 1);
    const auto bytes = static_cast<std::int64_t>(first.size());
    const std::int64_t layer_stride = layers == 1 ? bytes : (last.data() - first.data()) / (layers - 1);
    const bool together = layer_stride == bytes && storage.order() == pool_order::by_block;
    return {first.data(),          storage.layer_view(0).keys.block_stride,
            layer_stride,          together ? bytes * layers : bytes,
            together ? 1 : layers, list};
  }

  /// Blocks of the grid that have work if all copies are listed; the grid may be smaller.
  /// Throws: size_overflow or invalid_argument for more than 2^31 units of 16 KiB.
  static std::int64_t max_units(const arguments& args) {
    const std::int64_t pieces = checked_multiply(args.list.max_copies, args.pieces, "pieces to copy");
    const std::int64_t units = checked_multiply(pieces, tiles(args), "units to copy");
    check_range("units to copy", units, 0, INT32_MAX, "execute the copies in several lists");
    return units;
  }

  template <simt::execution_context Context>
  PAGODA_HOST_DEVICE static void run(Context& ctx, const arguments& args) {
    const auto tiles_of_piece = static_cast<std::uint32_t>(tiles(args));
    const auto pieces = static_cast<std::uint32_t>(args.pieces);
    const std::uint32_t units = args.list.read_count(ctx) * pieces * tiles_of_piece;
    for (std::uint32_t unit = ctx.block_index().x; unit < units; unit += ctx.grid_dim().x) {
      const std::uint32_t tile = unit % tiles_of_piece;
      const std::uint32_t piece = unit / tiles_of_piece % pieces;
      const block_copy* copy = args.list.copies + unit / tiles_of_piece / pieces;
      const auto from = static_cast<std::int64_t>(ctx.ldg(&copy->from));
      const auto to = static_cast<std::int64_t>(ctx.ldg(&copy->to));
      const std::int64_t begin =
          piece * args.piece_stride + (std::int64_t{tile} * tile_words + ctx.thread_index()) * word_bytes;
      copy_tile(ctx, args.base + from * args.block_stride + begin, args.base + to * args.block_stride + begin,
                (args.piece_bytes / word_bytes) - std::int64_t{tile} * tile_words - ctx.thread_index());
    }
  }

 private:
  static constexpr std::int64_t word_bytes = 16;
  static constexpr int words_of_thread = 4;
  static constexpr std::int64_t tile_words = threads * words_of_thread;

  PAGODA_HOST_DEVICE static constexpr std::int64_t tiles(const arguments& args) noexcept {
    return (args.piece_bytes / word_bytes + tile_words - 1) / tile_words;
  }

#pragma GCC diagnostic push
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // a word is stored under the condition that it was loaded
#endif
  /// Copies every `threads`th of `words` words. All are asked for before the first is written.
  template <class Context>
  PAGODA_KERNEL_FUNCTION static void copy_tile(Context& ctx, const std::byte* from, std::byte* to, std::int64_t words) {
    simt::words4 values[words_of_thread];
    PAGODA_KERNEL_UNROLL
    for (int i = 0; i < words_of_thread; ++i) {
      if (i * threads < words) values[i] = ctx.load(reinterpret_cast<const simt::words4*>(from) + i * threads);
    }
    PAGODA_KERNEL_UNROLL
    for (int i = 0; i < words_of_thread; ++i) {
      if (i * threads < words) ctx.store(reinterpret_cast<simt::words4*>(to) + i * threads, values[i]);
    }
  }
#pragma GCC diagnostic pop
};

/// Which half of a move of rows a launch performs.
enum class row_phase : std::int32_t {
  gather,   ///< rows -> scratch
  scatter,  ///< scratch -> rows
};

/// Moves rows of all heads and layers, codes and scales, as encoded bytes: a launch that gathers every row and then one
/// that scatters them, so that all are read before any is written. One warp moves the key and the value row of a head.
/// A row's padding to 16 bytes moves with it. A view whose values lie in its keys moves its keys.
///
/// Scratch: for each copy, layer and head, in this order and contiguous, [key codes | value codes | key scales | value
/// scales], padded to 16 bytes.
/// Requires:   the ids and slots lie in the pool; no two copies have the same target; scratch has
///             row_scratch_bytes(args) bytes, aligned to 16.
/// Complexity: O(bytes moved).
template <quantizer KeyQuantizer, quantizer ValueQuantizer>
struct move_rows {
  static constexpr int threads = 256;
  static constexpr int shared_bytes = 0;

  struct arguments {
    /// Where layer 0 lies.
    plane_view keys{};
    plane_view values{};
    plane_view key_scales{};
    plane_view value_scales{};
    std::int64_t layer_stride = 0;  ///< bytes
    std::int32_t layers = 0;
    std::int32_t kv_heads = 0;
    /// What the key and the value row of a head consist of.
    std::int32_t key_chunks = 0;  ///< of 16 bytes
    std::int32_t value_chunks = 0;
    std::int32_t key_scale_words = 0;  ///< of scale_alignment_v bytes
    std::int32_t value_scale_words = 0;

    row_phase phase = row_phase::gather;
    copy_source<row_copy> list{};
    std::byte* scratch = nullptr;
  };

  /// The arguments for a storage's own pool, but for phase and scratch.
  /// Requires: list as copy_source says.
  template <class Storage>
  static arguments make_arguments(const Storage& storage, const copy_source<row_copy>& list) {
    const auto layer = storage.layer_view(0);
    const auto chunks = [](std::int64_t bytes) { return static_cast<std::int32_t>(bytes / chunk_bytes); };
    const auto words = [](std::int64_t bytes) { return static_cast<std::int32_t>(bytes / scale_word_bytes); };
    arguments args;
    args.keys = layer.keys;
    args.key_scales = layer.key_scales;
    args.key_chunks = chunks(row_bytes<KeyQuantizer>(layer.key_dim));
    args.key_scale_words = words(row_scale_bytes<KeyQuantizer>(layer.key_dim));
    if (!layer.values_lie_in_keys()) {
      args.values = layer.values;
      args.value_scales = layer.value_scales;
      args.value_chunks = chunks(row_bytes<ValueQuantizer>(layer.value_dim));
      args.value_scale_words = words(row_scale_bytes<ValueQuantizer>(layer.value_dim));
    }
    args.kv_heads = layer.kv_heads;
    args.layers = storage.shape().layers;
    if (args.layers > 1) args.layer_stride = storage.layer_view(1).keys.base - layer.keys.base;
    args.list = list;
    return args;
  }

  /// Bytes that a move of max_copies rows needs. Throws: size_overflow if they do not fit 64 bits.
  static std::int64_t row_scratch_bytes(const arguments& args) {
    return checked_multiply(count_items(args), scratch_stride(args), "bytes of the rows to move");
  }

  /// Blocks of the grid that have work if all copies are listed; the grid may be smaller.
  /// Throws: size_overflow or invalid_argument for more than 2^30 rows.
  static std::int64_t max_units(const arguments& args) {
    const std::int64_t items = count_items(args);
    check_range("rows to move, copies * layers * kv_heads,", items, 0, std::int64_t{1} << 30,
                "execute them in several lists");
    return (items + warps - 1) / warps;
  }

  template <simt::execution_context Context>
  PAGODA_HOST_DEVICE static void run(Context& ctx, const arguments& args) {
    const auto heads = static_cast<std::uint32_t>(args.kv_heads);
    const auto layers = static_cast<std::uint32_t>(args.layers);
    const std::uint32_t items = args.list.read_count(ctx) * layers * heads;
    const std::uint32_t stride = ctx.grid_dim().x * warps;
    for (std::uint32_t item = ctx.block_index().x * warps + static_cast<std::uint32_t>(ctx.warp()); item < items;
         item += stride) {
      const std::uint32_t head = item % heads;
      const std::uint32_t layer = item / heads % layers;
      const row_copy* copy = args.list.copies + item / heads / layers;
      const bool gathers = args.phase == row_phase::gather;
      const block_id block = ctx.ldg(gathers ? &copy->from_block : &copy->to_block);
      const std::int32_t slot = ctx.ldg(gathers ? &copy->from_slot : &copy->to_slot);
      move_item(ctx, args, layer * args.layer_stride, block, head, slot, item);
    }
  }

 private:
  static constexpr std::uint32_t warps = threads / simt::warp_size;
  static constexpr bool has_scales =
      has_scale_v<typename KeyQuantizer::scale_type> || has_scale_v<typename ValueQuantizer::scale_type>;
  static constexpr std::int64_t scale_word_bytes = has_scales ? scale_alignment_v<KeyQuantizer, ValueQuantizer> : 2;
  using scale_word = scale_word_t<scale_word_bytes>;

  static std::int64_t count_items(const arguments& args) {
    const std::int64_t rows = checked_multiply(args.layers, args.kv_heads, "rows of a token");
    return checked_multiply(args.list.max_copies, rows, "rows to move");
  }

  /// Bytes of the scratch that one key and value row take.
  PAGODA_HOST_DEVICE static constexpr std::int64_t scratch_stride(const arguments& args) noexcept {
    const std::int64_t scales = (args.key_scale_words + args.value_scale_words) * scale_word_bytes;
    return (args.key_chunks + args.value_chunks) * chunk_bytes + (scales + chunk_bytes - 1) / chunk_bytes * chunk_bytes;
  }

  /// Moves a word between a row and the scratch.
  template <class Word, class Context>
  PAGODA_KERNEL_FUNCTION static void move_word(Context& ctx, row_phase phase, std::byte* row, std::byte* scratch) {
    const std::byte* from = phase == row_phase::gather ? row : scratch;
    std::byte* to = phase == row_phase::gather ? scratch : row;
    ctx.store(reinterpret_cast<Word*>(to), ctx.ldg(reinterpret_cast<const Word*>(from)));
  }

  template <class Context>
  PAGODA_KERNEL_FUNCTION static void move_item(Context& ctx, const arguments& args, std::int64_t layer_offset,
                                               block_id block, std::uint32_t head, std::int32_t slot,
                                               std::uint32_t item) {
    const std::int32_t chunks = args.key_chunks + args.value_chunks;
    std::byte* scratch = args.scratch + item * scratch_stride(args);
    PAGODA_KERNEL_UNROLL_ONCE
    for (std::int32_t i = ctx.lane(); i < chunks; i += simt::warp_size) {
      const bool is_key = i < args.key_chunks;
      const plane_view& plane = is_key ? args.keys : args.values;
      std::byte* row = plane.row(block, head, slot) + layer_offset +
                       std::int64_t{is_key ? i : i - args.key_chunks} * plane.chunk_stride;
      move_word<simt::words4>(ctx, args.phase, row, scratch + std::int64_t{i} * chunk_bytes);
    }
    if constexpr (has_scales) {
      std::byte* scratch_scales = scratch + std::int64_t{chunks} * chunk_bytes;
      PAGODA_KERNEL_UNROLL_ONCE
      for (std::int32_t i = ctx.lane(); i < args.key_scale_words + args.value_scale_words; i += simt::warp_size) {
        const bool is_key = i < args.key_scale_words;
        const plane_view& plane = is_key ? args.key_scales : args.value_scales;
        std::byte* row = plane.row(block, head, slot) + layer_offset +
                         std::int64_t{is_key ? i : i - args.key_scale_words} * scale_word_bytes;
        move_word<scale_word>(ctx, args.phase, row, scratch_scales + std::int64_t{i} * scale_word_bytes);
      }
    }
  }
};

}  // namespace pagoda::kernels
