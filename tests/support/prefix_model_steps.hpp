// SPDX-License-Identifier: Apache-2.0
/// @file The part of prefix_model that gives and takes blocks.
#pragma once

#include "prefix_model.hpp"

namespace pagoda_test {

inline prefix_model::verdict prefix_model::check(const std::vector<planned>& batch, pagoda::shortage* why) const {
  for (std::size_t g = 0; g < groups(); ++g) {
    std::int64_t sum = 0;
    for (const planned& entry : batch) {
      const sequence& seq = sequences_.at(entry.name);
      const std::int64_t entries = blocks_for(seq.position + entry.tokens) - seq.skipped[g];
      if (entries > row_capacity(g) && row_capacity(g) < pools_[g].size()) return verdict::too_long;
      sum += needed(g, entry);
    }
    if (sum > pools_[g].available()) {
      *why = lacking(g, sum);
      return verdict::too_few;
    }
  }
  return verdict::fits;
}

inline std::string prefix_model::plan(int index, std::vector<planned> batch,
                                      const std::vector<std::vector<ids>>& tables, const std::vector<event>& removed,
                                      std::vector<fresh>& given) {
  for (std::size_t g = 0; g < groups(); ++g) {
    ids blocks;
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < batch.size(); ++i) {
      planned& entry = batch[i];
      const sequence& seq = sequences_.at(entry.name);
      const bool copy = must_copy(g, entry);
      const ids& before = seq.table[g];
      const ids& after = tables[i][g];
      sum += needed(g, entry);
      if (static_cast<std::int64_t>(after.size()) != blocks_for(seq.position + entry.tokens) - seq.skipped[g]) {
        return "a table's length after a plan";
      }
      entry.replaced.push_back(copy ? before.back() : -1);
      entry.before.push_back(static_cast<std::int64_t>(before.size()));
      const std::size_t same = before.size() - (copy ? 1 : 0);
      if (!std::equal(before.begin(), before.begin() + static_cast<std::ptrdiff_t>(same), after.begin())) {
        return "a plan changed a table's beginning";
      }
      blocks.insert(blocks.end(), after.begin() + static_cast<std::ptrdiff_t>(same), after.end());
    }
    if (std::string fault = take(g, blocks, sum, removed); !fault.empty()) return fault;
    for (const std::int32_t block : blocks) given.push_back({g, block});
  }
  for (std::size_t i = 0; i < batch.size(); ++i) {
    sequences_.at(batch[i].name).in_step = true;
    sequences_.at(batch[i].name).table = tables[i];
  }
  steps_[index] = std::move(batch);
  untaken_.insert(index);
  ++issued_;
  ++counts.plans;
  return "";
}

inline void prefix_model::cancel(int index, std::size_t entry) {
  planned& victim = steps_.at(index)[entry];
  settle(victim, 0);
  victim.cancelled = true;
}

inline void prefix_model::commit(int index) {
  for (const planned& entry : steps_.at(index)) {
    if (!entry.cancelled) settle(entry, static_cast<std::int64_t>(entry.accepted.size()));
  }
  steps_.erase(index);
  untaken_.erase(index);
}

inline void prefix_model::roll_back(int index) {
  std::vector<planned>& batch = steps_.at(index);
  for (std::size_t i = batch.size(); i > 0; --i) {
    if (!batch[i - 1].cancelled) settle(batch[i - 1], 0);
  }
  steps_.erase(index);
  untaken_.erase(index);
  ++counts.rollbacks;
}

inline void prefix_model::complete(std::uint64_t done) {
  done = std::min(done, issued_);
  if (done <= completed_) return;
  completed_ = done;
  for (pool_model& pool : pools_) pool.complete(done, index_);
}

