// SPDX-License-Identifier: Apache-2.0
/// @file generic_pass: a few query rows of one kv head against some keys, by one block, on CUDA cores.
#pragma once

#include <cstddef>
#include <cstdint>

#include <pagoda/kernels/attention_arguments.hpp>
#include <pagoda/kernels/generic_memory.hpp>
#include <pagoda/kernels/generic_work.hpp>
#include <pagoda/kernels/generic_writer.hpp>
#include <pagoda/kernels/lane_teams.hpp>
#include <pagoda/kernels/score.hpp>
#include <pagoda/kernels/stored_row.hpp>

namespace pagoda::kernels {

/// The query rows live in registers, up to UnitCount units of each in a lane. A warp takes up to RowCount rows; 1, 2 or
/// 4 warps share the keys of the same rows, tile by tile, and their results meet in shared memory.
template <class Context, class Arguments, std::size_t RowCount, std::size_t UnitCount>
class generic_pass {
  // The same numbers twice: sizes of arrays, and ints to count with.
  static constexpr int max_rows = static_cast<int>(RowCount);
  static constexpr int max_units = static_cast<int>(UnitCount);
  using key_quantizer = typename Arguments::key_quantizer;
  using value_quantizer = typename Arguments::value_quantizer;
  static constexpr std::int64_t scale_alignment = scale_alignment_v<key_quantizer, value_quantizer>;
  using key_scales = scale_traits<key_quantizer>;
  using value_scales = scale_traits<value_quantizer>;
  static constexpr int keys_at_once = 4;  // of a team; reduce() has this number in its bones
  static constexpr std::size_t key_count = keys_at_once;

  /// One number for each row, in shared memory.
  struct alignas(4 * RowCount) row_numbers {
    float of[RowCount];
  };

 public:
  /// Rows first_row to first_row + rows - 1 of the unit's sequence: at most RowCount * generic_warps of them.
  PAGODA_KERNEL_FUNCTION generic_pass(Context& ctx, const Arguments& args, generic_memory<Context, max_rows>& memory,
                                      const generic_unit& unit, std::int32_t first_row, std::int32_t rows)
      : ctx_(ctx),
        args_(args),
        memory_(memory),
        unit_(unit),
        first_row_(first_row),
        rows_(rows),
        row_warps_(rows <= max_rows       ? 1
                   : rows <= 2 * max_rows ? 2
                                          : 4),
        key_teams_(args.view.key_dim, ctx.lane()),
        value_teams_(args.view.value_dim, ctx.lane()) {
    const std::int32_t mine = rows - ctx.warp() % row_warps_ * max_rows;
    count_ = mine < 0 ? 0 : mine < max_rows ? mine : max_rows;
    load_queries();
  }

  PAGODA_KERNEL_FUNCTION void walk_keys() {
    if (count_ == 0) return;
    // What the warp's first and last row see together. A later query starts its window later.
    const std::int32_t first = query_of(0);
    const std::int32_t last = query_of(count_ - 1);
    const visible_keys low = visible_to(first);
    const visible_keys high = visible_to(last);
    const std::int32_t sinks_end = clamp(high.sinks_end < low.begin ? high.sinks_end : low.begin);
    const std::int32_t end_tile = tile_after(clamp(high.end));
    const std::int32_t sinks_end_tile = tile_after(sinks_end);
    const std::int32_t window_tile = clamp(low.begin) / simt::warp_size;
    const std::int32_t stride = generic_warps / row_warps_;
    const std::int32_t own = ctx_.warp() / row_warps_;
    std::int32_t tile = unit_.key_begin / simt::warp_size;  // tiles are numbered from the sequence's first token
    for (tile += (own - tile) & (stride - 1); tile < end_tile; tile += stride) {
      if (tile >= sinks_end_tile && tile < window_tile) {
        tile = window_tile + ((own - window_tile) & (stride - 1));
        if (tile >= end_tile) break;
      }
      visit_tile(tile * simt::warp_size);
    }
  }

  /// Joins the warps and writes the rows' results. Every thread of the block calls it.
  PAGODA_KERNEL_FUNCTION void finish() {
    if (count_ > 0) share_sums();
    ctx_.sync();
    generic_writer<Context, Arguments, max_rows> writer(ctx_, args_, memory_, unit_);
    for (std::int32_t i = ctx_.thread_index(); i < rows_ * value_teams_.units; i += generic_threads) {
      const std::int32_t row = i / value_teams_.units;
      writer.write_eight(first_row_, row, i - row * value_teams_.units, row_warps_);
    }
    ctx_.sync();  // before the next pass shares its sums
  }

