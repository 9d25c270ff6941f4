// SPDX-License-Identifier: Apache-2.0
/// @file tensor_decode: few queries against long caches, on tensor cores.
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

/// Attention of the sequences with at most max_decode_queries queries, chunk by chunk.
///
/// A block takes one chunk of one kv head against eight query rows. Its warps own whole tiles of it: each copies its
/// tiles through a ring of its own, keys and values in turn, and meets the others only at the end. Longer row groups
/// read the chunk again, mostly from the L2 cache, since their blocks are neighbours.
///
/// Requires:   half2 hooks and one scale a row at most in both quantizers; key dim = value dim = Dim; blocks of 16
/// tokens
///             or more; scales without gaps.
/// Source:     split over keys: Flash-Decoding (2023); TurboMind's mma shape (code_tile.hpp).
template <class KeyQuantizer, class ValueQuantizer, int Dim, bool Extras>
struct tensor_decode {
  using arguments = attention_arguments<KeyQuantizer, ValueQuantizer>;

  static constexpr int warps = 4;
  static constexpr int threads = warps * simt::warp_size;
  /// Tiles of one step: two share a softmax step, if the ring of long rows leaves room for two blocks on an SM.
  static constexpr int tiles = row_bytes<KeyQuantizer>(Dim) + row_bytes<ValueQuantizer>(Dim) > 640 ? 1 : 2;
  using warp_state = warp_attention<KeyQuantizer, ValueQuantizer, Dim, 1, tiles, Extras>;
  using key_source = tile_source<KeyQuantizer, Dim, tiles, false>;
  using value_source = tile_source<ValueQuantizer, Dim, tiles, true>;

  static constexpr int slot_bytes =
      key_source::slot_bytes > value_source::slot_bytes ? key_source::slot_bytes : value_source::slot_bytes;
  /// Odd, so that a slot which held keys is refilled with keys, and likewise for values. Short rows need more of them
  /// to keep as many bytes in flight.
  static constexpr int slots = slot_bytes <= 2560 ? 5 : 3;
  static constexpr int ring_bytes = warps * slots * slot_bytes;
  static constexpr int results_bytes = warps * warp_state::result_bytes;
  static constexpr int shared_bytes = ring_bytes > results_bytes ? ring_bytes : results_bytes;
  static_assert(warp_state::staging_bytes <= slot_bytes, "queries are staged in the last slot of the ring");
  static constexpr int step_tokens = tiles * tile_rows;
  /// By shared memory: an SM has 227 KiB (compute capability 9.0), 1 KiB of which each block costs.
  static constexpr int resident_blocks = shared_bytes <= 74 * 1024 && Dim <= 128 ? 3 : 2;

  /// Blocks that have work, at most. Units: query rows of a kv head come in tiles of eight.
  static std::int64_t max_units(const arguments& args, std::int64_t, std::int64_t, std::int64_t items) noexcept {
    return items * args.view.kv_heads * row_tiles(args);
  }

  template <simt::execution_context Context>
  PAGODA_HOST_DEVICE static void run(Context& ctx, const arguments& args) {
    auto shared = simt::shared<std::byte>(ctx, shared_bytes);
    const batch_view& batch = args.view.batch;
    const std::int32_t items = ctx.ldg(args.plan.offsets + ctx.ldg(batch.num_sequences));
    const std::uint32_t per_item = static_cast<std::uint32_t>(args.view.kv_heads * row_tiles(args));
    const std::uint32_t units = static_cast<std::uint32_t>(items) * per_item;
    for (std::uint32_t unit = ctx.block_index().x; unit < units; unit += ctx.grid_dim().x) {
      const std::uint32_t item = unit / per_item;
      const std::uint32_t rest = unit - item * per_item;
      const std::uint32_t head = rest / static_cast<std::uint32_t>(row_tiles(args));
      const std::uint32_t row_tile = rest - head * static_cast<std::uint32_t>(row_tiles(args));
      const chunk_item chunk = ctx.ldg(args.plan.items + item);
      const sequence_keys keys = load_sequence(ctx, args, chunk.sequence);
      const auto first_row = static_cast<std::int32_t>(row_tile) * warp_state::rows;
      if (first_row >= keys.queries * args.group) continue;
      walk_chunk(ctx, args, keys, static_cast<std::int32_t>(item), chunk.chunk, static_cast<std::int32_t>(head),
                 first_row, shared);
    }
  }

