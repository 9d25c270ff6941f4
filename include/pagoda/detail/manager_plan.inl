// SPDX-License-Identifier: Apache-2.0
// manager_core: planning a step.
#pragma once

namespace pagoda {

// Whether writing behind the last token, inside its block, would change what somebody else reads: a sequence that
// shares the block, work on its way for one that did or for a transfer, or the prefix index, if it has promised more of
// the block than this sequence has.
inline bool manager_core::last_block_needs_copy(std::size_t g, std::int32_t slot) const noexcept {
  const group_state& group = groups_[g];
  const std::int32_t entries = group.entries[static_cast<std::size_t>(slot)];
  if (entries == 0) return false;
  const block_id last = group.row(slot)[entries - 1];
  if (group.pool.references(last) > 1 || group.pool.lent(last, completed_)) return true;
  const std::int32_t mask = config_.block_size - 1;
  return group.pool.kept(last) &&
         index_->promised(static_cast<int>(g), last) > (sequences_[static_cast<std::size_t>(slot)].position & mask);
}

inline shortage manager_core::lacking(std::size_t g, std::int64_t needed) const noexcept {
  const group_state& group = groups_[g];
  return {.group = static_cast<std::int32_t>(g),
          .needed = static_cast<std::int32_t>(std::min<std::int64_t>(needed, INT32_MAX)),
          .free = group.pool.free(),
          .evictable = group.eviction->size(),
          .retiring = group.pool.retiring()};
}

// Validates the whole batch and counts its blocks. Marks the sequences as members of the step; on any refusal the marks
// are taken back, so nothing has changed.
inline detail::plan_verdict manager_core::check_plan(std::span<const growth> batch, std::int32_t step) noexcept {
  using detail::plan_verdict;
  std::size_t marked = 0;
  const auto refuse_at = [&](std::size_t index, plan_verdict::reason why, std::int64_t value, std::int64_t limit) {
    unmark(batch.first(marked));
    return plan_verdict{why, static_cast<std::int32_t>(index), value, limit, {.group = -1}};
  };
  std::int64_t tokens = 0;
  std::int64_t queries = 0;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const growth& wish = batch[i];
    if (find(wish.sequence) == nullptr) return refuse_at(i, plan_verdict::unknown_sequence, 0, 0);
    sequence_record& record = sequences_[static_cast<std::size_t>(wish.sequence.index())];
    if (record.open_step == step) return refuse_at(i, plan_verdict::sequence_twice, 0, 0);
    if (record.open_step != no_step) return refuse_at(i, plan_verdict::sequence_in_open_step, 0, 0);
    const std::int64_t room = std::min(std::int64_t{INT32_MAX} - record.position, INT32_MAX - tokens);
    if (wish.new_tokens < 0 || wish.new_tokens > room) {
      return refuse_at(i, plan_verdict::bad_new_tokens, wish.new_tokens, room);
    }
    tokens += wish.new_tokens;
    const std::int64_t wanted_queries = wish.queries == -1 ? wish.new_tokens : wish.queries;
    if (wanted_queries < 0 || wanted_queries > INT32_MAX - queries) {
      return refuse_at(i, plan_verdict::bad_queries, wanted_queries, INT32_MAX - queries);
    }
    queries += wanted_queries;
    record.open_step = step;
    marked = i + 1;
  }
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    group_state& group = groups_[g];
    std::int64_t needed = 0;
    for (std::size_t i = 0; i < batch.size(); ++i) {
      const std::int32_t slot = batch[i].sequence.index();
      const std::int64_t position = sequences_[static_cast<std::size_t>(slot)].position;
      const std::int64_t have = group.entries[static_cast<std::size_t>(slot)];
      const std::int64_t entries =
          blocks_for(position + batch[i].new_tokens) - group.skipped[static_cast<std::size_t>(slot)];
      if (entries > group.row_capacity && group.row_capacity < group.pool.size()) {
        return refuse_at(i, plan_verdict::too_long, entries, group.row_capacity);
      }
      needed += entries - have;
      const bool mid_block = (position & (config_.block_size - 1)) != 0;
      if (batch[i].new_tokens > 0 && mid_block && last_block_needs_copy(g, slot)) ++needed;
    }
    if (needed > available(group)) {
      unmark(batch);
      ++counts_.failed_plans;
      return {plan_verdict::too_few_blocks, 0, 0, 0, lacking(g, needed)};
    }
    group.planned = needed;
  }
  return {};
}

