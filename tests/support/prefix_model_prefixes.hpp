// SPDX-License-Identifier: Apache-2.0
/// @file The part of prefix_model that says what is found, and what is entered.
#pragma once

#include "prefix_model.hpp"

namespace pagoda_test {

/// The last of the first `blocks` full contents of a history; nothing if one of them is not known.
inline index_model::id prefix_model::follow(const text& history, std::int64_t blocks, std::int64_t limit) const {
  index_model::id name = index_model::nothing;
  for (std::int64_t logical = 0; logical < blocks; ++logical) {
    name = index_.find(name, piece_of(history, logical, config_.block_size, limit));
    if (name == index_model::nothing) break;
  }
  return name;
}

/// The most tokens, up to `length`, for which every group holds what it reads: only prefixes that end with a block, or
/// any.
inline std::int64_t prefix_model::serve(const text& history, std::int64_t length, bool with_tail) const {
  const std::int64_t size = config_.block_size;
  std::vector<index_model::id> known;
  while (static_cast<std::int64_t>(known.size()) < length / size) {
    const index_model::id before = known.empty() ? index_model::nothing : known.back();
    const index_model::id next =
        index_.find(before, piece_of(history, static_cast<std::int64_t>(known.size()), size, history.size()));
    if (next == index_model::nothing) break;
    known.push_back(next);
  }
  const auto holds = [&](std::int64_t tokens, std::int64_t whole_blocks) {
    for (std::size_t g = 0; g < groups(); ++g) {
      if (blocks_for(tokens) - skipped_at(g, tokens) > row_capacity(g)) return false;
      for (std::int64_t logical = 0; logical < whole_blocks; ++logical) {
        if (reads(g, tokens, logical) && index_.at(known[static_cast<std::size_t>(logical)]).blocks[g] < 0)
          return false;
      }
    }
    return true;
  };
  for (auto blocks = static_cast<std::int64_t>(known.size()); blocks >= 0; --blocks) {
    if (with_tail && blocks * size < length) {
      const index_model::id before = blocks == 0 ? index_model::nothing : known[static_cast<std::size_t>(blocks - 1)];
      const std::int64_t limit = std::min(size, length - blocks * size);
      std::vector<std::int64_t> most(groups(), 0);
      for (const index_model::content& c : index_.contents()) {
        if (c.before != before) continue;
        const std::int64_t tokens = std::min<std::int64_t>(
            limit, index_model::agreement(c.part, piece_of(history, blocks, size, history.size())));
        for (std::size_t g = 0; g < groups(); ++g) {
          if (c.blocks[g] >= 0) most[g] = std::max(most[g], tokens);
        }
      }
      for (std::int64_t tokens = *std::min_element(most.begin(), most.end()); tokens > 0; --tokens) {
        if (holds(blocks * size + tokens, blocks)) return blocks * size + tokens;
      }
    }
    if (blocks * size <= length && holds(blocks * size, blocks)) return blocks * size;
  }
  return 0;
}

/// At least and at most how many tokens a match must find.
inline std::pair<std::int64_t, std::int64_t> prefix_model::findable(const text& history, std::int64_t limit) const {
  const std::int64_t least = serve(history, limit, false);
  const std::int64_t most = std::max(least, serve(history, limit, true));
  bool simple = index_.all_held();
  for (const pagoda::layer_group& group : config_.groups) simple = simple && group.keep.keeps_all();
  return {simple && config_.max_resident_tokens == 0 ? most : least, most};
}

/// The manager found so many tokens, in these blocks. Says what is wrong with them, if anything.
inline std::string prefix_model::match(key name, const text& history, std::int64_t limit, std::int64_t found,
                                       const std::vector<ids>& table) {
  const auto [least, most] = findable(history, limit);
  if (found < least || found > most) {
    return "a match found " + std::to_string(found) + " tokens, not " + std::to_string(least) + " to " +
           std::to_string(most);
  }
  sequence& seq = make(name, history);
  seq.position = found;
  seq.table = table;
  const std::int64_t blocks = blocks_for(found);
  const std::int64_t whole = found / config_.block_size;
  seq.published = follow(history, whole, history.size());
  index_model::id last = whole == blocks ? seq.published : index_model::nothing;
  for (std::size_t g = 0; g < groups(); ++g) {
    seq.skipped[g] = skipped_at(g, found);
    if (static_cast<std::int64_t>(table[g].size()) != blocks - seq.skipped[g]) return "a match's table length";
    auto block = table[g].begin();
    for (std::int64_t logical = 0; logical < blocks; ++logical) {
      if (!reads(g, found, logical)) continue;
      const index_model::id content = pools_[g].at(*block).content;
      if (content == index_model::nothing) return "a match gave a block that is not in the index";
      const index_model::content& c = index_.at(content);
      const std::int64_t tokens = std::min<std::int64_t>(config_.block_size, found - logical * config_.block_size);
      if (c.before != follow(history, logical, history.size()) || c.depth != logical ||
          index_model::agreement(c.part, piece_of(history, logical, config_.block_size, history.size())) < tokens) {
        return "a match gave a block of another content";
      }
      if (logical == whole) {
        if (last != index_model::nothing && last != content) return "a match gave tails of two contents";
        last = content;
      }
      pools_[g].hold(*block);
      ++block;
    }
  }
  counts.matches += 1;
  counts.asked_tokens += limit;
  counts.hit_tokens += found;
  counts.lookups += blocks_for(limit);
  counts.hits += blocks;
  index_.count_hits(last, counts.lookups);
  return "";
}

/// Whether the block that was published last holds something else than the history says.
inline bool prefix_model::published_elsewhere(const sequence& seq, const text& history, std::int64_t size,
                                              std::int64_t tokens) const {
  index_model::id name = seq.published;
  while (index_.lives(name) && index_.at(name).depth >= tokens / config_.block_size) name = index_.at(name).before;
  if (!index_.lives(name)) return false;
  const piece now = piece_of(history, index_.at(name).depth, config_.block_size, size);
  return now.tokens != index_.at(name).part.tokens || now.tags != index_.at(name).part.tags ||
         history.domain() != seq.script.domain();
}

inline std::int64_t prefix_model::publish(key name, const text& history, std::int64_t tokens,
                                          const pagoda::block_advice& advice) {
  sequence& seq = sequences_.at(name);
  if (!seq.publishable) return 0;
  const std::int64_t size = config_.block_size;
  index_model::id before = index_.lives(seq.published) ? seq.published : index_model::nothing;
  while (before != index_model::nothing && index_.at(before).depth >= tokens / size) before = index_.at(before).before;
  if (copies_pending(name)) tokens -= tokens % size;
  std::int64_t stored = 0;
  bool ours = true;  // no other block holds the content of the sequence's blocks so far
  for (std::int64_t logical = before == index_model::nothing ? 0 : index_.at(before).depth + 1;
       logical < blocks_for(tokens); ++logical) {
    const piece part = piece_of(history, logical, size, tokens);
    const bool whole = part.size() == size;
    if (!whole && index_.best_tail(before, part).second == part.size()) break;
    index_model::id content = index_.find(before, part);
    std::vector<std::int32_t> blocks(groups(), -1);
    for (std::size_t g = 0; g < groups(); ++g) {
      if (!(logical < sink_blocks(g) || logical >= sink_blocks(g) + seq.skipped[g])) continue;
      const std::int64_t entry = logical < sink_blocks(g) ? logical : logical - seq.skipped[g];
      blocks[g] = seq.table[g][static_cast<std::size_t>(entry)];
      const index_model::id old = pools_[g].at(blocks[g]).content;
      if (old == index_model::nothing || index_.at(old).part.size() >= part.size()) continue;
      pools_[g].forget(blocks[g]);
      index_.detach(old, g, before);
    }
    if (content == index_model::nothing) {
      while (index_.full()) {
        if (index_.is_behind(before, index_.oldest_bare())) index_.renew_bare(before);
        const index_model::id oldest = index_.oldest_bare();
        if (oldest == index_model::nothing || index_.is_behind(before, oldest)) break;
        for (const index_model::holding& held : index_.drop(oldest, before)) {
          if (held.full) tell(event::kind::removed, held.group, held.block, held.depth);
          pools_[held.group].forget(held.block);
        }
      }
      if (index_.full()) break;
      content = index_.add(before, part);
      index_.advise(content, advice);
    }
    for (std::size_t g = 0; g < groups(); ++g) {
      if (blocks[g] < 0 || index_.at(content).blocks[g] >= 0) continue;
      if (pools_[g].at(blocks[g]).content != index_model::nothing) continue;
      index_.attach(content, g, blocks[g], counts.lookups);
      pools_[g].enter(blocks[g], content);
      if (whole) tell(event::kind::stored, g, blocks[g], index_.at(content).depth);
      ++stored;
    }
    before = content;
    for (std::size_t g = 0; g < groups(); ++g) {
      ours = ours && whole && (blocks[g] < 0 || index_.at(content).blocks[g] == blocks[g]);
    }
    if (ours) seq.published = content;
  }
  const bool raises = stored > 0 || advice != pagoda::block_advice{};
  for (index_model::id above = before; raises && above != index_model::nothing; above = index_.at(above).before) {
    const pagoda::block_advice& old = index_.at(above).advice;
    change_advice(above, {.priority = std::max(old.priority, advice.priority),
                          .expires = std::max(old.expires, advice.expires),
                          .pinned = old.pinned || advice.pinned});
  }
  index_.prune(before);
  counts.stored += stored;
  return stored;
}

inline void prefix_model::change_advice(index_model::id name, const pagoda::block_advice& advice) {
  if (index_.at(name).advice == advice) return;
  std::vector<std::int32_t> cached(groups(), -1);
  for (std::size_t g = 0; g < groups(); ++g) {
    const std::int32_t block = index_.at(name).blocks[g];
    if (block < 0 || pools_[g].at(block).is != state::cached) continue;
    cached[g] = block;
    pools_[g].leave_queue(block);
  }
  index_.advise(name, advice);
  for (std::size_t g = 0; g < groups(); ++g) {
    if (cached[g] >= 0) pools_[g].join_queue(cached[g], index_);
  }
}

inline std::int64_t prefix_model::advise(const text& history, const pagoda::block_advice& advice) {
  index_model::id name = index_model::nothing;
  std::int64_t known = 0;
  while (known < history.size()) {
    const piece part = piece_of(history, known / config_.block_size, config_.block_size, history.size());
    const index_model::id next = part.size() == config_.block_size ? index_.find(name, part) : index_model::nothing;
    if (next == index_model::nothing) {
      const auto [tail, tokens] = index_.best_tail(name, part);
      if (tail == index_model::nothing) break;
      // Only if it is the history's to its own end, or to the history's.
      const bool apart = known + tokens < history.size() && tokens < index_.at(tail).part.size();
      if (!apart) name = tail;
      if (!apart) known += tokens;
      break;
    }
    name = next;
    known += config_.block_size;
  }
  for (; name != index_model::nothing; name = index_.at(name).before) change_advice(name, advice);
  return known;
}

inline void prefix_model::clear() {
  for (const index_model::content& c : index_.contents()) {
    for (std::size_t g = 0; g < groups(); ++g) {
      if (c.blocks[g] >= 0) pools_[g].forget(c.blocks[g]);
    }
  }
  index_.clear();
  for (auto& [name, seq] : sequences_) {
    seq.publishable = seq.position == 0 && !seq.in_step;
    seq.published = index_model::nothing;
  }
  events.push_back({.what = event::kind::cleared});
}

}  // namespace pagoda_test
