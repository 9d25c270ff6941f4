// SPDX-License-Identifier: Apache-2.0
/// @file tensor_prefill: many queries of a sequence at once, on tensor cores.
#pragma once

#include <cstddef>
#include <cstdint>

#include <pagoda/kernels/attention_arguments.hpp>
#include <pagoda/kernels/row_output.hpp>
#include <pagoda/kernels/tile_copy.hpp>
#include <pagoda/kernels/warp_attention.hpp>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion"  // g++ 12, at array bounds that are template arguments

namespace pagoda::kernels {

/// Query rows come in tiles of `rows`, and sequence i's tiles begin at number query_offsets[i] * group / rows + i: so
/// no plan is needed, at the price of one number per sequence that may name nothing.
struct row_tiles {
  std::int32_t rows;

  PAGODA_HOST_DEVICE std::int64_t first(std::int64_t query_offset, std::int64_t group,
                                        std::int64_t sequence) const noexcept {
    return query_offset * group / rows + sequence;
  }
};

/// Attention of the sequences with more than max_decode_queries queries: ragged batches, chunked prefill, tree masks.
///
/// A block takes one tile of query rows of one kv head; its warps share every tile of keys and values, which come
/// through one ring, keys and values in turn. A tile of rows walks all keys that one of its rows sees and no others.
///
/// Requires:   as tensor_decode.
/// Effects:    a NaN or infinity among the values of a token reaches every row of the tile whose walk meets the token,
///             also rows from which the mask hides it (16-bit quantizers only).
/// Source:     FlashAttention-2 (Dao 2023), with keys on M as code_tile.hpp says.
template <class KeyQuantizer, class ValueQuantizer, int Dim, bool Extras>
struct tensor_prefill {
  using arguments = attention_arguments<KeyQuantizer, ValueQuantizer>;

  static constexpr int warps = 4;
  static constexpr int threads = warps * simt::warp_size;
  static constexpr int tiles = Dim > 192 && Extras ? 1 : 2;
  static constexpr int resident_blocks = 2;
  static constexpr int columns = Dim <= (Extras ? 96 : 128) ? 2 : 1;  // wider rows leave no registers for more
  using warp_state = warp_attention<KeyQuantizer, ValueQuantizer, Dim, columns, tiles, Extras>;
  using key_source = tile_source<KeyQuantizer, Dim, tiles, false>;
  using value_source = tile_source<ValueQuantizer, Dim, tiles, true>;

  static constexpr int rows = warps * warp_state::rows;  // of a block
  static constexpr int slot_bytes =
      key_source::slot_bytes > value_source::slot_bytes ? key_source::slot_bytes : value_source::slot_bytes;
  static constexpr int slots = 3;
  static constexpr int staging_at = slots * slot_bytes;
  static constexpr int walk_bytes = staging_at + warps * warp_state::staging_bytes;
  static constexpr int results_bytes = warps * warp_state::result_bytes;
  static constexpr int shared_bytes = walk_bytes > results_bytes ? walk_bytes : results_bytes;
  static constexpr int step_tokens = tiles * tile_rows;

  /// Blocks that have work, at most.
  static std::int64_t max_units(const arguments& args, std::int64_t sequences, std::int64_t queries,
                                std::int64_t) noexcept {
    return row_tiles{rows}.first(queries, args.group, sequences) * args.view.kv_heads;
  }

  template <simt::execution_context Context>
  PAGODA_HOST_DEVICE static void run(Context& ctx, const arguments& args) {
    auto shared = simt::shared<std::byte>(ctx, shared_bytes);
    const std::int32_t* offsets = args.view.batch.query_offsets;
    const std::int32_t sequences = ctx.ldg(args.view.batch.num_sequences);
    const row_tiles tiling{rows};
    const auto count = static_cast<std::uint32_t>(tiling.first(ctx.ldg(offsets + sequences), args.group, sequences)) *
                       static_cast<std::uint32_t>(args.view.kv_heads);
    for (std::uint32_t unit = ctx.block_index().x; unit < count; unit += ctx.grid_dim().x) {
      const std::uint32_t tile = unit / static_cast<std::uint32_t>(args.view.kv_heads);
      const std::uint32_t kv_head = unit - tile * static_cast<std::uint32_t>(args.view.kv_heads);
      std::int32_t low = 0;  // the last sequence whose tiles begin at or before this one
      std::int32_t high = sequences - 1;
      while (low < high) {
        const std::int32_t middle = (low + high + 1) / 2;
        if (tiling.first(ctx.ldg(offsets + middle), args.group, middle) <= tile) {
          low = middle;
        } else {
          high = middle - 1;
        }
      }
      const sequence_keys keys = load_sequence(ctx, args, low);
      const auto first_row = static_cast<std::int32_t>(tile - tiling.first(keys.first_query, args.group, low)) * rows;
      if (keys.queries <= max_decode_queries || first_row >= keys.queries * args.group) continue;
      walk(ctx, args, keys, static_cast<std::int32_t>(kv_head), first_row, shared);
    }
  }