inline void manager_core::unmark(std::span<const growth> batch) noexcept {
  for (const growth& wish : batch) sequences_[static_cast<std::size_t>(wish.sequence.index())].open_step = no_step;
}

inline detail::plan_verdict manager_core::plan(std::span<const growth> batch, std::int32_t& index) noexcept {
  using detail::plan_verdict;
  if (batch.size() > static_cast<std::size_t>(config_.max_batch)) {
    return {
        plan_verdict::batch_too_large, 0, static_cast<std::int64_t>(batch.size()), config_.max_batch, {.group = -1}};
  }
  index = 0;
  while (static_cast<std::size_t>(index) < steps_.size() &&
         steps_[static_cast<std::size_t>(index)].issued != ticket::none) {
    ++index;
  }
  if (static_cast<std::size_t>(index) == steps_.size()) {
    return {plan_verdict::no_open_step_left, 0, 0, config_.max_open_steps, {.group = -1}};
  }
  const plan_verdict verdict = check_plan(batch, index);
  if (verdict.why != plan_verdict::fits) return verdict;

  for (std::size_t g = 0; g < groups_.size(); ++g) {
    if (evict_until(g, groups_[g].planned)) continue;
    unmark(batch);
    ++counts_.failed_plans;
    return {plan_verdict::too_few_blocks, 0, 0, 0, lacking(g, groups_[g].planned)};
  }
  ++counts_.plans;
  step_record& step = steps_[static_cast<std::size_t>(index)];
  issued_ = ticket{static_cast<std::uint64_t>(issued_) + 1};
  step.issued = issued_;
  step.size = static_cast<std::int32_t>(batch.size());
  step.copies = 0;
  step.query_offsets[0] = 0;
  step.token_offsets[0] = 0;
  for (std::int32_t i = 0; i < step.size; ++i) grow(step, i, batch[static_cast<std::size_t>(i)]);
  return verdict;
}

// Gives one sequence its blocks. The counts have been checked, so every allocation succeeds.
inline void manager_core::grow(step_record& step, std::int32_t index, const growth& wish) noexcept {
  const auto i = static_cast<std::size_t>(index);
  const std::int32_t slot = wish.sequence.index();
  const auto s = static_cast<std::size_t>(slot);
  const std::int32_t position = sequences_[s].position;
  const std::int32_t length = position + wish.new_tokens;
  step.entries[i] = {slot, wish.new_tokens, false};
  step.context_lengths[i] = length;
  step.token_offsets[i + 1] = step.token_offsets[i] + wish.new_tokens;
  step.query_offsets[i + 1] = step.query_offsets[i] + (wish.queries < 0 ? wish.new_tokens : wish.queries);
  const bool mid_block = (position & (config_.block_size - 1)) != 0;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    group_state& group = groups_[g];
    step_group& tables = step.groups[g];
    block_id* row = group.row(slot);
    const std::int32_t before = group.entries[s];
    tables.table_offsets[i] = slot * group.row_capacity;
    tables.skipped[i] = group.skipped[s];
    tables.entries_before[i] = before;
    tables.replaced[i] = block_id::none;
    if (wish.new_tokens > 0 && mid_block && last_block_needs_copy(g, slot)) {
      // The old block keeps this sequence's reference until the step closes: the copy still has to read it, and a
      // rollback puts it back.
      tables.replaced[i] = row[before - 1];
      row[before - 1] = group.pool.try_allocate();
      ++step.copies;
    }
    const auto entries = static_cast<std::int32_t>(blocks_for(length) - group.skipped[s]);
    for (std::int32_t b = before; b < entries; ++b) row[b] = group.pool.try_allocate();
    group.table_entries += entries - before;
    group.entries[s] = entries;
  }
}

