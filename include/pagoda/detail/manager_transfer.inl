// SPDX-License-Identifier: Apache-2.0
// manager_core: sequences that move from one manager to another.
#pragma once

namespace pagoda {

namespace detail {

inline void check_same_geometry(const manager_config& from, const manager_config& to) {
  if (from.block_size != to.block_size) {
    fail("transfer from blocks of ", from.block_size, " tokens to blocks of ", to.block_size,
         ": build both managers with one block size");
  }
  if (from.groups.size() != to.groups.size()) {
    fail("transfer from a manager of ", from.groups.size(), " layer groups to one of ", to.groups.size(),
         ": build both with the same groups");
  }
  for (std::size_t g = 0; g < from.groups.size(); ++g) {
    if (from.groups[g].keep != to.groups[g].keep || from.groups[g].layers != to.groups[g].layers) {
      fail("transfer between managers whose layer group ", g, " differs in its layers or its retention: build both ",
           "with the same groups");
    }
    const std::int64_t bytes = from.groups[g].block_bytes;
    const std::int64_t other = to.groups[g].block_bytes;
    if (bytes != other && bytes != 0 && other != 0) {
      fail("transfer from blocks of ", bytes, " bytes to blocks of ", other, " bytes in layer group ", g,
           ": build both storages with the same quantizers and shape");
    }
  }
}

}  // namespace detail

inline void manager_core::transfer(manager_core& from, std::span<const sequence_id> ids, manager_core& to,
                                   std::span<sequence_id> made, copy_list& copies) {
  from.check_open();
  to.check_open();
  if (&from == &to) detail::fail("transfer to the manager that the sequences are in: fork them instead");
  detail::check_same_geometry(from.config_, to.config_);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    from.settled_slot_of(ids[i], "transfer");
    made[i] = ids[i];
  }
  std::sort(made.begin(), made.end(), [](sequence_id a, sequence_id b) { return a.value < b.value; });
  if (const auto twice = std::adjacent_find(made.begin(), made.end()); twice != made.end()) {
    detail::fail("transfer names sequence id ", twice->value, " twice: name each once");
  }
  if (ids.size() > to.free_slots_.size()) {
    detail::fail<capacity_exceeded>("transfer of ", ids.size(), " sequences to a manager with room for ",
                                    to.free_slots_.size(), " more: release some there or raise max_sequences");
  }
  copies.group_count_ = from.groups_.size();
  // Each block is copied once, however many of the sequences share it.
  std::vector<std::vector<block_id>> blocks(from.groups_.size());
  for (std::size_t g = 0; g < from.groups_.size(); ++g) {
    const group_state& source = from.groups_[g];
    const group_state& target = to.groups_[g];
    for (const sequence_id id : ids) {
      const std::int32_t entries = source.entries[static_cast<std::size_t>(id.index())];
      if (entries > target.row_capacity && target.row_capacity < target.pool.size()) {
        detail::fail<capacity_exceeded>("transfer of a sequence with ", entries,
                                        " blocks to a manager whose tables hold ", target.row_capacity,
                                        ": raise max_resident_tokens there");
      }
      blocks[g].insert(blocks[g].end(), source.row(id.index()), source.row(id.index()) + entries);
    }
    std::sort(blocks[g].begin(), blocks[g].end());
    blocks[g].erase(std::unique(blocks[g].begin(), blocks[g].end()), blocks[g].end());
    const auto needed = static_cast<std::int64_t>(blocks[g].size());
    if (needed > to.available(target)) {
      ++to.counts_.failed_plans;
      throw out_of_blocks(to.lacking(g, needed));
    }
    if (needed > 0) {
      auto& list = copies.at(g, from.config_.block_size).blocks;
      for (const block_id block : blocks[g]) list.push_back({block, block_id::none});
    }
  }

  for (std::size_t g = 0; g < to.groups_.size(); ++g) {
    const auto needed = static_cast<std::int64_t>(blocks[g].size());
    if (!to.evict_until(g, needed)) throw out_of_blocks(to.lacking(g, needed));
  }

  // Nothing throws from here on.
  copies.between_managers_ = true;
  from.issued_ = ticket{static_cast<std::uint64_t>(from.issued_) + 1};
  to.issued_ = ticket{static_cast<std::uint64_t>(to.issued_) + 1};
  for (std::size_t i = 0; i < ids.size(); ++i) {
    made[i] = to.take_slot();
    const sequence_record& old = from.sequences_[static_cast<std::size_t>(ids[i].index())];
    sequence_record& record = to.sequences_[static_cast<std::size_t>(made[i].index())];
    record.position = old.position;
    record.publishable = old.publishable;
  }
  for (std::size_t g = 0; g < from.groups_.size(); ++g) {
    group_state& source = from.groups_[g];
    group_state& target = to.groups_[g];
    // A window may have dropped every block of a sequence: then there are none, but its places count.
    std::span<block_copy> list;
    if (!blocks[g].empty()) list = copies.at(g, from.config_.block_size).blocks;
    for (block_copy& copy : list) copy.to = target.pool.try_allocate();
    if (from.config_.reuse == reuse_rule::on_completion) {
      for (const block_copy& copy : list) source.pool.lend(copy.from, from.issued_);
    }
    const auto copy_of = [&](block_id block) -> block_id {
      const auto place = std::lower_bound(blocks[g].begin(), blocks[g].end(), block) - blocks[g].begin();
      return list[static_cast<std::size_t>(place)].to;
    };
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const auto old = static_cast<std::size_t>(ids[i].index());
      const auto slot = static_cast<std::size_t>(made[i].index());
      const std::int32_t entries = source.entries[old];
      for (std::int32_t b = 0; b < entries; ++b) {
        const block_id block = copy_of(source.row(ids[i].index())[b]);
        target.row(made[i].index())[b] = block;
        target.pool.share(block);
      }
      target.entries[slot] = entries;
      target.table_entries += entries;
      target.skipped[slot] = source.skipped[old];
      target.tokens += from.resident(ids[i], static_cast<int>(g));
    }
    for (const block_copy& copy : list) target.pool.release(copy.to);  // the reference of its allocation
    from.counts_.copied_blocks += static_cast<std::int64_t>(list.size());
    from.counts_.copied_bytes += static_cast<std::int64_t>(list.size()) * from.config_.groups[g].block_bytes;
  }
}

}  // namespace pagoda