inline std::string prefix_model::arrive(const std::vector<ids>& blocks, const std::vector<ids>& holders,
                                        const std::vector<event>& removed) {
  for (std::size_t g = 0; g < groups(); ++g) {
    const auto number = static_cast<std::int64_t>(blocks[g].size());
    if (std::string fault = take(g, blocks[g], number, removed); !fault.empty()) return fault;
    for (std::size_t i = 0; i < blocks[g].size(); ++i) {
      for (std::int32_t more = 1; more < holders[g][i]; ++more) pools_[g].hold(blocks[g][i]);
    }
  }
  return "";
}

inline void prefix_model::settle(const planned& entry, std::int64_t kept) {
  sequence& seq = sequences_.at(entry.name);
  seq.in_step = false;
  seq.position += kept;
  for (std::size_t g = 0; g < groups(); ++g) {
    cut(g, seq, blocks_for(seq.position) - seq.skipped[g]);
    if (entry.replaced[g] >= 0) {
      std::int32_t& last = seq.table[g][static_cast<std::size_t>(entry.before[g] - 1)];
      let_go(g, kept > 0 ? entry.replaced[g] : last);
      if (kept == 0) last = entry.replaced[g];
    }
  }
  if (seq.released) return destroy(entry.name);
  for (std::size_t g = 0; g < groups(); ++g) {
    const std::int64_t drop = skipped_at(g, seq.position) - seq.skipped[g];
    if (drop <= 0) continue;
    const auto begin = seq.table[g].begin() + sink_blocks(g);
    for (std::int64_t i = drop - 1; i >= 0; --i) let_go(g, begin[i]);
    seq.table[g].erase(begin, begin + drop);
    seq.skipped[g] += drop;
  }
}

inline std::string prefix_model::take(std::size_t g, const ids& blocks, std::int64_t number,
                                      const std::vector<event>& removed) {
  pool_model& pool = pools_[g];
  if (static_cast<std::int64_t>(blocks.size()) != number) return "the number of blocks given out";
  ids victims;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (std::count(blocks.begin(), blocks.end(), blocks[i]) != 1) return "a block was given out twice";
    if (pool.at(blocks[i]).is == state::free) continue;
    if (!pool.evictable(blocks[i])) return "a block was given out that is neither free nor evictable";
    victims.push_back(blocks[i]);
  }
  const std::int64_t evicted = std::max<std::int64_t>(0, number - pool.count(state::free));
  if (static_cast<std::int64_t>(victims.size()) != evicted) return "evicted though free blocks would do";
  if (pool.exact()) {
    ids expected = pool.victims(evicted, now_);
    ids sorted = expected;
    std::sort(sorted.begin(), sorted.end());
    std::sort(victims.begin(), victims.end());
    if (sorted != victims) return "another block was evicted than the policy says";
    victims = std::move(expected);
  } else {
    // In the order of the events; what they do not name had nothing behind it.
    std::stable_sort(victims.begin(), victims.end(), [&](std::int32_t a, std::int32_t b) {
      const auto place = [&](std::int32_t block) {
        return std::find_if(removed.begin(), removed.end(), [&](const event& e) {
          return e.group == static_cast<std::int32_t>(g) && number_of(e) == block;
        });
      };
      return place(a) < place(b);
    });
  }
  for (const std::int32_t block : victims) {
    const index_model::id name = pool.at(block).content;
    const index_model::content& c = index_.at(name);
    if (c.part.size() == config_.block_size) tell(event::kind::removed, g, block, c.depth);
    counts.eviction_ages.add(static_cast<std::uint64_t>(counts.lookups - c.last_use));
    pool.evict(block);
    index_.detach(name, g);
  }
  counts.evictions += evicted;
  for (const std::int32_t block : blocks) pool.allocate(block);
  return "";
}

inline bool prefix_model::must_copy(std::size_t g, const planned& entry) const {
  const sequence& seq = sequences_.at(entry.name);
  const std::int64_t inside = seq.position % config_.block_size;
  if (entry.tokens == 0 || inside == 0) return false;
  const pool_model::block& last = pools_[g].at(seq.table[g].back());
  if (last.references > 1 || last.after > completed_) return true;
  return last.content != index_model::nothing && index_.at(last.content).part.size() > inside;
}

}  // namespace pagoda_test
