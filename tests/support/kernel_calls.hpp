// SPDX-License-Identifier: Apache-2.0
/// @file Attention kernels on a host_machine: the arguments of a call over a view in host memory, and its launches.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include <pagoda/attention/options.hpp>
#include <pagoda/kernels/attention_arguments.hpp>
#include <pagoda/kernels/chunk_plan.hpp>
#include <pagoda/kernels/merge.hpp>
#include <pagoda/simt/host_context.hpp>

#include "attention_case.hpp"

namespace pagoda_test {

/// The arguments of one attention call, with plan and partial results in allocations of just their size, so that the
/// address sanitizer sees every step outside. What is not yet written is NaN.
template <class KeyQuantizer, class ValueQuantizer>
class attention_launch {
 public:
  using view_type = pagoda::cache_view<KeyQuantizer, ValueQuantizer>;
  using arguments_type = pagoda::kernels::attention_arguments<KeyQuantizer, ValueQuantizer>;

  template <class Query, class Output>
  attention_launch(const view_type& view, const pagoda::rows_view<const Query>& queries,
                   const pagoda::rows_view<Output>& output, const pagoda::attention_options& options) {
    const pagoda::resolved_options how = pagoda::resolve_attention(view, queries, output, options);
    sequences_ = view.batch.sequences();
    std::int32_t longest = 1;
    for (std::int32_t i = 0; i < sequences_; ++i) longest = std::max(longest, view.batch.queries(i));
    args.view = view;
    args.queries = pagoda::kernels::erase(queries);
    args.output = pagoda::kernels::erase(output);
    args.lse = options.lse.empty() ? nullptr : options.lse.data();
    args.sink_logits = how.sink_logits;
    args.alibi_slopes = how.alibi_slopes;
    args.tree_words = how.tree.empty() ? nullptr : how.tree.words.data();
    args.tree_words_per_query = how.tree.words_per_query;
    args.group = static_cast<std::int32_t>(queries.heads() / view.kv_heads);
    args.decode_queries = std::min(longest, pagoda::kernels::max_decode_queries);
    args.scale = how.scale;
    args.soft_cap = how.soft_cap;
    args.mask = how.mask;
    args.report = &report;
    has_long_sequences_ = longest > pagoda::kernels::max_decode_queries;
    make_plan();
  }
  attention_launch(const attention_launch&) = delete;
  attention_launch& operator=(const attention_launch&) = delete;

  /// Launches Decode, then Prefill where there is one and a sequence needs it, then the merge where a sequence needs
  /// it; each with at most `max_grid` blocks. A kernel that serves both kinds of work goes as Decode, with no Prefill.
  /// The machine is a host_machine, or anything else that launches kernels.
  template <class Decode, class Prefill = void, class Machine>
  void run(Machine& machine, std::int64_t max_grid = 5) {
    launch<Decode>(machine, max_grid);
    if constexpr (!std::is_void_v<Prefill>) {
      if (has_long_sequences_) launch<Prefill>(machine, max_grid);
    }
    if (needs_merge_) launch<pagoda::kernels::merge_chunks<KeyQuantizer, ValueQuantizer>>(machine, max_grid);
  }

  template <class Kernel, class Machine>
  void launch(Machine& machine, std::int64_t max_grid = 5) {
    const std::int64_t units =
        Kernel::max_units(args, sequences_, args.view.batch.total_queries(), static_cast<std::int64_t>(items_.size()));
    if (units == 0) return;
    machine.template launch<Kernel>({static_cast<std::uint32_t>(std::min(units, max_grid)), 1, 1}, args);
  }

  arguments_type args{};
  pagoda::kernels::table_report report{};

 private:
  void make_plan() {
    const pagoda::batch_view& batch = args.view.batch;
    std::int64_t blocks = 0;
    for (std::int32_t i = 0; i < sequences_; ++i) {
      blocks += pagoda::divide_up(batch.context_length(i), batch.block_size);
    }
    std::vector<pagoda::kernels::chunk_item> room(
        static_cast<std::size_t>(pagoda::kernels::max_items(sequences_, blocks, batch.block_size)));
    offsets_.resize(static_cast<std::size_t>(sequences_) + 1);
    const auto count = static_cast<std::size_t>(pagoda::kernels::build_chunk_plan(batch, room, offsets_));
    items_ = std::vector<pagoda::kernels::chunk_item>(room.data(), room.data() + count);
    for (std::int32_t i = 0; i < sequences_; ++i) {
      const auto at = static_cast<std::size_t>(i);
      needs_merge_ = needs_merge_ || offsets_[at + 1] - offsets_[at] > 1;
    }
    const std::size_t rows =
        count * static_cast<std::size_t>(args.view.kv_heads) * static_cast<std::size_t>(args.partial_rows());
    constexpr float unwritten = std::numeric_limits<float>::quiet_NaN();
    partial_output_ = std::vector<float>(rows * static_cast<std::size_t>(args.view.value_dim), unwritten);
    partial_state_ = std::vector<float>(rows * 2, unwritten);
    args.plan = {items_.data(), offsets_.data()};
    args.partial_output = partial_output_.data();
    args.partial_state = partial_state_.data();
  }

  std::int32_t sequences_ = 0;
  bool has_long_sequences_ = false;
  bool needs_merge_ = false;
  std::vector<pagoda::kernels::chunk_item> items_;
  std::vector<std::int32_t> offsets_;
  std::vector<float> partial_output_;
  std::vector<float> partial_state_;
};

/// What the kernels make of a case; output and LSE start as NaN, so that a row that is not written shows.
template <class Decode, class Prefill = void, class Case, class Machine>
attention_result run_kernels(const Case& batch, pagoda::attention_options options, Machine& machine,
                             std::int64_t max_grid = 5) {
  using view_type = typename Case::view_type;
  constexpr float unwritten = std::numeric_limits<float>::quiet_NaN();
  attention_result result{std::vector<float>(batch.output_size(), unwritten),
                          std::vector<float>(batch.row_count(), unwritten)};
  options.lse = result.lse;
  attention_launch<typename view_type::key_quantizer, typename view_type::value_quantizer> call(
      batch.view, batch.query_rows(), pagoda::rows_view<float>(result.output, batch.output_shape()), options);
  call.template run<Decode, Prefill>(machine, max_grid);
  return result;
}

}  // namespace pagoda_test
