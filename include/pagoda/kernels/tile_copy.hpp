// SPDX-License-Identifier: Apache-2.0
/// @file Asynchronous copies of tiles of coded rows, and of their scales, from blocks to shared memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include <pagoda/kernels/attention_arguments.hpp>
#include <pagoda/kernels/code_tile.hpp>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion"  // g++ 12, at array bounds that are template arguments

namespace pagoda::kernels {

/// Keys or values of one kv head, for Tiles tiles of 16 tokens.
/// Requires: blocks of at least 16 tokens, so that a tile lies in one block; scales without a gap between slots; slots
/// of a block less than 4 GiB apart.
template <class Quantizer, int Dim, int Tiles, bool Values>
struct tile_source {
  using shape = code_tile<Quantizer, Dim>;
  static constexpr int rows = Tiles * tile_rows;
  static constexpr int code_bytes = Values ? shape::value_bytes(rows) : shape::key_bytes(rows);
  static constexpr int slot_bytes = (code_bytes + rows * shape::scale_bytes + 15) / 16 * 16;  // in shared memory

  const std::byte* codes;   // of block 0, slot 0
  const std::byte* scales;  // of block 0, slot 0
  std::uint64_t block_stride;
  std::uint64_t scale_block_stride;
  std::uint32_t slot_stride;
  std::uint32_t chunk_stride;

  PAGODA_KERNEL_FUNCTION tile_source(const plane_view& plane, const plane_view& scale_plane, std::int32_t kv_head)
      : codes(plane.base + kv_head * plane.head_stride),
        scales(scale_plane.base + kv_head * scale_plane.head_stride),
        block_stride(static_cast<std::uint64_t>(plane.block_stride)),
        scale_block_stride(static_cast<std::uint64_t>(scale_plane.block_stride)),
        slot_stride(static_cast<std::uint32_t>(plane.slot_stride)),
        chunk_stride(static_cast<std::uint32_t>(plane.chunk_stride)) {}

  /// Copies the tiles whose first token is `token`, by `Lanes` threads of which this one is `lane`. Tile u lies in
  /// block blocks[u]; a negative one, or one outside the segment, becomes zeros. Value rows outside the segment become
  /// zeros too: their weight is 0, and 0 * NaN is not.
  template <int Lanes, class Context>
  PAGODA_KERNEL_FUNCTION void copy(Context& ctx, simt::shared_array_t<Context, std::byte> shared, int slot, int lane,
                                   const std::int32_t (&blocks)[Tiles], std::int32_t token, std::int32_t block_mask,
                                   std::int32_t begin, std::int32_t end) const {
    PAGODA_KERNEL_UNROLL
    for (int u = 0; u < Tiles; ++u) {
      const std::int32_t first = token + u * tile_rows;
      const bool inside = is_inside(blocks[u], first, begin, end);
      copy_tile<Lanes>(ctx, shared, slot + u * code_bytes / Tiles, lane,
                       codes + (inside ? static_cast<std::uint32_t>(blocks[u]) : 0u) * block_stride, first & block_mask,
                       inside ? wanted_rows(first, begin, end) : 0u);
    }
    if constexpr (shape::scale_bytes > 0) {
      constexpr int words = tile_rows * shape::scale_bytes / 4;  // of a tile
      PAGODA_KERNEL_UNROLL
      for (int k = 0; k < (Tiles * words + Lanes - 1) / Lanes; ++k) {
        const int place = lane + k * Lanes;
        if ((Tiles * words) % Lanes != 0 && place >= Tiles * words) break;
        const int u = Tiles == 1 ? 0 : place / words;
        std::int32_t block = blocks[0];
        PAGODA_KERNEL_UNROLL
        for (int v = 1; v < Tiles; ++v) block = u == v ? blocks[v] : block;
        const std::int32_t first = token + u * tile_rows;
        const bool inside = is_inside(block, first, begin, end);
        ctx.cp_async4(
            shared, slot + code_bytes + place * 4,
            scales + (inside ? static_cast<std::uint32_t>(block) : 0u) * scale_block_stride +
                static_cast<std::uint32_t>((first & block_mask) * shape::scale_bytes + (place - u * words) * 4),
            inside);
      }
    }
  }

