// SPDX-License-Identifier: Apache-2.0
// manager_core: statistics and integrity.
#pragma once

namespace pagoda {

inline block_stats manager_core::stats(int group) const {
  check_open();
  const group_state& state = group_at(group);
  return {.total = state.pool.size(),
          .free = state.pool.free(),
          .cached = state.pool.cached(),
          .pinned = state.pinned,
          .used = state.pool.used(),
          .retiring = state.pool.retiring(),
          .shared = state.pool.shared(),
          .tokens = state.tokens,
          .slack = state.table_entries * config_.block_size - state.tokens};
}

inline manager_stats manager_core::snapshot() const {
  check_open();
  manager_stats all = counts_;
  for (std::size_t g = 0; g < groups_.size(); ++g) all.groups.push_back(stats(static_cast<int>(g)));
  all.sequences = static_cast<std::int64_t>(sequences_.size() - free_slots_.size());
  for (const step_record& step : steps_) all.open_steps += step.issued != ticket::none ? 1 : 0;
  return all;
}

inline integrity_report manager_core::check_integrity() const {
  integrity_report report;
  const auto blame = [&](const auto&... parts) {
    std::string fault;
    ((fault += detail::message_part(parts).text()), ...);
    report.faults.push_back(std::move(fault));
  };
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    const group_state& group = groups_[g];
    if (!group.pool.consistent()) blame("group ", g, ": the pool's lists disagree with its counts");
    std::int32_t pinned = 0;
    for (std::int32_t i = 0; i < group.pool.size(); ++i) {
      const prefix_index::node_id node = index_->node_of(static_cast<int>(g), block_id{i});
      if (group.pool.kept(block_id{i}) != (node != prefix_index::nothing)) {
        blame("group ", g, ": block ", i, " is kept for the prefix index without being in it, or the other way round");
      } else if (group.pool.is_cached(block_id{i})) {
        pinned += advice_of(node).pinned ? 1 : 0;
      }
    }
    if (pinned != group.pinned) blame("group ", g, ": ", group.pinned, " pinned blocks counted, ", pinned, " found");
    if (group.eviction->size() > group.pool.cached() - pinned) {
      blame("group ", g, ": ", eviction_.name, " would evict ", group.eviction->size(), " blocks, but ",
            group.pool.cached() - pinned, " are cached and not pinned");
    }
    std::vector<std::int32_t> references(static_cast<std::size_t>(group.pool.size()), 0);
    const auto count = [&](block_id block, std::size_t slot) {
      if (static_cast<std::int32_t>(block) < 0 || static_cast<std::int32_t>(block) >= group.pool.size()) {
        blame("group ", g, ": sequence record ", slot, " names block ", static_cast<std::int32_t>(block));
      } else {
        ++references[static_cast<std::size_t>(block)];
      }
    };
    std::int64_t tokens = 0;
    std::int64_t entries = 0;
    for (std::size_t slot = 0; slot < sequences_.size(); ++slot) {
      const sequence_record& record = sequences_[slot];
      if (record.id == 0) {
        if (group.entries[slot] != 0) blame("group ", g, ": free sequence record ", slot, " still has blocks");
        continue;
      }
      std::int64_t planned = record.position;
      if (record.open_step != no_step) {
        const step_record& step = steps_[static_cast<std::size_t>(record.open_step)];
        for (std::int32_t i = 0; i < step.size; ++i) {
          const step_entry& entry = step.entries[static_cast<std::size_t>(i)];
          if (entry.cancelled || static_cast<std::size_t>(entry.slot) != slot) continue;
          planned += entry.new_tokens;
          const block_id replaced = step.groups[g].replaced[static_cast<std::size_t>(i)];
          if (replaced != block_id::none) count(replaced, slot);
        }
      }
      if (group.entries[slot] + group.skipped[slot] != blocks_for(planned)) {
        blame("group ", g, ": sequence record ", slot, " has ", group.entries[slot], " + ", group.skipped[slot],
              " blocks for ", planned, " tokens");
      }
      entries += group.entries[slot];
      tokens += record.position - static_cast<std::int64_t>(group.skipped[slot]) * config_.block_size;
      for (std::int32_t i = 0; i < group.entries[slot]; ++i) count(group.row(static_cast<std::int32_t>(slot))[i], slot);
    }
    for (std::size_t block = 0; block < references.size(); ++block) {
      const std::int32_t held = group.pool.references(block_id{static_cast<std::int32_t>(block)});
      if (held != references[block]) {
        blame("group ", g, ": block ", block, " has ", held, " references, but tables hold ", references[block]);
      }
    }
    if (entries != group.table_entries) {
      blame("group ", g, ": ", group.table_entries, " table entries counted, ", entries, " found");
    }
    if (tokens != group.tokens) blame("group ", g, ": ", group.tokens, " tokens counted, ", tokens, " found");
  }
  if (index_.has_value() && !index_->consistent()) blame("the prefix index: links disagree with counts");
  return report;
}

}  // namespace pagoda
