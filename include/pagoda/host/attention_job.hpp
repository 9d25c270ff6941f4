// SPDX-License-Identifier: Apache-2.0
/// @file attention_job: one attention call on the host; what each of its items does.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <type_traits>

#include <pagoda/attention/options.hpp>
#include <pagoda/attention/work_plan.hpp>
#include <pagoda/host/tile_gather.hpp>
#include <pagoda/host/tile_kernels.hpp>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"  // clang++ without AVX, at calls that are inlined

namespace pagoda::host::detail {
inline namespace PAGODA_ISA {

/// One call's inputs. Items may run on any threads; each works in scratch memory of its thread.
///
/// An item walks tiles outside and kv heads inside, so that blocks are read in the order of memory. The rows of one kv
/// head, all queries of the item times the query group, share every key and value that is read.
template <class KeyQuantizer, class ValueQuantizer, class Query, class Output>
class attention_job {
 public:
  using view_type = cache_view<KeyQuantizer, ValueQuantizer>;

  attention_job(const view_type& view, const rows_view<const Query>& queries, const rows_view<Output>& output,
                const resolved_options& how, std::span<float> lse)
      : view_(view),
        queries_(queries),
        output_(output),
        how_(how),
        lse_(lse),
        group_(queries.heads() / view.kv_heads) {}

  std::int64_t group() const noexcept { return group_; }

  /// Floats of one partial result: outputs, then row states.
  std::int64_t partial_floats(std::int64_t max_queries) const noexcept {
    const std::int64_t rows = queries_.heads() * max_queries;
    return rows * view_.value_dim + rows * state_floats;
  }

  void run_item(const work_item& item, float* partial, pagoda::detail::scratch& memory) const {
    item_rows rows(*this, item, memory);
    rows.load_queries();
    for (std::int64_t chunk = rows.next_chunk(item.chunk_begin); chunk < item.chunk_end;
         chunk = rows.next_chunk(chunk + 1)) {
      rows.walk_chunk(chunk);
      rows.close_chunk();
    }
    if (partial != nullptr) {
      rows.store_partial(partial);
    } else {
      rows.finish();
    }
  }

  /// Merges the partial results of some queries in the order of their chunks, and writes the output.
  void run_merge(const merge_item& item, float* partials, std::int64_t floats_of_partial) const {
    const std::int64_t queries = item.query_end - item.query_begin;
    const std::int64_t rows = queries_.heads() * queries;
    float* first = partials + item.first_partial * floats_of_partial;
    for (std::int64_t row = 0; row < rows; ++row) {
      row_state state = load_state(first, rows, row);
      for (std::int64_t p = 1; p < item.partials; ++p) {
        const float* next = first + p * floats_of_partial;
        merge_rows(state, first + row * view_.value_dim, load_state(next, rows, row), next + row * view_.value_dim);
      }
      const std::int64_t kv_head = row / (queries * group_);
      const std::int64_t query = row / group_ % queries + item.query_begin;
      write_row(state, first + row * view_.value_dim, view_.batch.query_offsets[item.sequence] + query,
                kv_head * group_ + row % group_);
    }
  }

 private:
  static constexpr std::int64_t state_floats = 3;

  void store_state(const row_state& state, float* partial, std::int64_t rows, std::int64_t row) const noexcept {
    float* to = partial + rows * view_.value_dim + row * state_floats;
    to[0] = state.softmax.max;
    to[1] = state.softmax.sum;
    to[2] = state.offset;
  }
  row_state load_state(const float* partial, std::int64_t rows, std::int64_t row) const noexcept {
    const float* from = partial + rows * view_.value_dim + row * state_floats;
    return {{from[0], from[1]}, from[2]};
  }

  void merge_rows(row_state& state, float* output, const row_state& next, const float* next_output) const noexcept {
    const merge_weights weights = merge(state.softmax, next.softmax);
    state.offset = state.offset * weights.first + next.offset * weights.second;
    for (std::int64_t d = 0; d < view_.value_dim; d += 8) {
      lanes old;
      lanes added;
      load_float<8>(output + d, old);
      load_float<8>(next_output + d, added);
      const lanes scaled = old * broadcast<8>(weights.first);
      store_float<8>(fma(added, broadcast<8>(weights.second), scaled), output + d);
    }
  }

  /// Joins the sink logit, normalises and writes one row.
  void write_row(row_state state, const float* values, std::int64_t query_row, std::int64_t head) const noexcept {
    float factor = 1.0f;
    if (how_.sink_logits != nullptr) factor = merge(state.softmax, {how_.sink_logits[head], 1.0f}).first;
    const bool empty = state.softmax.sum == 0.0f;
    const lanes normaliser = broadcast<8>(empty ? 0.0f : factor / state.softmax.sum);
    const lanes offset = broadcast<8>(state.offset);
    Output* to = output_.row(query_row, head);
    for (std::int64_t d = 0; d < view_.value_dim; d += 8) {
      lanes value;
      load_float<8>(values + d, value);
      store_float<8>((value + offset) * normaliser, to + d);
    }
    if (!lse_.empty()) lse_[static_cast<std::size_t>(query_row * queries_.heads() + head)] = state.softmax.lse();
  }

  /// The rows of one item while it runs: kv head by kv head, query by query, the heads of a group together.
  class item_rows {
   public:
    item_rows(const attention_job& job, const work_item& item, pagoda::detail::scratch& memory)
        : job_(job),
          item_(item),
          queries_(item.query_end - item.query_begin),
          head_rows_(queries_ * job.group_),
          rows_(head_rows_ * (item.head_end - item.head_begin)),
          keys_(visible_to_any(job.view_.batch, job.how_.mask, item.sequence, item.query_begin, item.query_end)),
          gather_(job.view_, item.sequence, head_rows_) {
      using pagoda::detail::scratch;
      const std::int64_t key_dim = job.view_.key_dim;
      const std::int64_t value_dim = job.view_.value_dim;
      memory.reserve(scratch::size_of<float>(rows_ * key_dim) + 2 * scratch::size_of<float>(rows_ * value_dim) +
                     scratch::size_of<float>(rows_) + 2 * scratch::size_of<row_state>(rows_) +
                     scratch::size_of<float>(4 * tile_tokens) + gather_.scratch_bytes());
      query_ = memory.take<float>(rows_ * key_dim);
      output_ = memory.take<float>(rows_ * value_dim);
      total_output_ = memory.take<float>(rows_ * value_dim);
      query_sum_ = memory.take<float>(rows_);
      state_ = memory.take<row_state>(rows_);
      total_state_ = memory.take<row_state>(rows_);
      scores_ = memory.take<float>(4 * tile_tokens);
      gather_.take(memory);
      clear_chunk();
    }

    void load_queries() {
      const std::int64_t dim = job_.view_.key_dim;
      const lanes scale = broadcast<8>(job_.how_.scale);
      for (std::int64_t row = 0; row < rows_; ++row) {
        const Query* from = job_.queries_.row(query_row_of(row), head_of(row));
        lanes sum{};
        for (std::int64_t d = 0; d < dim; d += 8) {
          lanes value;
          load_float<8>(from + d, value);
          value = value * scale;
          sum = sum + value;
          store_float<8>(value, query_ + row * dim + d);
        }
        query_sum_[row] = horizontal_sum(sum);
      }
    }

    /// The first chunk from `chunk` on that holds a key for any query: the gap between sinks and window is skipped.
    std::int64_t next_chunk(std::int64_t chunk) const noexcept {
      return chunk * chunk_tokens < keys_.sinks_end ? chunk : std::max(chunk, keys_.begin / chunk_tokens);
    }

    void walk_chunk(std::int64_t chunk) {
      const std::int64_t end = std::min(keys_.end, (chunk + 1) * chunk_tokens);
      for (std::int64_t begin = chunk * chunk_tokens; begin < end; begin += tile_tokens) {
        gather_.collect(keys_, begin, std::min(begin + tile_tokens, end));
        if (gather_.count() == 0) continue;
        for (std::int64_t head = item_.head_begin; head < item_.head_end; ++head) {
          gather_.select_head(head);
          if (head + 1 < item_.head_end) {
            gather_.look_ahead(head + 1);
          } else {
            gather_.look_ahead(keys_, item_.head_begin, std::min(keys_.end, item_.chunk_end * chunk_tokens));
          }
          visit_tile((head - item_.head_begin) * head_rows_);
        }
      }
    }

    /// Folds the chunk into the total, and starts the next one.
    void close_chunk() {
      const std::int64_t dim = job_.view_.value_dim;
      if (!has_total_) {
        std::swap(output_, total_output_);
        std::swap(state_, total_state_);
        has_total_ = true;
      } else {
        for (std::int64_t row = 0; row < rows_; ++row) {
          job_.merge_rows(total_state_[row], total_output_ + row * dim, state_[row], output_ + row * dim);
        }
      }
      clear_chunk();
    }

    void finish() const {
      const std::int64_t dim = job_.view_.value_dim;
      for (std::int64_t row = 0; row < rows_; ++row) {
        if (has_total_) {
          job_.write_row(total_state_[row], total_output_ + row * dim, query_row_of(row), head_of(row));
        } else {
          job_.write_row(state_[row], output_ + row * dim, query_row_of(row), head_of(row));
        }
      }
    }

    void store_partial(float* partial) const {
      const float* output = has_total_ ? total_output_ : output_;
      const row_state* state = has_total_ ? total_state_ : state_;
      std::copy(output, output + rows_ * job_.view_.value_dim, partial);
      for (std::int64_t row = 0; row < rows_; ++row) job_.store_state(state[row], partial, rows_, row);
    }

   private:
    std::int64_t query_of(std::int64_t row) const noexcept { return row / job_.group_ % queries_ + item_.query_begin; }
    std::int64_t query_row_of(std::int64_t row) const noexcept {
      return job_.view_.batch.query_offsets[item_.sequence] + query_of(row);
    }
    std::int64_t head_of(std::int64_t row) const noexcept {
      return (row / head_rows_ + item_.head_begin) * job_.group_ + row % job_.group_;
    }

    void clear_chunk() noexcept {
      std::fill(output_, output_ + rows_ * job_.view_.value_dim, 0.0f);
      std::fill(state_, state_ + rows_, row_state{});
    }

    /// One tile of one kv head against its rows: all of them at once where all see the whole tile, else query by query
    /// over the keys that each one sees.
    void visit_tile(std::int64_t first_row) {
      const batch_view& batch = job_.view_.batch;
      const std::int64_t context = batch.context_length(item_.sequence);
      const std::int64_t first_position = context - batch.queries(item_.sequence) + item_.query_begin;
      const bool per_query = job_.how_.alibi_slopes != nullptr || !sees_all(first_position, context);
      if (!per_query) {
        visit_rows(first_row, head_rows_, 0);
        return;
      }
      for (std::int64_t q = 0; q < queries_; ++q) {
        const std::int64_t position = first_position + q;
        const std::int64_t row = first_row + q * job_.group_;
        const std::int64_t query_row = query_row_of(row);
        const visible_keys visible = job_.how_.mask.visible(position, context);
        const std::int64_t first_new = context - batch.new_tokens(item_.sequence);
        gather_.narrow([&](std::int64_t key) {
          if (job_.how_.tree.empty() || key < first_new) return visible.sees(key);
          return job_.how_.tree.sees(query_row, key - first_new);
        });
        if (gather_.count() > 0) visit_rows(row, job_.group_, position);
        gather_.widen();
      }
    }

    bool sees_all(std::int64_t first_position, std::int64_t context) const noexcept {
      if (!gather_.contiguous()) return queries_ == 1 && job_.how_.tree.empty();
      if (!job_.how_.tree.empty() && gather_.end() > context - job_.view_.batch.new_tokens(item_.sequence))
        return false;
      const attention_mask& mask = job_.how_.mask;
      return mask.visible(first_position, context).covers(gather_.begin(), gather_.end()) &&
             mask.visible(first_position + queries_ - 1, context).covers(gather_.begin(), gather_.end());
    }

    void visit_rows(std::int64_t first_row, std::int64_t count, std::int64_t position) {
      gather_.with_rows([&]<class Keys, class Values>(std::type_identity<Keys>, std::type_identity<Values>) {
        std::int64_t row = first_row;
        const std::int64_t end = first_row + count;
        for (; row + 4 <= end; row += 4) visit_pass<Keys, Values, 4>(row, position);
        if (row + 2 <= end) {
          visit_pass<Keys, Values, 2>(row, position);
          row += 2;
        }
        if (row < end) visit_pass<Keys, Values, 1>(row, position);
      });
    }

    template <class Keys, class Values, std::int64_t Rows>
    void visit_pass(std::int64_t row, std::int64_t position) {
      const std::int64_t key_dim = job_.view_.key_dim;
      const std::int64_t value_dim = job_.view_.value_dim;
      score_tile<Keys, Rows>(query_ + row * key_dim, key_dim, gather_.keys(), gather_.count(), scores_,
                             gather_.values_ahead());
      for (std::int64_t r = 0; r < Rows; ++r) {
        softmax_input in = gather_.softmax_numbers();
        in.query_sum = query_sum_[row + r];
        in.soft_cap = job_.how_.soft_cap;
        if (job_.how_.alibi_slopes != nullptr) {
          in.distances = gather_.distances_from(position);
          in.alibi_slope = job_.how_.alibi_slopes[head_of(row + r)];
        }
        softmax_tile(scores_ + r * tile_tokens, gather_.count(), in, state_[row + r], output_ + (row + r) * value_dim,
                     value_dim);
      }
      accumulate_tile<Values, Rows>(scores_, gather_.values(), gather_.count(), value_dim, output_ + row * value_dim,
                                    gather_.keys_ahead());
    }

    const attention_job& job_;
    const work_item& item_;
    std::int64_t queries_;
    std::int64_t head_rows_;  // queries times query group
    std::int64_t rows_;
    visible_keys keys_;
    tile_gather<KeyQuantizer, ValueQuantizer> gather_;
    float* query_ = nullptr;         // [rows, key_dim], scaled
    float* query_sum_ = nullptr;     // [rows]
    float* output_ = nullptr;        // [rows, value_dim], of the chunk
    float* total_output_ = nullptr;  // [rows, value_dim], of all chunks so far
    row_state* state_ = nullptr;
    row_state* total_state_ = nullptr;
    float* scores_ = nullptr;  // [4, tile_tokens]
    bool has_total_ = false;
  };

  view_type view_;
  rows_view<const Query> queries_;
  rows_view<Output> output_;
  resolved_options how_;
  std::span<float> lse_;
  std::int64_t group_;
};

}  // namespace PAGODA_ISA
}  // namespace pagoda::host::detail

#pragma GCC diagnostic pop