 private:
  template <class Context>
  PAGODA_KERNEL_FUNCTION static void walk(Context& ctx, const arguments& args, const sequence_keys& keys,
                                          std::int32_t kv_head, std::int32_t first_row,
                                          simt::shared_array_t<Context, std::byte> shared) {
    const int warp = ctx.warp();
    const std::int32_t all_rows = keys.queries * args.group;
    const std::int32_t warp_row = first_row + warp * warp_state::rows;
    const std::int32_t last_row = first_row + rows < all_rows ? first_row + rows - 1 : all_rows - 1;
    const bool has_rows = warp_row < all_rows;
    warp_state state;
    state.load_queries(ctx, args, keys, kv_head, warp_row, shared, staging_at + warp * warp_state::staging_bytes);
    PAGODA_KERNEL_UNROLL_ONCE
    for (int s = 0; s < 2; ++s) {
      const key_segment segment = segment_of(args, keys, first_row / args.group, last_row / args.group, s);
      if (segment.begin >= segment.end) continue;
      key_segment mine{0, 0};  // what this warp's rows see of it
      if (has_rows) {
        const std::int32_t warp_last =
            warp_row + warp_state::rows < all_rows ? warp_row + warp_state::rows - 1 : all_rows - 1;
        mine = segment_of(args, keys, warp_row / args.group, warp_last / args.group, s);
      }
      state.enter_segment(args, keys, s);
      walk_segment(ctx, args, keys, kv_head, segment, mine, shared, state);
    }
    state.close(ctx);
    ctx.sync();
    const int results = warp * warp_state::result_bytes;
    state.store_result(ctx, shared, results);
    ctx.sync_warp();
    write_rows(ctx, args, keys, kv_head, warp_row, shared, results);
    ctx.sync();
  }

  template <class Context>
  PAGODA_KERNEL_FUNCTION static void walk_segment(Context& ctx, const arguments& args, const sequence_keys& keys,
                                                  std::int32_t kv_head, key_segment segment, key_segment mine,
                                                  simt::shared_array_t<Context, std::byte> shared, warp_state& state) {
    const std::int32_t block_mask = args.view.block_size() - 1;
    const key_source key_rows(args.view.keys, args.view.key_scales, kv_head);
    const value_source value_rows(args.view.values, args.view.value_scales, kv_head);
    tile_blocks blocks;
    const auto copy = [&](const auto& source, std::int32_t token, int slot) {
      if (token < segment.end) {
        if (blocks.base < 0 || token >= blocks.base + tile_blocks::tokens) {
          // No dropped block is looked up: keys of a segment are kept for all of its queries.
          blocks.load(ctx, args, keys.sequence, token, 0, segment.begin, segment.end);
        }
        std::int32_t ids[tiles];
        blocks.find(ctx, token, ids);
        source.template copy<threads>(ctx, shared, slot, ctx.thread_index(), ids, token, block_mask, segment.begin,
                                      segment.end);
      }
      ctx.cp_async_commit();
    };
    const auto next = [](int slot) { return slot + slot_bytes == slots * slot_bytes ? 0 : slot + slot_bytes; };

    std::int32_t token = segment.begin / step_tokens * step_tokens;
    copy(key_rows, token, 0);
    copy(value_rows, token, slot_bytes);
    int read = 0;
    int write = 2 * slot_bytes;
    PAGODA_KERNEL_UNROLL_ONCE
    for (; token < segment.end; token += step_tokens) {
      const bool sees = token < mine.end && token + step_tokens > mine.begin;  // the whole warp agrees
      copy(key_rows, token + step_tokens, write);
      write = next(write);
      ctx.cp_async_wait_group(simt::in_flight<slots - 1>);  // keys
      ctx.sync();
      if (sees) state.score(ctx, args, keys, shared, read, read + key_source::code_bytes, token);
      ctx.sync();  // the slot is read, and may be written
      read = next(read);
      copy(value_rows, token + step_tokens, write);
      write = next(write);
      ctx.cp_async_wait_group(simt::in_flight<slots - 1>);  // values
      ctx.sync();
      if (sees) {
        state.weigh(ctx, shared, read + value_source::code_bytes, token, segment);
        state.accumulate(ctx, shared, read);
      }
      ctx.sync();
      read = next(read);
    }
    ctx.cp_async_wait_group(simt::in_flight<0>);
  }

  /// Normalises and writes the warp's rows.
  template <class Context>
  PAGODA_KERNEL_FUNCTION static void write_rows(Context& ctx, const arguments& args, const sequence_keys& keys,
                                                std::int32_t kv_head, std::int32_t warp_row,
                                                simt::shared_array_t<Context, std::byte> shared, int results) {
    for (int i = ctx.lane(); i < warp_state::rows * (Dim / 4); i += simt::warp_size) {
      const int local = i / (Dim / 4);
      const int d = 4 * (i - local * (Dim / 4));
      const row_place place = place_of_row(args, keys, kv_head, warp_row + local);
      if (!place.wanted) continue;
      const int at = results + local * warp_state::result_row_bytes;
      float max;
      float sum;
      floats4 result;
      ctx.lds(shared, at + 4 * Dim, max);
      ctx.lds(shared, at + 4 * Dim + 4, sum);
      ctx.lds(shared, at + 4 * d, result);
      const row_scale scale = finish_row(ctx, args, place.query_head, max, sum);
      PAGODA_KERNEL_UNROLL
      for (int k = 0; k < 4; ++k) result.x[k] *= scale.factor;
      store_four(ctx, args.output.type, args.output.at(place.query_row, place.query_head, d), result);
      if (d == 0) store_lse(ctx, args, place, scale.lse);
    }
  }
};

}  // namespace pagoda::kernels

#pragma GCC diagnostic pop
