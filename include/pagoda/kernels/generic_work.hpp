// SPDX-License-Identifier: Apache-2.0
/// @file How the generic attention kernel cuts a batch into units, on the device and from the batch's counts alone.
#pragma once

#include <cstdint>

#include <pagoda/kernels/attention_arguments.hpp>
#include <pagoda/kernels/grid_walk.hpp>

namespace pagoda::kernels {

/// Query rows of one kv head that one unit of the generic kernel takes.
inline constexpr std::int32_t generic_tile_rows = 16;

/// Some query rows of one sequence and kv head, against some of its keys.
struct generic_unit {
  sequence_keys sequence;
  std::int32_t kv_head;
  std::int32_t first_row;
  std::int32_t rows;
  std::int32_t key_begin;
  std::int32_t key_end;
  std::int32_t item;  ///< where the partial result goes; -1: the unit sees all keys and writes the output
};

/// The units of a batch. Sequences of at most max_decode_queries queries are walked by the items of the chunk plan.
/// The tiles of longer ones have no plan: with T rows in a tile, sequence i has the tiles from
/// floor(query_offsets[i] * group / T) + i on, which leaves it at least as many as it needs. Tiles that it does not
/// need, and those of short sequences, are no units.
template <class Arguments>
class generic_units {
 public:
  template <class Context>
  PAGODA_KERNEL_FUNCTION generic_units(Context& ctx, const Arguments& args)
      : args_(args),
        sequences_(ctx.ldg(args.view.batch.num_sequences)),
        items_(ctx.ldg(args.plan.offsets + sequences_)),
        tiles_(has_long_sequences(args) ? tile_begin(ctx, sequences_) : 0),
        tiles_of_item_(tiles_of_item(args)),
        tile_(ctx, args.view.kv_heads),
        item_(ctx, args.view.kv_heads * tiles_of_item_) {}

  /// How many there are at most, for batches within those limits.
  static std::int64_t max_units(const Arguments& args, std::int64_t sequences, std::int64_t queries,
                                std::int64_t items) noexcept {
    const std::int64_t tiles =
        has_long_sequences(args) ? queries * args.group / generic_tile_rows + sequences : std::int64_t{0};
    return (tiles + items * tiles_of_item(args)) * args.view.kv_heads;
  }

  /// Finds the block's next unit; false at the end. All threads of a block find the same.
  template <class Context>
  PAGODA_KERNEL_FUNCTION bool next(Context& ctx, generic_unit& unit) {
    for (; tile_.outer() < tiles_; tile_.next()) {
      if (!find_tile(ctx, tile_.outer(), unit)) continue;
      unit.kv_head = tile_.inner();
      tile_.next();
      return true;
    }
    for (; item_.outer() < items_; item_.next()) {
      if (!find_item(ctx, static_cast<std::int32_t>(item_.outer()), item_.inner(), unit)) continue;
      item_.next();
      return true;
    }
    return false;
  }

 private:
  PAGODA_HOST_DEVICE static bool has_long_sequences(const Arguments& args) noexcept {
    return args.decode_queries == max_decode_queries;
  }
  PAGODA_HOST_DEVICE static std::int32_t tiles_of_item(const Arguments& args) noexcept {
    const auto rows = static_cast<std::int32_t>(args.partial_rows());
    return (rows + generic_tile_rows - 1) / generic_tile_rows;
  }

  template <class Context>
  PAGODA_KERNEL_FUNCTION std::int64_t tile_begin(Context& ctx, std::int32_t sequence) const {
    const std::int64_t rows = std::int64_t{ctx.ldg(args_.view.batch.query_offsets + sequence)} * args_.group;
    return rows / generic_tile_rows + sequence;
  }

  template <class Context>
  PAGODA_KERNEL_FUNCTION bool find_tile(Context& ctx, std::int64_t tile, generic_unit& unit) const {
    std::int32_t low = 0;
    std::int32_t high = sequences_;
    while (high - low > 1) {
      const std::int32_t middle = low + (high - low) / 2;
      if (tile_begin(ctx, middle) <= tile) {
        low = middle;
      } else {
        high = middle;
      }
    }
    unit.sequence = load_sequence(ctx, args_, low);
    const std::int64_t first_row = (tile - tile_begin(ctx, low)) * generic_tile_rows;
    const std::int64_t rows = std::int64_t{unit.sequence.queries} * args_.group;
    if (unit.sequence.queries <= max_decode_queries || first_row >= rows) return false;
    set_rows(unit, static_cast<std::int32_t>(first_row), static_cast<std::int32_t>(rows));
    unit.key_begin = 0;
    unit.key_end = unit.sequence.context;
    unit.item = -1;
    return true;
  }

  template <class Context>
  PAGODA_KERNEL_FUNCTION bool find_item(Context& ctx, std::int32_t index, std::int32_t inner,
                                        generic_unit& unit) const {
    const chunk_item item = ctx.ldg(args_.plan.items + index);
    unit.sequence = load_sequence(ctx, args_, item.sequence);
    unit.kv_head = inner / tiles_of_item_;
    const std::int32_t first_row = (inner - unit.kv_head * tiles_of_item_) * generic_tile_rows;
    const std::int32_t rows = unit.sequence.queries * args_.group;
    if (first_row >= rows) return false;
    set_rows(unit, first_row, rows);
    unit.key_begin = item.chunk < 0 ? 0 : item.chunk * static_cast<std::int32_t>(chunk_tokens);
    const std::int64_t end = item.chunk < 0 ? 0 : std::int64_t{unit.key_begin} + chunk_tokens;
    unit.key_end = end < unit.sequence.context ? static_cast<std::int32_t>(end) : unit.sequence.context;
    const std::int32_t* offsets = args_.plan.offsets + item.sequence;
    unit.item = ctx.ldg(offsets + 1) - ctx.ldg(offsets) > 1 ? index : -1;
    return true;
  }

  PAGODA_KERNEL_FUNCTION static void set_rows(generic_unit& unit, std::int32_t first_row, std::int32_t rows) {
    unit.first_row = first_row;
    unit.rows = rows - first_row < generic_tile_rows ? rows - first_row : generic_tile_rows;
  }

  const Arguments& args_;
  std::int32_t sequences_;
  std::int32_t items_;
  std::int64_t tiles_;
  std::int32_t tiles_of_item_;
  grid_walk tile_;
  grid_walk item_;
};

}  // namespace pagoda::kernels