 private:
  PAGODA_KERNEL_FUNCTION std::int32_t row_of(int r) const {
    return first_row_ + ctx_.warp() % row_warps_ * max_rows + r;
  }
  PAGODA_KERNEL_FUNCTION std::int32_t query_of(int r) const { return row_of(r) / args_.group; }
  PAGODA_KERNEL_FUNCTION std::int32_t head_of(std::int32_t row) const {
    return unit_.kv_head * args_.group + row % args_.group;
  }
  PAGODA_KERNEL_FUNCTION visible_keys visible_to(std::int32_t query) const {
    return args_.mask.visible(unit_.sequence.position(query), unit_.sequence.context);
  }
  /// A token of the sequence, cut to the unit's keys from above.
  PAGODA_KERNEL_FUNCTION std::int32_t clamp(std::int64_t token) const {
    return token < 0 ? 0 : token < unit_.key_end ? static_cast<std::int32_t>(token) : unit_.key_end;
  }
  PAGODA_KERNEL_FUNCTION static std::int32_t tile_after(std::int32_t token) {
    return (token + simt::warp_size - 1) / simt::warp_size;
  }

  PAGODA_KERNEL_FUNCTION void load_queries() {
    PAGODA_KERNEL_UNROLL
    for (int r = 0; r < max_rows; ++r) {
      largest_[r] = lowest_score;
      sum_[r] = 0.0f;
      value_offset_[r] = 0.0f;
      query_sum_[r] = 0.0f;
      PAGODA_KERNEL_UNROLL
      for (int u = 0; u < max_units; ++u) {
        PAGODA_KERNEL_UNROLL
        for (int i = 0; i < 8; ++i) {
          query_[r][u][i] = 0.0f;
          output_[r][u][i] = 0.0f;
        }
      }
      if (r >= count_) continue;
      const std::int32_t row = row_of(r);
      const std::int32_t query = row / args_.group;
      const visible_keys visible = visible_to(query);
      sinks_end_[r] = clamp(visible.sinks_end);
      begin_[r] = clamp(visible.begin);
      end_[r] = clamp(visible.end);
      PAGODA_KERNEL_UNROLL
      for (int u = 0; u < max_units; ++u) {
        const std::int32_t at = key_teams_.in_team + u * simt::warp_size;
        if (at >= key_teams_.units) continue;
        const std::byte* from =
            args_.queries.at(std::int64_t{unit_.sequence.first_query} + query, head_of(row), std::int64_t{8} * at);
        load_eight(ctx_, args_.queries.type, from, query_[r][u]);
        PAGODA_KERNEL_UNROLL
        for (int i = 0; i < 8; ++i) query_sum_[r] += query_[r][u][i];
      }
      if constexpr (key_scales::row_offset) {
        for (int lanes = key_teams_.lanes / 2; lanes > 0; lanes /= 2) {
          query_sum_[r] += ctx_.shfl_xor(query_sum_[r], lanes);
        }
      }
    }
  }

  /// Keys first_key to first_key + 31, one for each lane where it is looked at alone.
  PAGODA_KERNEL_FUNCTION void visit_tile(std::int32_t first_key) {
    const std::int32_t key = first_key + ctx_.lane();
    std::uint32_t seen_by_any = 0;
    PAGODA_KERNEL_UNROLL
    for (int r = 0; r < max_rows; ++r) {
      seen_[r] = r < count_ ? ctx_.ballot(sees(r, key)) : 0;
      seen_by_any |= seen_[r];
    }
    if (seen_by_any == 0) return;
    block_ = -1;
    if (((seen_by_any >> ctx_.lane()) & 1u) != 0) {
      block_ = load_block(ctx_, args_, unit_.sequence.sequence, key >> args_.view.block_shift);
    }
    readable_ = ctx_.ballot(block_ >= 0);
    if (readable_ == 0) return;
    float scores[RowCount] = {};
    score_tile(first_key, scores);
    weigh_tile(key, scores);
    add_values(first_key);
  }

