// SPDX-License-Identifier: Apache-2.0
// manager_core: cached blocks, what they are worth, and their eviction.
#pragma once

namespace pagoda {

inline void manager_core::hold(std::size_t g, block_id block) noexcept {
  if (groups_[g].pool.is_cached(block)) leave_cache(g, block);
  groups_[g].pool.share(block);
}

inline void manager_core::let_go(std::size_t g, block_id block, ticket after) noexcept {
  if (groups_[g].pool.release(block, after)) enter_cache(g, block);
}

inline void manager_core::enter_cache(std::size_t g, block_id block) noexcept {
  const prefix_index::node_id node = index_->node_of(static_cast<int>(g), block);
  const block_advice advice = advice_of(node);
  if (advice.pinned) {
    ++groups_[g].pinned;
    return;
  }
  groups_[g].eviction->insert({.id = block,
                               .depth = index_->depth(node),
                               .hits = index_->hits(node),
                               .priority = advice.priority,
                               .expires = advice.expires});
}

inline void manager_core::leave_cache(std::size_t g, block_id block) noexcept {
  if (index_->pinned(index_->node_of(static_cast<int>(g), block))) {
    --groups_[g].pinned;
  } else {
    groups_[g].eviction->erase(block);
  }
}

// False if the policy gives fewer blocks than its size() promised, or one that is not cached or is pinned: a user's
// faulty one.
inline bool manager_core::evict_until(std::size_t g, std::int64_t free_blocks) noexcept {
  group_state& group = groups_[g];
  while (group.pool.free() < free_blocks) {
    const block_id block = group.eviction->evict();
    const auto index = static_cast<std::int32_t>(block);
    if (index < 0 || index >= group.pool.size() || !group.pool.is_cached(block)) return false;
    const prefix_index::node_id node = index_->node_of(static_cast<int>(g), block);
    if (index_->pinned(node)) return false;
    counts_.evictions += 1;
    counts_.eviction_ages.add(static_cast<std::uint64_t>(counts_.lookups) - index_->last_use(node));
    tell(prefix_event::kind::removed, g, block, node);
    detach(g, block, prefix_index::nothing);
    group.pool.forget(block);
  }
  return true;
}

// Takes a block that is held out of the index; the node `keep` stays.
inline void manager_core::withdraw(std::size_t g, block_id block, prefix_index::node_id keep) noexcept {
  tell(prefix_event::kind::removed, g, block, index_->node_of(static_cast<int>(g), block));
  detach(g, block, keep);
  groups_[g].eviction->forgotten(block);
  groups_[g].pool.forget(block);
}

inline void manager_core::detach(std::size_t g, block_id block, prefix_index::node_id keep) noexcept {
  const prefix_index::node_id node = index_->node_of(static_cast<int>(g), block);
  index_->detach(static_cast<int>(g), block, keep);
  if (reuse_.has_value() && index_->bare(node)) reuse_->forget(node);
}

// The index is about to lose a block, whose node it still knows.
inline void manager_core::dropped(std::size_t g, block_id block) noexcept {
  group_state& group = groups_[g];
  if (reuse_.has_value()) reuse_->forget(index_->node_of(static_cast<int>(g), block));
  if (group.pool.is_cached(block)) leave_cache(g, block);
  group.eviction->forgotten(block);
  group.pool.forget(block);
}

// ---- advice

inline block_advice manager_core::advice_of(prefix_index::node_id node) const noexcept {
  return {.priority = index_->priority(node),
          .expires = expires_.empty() ? never_expires : expires_[static_cast<std::size_t>(node)],
          .pinned = index_->pinned(node)};
}

// May throw, unlike what follows it.
inline void manager_core::expect_advice(const block_advice& advice) {
  check_range("priority", advice.priority, 0, highest_priority);
  check_range("expires", advice.expires, 0, never_expires, "pass a logical time, as to advance()");
  if (advice.expires != never_expires && expires_.empty()) {
    expires_.assign(static_cast<std::size_t>(index_->capacity()), never_expires);
  }
  advised_ = advised_ || advice != block_advice{};
}

inline void manager_core::set_advice(prefix_index::node_id node, const block_advice& advice) noexcept {
  if (advice_of(node) == advice) return;
  const auto cached = [&](std::size_t g) {
    const block_id block = index_->block(node, static_cast<int>(g));
    return block != block_id::none && groups_[g].pool.is_cached(block) ? block : block_id::none;
  };
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    if (cached(g) != block_id::none) leave_cache(g, cached(g));
  }
  index_->set_worth(node, advice.priority, advice.pinned);
  if (!expires_.empty()) expires_[static_cast<std::size_t>(node)] = advice.expires;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    if (cached(g) != block_id::none) enter_cache(g, cached(g));
  }
}

