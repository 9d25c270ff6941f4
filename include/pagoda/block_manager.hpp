// SPDX-License-Identifier: Apache-2.0
/// @file block_manager: sequences, block tables and plans. All bookkeeping; it holds no bytes and knows no dtype.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <utility>

#include <pagoda/step.hpp>

namespace pagoda {

/// Gives the tokens of sequences their blocks.
///
///     pagoda::block_manager manager({.groups = {{.num_blocks = 4096}}});
///     auto seq = manager.make_sequence();
///     auto step = manager.plan({{seq, 7}});   // room for 7 tokens, or out_of_blocks and nothing has changed
///     ...                                     // copies, append, attention on views made from the step
///     step.commit();
///
/// Two managers given the same calls return the same block ids. A manager and its handles are used by one thread at a
/// time. A sequence is in at most one open step.
/// Complexity: O(1) for each block given or taken, and when a window drops one, a move of its table row, of at most
///             (sinks + window) / block_size entries; plan and commit are O(batch * groups) besides. The steady state
///             allocates no memory.
/// Source:     block tables and copy-on-write: PagedAttention (Kwon et al. 2023), section 4.
class block_manager {
 public:
  /// Throws: invalid_argument for capacities below 1, a block size that is no power of two, a layer in two groups, a
  ///         window without room for the query's own token; size_overflow if the block tables cannot be addressed.
  explicit block_manager(manager_config config) : core_(new manager_core(std::move(config))) {}

  block_manager(block_manager&& other) noexcept : core_(std::exchange(other.core_, nullptr)) {}
  block_manager& operator=(block_manager&& other) noexcept {
    std::swap(core_, other.core_);
    return *this;
  }
  ~block_manager() {
    if (core_ == nullptr) return;
    core_->close();
    core_->drop_handle();
  }

  /// A new, empty sequence. Throws: capacity_exceeded if max_sequences are alive.
  sequence make_sequence() { return {core(), core().make_sequence()}; }

  /// A sequence with the same committed tokens, sharing their blocks; whoever first writes into a shared block gets a
  /// copy of it from its next plan.
  /// Throws:     invalid_argument for an id that names no living sequence; logic_error while it is in an open step;
  ///             capacity_exceeded if max_sequences are alive.
  /// Complexity: O(blocks of the sequence).
  sequence fork(sequence_id parent) { return {core(), core().fork(parent)}; }

  /// Drops the tokens from `tokens` on.
  /// Throws: invalid_argument for an unknown id, for more tokens than are committed, and where a window has already
  ///         dropped tokens that the shorter sequence would need; logic_error while it is in an open step.
  void truncate(sequence_id id, std::int64_t tokens) { core().truncate(id, tokens); }

  /// Room for new tokens in every sequence of the batch, in all layer groups, or none of it.
  /// Throws: out_of_blocks if the blocks do not suffice; capacity_exceeded for a batch above max_batch, too many open
  ///         steps or a table that would be too long; invalid_argument for an id that names no living sequence, one
  ///         that comes twice, and negative counts; logic_error for a sequence in an open step.
  step plan(std::span<const growth> batch) {
    std::int32_t index = 0;
    const detail::plan_verdict verdict = core().plan(batch, index);
    if (verdict.why != detail::plan_verdict::fits) core().refuse(verdict, batch);
    return {*core_, index};
  }
  step plan(std::initializer_list<growth> batch) { return plan(std::span<const growth>(batch.begin(), batch.size())); }

  /// As plan, but returns nothing where plan throws. `why` then tells what is lacking; why->group is -1 if the batch
  /// itself is refused, for a reason that plan names. A batch that needs more than stats().total is a shortage, too.
  std::optional<step> try_plan(std::span<const growth> batch, shortage* why = nullptr) noexcept {
    std::int32_t index = 0;
    detail::plan_verdict verdict{.lack = {.group = -1}};
    if (core_ != nullptr) {
      verdict = core_->plan(batch, index);
      if (verdict.why == detail::plan_verdict::fits) return step(*core_, index);
    }
    if (why != nullptr) *why = verdict.lack;
    return std::nullopt;
  }
  std::optional<step> try_plan(std::initializer_list<growth> batch, shortage* why = nullptr) noexcept {
    return try_plan(std::span<const growth>(batch.begin(), batch.size()), why);
  }

  /// All work of this ticket's step and of the steps before it is done: what they read may be given out again.
  /// Matters under reuse_rule::on_completion only.
  void complete(ticket done) noexcept {
    if (core_ != nullptr) core_->complete(done);
  }

  /// Whether the step was planned here and can still be committed.
  bool owns(const step& step) const noexcept { return core_ != nullptr && step.core_ == core_; }

  /// Counts of one layer group. Complexity: O(1).
  block_stats stats(int group = 0) const { return core().stats(group); }

  /// A sequence's block table in one group, planned blocks included. Valid until the manager's next call.
  std::span<const block_id> blocks(sequence_id id, int group = 0) const { return core().blocks(id, group); }

  /// The group of a layer of the model, and its place in it. Throws: out_of_range for a layer that no group names.
  layer_location locate(std::int32_t layer) const { return core().locate(layer); }

  const manager_config& config() const { return core().config(); }

  /// Recounts everything and reports what disagrees. Complexity: O(blocks + table entries).
  integrity_report check_integrity() const { return core().check_integrity(); }

 private:
  manager_core& core() const {
    if (core_ == nullptr) detail::fail<logic_error>("this block manager was moved from: use the one that it went to");
    return *core_;
  }

  manager_core* core_;
};

}  // namespace pagoda
