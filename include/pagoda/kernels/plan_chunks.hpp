// SPDX-License-Identifier: Apache-2.0
/// @file plan_chunks: the chunk plan of a batch, made on the device from lengths that lie there.
#pragma once

#include <cstdint>

#include <pagoda/kernels/chunk_plan.hpp>

namespace pagoda::kernels {

/// Writes what build_chunk_plan writes on the host. A plan with more than max_items items is cut there: offsets stay at
/// max_items, and the sequences behind have no items. Launch one block.
struct plan_chunks {
  static constexpr int threads = 256;
  static constexpr int warps = threads / simt::warp_size;
  static constexpr int shared_bytes = warps * static_cast<int>(sizeof(std::int32_t));

  struct arguments {
    batch_view batch{};
    chunk_plan plan{};
    std::int32_t max_items = 0;
  };

  template <simt::execution_context Context>
  PAGODA_HOST_DEVICE static void run(Context& ctx, const arguments& args) {
    auto warp_totals = simt::shared<std::int32_t>(ctx, warps);
    const std::int32_t sequences = ctx.ldg(args.batch.num_sequences);
    std::int32_t total = 0;  // items of the sequences before this tile, at most max_items
    for (std::int32_t first = 0; first < sequences; first += threads) {
      const std::int32_t i = first + ctx.thread_index();
      sequence_chunks mine{0, 0, 0};
      std::int32_t count = 0;
      if (i < sequences) {
        const std::int32_t queries = ctx.ldg(args.batch.query_offsets + i + 1) - ctx.ldg(args.batch.query_offsets + i);
        mine = chunks_of(args.batch.keep, ctx.ldg(args.batch.context_lengths + i), queries);
        count = items_of(mine, queries);
      }
      const std::int32_t through_warp = scan_warp(ctx, count);
      if (ctx.lane() == simt::warp_size - 1) warp_totals[ctx.warp()] = through_warp;
      ctx.sync();
      std::int32_t before = through_warp - count;
      std::int32_t tile = 0;
      for (int w = 0; w < warps; ++w) {
        const std::int32_t of_warp = warp_totals[w];
        if (w < ctx.warp()) before += of_warp;
        tile += of_warp;
      }
      const std::int32_t begin = at_most(args.max_items, std::int64_t{total} + before);
      const std::int32_t end = at_most(args.max_items, std::int64_t{begin} + count);
      if (i < sequences) ctx.store(args.plan.offsets + i, begin);
      write_items(ctx, args, i, mine, begin, end);
      total = at_most(args.max_items, std::int64_t{total} + tile);
      ctx.sync();  // before the next tile's totals
    }
    if (ctx.thread_index() == 0) ctx.store(args.plan.offsets + sequences, total);
  }

 private:
  PAGODA_KERNEL_FUNCTION static std::int32_t at_most(std::int32_t limit, std::int64_t count) {
    return static_cast<std::int32_t>(count < limit ? count : limit);
  }

  /// The sum over this lane and those below it.
  template <class Context>
  PAGODA_KERNEL_FUNCTION static std::int32_t scan_warp(Context& ctx, std::int32_t count) {
    PAGODA_KERNEL_UNROLL
    for (int distance = 1; distance < simt::warp_size; distance *= 2) {
      const std::int32_t below = ctx.shfl_up(count, distance);
      if (ctx.lane() >= distance) count += below;
    }
    return count;
  }

  /// Each lane writes its own sequence's items, unless they are many: then all lanes of the warp share them.
  template <class Context>
  PAGODA_KERNEL_FUNCTION static void write_items(Context& ctx, const arguments& args, std::int32_t sequence,
                                                 const sequence_chunks& chunks, std::int32_t begin, std::int32_t end) {
    const bool many = end - begin > simt::warp_size;
    for (std::uint32_t left = ctx.ballot(many); left != 0; left &= left - 1) {
      int owner = 0;
      while (((left >> owner) & 1u) == 0) ++owner;
      const sequence_chunks theirs{ctx.shfl(chunks.sinks, owner), ctx.shfl(chunks.window_begin, owner), 1};
      const std::int32_t their_sequence = ctx.shfl(sequence, owner);
      const std::int32_t their_begin = ctx.shfl(begin, owner);
      const std::int32_t their_end = ctx.shfl(end, owner);
      for (std::int32_t at = their_begin + ctx.lane(); at < their_end; at += simt::warp_size) {
        ctx.store(args.plan.items + at, {their_sequence, theirs.chunk(at - their_begin)});
      }
    }
    if (many) return;
    for (std::int32_t at = begin; at < end; ++at) {
      ctx.store(args.plan.items + at, {sequence, chunks.count > 0 ? chunks.chunk(at - begin) : -1});
    }
  }
};

}  // namespace pagoda::kernels
