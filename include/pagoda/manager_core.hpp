// SPDX-License-Identifier: Apache-2.0
/// @file manager_core: the state of a block manager, which sequences, steps and tables refer to.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <pagoda/batch_view.hpp>
#include <pagoda/block_pool.hpp>
#include <pagoda/copy_list.hpp>
#include <pagoda/manager_config.hpp>

namespace pagoda {

/// What check_integrity found: no fault, or a sentence for each.
struct integrity_report {
  std::vector<std::string> faults{};
  bool ok() const noexcept { return faults.empty(); }
};

namespace detail {

struct plan_verdict {
  enum reason {
    fits,
    batch_too_large,
    no_open_step_left,
    unknown_sequence,
    sequence_in_open_step,
    sequence_twice,
    bad_new_tokens,
    bad_queries,
    too_long,
    too_few_blocks,
  };
  reason why = fits;
  std::int32_t index = 0;  // of the growth at fault
  std::int64_t value = 0;  // at fault
  std::int64_t limit = 0;
  shortage lack{};
};

}  // namespace detail

/// The bookkeeping itself, shared by a block_manager and the handles that it gave out. Engines name it only through
/// them. The manager's death frees everything but the few bytes that handles still point to.
class manager_core {
 public:
  explicit manager_core(manager_config config);

  // ---- sequences
  sequence_id make_sequence();
  sequence_id fork(sequence_id parent);
  void release(sequence_id) noexcept;
  void truncate(sequence_id, std::int64_t tokens);
  std::int64_t position(sequence_id) const;
  std::int64_t resident(sequence_id, int group) const;
  std::span<const block_id> blocks(sequence_id, int group) const;
  bool alive(sequence_id id) const noexcept { return find(id) != nullptr; }

  // ---- steps; `step` is an index into the open steps
  detail::plan_verdict plan(std::span<const growth> batch, std::int32_t& step) noexcept;
  [[noreturn]] void refuse(const detail::plan_verdict&, std::span<const growth> batch) const;
  void commit(std::int32_t step);
  void commit(std::int32_t step, std::span<const std::int32_t> kept);
  copy_list commit_paths(std::int32_t step, ragged<std::int32_t> paths);
  void roll_back(std::int32_t step) noexcept;
  void cancel(std::int32_t step, int index);
  copy_list take_copies(std::int32_t step);
  batch_view batch(std::int32_t step, int group) const;
  std::span<const block_id> new_blocks(std::int32_t step, int group, int index) const;
  void complete(ticket) noexcept;

  // ---- the whole
  const manager_config& config() const noexcept { return config_; }
  block_stats stats(int group) const;
  layer_location locate(std::int32_t layer) const;
  integrity_report check_integrity() const;

  // ---- lifetime: one count for the manager and for each handle
  void add_handle() noexcept { handles_.fetch_add(1, std::memory_order_relaxed); }
  void drop_handle() noexcept {
    if (handles_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }
  void close() noexcept;
  bool closed() const noexcept { return closed_; }

  ticket step_ticket(std::int32_t step) const noexcept { return steps_[static_cast<std::size_t>(step)].issued; }
  std::int32_t step_copies(std::int32_t step) const noexcept { return steps_[static_cast<std::size_t>(step)].copies; }
  std::int32_t step_size(std::int32_t step) const noexcept { return steps_[static_cast<std::size_t>(step)].size; }

 private:
  static constexpr std::int32_t no_step = -1;

  struct sequence_record {
    std::uint64_t id = 0;  // 0: this record is free
    std::int32_t position = 0;
    std::int32_t open_step = no_step;
    bool released = false;  // its handle is gone, but an open step still holds its blocks
  };

  struct group_state {
    block_pool pool;
    retention keep;
    std::int32_t sink_blocks;
    std::int64_t row_capacity;          // table entries of one sequence
    std::unique_ptr<block_id[]> table;  // [max_sequences, row_capacity]
    std::vector<std::int32_t> entries;  // [max_sequences], table entries in use
    std::vector<std::int32_t> skipped;  // [max_sequences], blocks dropped between sinks and window
    std::int64_t tokens = 0;

    block_id* row(std::int32_t slot) const noexcept { return table.get() + slot * row_capacity; }
  };

  struct step_entry {
    std::int32_t slot;
    std::int32_t new_tokens;
    bool cancelled;
  };

  struct step_group {
    std::vector<std::int64_t> table_offsets;
    std::vector<std::int32_t> skipped;
    std::vector<std::int32_t> entries_before;
    std::vector<block_id> replaced;  // the shared last block that a fresh copy stands in for, or none
  };

  struct step_record {
    ticket issued = ticket::none;  // none: not open
    std::int32_t size = 0;
    std::int32_t copies = 0;  // asked for and not yet taken
    std::vector<step_entry> entries;
    std::vector<std::int32_t> context_lengths;
    std::vector<std::int32_t> query_offsets;
    std::vector<std::int32_t> token_offsets;
    std::vector<step_group> groups;
  };

  const sequence_record* find(sequence_id id) const noexcept {
    const auto index = static_cast<std::size_t>(id.index());
    if (id.value == 0 || index >= sequences_.size()) return nullptr;
    const sequence_record& record = sequences_[index];
    return record.id == id.value && !record.released ? &record : nullptr;
  }
  std::int32_t slot_of(sequence_id id) const;
  std::int32_t settled_slot_of(sequence_id id, const char* call) const;
  const group_state& group_at(int group) const;
  void check_open() const;
  sequence_id take_slot();
  void free_slot(std::int32_t slot) noexcept;
  void release_blocks(group_state& group, std::int32_t slot, std::int32_t keep_entries) noexcept;
  void apply_retention(std::int32_t slot) noexcept;
  std::int64_t blocks_for(std::int64_t tokens) const noexcept { return (tokens + config_.block_size - 1) >> shift_; }
  bool shares_last_block(const group_state& group, std::int32_t slot) const noexcept;
  detail::plan_verdict check_plan(std::span<const growth> batch, std::int32_t step) noexcept;
  void unmark(std::span<const growth> batch) noexcept;
  void grow(step_record& step, std::int32_t index, const growth& growth) noexcept;
  void close_entry(step_record& step, std::int32_t index, std::int32_t kept) noexcept;
  void close_step(std::int32_t index) noexcept;
  void check_commit(const step_record& step) const;
  ticket reusable_after() const noexcept {
    return config_.reuse == reuse_rule::on_completion && issued_ > completed_ ? issued_ : ticket::none;
  }

  manager_config config_;
  std::int32_t shift_ = 0;
  std::vector<group_state> groups_;
  std::vector<sequence_record> sequences_;
  std::vector<std::int32_t> free_slots_;
  std::vector<step_record> steps_;
  std::vector<layer_location> locations_;  // by layer number
  ticket issued_ = ticket::none;
  ticket completed_ = ticket::none;
  std::atomic<std::uint32_t> handles_{1};
  bool closed_ = false;
};

}  // namespace pagoda

#include <pagoda/detail/manager_commit.inl>     // commit, roll_back, cancel, retention
#include <pagoda/detail/manager_plan.inl>       // plan, grow
#include <pagoda/detail/manager_sequences.inl>  // construction, sequences, statistics, integrity