  PAGODA_KERNEL_FUNCTION bool sees(int r, std::int32_t key) {
    if (key < unit_.key_begin || key >= unit_.key_end) return false;
    if (args_.tree_words != nullptr) {
      const std::int32_t new_token = key - (unit_.sequence.context - unit_.sequence.new_tokens);
      if (new_token >= 0) {
        return tree_sees(ctx_, args_, std::int64_t{unit_.sequence.first_query} + query_of(r), new_token);
      }
    }
    return key < sinks_end_[r] || (key >= begin_[r] && key < end_[r]);
  }

  /// The row of the key that lane `lane` sees to; every lane of the warp calls it.
  PAGODA_KERNEL_FUNCTION const std::byte* row_in(const plane_view& plane, std::int32_t first_key, int lane) {
    const std::int32_t block = ctx_.shfl(block_, lane);
    return plane.row(block_id{block}, unit_.kv_head, (first_key + lane) & (args_.view.block_size() - 1));
  }
  PAGODA_KERNEL_FUNCTION bool is_readable(int lane) const { return ((readable_ >> lane) & 1u) != 0; }

  /// scores[r] becomes row r's q . codes of the key that the lane sees to; of keys that are not read, anything.
  PAGODA_KERNEL_FUNCTION void score_tile(std::int32_t first_key, float (&scores)[RowCount]) {
    for (int step = 0; step < key_teams_.lanes; step += keys_at_once) {
      float dots[RowCount][key_count] = {};
      const std::byte* rows[key_count];
      const std::byte* scales[key_count] = {};
      PAGODA_KERNEL_UNROLL
      for (int k = 0; k < keys_at_once; ++k) {
        const int lane = key_teams_.first_key + step + k;
        rows[k] = row_in(args_.view.keys, first_key, lane);
        if constexpr (key_scales::of_group) scales[k] = row_in(args_.view.key_scales, first_key, lane);
      }
      PAGODA_KERNEL_UNROLL
      for (int u = 0; u < max_units; ++u) {
        const std::int32_t at = key_teams_.in_team + u * simt::warp_size;
        if (at >= key_teams_.units) continue;
        stored_eight<key_quantizer> stored[key_count];
        load_units(stored, rows, args_.view.keys.chunk_stride, at, key_teams_.first_key + step);
        PAGODA_KERNEL_UNROLL
        for (int k = 0; k < keys_at_once; ++k) {
          float key[8];
          stored[k].codewords(at, key);
          if constexpr (key_scales::of_group) {
            if (!is_readable(key_teams_.first_key + step + k)) continue;
            apply_scale(load_scale<key_quantizer, scale_alignment>(ctx_, scales[k], 8 * at / key_quantizer::group),
                        key);
          }
          PAGODA_KERNEL_UNROLL
          for (int r = 0; r < max_rows; ++r) {
            if (r >= count_) continue;
            PAGODA_KERNEL_UNROLL
            for (int i = 0; i < 8; ++i) dots[r][k] += query_[r][u][i] * key[i];
          }
        }
      }
      const bool own = key_teams_.in_team / keys_at_once == step / keys_at_once;
      PAGODA_KERNEL_UNROLL
      for (int r = 0; r < max_rows; ++r) {
        if (r >= count_) continue;
        const float dot = reduce(dots[r]);
        if (own) scores[r] = dot;
      }
    }
  }

  template <class Quantizer>
  PAGODA_KERNEL_FUNCTION void load_units(stored_eight<Quantizer> (&stored)[key_count],
                                         const std::byte* const (&rows)[key_count], std::int64_t chunk_stride,
                                         std::int32_t unit, int first_lane) {
    PAGODA_KERNEL_UNROLL
    for (int k = 0; k < keys_at_once; ++k) {
      if (is_readable(first_lane + k)) {
        stored[k].load(ctx_, rows[k], chunk_stride, unit);
      } else {
        stored[k].clear();
      }
    }
  }

  /// Sums four numbers over a team at once: lane 4n + k receives the sum of dots[k].
  PAGODA_KERNEL_FUNCTION float reduce(const float (&dots)[key_count]) {
    const bool odd = (ctx_.lane() & 1) != 0;
    const float first = (odd ? dots[1] : dots[0]) + ctx_.shfl_xor(odd ? dots[0] : dots[1], 1);
    const float second = (odd ? dots[3] : dots[2]) + ctx_.shfl_xor(odd ? dots[2] : dots[3], 1);
    const bool upper = (ctx_.lane() & 2) != 0;
    float sum = (upper ? second : first) + ctx_.shfl_xor(upper ? first : second, 2);
    for (int lanes = keys_at_once; lanes < key_teams_.lanes; lanes *= 2) sum += ctx_.shfl_xor(sum, lanes);
    return sum;
  }

