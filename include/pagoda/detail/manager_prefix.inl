// SPDX-License-Identifier: Apache-2.0
// manager_core: finding prefixes, and publishing them.
#pragma once

namespace pagoda {

// ---- finding

// The longest prefix of the history's first `limit` tokens that the index knows, whether or not blocks still hold it.
inline manager_core::found_prefix manager_core::find_prefix(const token_history& history,
                                                            std::int64_t limit) const noexcept {
  detail::history_blocks walk(history, config_.block_size);
  const auto all = static_cast<std::int64_t>(history.tokens.size());
  found_prefix found;
  while (found.tokens < limit) {
    detail::block_content content = walk.next(all);
    const std::int64_t wanted = std::min<std::int64_t>(limit - found.tokens, config_.block_size);
    if (static_cast<std::int64_t>(content.tokens.size()) == config_.block_size) {
      const prefix_index::node_id next = index_->find(found.node, content, index_->hash(found.node, content));
      if (next != prefix_index::nothing) {
        found.node = next;
        found.tokens += wanted;
        continue;
      }
    }
    content.tokens = content.tokens.first(static_cast<std::size_t>(wanted));
    const prefix_index::tail tail = index_->find_tail(found.node, content);
    if (tail.node != prefix_index::nothing) found = {tail.node, found.tokens + tail.tokens};
    break;
  }
  return found;
}

inline std::int64_t manager_core::skipped_at(const group_state& group, std::int64_t position) const noexcept {
  return std::max<std::int64_t>(0, (group.keep.window_begin(position) >> shift_) - group.sink_blocks);
}

// Shortens what was found to what every group can serve: blocks that hold it, down to the first that a window reads,
// and a table that has room for it.
inline void manager_core::keep_what_every_group_has(found_prefix& found) const noexcept {
  const auto shorten = [&](std::int64_t tokens) {
    while (found.tokens > tokens && found.tokens > 0) {
      const std::int64_t first = (blocks_for(found.tokens) - 1) << shift_;  // of the last block
      if (first < tokens) {
        found.tokens = tokens;
      } else {
        found = {index_->parent(found.node), first};
      }
    }
  };
  for (const group_state& group : groups_) {
    if (blocks_for(found.tokens) - skipped_at(group, found.tokens) > group.row_capacity) {
      shorten(group.row_capacity << shift_);
    }
  }
  // What is read of every longer prefix, too: all blocks, or the sinks.
  prefix_index::node_id node = found.node;
  std::int64_t whole = found.tokens;
  for (std::int64_t logical = blocks_for(found.tokens) - 1; logical >= 0; --logical) {
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      if (!groups_[g].keep.keeps_all() && logical >= groups_[g].sink_blocks) continue;
      if (index_->block(node, static_cast<int>(g)) == block_id::none) whole = logical << shift_;
    }
    node = index_->parent(node);
  }
  shorten(whole);
  // What the windows read.
  bool shortened = true;
  while (shortened) {
    shortened = false;
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      if (groups_[g].keep.keeps_all()) continue;
      while (true) {
        const std::int64_t missing = missing_in_window(g, found);
        if (missing < 0) break;
        shorten(missing << shift_);
        shortened = true;
      }
    }
  }
}

// The last block that the group's window reads behind the found prefix and that nothing holds; -1: all are there.
inline std::int64_t manager_core::missing_in_window(std::size_t g, const found_prefix& found) const noexcept {
  const std::int64_t first = groups_[g].keep.window_begin(found.tokens) >> shift_;
  prefix_index::node_id node = found.node;
  for (std::int64_t logical = blocks_for(found.tokens) - 1; logical >= first; --logical) {
    if (index_->block(node, static_cast<int>(g)) == block_id::none) return logical;
    node = index_->parent(node);
  }
  return -1;
}

