// SPDX-License-Identifier: Apache-2.0
/// @file step: the room that a plan made, until it is committed.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <utility>

#include <pagoda/sequence.hpp>

namespace pagoda {

/// One planned growth of a batch: blocks are there, tokens are not committed yet. Destroying an open step rolls it
/// back: every sequence is what it was before the plan.
///
/// A view made from a step is valid while the step is open. Commit is bookkeeping about work already enqueued. Close a
/// step before planning into the same variable: `s = plan(...)` plans before it destroys.
class [[nodiscard]] step {
 public:
  step(step&& other) noexcept
      : core_(std::exchange(other.core_, nullptr)), index_(other.index_), issued_(other.issued_) {}
  step& operator=(step&& other) noexcept {
    if (this != &other) {
      reset();
      core_ = std::exchange(other.core_, nullptr);
      index_ = other.index_;
      issued_ = other.issued_;
    }
    return *this;
  }
  ~step() { reset(); }

  /// Whether the step can still be committed.
  bool open() const noexcept { return core_ != nullptr && !core_->closed(); }

  /// Sequences in the batch.
  std::int32_t size() const { return core("size").step_size(index_); }

  /// The number under which manager.complete() learns that this step's work is done.
  ticket issued() const noexcept { return issued_; }

  /// The copies that have to run before the step's work: blocks that were shared and are about to be written.
  /// Empty in most steps. Taken once; commit refuses a step whose copies were not taken.
  [[nodiscard]] copy_list take_copies() { return core("take_copies").take_copies(index_); }

  /// Whether take_copies() would return copies. Views are refused until it was called.
  bool copies_pending() const { return core("copies_pending").step_copies(index_) > 0; }

  /// What this step looks like to a layer group: what views are made of. Throws: out_of_range for an unknown group, and
  /// for none where there are several.
  batch_view batch(int group = only_group) const { return core("batch").batch(index_, group); }

  /// The blocks that the plan added to a sequence, oldest first; for tokens that come from elsewhere.
  std::span<const block_id> new_blocks(int group, int index) const {
    return core("new_blocks").new_blocks(index_, group, index);
  }

  /// Takes one sequence out: its growth is rolled back at once, its queries give 0 and append skips its rows.
  /// Throws: out_of_range for an index outside the batch; logic_error if it is cancelled already.
  void cancel(int index) { core("cancel").cancel(index_, index); }

  /// Keeps all planned tokens. Retention frees the blocks that no later query can read.
  /// Throws: logic_error if the step is closed or its copies were not taken.
  void commit() {
    core("commit").commit(index_);
    forget();
  }

  /// Keeps the first kept[i] of sequence i's new tokens; 0 leaves the sequence as it was.
  /// Throws: also invalid_argument unless there is one count for each sequence, between 0 and its planned tokens, and 0
  ///         for a cancelled one.
  void commit(std::span<const std::int32_t> kept) {
    core("commit").commit(index_, kept);
    forget();
  }
  void commit(std::initializer_list<std::int32_t> kept) {
    commit(std::span<const std::int32_t>(kept.begin(), kept.size()));
  }

  /// Keeps the accepted path of each sequence's token tree: the numbers of new tokens, from 0, strictly rising. The
  /// returned list moves the accepted rows together; execute it before any later work, and complete() the step's ticket
  /// only after it.
  /// Throws: as commit; invalid_argument for a path that does not rise or leaves the planned tokens.
  [[nodiscard]] copy_list commit_paths(ragged<std::int32_t> paths) {
    copy_list moves = core("commit_paths").commit_paths(index_, paths);
    forget();
    return moves;
  }

 private:
  friend class block_manager;

  step(manager_core& core, std::int32_t index) noexcept
      : core_(&core), index_(index), issued_(core.step_ticket(index)) {
    core.add_handle();
  }

  manager_core& core(const char* call) const {
    if (core_ == nullptr) {
      detail::fail<logic_error>(call, " of a step that was committed or moved from: plan a new one");
    }
    if (core_->closed()) {
      detail::fail<logic_error>(call, " of a step whose manager was destroyed: keep the manager alive");
    }
    return *core_;
  }
  void forget() noexcept { std::exchange(core_, nullptr)->drop_handle(); }
  void reset() noexcept {
    if (core_ == nullptr) return;
    if (!core_->closed()) core_->roll_back(index_);
    forget();
  }

  manager_core* core_;
  std::int32_t index_;
  ticket issued_;
};

}  // namespace pagoda
