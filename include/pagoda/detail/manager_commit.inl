// SPDX-License-Identifier: Apache-2.0
// manager_core: closing a step, and what retention drops.
#pragma once

namespace pagoda {

// Newest block first, so that the oldest lies on top of the free list and is given out next.
inline void manager_core::release_blocks(std::size_t g, std::int32_t slot, std::int32_t keep_entries) noexcept {
  const ticket after = reusable_after();
  group_state& group = groups_[g];
  std::int32_t& entries = group.entries[static_cast<std::size_t>(slot)];
  if (entries > keep_entries) group.table_entries -= entries - keep_entries;
  while (entries > keep_entries) let_go(g, group.row(slot)[--entries], after);
}

inline void manager_core::apply_retention(std::int32_t slot) noexcept {
  const auto s = static_cast<std::size_t>(slot);
  const std::int32_t position = sequences_[s].position;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    group_state& group = groups_[g];
    if (group.keep.keeps_all()) continue;
    const std::int64_t first_needed = group.keep.window_begin(position) >> shift_;
    const std::int64_t drop = first_needed - group.sink_blocks - group.skipped[s];
    if (drop <= 0) continue;
    const ticket after = reusable_after();
    block_id* window = group.row(slot) + group.sink_blocks;
    const std::int64_t kept = group.entries[s] - group.sink_blocks - drop;
    for (std::int64_t i = drop - 1; i >= 0; --i) let_go(g, window[i], after);
    for (std::int64_t i = 0; i < kept; ++i) window[i] = window[i + drop];
    group.entries[s] -= static_cast<std::int32_t>(drop);
    group.table_entries -= drop;
    group.skipped[s] += static_cast<std::int32_t>(drop);
    group.tokens -= drop * config_.block_size;
  }
}

// Keeps the first `kept` of the entry's new tokens; with 0 the sequence is what it was before the plan.
inline void manager_core::close_entry(step_record& step, std::int32_t index, std::int32_t kept) noexcept {
  const auto i = static_cast<std::size_t>(index);
  const std::int32_t slot = step.entries[i].slot;
  sequence_record& record = sequences_[static_cast<std::size_t>(slot)];
  record.open_step = no_step;
  record.position += kept;
  const ticket after = reusable_after();
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    group_state& group = groups_[g];
    const std::int64_t entries = blocks_for(record.position) - group.skipped[static_cast<std::size_t>(slot)];
    release_blocks(g, slot, static_cast<std::int32_t>(entries));
    if (const block_id old = step.groups[g].replaced[i]; old != block_id::none) {
      block_id& last = group.row(slot)[step.groups[g].entries_before[i] - 1];
      let_go(g, kept > 0 ? old : last, after);
      if (kept == 0) last = old;
    }
    group.tokens += kept;
  }
  if (record.released) {
    free_slot(slot);
  } else {
    apply_retention(slot);
  }
}

inline void manager_core::close_step(std::int32_t index) noexcept {
  step_record& step = steps_[static_cast<std::size_t>(index)];
  step.issued = ticket::none;
  step.size = 0;
  step.copies = 0;
}

inline void manager_core::check_commit(const step_record& step) const {
  if (step.copies > 0) {
    detail::fail<logic_error>("commit of a step whose ", step.copies,
                              " copies were not taken: execute(storage, step.take_copies()) before the step's work");
  }
}

inline void manager_core::commit(std::int32_t index) {
  step_record& step = steps_[static_cast<std::size_t>(index)];
  check_commit(step);
  for (std::int32_t i = 0; i < step.size; ++i) {
    const step_entry& entry = step.entries[static_cast<std::size_t>(i)];
    if (!entry.cancelled) close_entry(step, i, entry.new_tokens);
  }
  close_step(index);
}

inline void manager_core::commit(std::int32_t index, std::span<const std::int32_t> kept) {
  step_record& step = steps_[static_cast<std::size_t>(index)];
  check_commit(step);
  if (kept.size() != static_cast<std::size_t>(step.size)) {
    detail::fail("commit got ", kept.size(), " counts for a step of ", step.size,
                 " sequences: pass one for each, in the order of the batch");
  }
  for (std::int32_t i = 0; i < step.size; ++i) {
    const step_entry& entry = step.entries[static_cast<std::size_t>(i)];
    const std::int32_t limit = entry.cancelled ? 0 : entry.new_tokens;
    const std::int32_t count = kept[static_cast<std::size_t>(i)];
    if (count < 0 || count > limit) {
      detail::fail("commit of ", count, " tokens for batch entry ", i, ", but ", limit,
                   entry.cancelled ? " remain after its cancellation" : " were planned", ": keep between 0 and ",
                   limit);
    }
  }
  for (std::int32_t i = 0; i < step.size; ++i) {
    if (!step.entries[static_cast<std::size_t>(i)].cancelled) close_entry(step, i, kept[static_cast<std::size_t>(i)]);
  }
  close_step(index);
}