  /// The online softmax over the tile. The weights of its keys, times their value scales, go to shared memory.
  PAGODA_KERNEL_FUNCTION void weigh_tile(std::int32_t key, const float (&scores)[RowCount]) {
    float key_scale = 1.0f;
    float key_offset = 0.0f;
    float value_scale = 1.0f;
    float value_offset = 0.0f;
    const std::int32_t slot = key & (args_.view.block_size() - 1);
    if (block_ >= 0) {
      if constexpr (key_scales::of_row) {
        const auto scale = load_scale<key_quantizer, scale_alignment>(
            ctx_, args_.view.key_scales.row(block_id{block_}, unit_.kv_head, slot), 0);
        key_scale = scale_of(scale);
        key_offset = offset_of(scale);
      }
      if constexpr (value_scales::of_row) {
        const auto scale = load_scale<value_quantizer, scale_alignment>(
            ctx_, args_.view.value_scales.row(block_id{block_}, unit_.kv_head, slot), 0);
        value_scale = scale_of(scale);
        value_offset = offset_of(scale);
      }
    }
    row_numbers weights{};
    PAGODA_KERNEL_UNROLL
    for (int r = 0; r < max_rows; ++r) {
      if (r >= count_) continue;
      float score = scores[r] * key_scale;
      if constexpr (key_scales::row_offset) score += key_offset * query_sum_[r];
      score *= args_.scale;
      score = args_.has_extras()
                  ? finish_score(ctx_, args_, score, head_of(row_of(r)), key - unit_.sequence.position(query_of(r)))
                  : score * log2_e;
      seen_[r] &= readable_;
      const bool seen = ((seen_[r] >> ctx_.lane()) & 1u) != 0;
      float largest = seen && score > lowest_score ? score : lowest_score;  // a NaN shows in the sum
      PAGODA_KERNEL_UNROLL
      for (int lanes = simt::warp_size / 2; lanes > 0; lanes /= 2) {
        const float other = ctx_.shfl_xor(largest, lanes);
        largest = other > largest ? other : largest;
      }
      largest = largest > largest_[r] ? largest : largest_[r];
      const float fade = ctx_.exp2(largest_[r] - largest);
      largest_[r] = largest;
      const float weight = seen ? ctx_.exp2(score - largest) : 0.0f;
      sum_[r] = sum_[r] * fade + weight;
      weights.of[r] = seen ? weight * value_scale : 0.0f;
      if constexpr (value_scales::row_offset) {
        value_offset_[r] = value_offset_[r] * fade + (seen ? weight * value_offset : 0.0f);
      }
      PAGODA_KERNEL_UNROLL
      for (int u = 0; u < max_units; ++u) {
        PAGODA_KERNEL_UNROLL
        for (int i = 0; i < 8; ++i) output_[r][u][i] *= fade;
      }
    }
    ctx_.sts(memory_.weights, memory_.weight_place(ctx_.warp(), ctx_.lane()), weights);
    ctx_.sync_warp();
  }

