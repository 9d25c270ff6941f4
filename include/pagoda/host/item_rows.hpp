// SPDX-License-Identifier: Apache-2.0
/// @file item_rows: the query rows of one work item, and their walk over its keys and values.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include <pagoda/attention/options.hpp>
#include <pagoda/attention/work_plan.hpp>
#include <pagoda/detail/hadamard.hpp>
#include <pagoda/host/int16_kernels.hpp>
#include <pagoda/host/panel_kernels.hpp>
#include <pagoda/host/query_sight.hpp>
#include <pagoda/host/softmax_tile.hpp>
#include <pagoda/host/tile_gather.hpp>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"  // clang++ without AVX, at calls that are inlined

namespace pagoda::host::detail {
inline namespace PAGODA_ISA {

/// Whether Q's codes are read as 16-bit integers, in rows that fill a register of them.
template <class Quantizer>
inline constexpr bool reads_int16_v =
    has_load_int16<Quantizer> ? has_int16_unit&& tile_plane<Quantizer>::direct : false;
constexpr bool fills_int16(std::int64_t dim) noexcept {
  return dim >= 2 * width;
}

/// Adds a partial result of one row to another. Shapes: outputs [padded(dim)].
inline void merge_rows(row_state& state, float* output, const row_state& next, const float* next_output,
                       std::int64_t dim) noexcept {
  const merge_weights weights = merge(state.softmax, next.softmax);
  state.offset = state.offset * weights.first + next.offset * weights.second;
  for (std::int64_t d = 0; d < dim; d += width) {
    lanes old;
    lanes added;
    load_float<width>(output + d, old);
    load_float<width>(next_output + d, added);
    const lanes scaled = old * broadcast<width>(weights.first);
    store_float<width>(fma(added, broadcast<width>(weights.second), scaled), output + d);
  }
}

/// All rows of an item: kv head by kv head, query by query, the heads of a group together.
///
/// The walk takes tiles outside and kv heads inside, so that blocks are read in the order of memory. The rows of one kv
/// head, all queries of the item times the query group, share every key and value that is read: a few rows in passes
/// of 4, 2 and 1, many as blocks of a matrix product.
template <class KeyQuantizer, class ValueQuantizer>
class item_rows {
 public:
  using view_type = cache_view<KeyQuantizer, ValueQuantizer>;

  item_rows(const view_type& view, const resolved_options& how, std::int64_t group, const work_item& item,
            pagoda::detail::scratch& memory)
      : view_(view),
        how_(how),
        item_(item),
        group_(group),
        queries_(item.query_end - item.query_begin),
        head_rows_(queries_ * group),
        rows_(head_rows_ * (item.head_end - item.head_begin)),
        panels_(head_rows_ >= panels_from_rows),
        gather_(view_, item.sequence,
                visible_to_any(view.batch, how.mask, item.sequence, item.query_begin, item.query_end), panels_),
        sight_(view.batch, how, item) {
    using pagoda::detail::scratch;
    const std::int64_t key_floats = rows_ * padded(view.key_dim);
    const std::int64_t value_floats = rows_ * padded(view.value_dim);
    memory.reserve(scratch::size_of<float>(key_floats) + scratch::size_of<std::int16_t>(key_floats) +
                   2 * scratch::size_of<float>(value_floats) + scratch::size_of<float>(rows_) +
                   scratch::size_of<row_input>(rows_) + 2 * scratch::size_of<row_state>(rows_) +
                   scratch::size_of<float>(score_rows * tile_tokens) + scratch::size_of<std::int16_t>(4 * tile_tokens) +
                   scratch::size_of<token_run>(score_rows) + scratch::size_of<float>(panel_floats(view.key_dim)) +
                   scratch::size_of<float>(panel_floats(view.value_dim)) + query_sight::scratch_bytes() +
                   gather_.scratch_bytes());
    query_ = memory.take<float>(key_floats);
    query16_ = memory.take<std::int16_t>(key_floats);
    output_ = memory.take<float>(value_floats);
    total_output_ = memory.take<float>(value_floats);
    query_scale_ = memory.take<float>(rows_);
    input_ = memory.take<row_input>(rows_);
    state_ = memory.take<row_state>(rows_);
    total_state_ = memory.take<row_state>(rows_);
    scores_ = memory.take<float>(score_rows * tile_tokens);
    weights16_ = memory.take<std::int16_t>(4 * tile_tokens);
    runs_ = memory.take<token_run>(score_rows);
    key_panels_ = memory.take<float>(panel_floats(view.key_dim));
    value_panels_ = memory.take<float>(panel_floats(view.value_dim));
    sight_.take(memory);
    gather_.take(memory);
    clear_chunk();
  }

  std::int64_t rows() const noexcept { return rows_; }
  /// Where a row stands among the queries of the batch, and its query head.
  std::int64_t query_row_of(std::int64_t row) const noexcept {
    return view_.batch.query_offsets[item_.sequence] + row / group_ % queries_ + item_.query_begin;
  }
  std::int64_t head_of(std::int64_t row) const noexcept {
    return (row / head_rows_ + item_.head_begin) * group_ + row % group_;
  }

  /// A row's query, to be written, scaled, before the walk. Shapes: [padded(key_dim)].
  float* query(std::int64_t row) noexcept { return query_ + row * padded(view_.key_dim); }

  /// Makes of the queries what the walk needs.
  void prepare() noexcept {
    const std::int64_t dim = view_.key_dim;
    for (std::int64_t row = 0; row < rows_; ++row) {
      float* values = query(row);
      for (std::int64_t d = dim; d < padded(dim); ++d) values[d] = 0;
      if constexpr (is_rotated_v<KeyQuantizer>) pagoda::detail::rotate(values, dim);
      lanes sum{};
      for (std::int64_t d = 0; d < dim; d += width) {
        lanes value;
        load_float<width>(values + d, value);
        sum = sum + value;
      }
      input_[row].query_sum = horizontal_sum(sum);
      input_[row].alibi_slope = how_.alibi_slopes == nullptr ? 0.0f : how_.alibi_slopes[head_of(row)];
      if constexpr (reads_int16_v<KeyQuantizer>) {
        if (!gather_.keys().has_codes() || !fills_int16(dim)) continue;
        query_scale_[row] = round_to_int16(values, dim, int16_query_limit(dim, KeyQuantizer::codeword_limit),
                                           query16_ + row * padded(dim));
        // Queries so small that 16 bits do not hold them give scores of 0; NaN and infinities stay.
        if (query_scale_[row] != query_scale_[row] && std::fabs(input_[row].query_sum) < 1.0f) query_scale_[row] = 0;
      }
    }
  }

  /// Visits all tiles of the item's chunks.
  void walk() {
    gather_.start(item_.chunk_begin * chunk_tokens, item_.chunk_end * chunk_tokens);
    std::int64_t chunk = -1;
    while (gather_.advance()) {
      const std::int64_t begun = gather_.begin() / chunk_tokens;
      if (chunk >= 0 && begun != chunk) close_chunk();
      chunk = begun;
      alike_ = sight_.alike(gather_);
      for (std::int64_t head = item_.head_begin; head < item_.head_end; ++head) {
        gather_.select_head(head);
        const std::int64_t first_row = (head - item_.head_begin) * head_rows_;
        if (panels_) {
          visit_panels(first_row);
        } else {
          look_ahead(head);
          visit_passes(first_row);
        }
      }
    }
    close_chunk();
  }

  /// A row's result after the walk. Shapes: output [padded(value_dim)].
  const row_state& state(std::int64_t row) const noexcept { return total_state_[row]; }
  const float* output(std::int64_t row) const noexcept { return total_output_ + row * padded(view_.value_dim); }

 private:
  static constexpr std::int64_t panels_from_rows = 16;
  static constexpr std::int64_t score_rows = 24;  // rows of a block: with a panel of keys they fit the first cache

  float* output_of(std::int64_t row) const noexcept { return output_ + row * padded(view_.value_dim); }

  std::int64_t panel_floats(std::int64_t dim) const noexcept {
    return panels_ ? panel_columns(tile_tokens) * panel_columns(dim) : 0;
  }

  void clear_chunk() noexcept {
    std::fill(output_, output_ + rows_ * padded(view_.value_dim), 0.0f);
    std::fill(state_, state_ + rows_, row_state{});
  }

  /// Folds the chunk into the total, and starts the next one.
  void close_chunk() noexcept {
    const std::int64_t stride = padded(view_.value_dim);
    if (!has_total_) {
      std::swap(output_, total_output_);
      std::swap(state_, total_state_);
      has_total_ = true;
    } else {
      for (std::int64_t row = 0; row < rows_; ++row) {
        merge_rows(total_state_[row], total_output_ + row * stride, state_[row], output_ + row * stride,
                   view_.value_dim);
      }
    }
    clear_chunk();
  }

  /// Names the rows that are read after those of this head: the next head's, or the next tile's.
  void look_ahead(std::int64_t head) noexcept {
    const bool same_tile = head + 1 < item_.head_end;
    const std::int64_t next = same_tile ? head + 1 : item_.head_begin;
    const std::int64_t count = same_tile ? gather_.count() : gather_.next_count();
    gather_.keys().ask_scales(same_tile, next, count);
    gather_.values().ask_scales(same_tile, next, count);
    keys_ahead_ = gather_.keys().ahead(same_tile, next, count);
    values_ahead_ = gather_.values().ahead(true, head, gather_.count());
    passes_ = 0;
    all_passes_ = alike_ ? passes_of(head_rows_) : queries_ * passes_of(group_);
  }

  softmax_input softmax_of(std::int64_t query, const tile_sight& sight) noexcept {
    softmax_input in = gather_.softmax_numbers();
    in.mask = sight.mask;
    in.soft_cap = how_.soft_cap;
    if (how_.alibi_slopes != nullptr) in.distances = gather_.distances_from(sight_.position(query));
    return in;
  }

  // ---- A few rows.

  void visit_passes(std::int64_t first_row) {
    if (alike_) {
      const tile_sight sight = sight_.everything(gather_.count());
      visit_rows(first_row, head_rows_, sight, softmax_of(0, sight));
      return;
    }
    for (std::int64_t q = 0; q < queries_; ++q) {
      const tile_sight sight = sight_.look(gather_, q);
      if (sight.count > 0) visit_rows(first_row + q * group_, group_, sight, softmax_of(q, sight));
    }
  }

  /// Rows with the same sight, in passes of 4, 2 and 1: first all scores, then all values, so that each is read from
  /// the nearest cache again.
  void visit_rows(std::int64_t row, std::int64_t count, const tile_sight& sight, const softmax_input& in) {
    const std::int64_t passes = passes_of(count);
    for_each_pass(count, [&]<int Rows>(std::integral_constant<int, Rows>, std::int64_t first, std::int64_t pass) {
      // Of this head's values, which are needed soon.
      const lines_ahead values = passes_ == 0 ? values_ahead_.part(pass, passes) : lines_ahead{};
      float* scores = scores_ + first * tile_tokens;
      score_pass<Rows>(row + first, scores, values);
      softmax_tile<KeyQuantizer, ValueQuantizer, Rows>(scores, gather_.count(), in, input_ + row + first,
                                                       state_ + row + first, output_of(row + first), view_.value_dim);
    });
    for_each_pass(count, [&]<int Rows>(std::integral_constant<int, Rows>, std::int64_t first, std::int64_t) {
      const lines_ahead keys = keys_ahead_.part(passes_++, all_passes_);
      accumulate_pass<Rows>(row + first, scores_ + first * tile_tokens, sight, keys);
    });
  }

  /// Calls visit(Rows, the first row, the pass) for rows in passes.
  template <class Visit>
  static void for_each_pass(std::int64_t count, Visit&& visit) {
    std::int64_t row = 0;
    std::int64_t pass = 0;
    for (; row + 4 <= count; row += 4) visit(std::integral_constant<int, 4>{}, row, pass++);
    if (row + 2 <= count) {
      visit(std::integral_constant<int, 2>{}, row, pass++);
      row += 2;
    }
    if (row < count) visit(std::integral_constant<int, 1>{}, row, pass);
  }
  static std::int64_t passes_of(std::int64_t rows) noexcept { return rows / 4 + rows % 4 / 2 + rows % 2; }

  template <int Rows>
  void score_pass(std::int64_t row, float* scores, const lines_ahead& ahead) {
    const std::int64_t dim = view_.key_dim;
    const tile_rows keys = gather_.keys().rows();
    const float* queries = query_ + row * padded(dim);
    if constexpr (reads_int16_v<KeyQuantizer>) {
      if (gather_.keys().has_codes() && fills_int16(dim)) {
        score_tile_int16<KeyQuantizer, Rows>(query16_ + row * padded(dim), query_scale_ + row, dim, keys,
                                             gather_.count(), scores, ahead);
        return;
      }
    }
    if constexpr (tile_plane<KeyQuantizer>::direct) {
      if (gather_.keys().has_codes()) {
        score_tile<code_rows<KeyQuantizer>, Rows>(queries, dim, keys, gather_.count(), scores, ahead);
        return;
      }
    }
    score_tile<float_rows, Rows>(queries, dim, keys, gather_.count(), scores, ahead);
  }

  template <int Rows>
  void accumulate_pass(std::int64_t row, const float* weights, const tile_sight& sight, const lines_ahead& ahead) {
    if constexpr (reads_int16_v<ValueQuantizer>) {
      if (gather_.values().has_codes() && fills_int16(view_.value_dim)) {
        accumulate_int16<Rows>(row, weights, sight, ahead);
        return;
      }
    }
    accumulate_runs<Rows>(row, weights, sight, ahead);
  }

  template <int Rows>
  void accumulate_runs(std::int64_t row, const float* weights, const tile_sight& sight, const lines_ahead& ahead) {
    // Runs one by one: a token that the rows do not see may hold an infinity or a NaN.
    for (std::int32_t i = 0; i < sight.count; ++i) {
      accumulate_run<Rows>(row, weights, sight.runs[i], i == 0 ? ahead : lines_ahead{});
    }
  }

  /// A row with a weight that 16 bits do not hold goes in floats, alone: the other rows of the pass keep their bits.
  template <int Rows>
  void accumulate_int16(std::int64_t row, const float* weights, const tile_sight& sight, const lines_ahead& ahead) {
    float scales[static_cast<std::size_t>(Rows)];
    bool in_floats[static_cast<std::size_t>(Rows)];
    for (int r = 0; r < Rows; ++r) {
      scales[r] = round_to_int16(weights + r * tile_tokens, gather_.count(), 32767, weights16_ + r * tile_tokens);
      in_floats[r] = !(scales[r] >= 0);
      if (in_floats[r]) scales[r] = 0;
    }
    accumulate_tile_int16<ValueQuantizer, Rows>(weights16_, scales, gather_.values().rows(), gather_.count(),
                                                view_.value_dim, output_of(row), ahead);
    for (int r = 0; r < Rows; ++r) {
      if (in_floats[r]) accumulate_runs<1>(row + r, weights + r * tile_tokens, sight, lines_ahead{});
    }
  }

  template <int Rows>
  void accumulate_run(std::int64_t row, const float* weights, const token_run& run, const lines_ahead& ahead) {
    tile_rows values = gather_.values().rows();
    values.base += run.begin;
    const std::int64_t count = run.end - run.begin;
    const std::int64_t dim = view_.value_dim;
    if constexpr (tile_plane<ValueQuantizer>::direct) {
      if (gather_.values().has_codes()) {
        accumulate_tile<code_rows<ValueQuantizer>, Rows>(weights + run.begin, values, count, dim, output_of(row),
                                                         ahead);
        return;
      }
    }
    accumulate_tile<float_rows, Rows>(weights + run.begin, values, count, dim, output_of(row), ahead);
  }

  // ---- Many rows.

  void visit_panels(std::int64_t first_row) {
    pack_keys(gather_.keys().floats(), gather_.count(), view_.key_dim, key_panels_);
    pack_values(gather_.values().floats(), gather_.count(), view_.value_dim, value_panels_);
    for (std::int64_t row = 0; row < head_rows_; row += score_rows) {
      const std::int64_t rows = std::min(score_rows, head_rows_ - row);
      visit_block(first_row + row, rows, row);
    }
  }

  /// Rows of one kv head, of which the first is number `place` among them.
  void visit_block(std::int64_t row, std::int64_t rows, std::int64_t place) {
    const std::int64_t dim = view_.value_dim;
    score_panels(query_ + row * padded(view_.key_dim), rows, view_.key_dim, key_panels_, gather_.count(), scores_);
    if (alike_) {
      softmax_rows(row, 0, rows, softmax_of(0, sight_.everything(gather_.count())));
      accumulate_panels(scores_, rows, 0, gather_.count(), value_panels_, dim, output_of(row));
      return;
    }
    // Query by query: a block may begin and end within the heads of a group.
    for (std::int64_t r = 0; r < rows;) {
      const std::int64_t query = (place + r) / group_;
      const std::int64_t end = std::min(rows, (query + 1) * group_ - place);
      const tile_sight sight = sight_.look(gather_, query);
      if (sight.count > 0) softmax_rows(row, r, end, softmax_of(query, sight));
      for (std::int64_t i = r; i < end; ++i) runs_[i] = sight.count == 1 ? sight.runs[0] : token_run{0, 0};
      if (sight.count > 1) {
        for (std::int32_t n = 0; n < sight.count; ++n) accumulate(row, r, end, sight.runs[n].begin, sight.runs[n].end);
      }
      r = end;
    }
    for (std::int64_t r = 0; r < rows; r += panel_rows) accumulate_uneven(row, r, std::min(rows, r + panel_rows));
  }

  /// Rows first to last - 1 of a block, each over its own run: together where the runs overlap.
  void accumulate_uneven(std::int64_t row, std::int64_t first, std::int64_t last) {
    token_run common = runs_[first];
    for (std::int64_t r = first; r < last; ++r) {
      common = {std::max(common.begin, runs_[r].begin), std::min(common.end, runs_[r].end)};
    }
    if (common.begin >= common.end) {
      for (std::int64_t r = first; r < last; ++r) accumulate(row, r, r + 1, runs_[r].begin, runs_[r].end);
      return;
    }
    for (std::int64_t r = first; r < last; ++r) accumulate(row, r, r + 1, runs_[r].begin, common.begin);
    accumulate(row, first, last, common.begin, common.end);
    for (std::int64_t r = first; r < last; ++r) accumulate(row, r, r + 1, common.end, runs_[r].end);
  }

  void accumulate(std::int64_t row, std::int64_t first, std::int64_t last, std::int64_t begin, std::int64_t end) {
    accumulate_panels(scores_ + first * tile_tokens, last - first, begin, end, value_panels_, view_.value_dim,
                      output_of(row + first));
  }

  void softmax_rows(std::int64_t row, std::int64_t first, std::int64_t last, const softmax_input& in) {
    const std::int64_t dim = view_.value_dim;
    const auto visit = [&]<int Rows>(std::int64_t r) {
      softmax_tile<KeyQuantizer, ValueQuantizer, Rows>(scores_ + r * tile_tokens, gather_.count(), in, input_ + row + r,
                                                       state_ + row + r, output_of(row + r), dim);
    };
    std::int64_t r = first;
    for (; r + 4 <= last; r += 4) visit.template operator()<4>(r);
    for (; r < last; ++r) visit.template operator()<1>(r);
  }

  view_type view_;
  const resolved_options& how_;
  const work_item& item_;
  std::int64_t group_;
  std::int64_t queries_;
  std::int64_t head_rows_;  // queries times query group
  std::int64_t rows_;
  bool panels_;
  tile_gather<KeyQuantizer, ValueQuantizer> gather_;
  query_sight sight_;
  bool alike_ = false;          // all queries see the whole tile at hand
  lines_ahead keys_ahead_{};    // of the next head
  lines_ahead values_ahead_{};  // of the head at hand
  std::int64_t passes_ = 0;     // so far, of the head at hand
  std::int64_t all_passes_ = 1;
  float* query_ = nullptr;           // [rows, padded(key_dim)], scaled
  std::int16_t* query16_ = nullptr;  // the same, rounded
  float* query_scale_ = nullptr;     // [rows]
  row_input* input_ = nullptr;       // [rows]
  float* output_ = nullptr;          // [rows, padded(value_dim)], of the chunk
  float* total_output_ = nullptr;    // the same, of all chunks so far
  row_state* state_ = nullptr;       // [rows]
  row_state* total_state_ = nullptr;
  float* scores_ = nullptr;            // [score_rows, tile_tokens]
  std::int16_t* weights16_ = nullptr;  // [4, tile_tokens]
  token_run* runs_ = nullptr;          // [score_rows]
  float* key_panels_ = nullptr;
  float* value_panels_ = nullptr;
  bool has_total_ = false;
};

}  // namespace PAGODA_ISA
}  // namespace pagoda::host::detail

#pragma GCC diagnostic pop