// What is published behind a block is of no use without it, so the block is worth as much.
inline void manager_core::raise_advice(prefix_index::node_id node, const block_advice& advice) noexcept {
  if (!advised_) return;  // all have the same
  for (; node != prefix_index::nothing; node = index_->parent(node)) {
    const block_advice old = advice_of(node);
    set_advice(node, {.priority = std::max(old.priority, advice.priority),
                      .expires = std::max(old.expires, advice.expires),
                      .pinned = old.pinned || advice.pinned});
  }
}

inline std::int64_t manager_core::advise(const token_history& history, const block_advice& advice) {
  check_open();
  check_history(history);
  expect_advice(advice);
  const auto all = static_cast<std::int64_t>(history.tokens.size());
  found_prefix found = find_prefix(history, all);
  if (found.node != prefix_index::nothing) {
    // A content that the history leaves in the midst of its block is another's.
    const std::int64_t begin = std::int64_t{index_->depth(found.node)} << shift_;
    if (found.tokens < all && found.tokens < begin + index_->tokens(found.node)) {
      found = {index_->parent(found.node), begin};
    }
  }
  for (auto node = found.node; node != prefix_index::nothing; node = index_->parent(node)) set_advice(node, advice);
  return found.tokens;
}

inline void manager_core::advance(std::int64_t now) {
  check_open();
  check_range("logical time", now, now_, INT64_MAX, "time never falls");
  now_ = now;
  for (group_state& group : groups_) group.eviction->advance(now);
}

// ---- events

inline void manager_core::tell(prefix_event::kind what, std::size_t g, block_id block,
                               prefix_index::node_id node) noexcept {
  if (events_.empty()) return;
  prefix_event event{.what = what, .group = static_cast<std::int32_t>(g), .block = block};
  if (node != prefix_index::nothing) {
    if (index_->tokens(node) < config_.block_size) return;  // routers know full blocks
    event.depth = index_->depth(node);
    event.hash = index_->hash_of(node);
    event.parent_hash = index_->parent_hash_of(node);
  }
  if (event_count_ == events_.size()) {
    first_event_ = (first_event_ + 1) % events_.size();
    --event_count_;
    events_lost_ = true;
  }
  events_[(first_event_ + event_count_++) % events_.size()] = event;
}

inline std::size_t manager_core::take_events(std::span<prefix_event> out) noexcept {
  std::size_t taken = 0;
  if (events_lost_ && !out.empty()) {
    out[taken++] = {.what = prefix_event::kind::lost};
    events_lost_ = false;
  }
  while (taken < out.size() && event_count_ > 0) {
    out[taken++] = events_[first_event_];
    first_event_ = (first_event_ + 1) % events_.size();
    --event_count_;
  }
  return taken;
}

// ---- room

inline std::int64_t manager_core::growable(sequence_id id, std::int64_t want) const {
  const std::int32_t slot = settled_slot_of(id, "growable");
  check_range("wanted tokens", want, 0, INT64_MAX);
  const std::int64_t position = sequences_[static_cast<std::size_t>(slot)].position;
  std::int64_t most = std::min(want, INT32_MAX - position);
  const bool mid_block = (position & (config_.block_size - 1)) != 0;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    const group_state& group = groups_[g];
    const std::int64_t entries = group.entries[static_cast<std::size_t>(slot)];
    const std::int64_t copy = mid_block && last_block_needs_copy(g, slot) ? 1 : 0;
    const std::int64_t blocks = std::min(available(group) - copy, group.row_capacity - entries);
    if (blocks < 0) return 0;
    const std::int64_t end = (entries + group.skipped[static_cast<std::size_t>(slot)] + blocks) << shift_;
    most = std::min(most, end - position);
  }
  return most;
}

inline std::int32_t manager_core::exclusive_blocks(sequence_id id, int group) const {
  std::int32_t count = 0;
  const group_state& state = group_at(group);
  for (const block_id block : blocks(id, group)) count += state.pool.references(block) == 1 ? 1 : 0;
  return count;
}

}  // namespace pagoda