inline sequence_id manager_core::match(const token_history& history, std::int64_t at_most) {
  check_open();
  check_history(history);
  check_range("at_most", at_most, 0, INT64_MAX, "pass how many tokens may come from the cache");
  const sequence_id id = take_slot();
  const std::int64_t limit = std::min(at_most, static_cast<std::int64_t>(history.tokens.size()));
  found_prefix found = find_prefix(history, limit);
  keep_what_every_group_has(found);

  const std::int32_t slot = id.index();
  sequence_record& record = sequences_[static_cast<std::size_t>(slot)];
  record.position = static_cast<std::int32_t>(found.tokens);
  const std::int64_t blocks = blocks_for(found.tokens);
  counts_.matches += 1;
  counts_.asked_tokens += limit;
  counts_.hit_tokens += found.tokens;
  counts_.lookups += blocks_for(limit);
  counts_.hits += blocks;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    group_state& group = groups_[g];
    const std::int64_t skipped = skipped_at(group, found.tokens);
    group.skipped[static_cast<std::size_t>(slot)] = static_cast<std::int32_t>(skipped);
    group.entries[static_cast<std::size_t>(slot)] = static_cast<std::int32_t>(blocks - skipped);
    group.table_entries += blocks - skipped;
    group.tokens += found.tokens - skipped * config_.block_size;
  }
  prefix_index::node_id node = found.node;
  for (std::int64_t logical = blocks - 1; logical >= 0; --logical) {
    if (record.published == prefix_index::nothing && (logical + 1) << shift_ <= found.tokens) {
      record.published = node;
      record.published_generation = index_->generation(node);
    }
    if (!index_->bare(node)) {
      index_->count_hit(node, static_cast<std::uint64_t>(counts_.lookups));
      if (reuse_.has_value()) reuse_->use(node, counts_.reuse_distances);
    }
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      group_state& group = groups_[g];
      const std::int64_t skipped = group.skipped[static_cast<std::size_t>(slot)];
      if (logical >= group.sink_blocks && logical < group.sink_blocks + skipped) continue;
      const block_id block = index_->block(node, static_cast<int>(g));
      group.row(slot)[logical < group.sink_blocks ? logical : logical - skipped] = block;
      hold(g, block);
    }
    node = index_->parent(node);
  }
  return id;
}

// ---- publishing

inline block_id manager_core::block_at(std::size_t g, std::int32_t slot, std::int64_t logical) const noexcept {
  const group_state& group = groups_[g];
  const std::int64_t skipped = group.skipped[static_cast<std::size_t>(slot)];
  if (logical < group.sink_blocks) return group.row(slot)[logical];
  if (logical < group.sink_blocks + skipped) return block_id::none;
  return group.row(slot)[logical - skipped];
}

// The node behind which a sequence's next blocks are published, if it is still there and lies before `blocks`.
inline prefix_index::node_id manager_core::published_up_to(const sequence_record& record, const token_history& history,
                                                           std::int64_t blocks) const {
  prefix_index::node_id node = record.published;
  if (node == prefix_index::nothing || index_->generation(node) != record.published_generation) {
    return prefix_index::nothing;
  }
  while (node != prefix_index::nothing && index_->depth(node) >= blocks) node = index_->parent(node);
  if (node == prefix_index::nothing) return node;
  const auto all = static_cast<std::int64_t>(history.tokens.size());
  detail::history_blocks last(history, config_.block_size, index_->depth(node));
  if (!index_->holds(node, last.next(all)) || index_->domain_of(node) != history.domain_bytes()) {
    detail::fail("the history does not go on where this sequence was published last, at token ",
                 (std::int64_t{index_->depth(node)} + 1) << shift_,
                 ": pass the tokens, tags and domain that its blocks were computed from");
  }
  return node;
}

// Refuses another content than that of the tail that a block of the sequence was published as and would give way now.
inline void manager_core::check_tail(std::int32_t slot, const token_history& history, std::int64_t first,
                                     std::int64_t tokens) const {
  for (std::int64_t logical = first; logical < blocks_for(tokens); ++logical) {
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      const block_id block = block_at(g, slot, logical);
      if (block == block_id::none) continue;
      const prefix_index::node_id node = index_->node_of(static_cast<int>(g), block);
      if (node == prefix_index::nothing || index_->tokens(node) == config_.block_size) continue;
      const detail::block_content content = detail::history_blocks(history, config_.block_size, logical).next(tokens);
      if (index_->tokens(node) >= static_cast<std::int32_t>(content.tokens.size()) || index_->begins(node, content)) {
        continue;
      }
      detail::fail("the history differs from what this sequence was published as within the block of tokens from ",
                   logical << shift_, ": pass the tokens, tags and domain that its blocks were computed from");
    }
  }
}