inline void manager_core::refuse(const detail::plan_verdict& verdict, std::span<const growth> batch) const {
  using detail::plan_verdict;
  const std::uint64_t id = batch.empty() ? 0 : batch[static_cast<std::size_t>(verdict.index)].sequence.value;
  switch (verdict.why) {
    case plan_verdict::too_few_blocks:
      throw out_of_blocks(verdict.lack);
    case plan_verdict::batch_too_large:
      detail::fail<capacity_exceeded>("a batch of ", verdict.value, " sequences is more than max_batch ", verdict.limit,
                                      ": split it or raise max_batch");
    case plan_verdict::no_open_step_left:
      detail::fail<capacity_exceeded>("all ", verdict.limit,
                                      " steps are open: commit or destroy one, or raise max_open_steps");
    case plan_verdict::unknown_sequence:
      detail::fail("batch entry ", verdict.index, " names sequence id ", id,
                   ", no living sequence of this manager: it is empty, was released, or belongs to another manager; ",
                   "pass one that this manager made and that is alive");
    case plan_verdict::sequence_twice:
      detail::fail("batch entry ", verdict.index, " names sequence id ", id,
                   " a second time: ask for all its tokens in one entry");
    case plan_verdict::sequence_in_open_step:
      detail::fail<logic_error>("batch entry ", verdict.index, " names sequence id ", id,
                                ", which is in an open step: commit, cancel or destroy that step first");
    case plan_verdict::bad_new_tokens:
      detail::fail("batch entry ", verdict.index, " asks for ", verdict.value,
                   " new tokens, but the number must lie between 0 and ", verdict.limit, ": grow in smaller steps");
    case plan_verdict::bad_queries:
      detail::fail("batch entry ", verdict.index, " asks for ", verdict.value,
                   " queries, but the number must lie between 0 and ", verdict.limit,
                   ": pass as many as there are rows");
    case plan_verdict::too_long:
      detail::fail<capacity_exceeded>("batch entry ", verdict.index, " would need ", verdict.value,
                                      " blocks in one table, more than its ", verdict.limit,
                                      ": raise max_resident_tokens or grow in smaller chunks");
    case plan_verdict::fits:
      break;
  }
  detail::fail<logic_error>("a plan that fits was refused: please report this");
}

inline batch_view manager_core::batch(std::int32_t index, int group) const {
  const std::size_t g = detail::group_index(group, groups_.size());
  const group_state& state = groups_[g];
  const step_record& step = steps_[static_cast<std::size_t>(index)];
  const step_group& tables = step.groups[g];
  return {.num_sequences = &step.size,
          .context_lengths = step.context_lengths.data(),
          .query_offsets = step.query_offsets.data(),
          .token_offsets = step.token_offsets.data(),
          .table_offsets = tables.table_offsets.data(),
          .skipped_blocks = tables.skipped.data(),
          .block_table = state.table.get(),
          .sink_blocks = state.sink_blocks,
          .block_size = config_.block_size,
          .num_blocks = state.pool.size(),
          .keep = state.keep};
}

inline std::span<const block_id> manager_core::new_blocks(std::int32_t index, int group, int entry) const {
  const group_state& state = group_at(group);
  const step_record& step = steps_[static_cast<std::size_t>(index)];
  if (entry < 0 || entry >= step.size) {
    detail::fail<out_of_range>("batch entry ", entry, " lies outside 0 to ", step.size - 1,
                               ": pass the index of a sequence of this step");
  }
  const auto i = static_cast<std::size_t>(entry);
  if (step.entries[i].cancelled) return {};
  const std::int32_t slot = step.entries[i].slot;
  const std::int32_t before = step.groups[detail::group_index(group, groups_.size())].entries_before[i];
  const std::int32_t entries = state.entries[static_cast<std::size_t>(slot)];
  return {state.row(slot) + before, static_cast<std::size_t>(entries - before)};
}

inline copy_list manager_core::take_copies(std::int32_t index) {
  step_record& step = steps_[static_cast<std::size_t>(index)];
  copy_list list(groups_.size());
  if (step.copies == 0) return list;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    for (std::int32_t entry = 0; entry < step.size; ++entry) {
      const auto i = static_cast<std::size_t>(entry);
      const block_id from = step.groups[g].replaced[i];
      if (from == block_id::none || step.entries[i].cancelled) continue;
      const block_id to = groups_[g].row(step.entries[i].slot)[step.groups[g].entries_before[i] - 1];
      list.at(g, config_.block_size).blocks.push_back({from, to});
    }
  }
  step.copies = 0;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    const auto copied = static_cast<std::int64_t>(list.blocks(static_cast<int>(g)).size());
    counts_.copied_blocks += copied;
    counts_.copied_bytes += copied * config_.groups[g].block_bytes;
  }
  return list;
}

}  // namespace pagoda