  /// Adds each key's values to the rows that see it; those of other keys are not even multiplied with zero.
  PAGODA_KERNEL_FUNCTION void add_values(std::int32_t first_key) {
    for (int step = 0; step < value_teams_.lanes; step += keys_at_once) {
      const int first_lane = value_teams_.first_key + step;
      const std::byte* rows[key_count];
      const std::byte* scales[key_count] = {};
      row_numbers weights[key_count];
      PAGODA_KERNEL_UNROLL
      for (int k = 0; k < keys_at_once; ++k) {
        rows[k] = row_in(args_.view.values, first_key, first_lane + k);
        if constexpr (value_scales::of_group) scales[k] = row_in(args_.view.value_scales, first_key, first_lane + k);
        ctx_.lds(memory_.weights, memory_.weight_place(ctx_.warp(), first_lane + k), weights[k]);
      }
      PAGODA_KERNEL_UNROLL
      for (int u = 0; u < max_units; ++u) {
        const std::int32_t at = value_teams_.in_team + u * simt::warp_size;
        if (at >= value_teams_.units) continue;
        stored_eight<value_quantizer> stored[key_count];
        load_units(stored, rows, args_.view.values.chunk_stride, at, first_lane);
        PAGODA_KERNEL_UNROLL
        for (int k = 0; k < keys_at_once; ++k) {
          float value[8];
          stored[k].codewords(at, value);
          if constexpr (value_scales::of_group) {
            if (!is_readable(first_lane + k)) continue;
            apply_scale(load_scale<value_quantizer, scale_alignment>(ctx_, scales[k], 8 * at / value_quantizer::group),
                        value);
          }
          PAGODA_KERNEL_UNROLL
          for (int r = 0; r < max_rows; ++r) {
            if (r >= count_ || ((seen_[r] >> (first_lane + k)) & 1u) == 0) continue;
            PAGODA_KERNEL_UNROLL
            for (int i = 0; i < 8; ++i) output_[r][u][i] += weights[k].of[r] * value[i];
          }
        }
      }
    }
    ctx_.sync_warp();  // before the next tile's weights
  }

  /// Sums over the warp and leaves the result in shared memory.
  PAGODA_KERNEL_FUNCTION void share_sums() {
    PAGODA_KERNEL_UNROLL
    for (int r = 0; r < max_rows; ++r) {
      if (r >= count_) continue;
      PAGODA_KERNEL_UNROLL
      for (int lanes = simt::warp_size / 2; lanes > 0; lanes /= 2) {
        sum_[r] += ctx_.shfl_xor(sum_[r], lanes);
        if constexpr (value_scales::row_offset) value_offset_[r] += ctx_.shfl_xor(value_offset_[r], lanes);
      }
      PAGODA_KERNEL_UNROLL
      for (int u = 0; u < max_units; ++u) {
        PAGODA_KERNEL_UNROLL
        for (int i = 0; i < 8; ++i) {
          for (int lanes = value_teams_.lanes; lanes < simt::warp_size; lanes *= 2) {
            output_[r][u][i] += ctx_.shfl_xor(output_[r][u][i], lanes);
          }
          output_[r][u][i] += value_offset_[r];
        }
        const std::int32_t at = value_teams_.in_team + u * simt::warp_size;
        if (value_teams_.first_key != 0 || at >= value_teams_.units) continue;
        simt::words4 low;
        simt::words4 high;
        PAGODA_KERNEL_UNROLL
        for (int i = 0; i < 4; ++i) {
          low.w[i] = __builtin_bit_cast(std::uint32_t, output_[r][u][i]);
          high.w[i] = __builtin_bit_cast(std::uint32_t, output_[r][u][i + 4]);
        }
        const int place = memory_.sum_place(ctx_.warp(), r, at, args_.view.value_dim);
        ctx_.sts(memory_.sums, place, low);
        ctx_.sts(memory_.sums, place + 16, high);
      }
      if (ctx_.lane() == 0) {
        memory_.states[memory_.state_place(ctx_.warp(), r)] = largest_[r];
        memory_.states[memory_.state_place(ctx_.warp(), r) + 1] = sum_[r];
      }
    }
  }

  Context& ctx_;
  const Arguments& args_;
  generic_memory<Context, max_rows>& memory_;
  const generic_unit& unit_;
  std::int32_t first_row_;
  std::int32_t rows_;
  int row_warps_;       // warps that have rows of their own; the others share the keys of the same rows
  std::int32_t count_;  // rows of this warp
  lane_teams key_teams_;
  lane_teams value_teams_;

  // Per row of this warp; the same in all lanes, except for sums over keys (or units) that are still to be joined.
  std::int32_t sinks_end_[RowCount];
  std::int32_t begin_[RowCount];
  std::int32_t end_[RowCount];
  float query_[RowCount][UnitCount][8];
  float output_[RowCount][UnitCount][8];
  float query_sum_[RowCount];
  float largest_[RowCount];
  float sum_[RowCount];
  float value_offset_[RowCount];

  // Per tile.
  std::uint32_t seen_[RowCount];  // bit l: the row sees the key of lane l
  std::uint32_t readable_;        // bit l: some row sees it, and its block is one of the pool
  std::int32_t block_;            // of the lane's own key
};

}  // namespace pagoda::kernels