 private:
  PAGODA_HOST_DEVICE static std::int32_t row_tiles(const arguments& args) noexcept {
    return (args.partial_rows() + warp_state::rows - 1) / warp_state::rows;
  }

  template <class Context>
  PAGODA_KERNEL_FUNCTION static void walk_chunk(Context& ctx, const arguments& args, const sequence_keys& keys,
                                                std::int32_t item, std::int32_t chunk, std::int32_t kv_head,
                                                std::int32_t first_row,
                                                simt::shared_array_t<Context, std::byte> shared) {
    const int warp = ctx.warp();
    warp_state state;
    const std::int32_t rows = keys.queries * args.group;
    const std::int32_t last_row = first_row + warp_state::rows < rows ? first_row + warp_state::rows - 1 : rows - 1;
    const std::int32_t begin = chunk < 0 ? 0 : chunk * static_cast<std::int32_t>(chunk_tokens);
    const std::int32_t end = chunk < 0 ? 0 : begin + static_cast<std::int32_t>(chunk_tokens);
    key_segment segments[2];
    tile_blocks blocks;
    PAGODA_KERNEL_UNROLL
    for (int s = 0; s < 2; ++s) {
      segments[s] = segment_of(args, keys, first_row / args.group, last_row / args.group, s);
      segments[s].begin = segments[s].begin > begin ? segments[s].begin : begin;
      segments[s].end = segments[s].end < end ? segments[s].end : end;
    }
    static_assert(tile_blocks::tokens == chunk_tokens);
    blocks.load(ctx, args, keys.sequence, begin, segments[0].end, segments[1].begin, segments[1].end);
    bool loaded = false;
    PAGODA_KERNEL_UNROLL_ONCE
    for (int s = 0; s < 2; ++s) {
      const key_segment segment = s == 0 ? segments[0] : segments[1];
      if (segment.begin >= segment.end && (s == 0 || loaded)) continue;
      walk_segment(ctx, args, keys, kv_head, first_row, s, segment, blocks, shared, state, loaded);
      loaded = true;
    }
    state.close(ctx);
    ctx.sync();  // the ring is free
    state.store_result(ctx, shared, warp * warp_state::result_bytes);
    ctx.sync();
    write_rows(ctx, args, keys, item, kv_head, first_row, shared);
    ctx.sync();
  }

  /// The warp's share of a segment: steps of step_tokens tokens, every warps-th one. Queries are loaded while the first
  /// keys and values are on their way.
  template <class Context>
  PAGODA_KERNEL_FUNCTION static void walk_segment(Context& ctx, const arguments& args, const sequence_keys& keys,
                                                  std::int32_t kv_head, std::int32_t first_row, int index,
                                                  key_segment segment, const tile_blocks& blocks,
                                                  simt::shared_array_t<Context, std::byte> shared, warp_state& state,
                                                  bool loaded) {
    constexpr std::int32_t stride = warps * step_tokens;
    constexpr int ahead = (slots - 1) / 2;  // steps whose keys are in flight behind the current one's
    const std::int32_t block_mask = args.view.block_size() - 1;
    const key_source key_rows(args.view.keys, args.view.key_scales, kv_head);
    const value_source value_rows(args.view.values, args.view.value_scales, kv_head);
    const int ring = ctx.warp() * slots * slot_bytes;
    const auto copy = [&](const auto& source, std::int32_t token, int slot) {
      if (token < segment.end) {
        std::int32_t ids[tiles];
        blocks.find(ctx, token, ids);
        source.template copy<simt::warp_size>(ctx, shared, slot, ctx.lane(), ids, token, block_mask, segment.begin,
                                              segment.end);
      }
      ctx.cp_async_commit();
    };
    const auto next = [&](int slot) {
      return slot + slot_bytes == ring + slots * slot_bytes ? ring : slot + slot_bytes;
    };

    std::int32_t token = segment.begin / step_tokens * step_tokens + ctx.warp() * step_tokens;
    PAGODA_KERNEL_UNROLL
    for (int i = 0; i < ahead; ++i) {
      copy(key_rows, token + i * stride, ring + 2 * i * slot_bytes);
      copy(value_rows, token + i * stride, ring + (2 * i + 1) * slot_bytes);
    }
    int read = ring;
    int write = ring + (slots - 1) * slot_bytes;
    if (!loaded) state.load_queries(ctx, args, keys, kv_head, first_row, shared, write);
    state.enter_segment(args, keys, index);
    for (; token < segment.end; token += stride) {
      copy(key_rows, token + ahead * stride, write);
      write = next(write);
      ctx.cp_async_wait_group(simt::in_flight<slots - 1>);  // keys
      ctx.sync_warp();
      state.score(ctx, args, keys, shared, read, read + key_source::code_bytes, token);
      ctx.sync_warp();  // the slot is read, and may be written
      read = next(read);
      copy(value_rows, token + ahead * stride, write);
      write = next(write);
      ctx.cp_async_wait_group(simt::in_flight<slots - 1>);  // values
      ctx.sync_warp();
      state.weigh(ctx, shared, read + value_source::code_bytes, token, segment);
      state.accumulate(ctx, shared, read);
      ctx.sync_warp();
      read = next(read);
    }
    ctx.cp_async_wait_group(simt::in_flight<0>);
    ctx.sync_warp();
  }