 private:
  PAGODA_KERNEL_FUNCTION static bool is_inside(std::int32_t block, std::int32_t first, std::int32_t begin,
                                               std::int32_t end) {
    return block >= 0 && first < end && first + tile_rows > begin;
  }

  /// One bit for each of a tile's rows that is read: all keys of a tile (masked later), or the values of the segment.
  PAGODA_KERNEL_FUNCTION static std::uint32_t wanted_rows(std::int32_t first, std::int32_t begin, std::int32_t end) {
    if constexpr (!Values) return 0xffffu;
    const std::int32_t low = begin > first ? begin - first : 0;
    const std::int32_t high = end - first < tile_rows ? end - first : tile_rows;
    return (1u << high) - (1u << low);
  }

  template <int Lanes, class Context>
  PAGODA_KERNEL_FUNCTION void copy_tile(Context& ctx, simt::shared_array_t<Context, std::byte> shared, int at, int lane,
                                        const std::byte* block, std::int32_t first_slot, std::uint32_t wanted) const {
    constexpr int tile_chunks = tile_rows * shape::chunks;
    constexpr int steps = (tile_chunks + Lanes - 1) / Lanes;
    const std::byte* tile = block + std::uint64_t{static_cast<std::uint32_t>(first_slot)} * slot_stride;
    if constexpr (Lanes % shape::chunks == 0 && tile_chunks % Lanes == 0) {
      // A lane keeps its chunk, and its rows are a constant apart.
      constexpr int rows_of_step = Lanes / shape::chunks;
      const int chunk = lane % shape::chunks;
      const int row = lane / shape::chunks;
      const std::byte* from =
          tile + (static_cast<std::uint32_t>(row) * slot_stride + static_cast<std::uint32_t>(chunk) * chunk_stride);
      const std::uint32_t mine = wanted >> row;
      PAGODA_KERNEL_UNROLL
      for (int k = 0; k < steps; ++k) {
        const int place =
            Values ? shape::value_place(row, chunk, k * rows_of_step) : shape::key_place(row, chunk, k * rows_of_step);
        ctx.cp_async16(shared, at + place, from, Values ? (mine >> (k * rows_of_step) & 1u) != 0 : wanted != 0);
        from += rows_of_step * slot_stride;
      }
    } else {
      PAGODA_KERNEL_UNROLL
      for (int k = 0; k < steps; ++k) {
        const int place = lane + k * Lanes;
        if (tile_chunks % Lanes != 0 && place >= tile_chunks) break;
        const int row = place / shape::chunks;
        const int chunk = place % shape::chunks;
        ctx.cp_async16(
            shared, at + (Values ? shape::value_place(row, chunk) : shape::key_place(row, chunk)),
            tile + (static_cast<std::uint32_t>(row) * slot_stride + static_cast<std::uint32_t>(chunk) * chunk_stride),
            (wanted >> row & 1u) != 0);
      }
    }
  }
};

/// The blocks of 32 consecutive tiles of a sequence, one in each lane.
struct tile_blocks {
  std::int32_t base = -1;  ///< the first token of lane 0's tile
  std::int32_t block = -1;

  static constexpr std::int32_t tokens = simt::warp_size * tile_rows;

  /// Makes lane 0's tile the one that begins at `first`. Only tiles that hold a key of either segment are looked up:
  /// the table has no others.
  template <class Context, class Arguments>
  PAGODA_KERNEL_FUNCTION void load(Context& ctx, const Arguments& args, std::int32_t sequence, std::int32_t first,
                                   std::int32_t sinks_end, std::int32_t begin, std::int32_t end) {
    base = first;
    const std::int32_t token = first + ctx.lane() * tile_rows;
    const bool needed = token < sinks_end || (token + tile_rows > begin && token < end);
    block = needed ? load_block(ctx, args, sequence, token >> args.view.block_shift) : -1;
  }

  template <int Tiles, class Context>
  PAGODA_KERNEL_FUNCTION void find(Context& ctx, std::int32_t token, std::int32_t (&blocks)[Tiles]) const {
    PAGODA_KERNEL_UNROLL
    for (int u = 0; u < Tiles; ++u)
      blocks[u] = ctx.shfl(block, static_cast<int>(static_cast<std::uint32_t>(token - base) / tile_rows) + u);
  }
};

}  // namespace pagoda::kernels

#pragma GCC diagnostic pop