inline copy_list manager_core::commit_paths(std::int32_t index, ragged<std::int32_t> paths) {
  step_record& step = steps_[static_cast<std::size_t>(index)];
  check_commit(step);
  if (paths.offsets.size() != static_cast<std::size_t>(step.size) + 1) {
    detail::fail("commit_paths got ", paths.offsets.size(), " offsets for a step of ", step.size,
                 " sequences: pass one more than there are sequences");
  }
  if (paths.offsets.front() != 0 || static_cast<std::size_t>(paths.offsets.back()) != paths.values.size()) {
    detail::fail("commit_paths offsets run from ", paths.offsets.front(), " to ", paths.offsets.back(),
                 ", but there are ", paths.values.size(), " values: begin at 0 and end at their number");
  }
  const auto path_of = [&](std::int32_t i) {
    const auto begin = static_cast<std::size_t>(paths.offsets[static_cast<std::size_t>(i)]);
    const auto end = static_cast<std::size_t>(paths.offsets[static_cast<std::size_t>(i) + 1]);
    return paths.values.subspan(begin, end - begin);
  };
  for (std::int32_t i = 0; i < step.size; ++i) {
    const std::int32_t begin = paths.offsets[static_cast<std::size_t>(i)];
    const std::int32_t end = paths.offsets[static_cast<std::size_t>(i) + 1];
    if (begin < 0 || end < begin || static_cast<std::size_t>(end) > paths.values.size()) {
      detail::fail("commit_paths offsets ", begin, " and ", end, " of batch entry ", i, " do not lie in order within ",
                   paths.values.size(), " values: let each path begin where the last one ends");
    }
    const step_entry& entry = step.entries[static_cast<std::size_t>(i)];
    const std::int32_t limit = entry.cancelled ? 0 : entry.new_tokens;
    std::int32_t last = -1;
    for (const std::int32_t node : path_of(i)) {
      if (node <= last || node >= limit) {
        detail::fail("commit_paths of batch entry ", i, " accepts token ", node, " after token ", last,
                     ": pass a path that rises strictly and stays below the ", limit, " tokens planned");
      }
      last = node;
    }
  }

  copy_list moves(groups_.size());
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    const group_state& group = groups_[g];
    for (std::int32_t i = 0; i < step.size; ++i) {
      const step_entry& entry = step.entries[static_cast<std::size_t>(i)];
      const std::int64_t position = sequences_[static_cast<std::size_t>(entry.slot)].position;
      const std::int64_t skipped = group.skipped[static_cast<std::size_t>(entry.slot)];
      const auto block_of = [&](std::int64_t token) {
        const std::int64_t block = token >> shift_;
        return group.row(entry.slot)[block < group.sink_blocks ? block : block - skipped];
      };
      std::int64_t to = position;
      for (const std::int32_t node : path_of(i)) {
        const std::int64_t from = position + node;
        if (from != to) {
          const std::int64_t mask = config_.block_size - 1;
          moves.at(g, config_.block_size)
              .rows.push_back({block_of(from), static_cast<std::int32_t>(from & mask), block_of(to),
                               static_cast<std::int32_t>(to & mask)});
        }
        ++to;
      }
    }
  }
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    const auto rows = static_cast<std::int64_t>(moves.rows(static_cast<int>(g)).size());
    counts_.copied_rows += rows;
    counts_.copied_bytes += rows * (config_.groups[g].block_bytes >> shift_);
  }
  for (std::int32_t i = 0; i < step.size; ++i) {
    if (!step.entries[static_cast<std::size_t>(i)].cancelled) {
      close_entry(step, i, static_cast<std::int32_t>(path_of(i).size()));
    }
  }
  close_step(index);
  return moves;
}

inline void manager_core::roll_back(std::int32_t index) noexcept {
  step_record& step = steps_[static_cast<std::size_t>(index)];
  ++counts_.rollbacks;
  // In reverse, so that the free list becomes what it was.
  for (std::int32_t i = step.size - 1; i >= 0; --i) {
    if (!step.entries[static_cast<std::size_t>(i)].cancelled) close_entry(step, i, 0);
  }
  close_step(index);
}

inline void manager_core::cancel(std::int32_t index, int entry) {
  step_record& step = steps_[static_cast<std::size_t>(index)];
  if (entry < 0 || entry >= step.size) {
    detail::fail<out_of_range>("cancel of batch entry ", entry, ", which lies outside 0 to ", step.size - 1,
                               ": pass the index of a sequence of this step");
  }
  const auto i = static_cast<std::size_t>(entry);
  if (step.entries[i].cancelled) {
    detail::fail<logic_error>("batch entry ", entry, " is cancelled already: cancel each once");
  }
  if (step.copies > 0) {
    for (const step_group& group : step.groups) step.copies -= group.replaced[i] != block_id::none ? 1 : 0;
  }
  close_entry(step, entry, 0);
  step.entries[i].cancelled = true;
  step.context_lengths[i] = 0;
}

inline void manager_core::complete(ticket done) noexcept {
  if (done > issued_) done = issued_;
  if (done <= completed_) return;
  completed_ = done;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    groups_[g].pool.complete(done, [&](block_id block) { enter_cache(g, block); });
  }
}

}  // namespace pagoda
