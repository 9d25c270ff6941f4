// SPDX-License-Identifier: Apache-2.0
/// @file manager_core: the state of a block manager, which sequences, steps and tables refer to.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <pagoda/batch_view.hpp>
#include <pagoda/block_pool.hpp>
#include <pagoda/copy_list.hpp>
#include <pagoda/detail/evictor.hpp>
#include <pagoda/detail/reuse_distances.hpp>
#include <pagoda/manager_config.hpp>
#include <pagoda/prefix_index.hpp>
#include <pagoda/statistics.hpp>

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
  static constexpr std::int64_t all_committed = -1;

  manager_core(manager_config config, const detail::eviction_choice& eviction);

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

  // ---- prefixes
  sequence_id match(const token_history&, std::int64_t at_most);
  std::int64_t publish(sequence_id, const token_history&, std::int64_t tokens, const block_advice&);
  std::int64_t advise(const token_history&, const block_advice&);
  void clear_prefixes() noexcept;
  void advance(std::int64_t now);
  std::size_t take_events(std::span<prefix_event> out) noexcept;

  // ---- room
  std::int64_t growable(sequence_id, std::int64_t want) const;
  std::int32_t exclusive_blocks(sequence_id, int group) const;
  static void transfer(manager_core& from, std::span<const sequence_id> ids, manager_core& to,
                       std::span<sequence_id> made, copy_list& copies);

  // ---- the whole
  const manager_config& config() const noexcept { return config_; }
  std::string_view eviction_name() const noexcept { return eviction_.name; }
  block_stats stats(int group) const;
  manager_stats snapshot() const;
  ticket issued() const noexcept { return issued_; }
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
    bool released = false;    // its handle is gone, but an open step still holds its blocks
    bool publishable = true;  // false: its tokens were computed before prefixes were cleared
    prefix_index::node_id published = prefix_index::nothing;  // of its last full block that was published
    std::uint32_t published_generation = 0;
  };

  struct group_state {
    block_pool pool;
    retention keep;
    std::int32_t sink_blocks;
    std::int64_t row_capacity;                  // table entries of one sequence
    std::unique_ptr<block_id[]> table;          // [max_sequences, row_capacity]
    std::vector<std::int32_t> entries;          // [max_sequences], table entries in use
    std::vector<std::int32_t> skipped;          // [max_sequences], blocks dropped between sinks and window
    std::unique_ptr<detail::evictor> eviction;  // of the cached blocks that are not pinned
    std::int64_t tokens = 0;
    std::int64_t table_entries = 0;  // in use, over all sequences
    std::int64_t planned = 0;        // blocks that the plan at hand needs
    std::int32_t pinned = 0;         // cached, but not to be evicted

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
  void release_blocks(std::size_t group, std::int32_t slot, std::int32_t keep_entries) noexcept;
  void apply_retention(std::int32_t slot) noexcept;
  std::int64_t blocks_for(std::int64_t tokens) const noexcept { return (tokens + config_.block_size - 1) >> shift_; }
  bool last_block_needs_copy(std::size_t group, std::int32_t slot) const noexcept;
  std::int64_t available(const group_state& group) const noexcept {
    return std::int64_t{group.pool.free()} + group.eviction->size();
  }
  shortage lacking(std::size_t group, std::int64_t needed) const noexcept;
  detail::plan_verdict check_plan(std::span<const growth> batch, std::int32_t step) noexcept;
  void unmark(std::span<const growth> batch) noexcept;
  void grow(step_record& step, std::int32_t index, const growth& growth) noexcept;
  void close_entry(step_record& step, std::int32_t index, std::int32_t kept) noexcept;
  void close_step(std::int32_t index) noexcept;
  void check_commit(const step_record& step) const;
  ticket reusable_after() const noexcept {
    return config_.reuse == reuse_rule::on_completion && issued_ > completed_ ? issued_ : ticket::none;
  }

  // ---- prefixes
  struct found_prefix {
    prefix_index::node_id node = prefix_index::nothing;  // of the block that holds the last token
    std::int64_t tokens = 0;
  };
  found_prefix find_prefix(const token_history&, std::int64_t limit) const noexcept;
  void keep_what_every_group_has(found_prefix& found) const noexcept;
  std::int64_t missing_in_window(std::size_t group, const found_prefix& found) const noexcept;
  block_id block_at(std::size_t group, std::int32_t slot, std::int64_t logical) const noexcept;
  std::int64_t skipped_at(const group_state& group, std::int64_t position) const noexcept;
  void hold(std::size_t group, block_id block) noexcept;
  void let_go(std::size_t group, block_id block, ticket after) noexcept;
  void enter_cache(std::size_t group, block_id block) noexcept;
  void leave_cache(std::size_t group, block_id block) noexcept;
  bool evict_until(std::size_t group, std::int64_t free_blocks) noexcept;
  void withdraw(std::size_t group, block_id block, prefix_index::node_id keep) noexcept;
  void detach(std::size_t group, block_id block, prefix_index::node_id keep) noexcept;
  void dropped(std::size_t group, block_id block) noexcept;
  block_advice advice_of(prefix_index::node_id node) const noexcept;
  void expect_advice(const block_advice& advice);
  void set_advice(prefix_index::node_id node, const block_advice& advice) noexcept;
  void raise_advice(prefix_index::node_id node, const block_advice& advice) noexcept;
  std::int64_t store(std::int32_t slot, prefix_index::node_id node, std::int64_t logical) noexcept;
  void check_tail(std::int32_t slot, const token_history&, std::int64_t first, std::int64_t tokens) const;
  bool is_duplicate(std::int32_t slot, prefix_index::node_id node, std::int64_t logical) const noexcept;
  prefix_index::node_id published_up_to(const sequence_record&, const token_history&, std::int64_t blocks) const;
  bool make_room_in_index(prefix_index::node_id keep) noexcept;
  void tell(prefix_event::kind what, std::size_t group, block_id block, prefix_index::node_id node) noexcept;

  manager_config config_;
  detail::eviction_choice eviction_;
  std::int32_t shift_ = 0;
  std::vector<group_state> groups_;
  std::vector<sequence_record> sequences_;
  std::vector<std::int32_t> free_slots_;
  std::vector<step_record> steps_;
  std::vector<layer_location> locations_;  // by layer number
  std::optional<prefix_index> index_;      // empty once the manager is closed
  std::vector<std::int64_t> expires_;      // by node; empty until something expires
  bool advised_ = false;                   // whether anything may have other advice than the default
  std::int64_t now_ = 0;                   // logical time
  std::vector<prefix_event> events_;       // a ring
  std::size_t first_event_ = 0;
  std::size_t event_count_ = 0;
  bool events_lost_ = false;
  manager_stats counts_;
  std::optional<detail::reuse_distances> reuse_;
  ticket issued_ = ticket::none;
  ticket completed_ = ticket::none;
  std::atomic<std::uint32_t> handles_{1};
  bool closed_ = false;
};

}  // namespace pagoda

#include <pagoda/detail/manager_commit.inl>     // commit, roll_back, cancel, retention
#include <pagoda/detail/manager_eviction.inl>   // cached blocks, advice, eviction, events
#include <pagoda/detail/manager_plan.inl>       // plan, grow
#include <pagoda/detail/manager_prefix.inl>     // match, publish
#include <pagoda/detail/manager_report.inl>     // statistics, integrity
#include <pagoda/detail/manager_sequences.inl>  // construction, sequences
#include <pagoda/detail/manager_transfer.inl>   // transfer
