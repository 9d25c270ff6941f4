// SPDX-License-Identifier: Apache-2.0
/// @file attention_job: one attention call on the host; what each of its items does.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include <pagoda/attention/options.hpp>
#include <pagoda/attention/work_plan.hpp>
#include <pagoda/host/item_rows.hpp>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"  // clang++ without AVX, at calls that are inlined

namespace pagoda::host::detail {
inline namespace PAGODA_ISA {

/// One call's inputs. Items may run on any threads; each works in scratch memory of its thread.
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
    return rows * stride() + rows * state_floats;
  }

  /// Writes the rows of the output, or a partial result where one is asked for.
  void run_item(const work_item& item, float* partial, pagoda::detail::scratch& memory) const {
    item_rows<KeyQuantizer, ValueQuantizer> rows(view_, how_, group_, item, memory);
    const vec<float, 8> scale = broadcast<8>(how_.scale);
    for (std::int64_t row = 0; row < rows.rows(); ++row) {
      const Query* from = queries_.row(rows.query_row_of(row), rows.head_of(row));
      float* to = rows.query(row);
      for (std::int64_t d = 0; d < view_.key_dim; d += 8) {
        vec<float, 8> value;
        load_float<8>(from + d, value);
        store_float<8>(value * scale, to + d);
      }
    }
    rows.prepare();
    rows.walk();
    for (std::int64_t row = 0; row < rows.rows(); ++row) {
      if (partial == nullptr) {
        write_row(rows.state(row), rows.output(row), rows.query_row_of(row), rows.head_of(row));
      } else {
        std::copy(rows.output(row), rows.output(row) + stride(), partial + row * stride());
        store_state(rows.state(row), partial, rows.rows(), row);
      }
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
        merge_rows(state, first + row * stride(), load_state(next, rows, row), next + row * stride(), view_.value_dim);
      }
      const std::int64_t kv_head = row / (queries * group_);
      const std::int64_t query = row / group_ % queries + item.query_begin;
      write_row(state, first + row * stride(), view_.batch.query_offsets[item.sequence] + query,
                kv_head * group_ + row % group_);
    }
  }

 private:
  static constexpr std::int64_t state_floats = 3;

  void store_state(const row_state& state, float* partial, std::int64_t rows, std::int64_t row) const noexcept {
    float* to = partial + rows * stride() + row * state_floats;
    to[0] = state.softmax.max;
    to[1] = state.softmax.sum;
    to[2] = state.offset;
  }
  row_state load_state(const float* partial, std::int64_t rows, std::int64_t row) const noexcept {
    const float* from = partial + rows * stride() + row * state_floats;
    return {{from[0], from[1]}, from[2]};
  }

  std::int64_t stride() const noexcept { return padded(view_.value_dim); }

  /// Joins the sink logit, normalises and writes one row.
  void write_row(row_state state, const float* values, std::int64_t query_row, std::int64_t head) const noexcept {
    float factor = 1.0f;
    if (how_.sink_logits != nullptr) factor = merge(state.softmax, {how_.sink_logits[head], 1.0f}).first;
    const bool empty = state.softmax.sum == 0.0f;
    const vec<float, 8> normaliser = broadcast<8>(empty ? 0.0f : factor / state.softmax.sum);
    const vec<float, 8> offset = broadcast<8>(state.offset);
    const std::int64_t dim = view_.value_dim;
    Output* to = output_.row(query_row, head);
    alignas(64) float rotated[is_rotated_v<ValueQuantizer> ? max_head_dim : 1];
    for (std::int64_t d = 0; d < dim; d += 8) {
      vec<float, 8> value;
      load_float<8>(values + d, value);
      value = (value + offset) * normaliser;
      if constexpr (is_rotated_v<ValueQuantizer>) {
        store_float<8>(value, rotated + d);
      } else {
        store_float<8>(value, to + d);
      }
    }
    if constexpr (is_rotated_v<ValueQuantizer>) {
      pagoda::detail::rotate_back(rotated, dim);
      for (std::int64_t d = 0; d < dim; d += 8) {
        vec<float, 8> value;
        load_float<8>(rotated + d, value);
        store_float<8>(value, to + d);
      }
    }
    if (!lse_.empty()) lse_[static_cast<std::size_t>(query_row * queries_.heads() + head)] = state.softmax.lse();
  }

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