inline std::int64_t manager_core::publish(sequence_id id, const token_history& history, std::int64_t tokens,
                                          const block_advice& advice) {
  const std::int32_t slot = slot_of(id);
  sequence_record& record = sequences_[static_cast<std::size_t>(slot)];
  check_history(history);
  if (static_cast<std::int64_t>(history.tokens.size()) < record.position) {
    detail::fail("the history has ", history.tokens.size(), " tokens, but the sequence has ", record.position,
                 ": pass all tokens that were computed");
  }
  if (tokens == all_committed) tokens = record.position;
  check_range("tokens to publish", tokens, 0, record.position, "publish committed tokens only");

  const std::int64_t full = tokens >> shift_;
  // The last block may be a copy that an open step has asked for and that nobody has made yet.
  if (record.open_step != no_step && step_copies(record.open_step) > 0) tokens = full << shift_;
  prefix_index::node_id before = published_up_to(record, history, full);
  const std::int64_t first = before == prefix_index::nothing ? 0 : index_->depth(before) + std::int64_t{1};
  check_tail(slot, history, first, tokens);
  // What may throw comes before what changes, and the memory that stays comes last.
  std::vector<detail::key_part> parts =
      detail::key_parts(history, config_.block_size, first, blocks_for(tokens), tokens);
  expect_advice(advice);
  if (!record.publishable) return 0;

  detail::history_blocks walk(history, config_.block_size, first);
  auto part = parts.begin();
  std::int64_t stored = 0;
  bool ours = true;
  for (std::int64_t logical = first; logical < blocks_for(tokens); ++logical) {
    const detail::block_content content = walk.next(tokens);
    while (part != parts.end() && part->block < logical) ++part;
    const bool whole = logical < full;
    const std::uint64_t hash = index_->hash(before, content);
    prefix_index::node_id node = prefix_index::nothing;
    if (whole) {
      node = index_->find(before, content, hash);
    } else {
      if (index_->find_tail(before, content).tokens == static_cast<std::int32_t>(content.tokens.size())) {
        break;  // somebody published as much of this block, or more
      }
      node = index_->find_same_tail(before, content);
    }
    // A shorter tail that this block was published as gives way.
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      const block_id block = block_at(g, slot, logical);
      if (block == block_id::none) continue;
      const std::int32_t promised = index_->promised(static_cast<int>(g), block);
      if (promised > 0 && promised < static_cast<std::int32_t>(content.tokens.size())) withdraw(g, block, before);
    }
    if (node == prefix_index::nothing) {
      if (!make_room_in_index(before)) break;
      const bool keyed = part != parts.end() && part->block == logical;
      node = index_->add(before, content, hash, keyed ? std::move(part->key) : nullptr);
      set_advice(node, advice);
    }
    stored += store(slot, node, logical);
    before = node;
    // Where another block holds the content, this one is entered if that is evicted: later calls begin here again.
    ours = ours && whole && !is_duplicate(slot, node, logical);
    if (!ours) continue;
    record.published = node;
    record.published_generation = index_->generation(node);
  }
  if (before != prefix_index::nothing) {
    if (stored > 0 || advice != block_advice{}) raise_advice(before, advice);
    index_->prune(before);
  }
  return stored;
}

// Enters a sequence's blocks in a node that has none yet. Returns how many.
inline std::int64_t manager_core::store(std::int32_t slot, prefix_index::node_id node, std::int64_t logical) noexcept {
  std::int64_t stored = 0;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    const block_id block = block_at(g, slot, logical);
    const int group = static_cast<int>(g);
    if (block == block_id::none || index_->block(node, group) != block_id::none) continue;
    if (index_->node_of(group, block) != prefix_index::nothing) continue;
    index_->attach(node, group, block, static_cast<std::uint64_t>(counts_.lookups));
    groups_[g].pool.keep(block);
    groups_[g].eviction->stored(block);
    tell(prefix_event::kind::stored, g, block, node);
    ++stored;
  }
  counts_.stored += stored;
  if (stored > 0 && reuse_.has_value()) reuse_->use(node, counts_.reuse_distances);
  return stored;
}

// Whether another block than the sequence's holds the content of a node, in some group.
inline bool manager_core::is_duplicate(std::int32_t slot, prefix_index::node_id node,
                                       std::int64_t logical) const noexcept {
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    const block_id block = block_at(g, slot, logical);
    if (block != block_id::none && index_->block(node, static_cast<int>(g)) != block) return true;
  }
  return false;
}

// Gives up what has been out of reach for longest, but nothing that `keep` stands on.
inline bool manager_core::make_room_in_index(prefix_index::node_id keep) noexcept {
  while (index_->full()) {
    prefix_index::node_id oldest = index_->oldest_bare();
    if (oldest != prefix_index::nothing && index_->is_behind(keep, oldest)) {
      index_->renew_bare(keep);  // others may have been bare for less long, but nothing is to stand on them
      oldest = index_->oldest_bare();
    }
    if (oldest == prefix_index::nothing || index_->is_behind(keep, oldest)) return false;
    const auto drop_block = [&](prefix_index::node_id node, int group, block_id block) {
      tell(prefix_event::kind::removed, static_cast<std::size_t>(group), block, node);
      dropped(static_cast<std::size_t>(group), block);
    };
    index_->drop(oldest, drop_block, keep);
  }
  return true;
}

inline void manager_core::clear_prefixes() noexcept {
  if (closed_) return;
  index_->clear(
      [&](prefix_index::node_id, int group, block_id block) { dropped(static_cast<std::size_t>(group), block); });
  for (sequence_record& record : sequences_) {
    record.publishable = record.position == 0 && record.open_step == no_step;
    record.published = prefix_index::nothing;
  }
  tell(prefix_event::kind::cleared, 0, block_id::none, prefix_index::nothing);
}

}  // namespace pagoda