  /// Joins the warps' results, and writes output rows or a partial result.
  template <class Context>
  PAGODA_KERNEL_FUNCTION static void write_rows(Context& ctx, const arguments& args, const sequence_keys& keys,
                                                std::int32_t item, std::int32_t kv_head, std::int32_t first_row,
                                                simt::shared_array_t<Context, std::byte> shared) {
    const bool whole = ctx.ldg(args.plan.offsets + keys.sequence + 1) - ctx.ldg(args.plan.offsets + keys.sequence) == 1;
    for (int i = ctx.thread_index(); i < warp_state::rows * (Dim / 4); i += threads) {
      const int local = i / (Dim / 4);
      const int d = 4 * (i - local * (Dim / 4));
      const row_place place = place_of_row(args, keys, kv_head, first_row + local);
      if (!place.wanted) continue;
      float max[warps];
      float total_max = lowest_score;
      PAGODA_KERNEL_UNROLL
      for (int w = 0; w < warps; ++w) {
        ctx.lds(shared, (w * warp_state::rows + local) * warp_state::result_row_bytes + 4 * Dim, max[w]);
        total_max = max[w] > total_max ? max[w] : total_max;
      }
      float total = 0.0f;
      floats4 result{};
      PAGODA_KERNEL_UNROLL
      for (int w = 0; w < warps; ++w) {
        const int at = (w * warp_state::rows + local) * warp_state::result_row_bytes;
        float sum;
        floats4 part;
        ctx.lds(shared, at + 4 * Dim + 4, sum);
        ctx.lds(shared, at + 4 * d, part);
        const float weight = ctx.exp2(max[w] - total_max);
        total += weight * sum;
        PAGODA_KERNEL_UNROLL
        for (int k = 0; k < 4; ++k) result.x[k] += weight * part.x[k];
      }
      if (whole) {
        const row_scale scale = finish_row(ctx, args, place.query_head, total_max, total);
        PAGODA_KERNEL_UNROLL
        for (int k = 0; k < 4; ++k) result.x[k] *= scale.factor;
        store_four(ctx, args.output.type, args.output.at(place.query_row, place.query_head, d), result);
        if (d == 0) store_lse(ctx, args, place, scale.lse);
      } else {
        const std::int64_t partial = args.partial_index(item, kv_head, first_row + local);
        ctx.store(reinterpret_cast<floats4*>(args.partial_output + partial * Dim + d), result);
        if (d == 0) {
          ctx.store(args.partial_state + 2 * partial, total_max);
          ctx.store(args.partial_state + 2 * partial + 1, total);
        }
      }
    }
  }
};

}  // namespace pagoda::kernels

#pragma GCC diagnostic pop
