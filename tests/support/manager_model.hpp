// SPDX-License-Identifier: Apache-2.0
/// @file A slow and simple model of a block manager. It knows which blocks exist and who holds them, but gives them
/// names of its own: which physical block stands for one is the manager's affair.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include <pagoda/manager_config.hpp>

namespace pagoda_test {

class manager_model {
 public:
  using key = std::int64_t;  // names a sequence or a block of the model, for ever

  struct planned {
    key sequence = 0;
    std::vector<std::uint64_t> tokens{};  // the unique numbers that the step writes
    bool cancelled = false;
    std::vector<std::optional<key>> copied{};  // for each group: the shared block that a copy stands in for
  };

  struct open_step {
    std::uint64_t ticket = 0;
    std::vector<planned> batch{};
  };

  struct sequence {
    std::vector<std::uint64_t> tokens{};               // all committed ones, dropped ones included
    std::vector<std::map<std::int64_t, key>> table{};  // for each group: logical block -> block
    bool in_step = false;
    bool released = false;  // destroyed while in a step
  };

  explicit manager_model(pagoda::manager_config config) : config_(std::move(config)), groups_(config_.groups.size()) {}

  std::map<key, sequence>& sequences() { return sequences_; }
  const open_step& step(int index) const { return steps_.at(index); }
  std::uint64_t issued() const { return issued_; }
  std::uint64_t completed() const { return completed_; }
  std::int64_t slots_taken() const { return static_cast<std::int64_t>(sequences_.size()); }

  std::int64_t used(std::size_t g) const { return static_cast<std::int64_t>(groups_[g].holders.size()); }
  std::int64_t retiring(std::size_t g) const { return static_cast<std::int64_t>(groups_[g].retiring.size()); }
  std::int64_t free(std::size_t g) const { return config_.groups[g].num_blocks - used(g) - retiring(g); }

  std::int64_t tokens(std::size_t g) const {
    std::int64_t count = 0;
    for (const auto& [name, seq] : sequences_) count += resident(seq, g);
    return count;
  }

  /// Blocks that two or more hold.
  std::int64_t shared(std::size_t g) const {
    std::int64_t count = 0;
    for (const auto& [block, holders] : groups_[g].holders) count += holders.size() > 1 ? 1 : 0;
    return count;
  }

  /// Slots in the tables of sequences without a committed token.
  std::int64_t slack(std::size_t g) const {
    std::int64_t entries = 0;
    for (const auto& [name, seq] : sequences_) entries += static_cast<std::int64_t>(seq.table[g].size());
    return entries * config_.block_size - tokens(g);
  }

  /// Committed tokens that the group still holds.
  std::int64_t resident(const sequence& seq, std::size_t g) const {
    std::int64_t count = 0;
    for (const auto& [logical, block] : seq.table[g]) {
      const std::int64_t begin = logical * config_.block_size;
      count += std::clamp(length(seq) - begin, std::int64_t{0}, std::int64_t{config_.block_size});
    }
    return count;
  }

  key make() {
    sequences_[++last_key_].table.resize(groups_.size());
    return last_key_;
  }

  key fork(key parent) {
    const key child = make();
    sequences_[child].tokens = sequences_[parent].tokens;
    sequences_[child].table = sequences_[parent].table;
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      for (const auto& [logical, block] : sequences_[child].table[g]) groups_[g].holders[block].insert({child, false});
    }
    return child;
  }

  void destroy(key name) {
    sequence& seq = sequences_.at(name);
    if (seq.in_step) {
      seq.released = true;
      return;
    }
    cut(name, 0);
    sequences_.erase(name);
  }

  /// Whether a sequence may be cut to `target` tokens: either nothing that was dropped lies before it, or the query at
  /// `target` reads none of the dropped blocks.
  bool may_truncate(key name, std::int64_t target) const {
    const sequence& seq = sequences_.at(name);
    if (seq.in_step || target < 0 || target > length(seq)) return false;
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      bool dropped_before = false;
      bool dropped_read = false;
      for (std::int64_t t = 0; t <= target; ++t) {
        const std::int64_t logical = t / config_.block_size;
        if (logical * config_.block_size >= length(seq) || seq.table[g].count(logical) != 0) continue;
        dropped_before = dropped_before || t < target;
        dropped_read = dropped_read || reads(g, target, t);
      }
      if (dropped_before && dropped_read) return false;
    }
    return true;
  }

  void truncate(key name, std::int64_t target) {
    sequences_.at(name).tokens.resize(static_cast<std::size_t>(target));
    cut(name, blocks_for(target));
  }

  /// Nothing if the plan fits, else what is lacking in the first group that is short.
  std::optional<pagoda::shortage> lacks(const std::vector<planned>& batch) const {
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      std::int64_t needed = 0;
      for (const planned& entry : batch) {
        const sequence& seq = sequences_.at(entry.sequence);
        const std::int64_t after = length(seq) + static_cast<std::int64_t>(entry.tokens.size());
        needed += blocks_for(after) - blocks_for(length(seq)) + (writes_shared_block(g, entry) ? 1 : 0);
      }
      if (needed > free(g)) {
        return pagoda::shortage{.group = static_cast<std::int32_t>(g),
                                .needed = static_cast<std::int32_t>(needed),
                                .free = static_cast<std::int32_t>(free(g)),
                                .retiring = static_cast<std::int32_t>(retiring(g))};
      }
    }
    return std::nullopt;
  }

  /// Requires: the plan fits. Returns its ticket.
  std::uint64_t plan(int index, std::vector<planned> batch) {
    // Who shares is decided before anybody gets a copy.
    for (planned& entry : batch) {
      entry.copied.resize(groups_.size());
      for (std::size_t g = 0; g < groups_.size(); ++g) {
        if (writes_shared_block(g, entry)) entry.copied[g] = sequences_.at(entry.sequence).table[g].rbegin()->second;
      }
    }
    for (planned& entry : batch) {
      sequence& seq = sequences_.at(entry.sequence);
      seq.in_step = true;
      const std::int64_t begin = blocks_for(length(seq));
      const std::int64_t end = blocks_for(length(seq) + static_cast<std::int64_t>(entry.tokens.size()));
      for (std::size_t g = 0; g < groups_.size(); ++g) {
        if (entry.copied[g]) {
          groups_[g].holders[*entry.copied[g]].erase({entry.sequence, false});
          groups_[g].holders[*entry.copied[g]].insert({entry.sequence, true});
          seq.table[g].rbegin()->second = take(g, entry.sequence);
        }
        for (std::int64_t logical = begin; logical < end; ++logical) seq.table[g][logical] = take(g, entry.sequence);
      }
    }
    steps_[index] = {++issued_, std::move(batch)};
    return issued_;
  }

  void cancel(int index, std::size_t entry) {
    planned& victim = steps_.at(index).batch[entry];
    settle(victim, {});
    victim.cancelled = true;
  }

  /// kept[i] are the numbers of the new tokens that stay, rising.
  void commit(int index, const std::vector<std::vector<std::int32_t>>& kept) {
    open_step& step = steps_.at(index);
    for (std::size_t i = 0; i < step.batch.size(); ++i) {
      if (!step.batch[i].cancelled) settle(step.batch[i], kept[i]);
    }
    steps_.erase(index);
  }

  void complete(std::uint64_t ticket) {
    completed_ = std::max(completed_, std::min(ticket, issued_));
    for (group& g : groups_) {
      std::multiset<std::uint64_t> rest;
      for (const std::uint64_t after : g.retiring) {
        if (after > completed_) rest.insert(after);
      }
      g.retiring = std::move(rest);
    }
  }

 private:
  using holder = std::pair<key, bool>;  // a sequence; true: only for the copy that its open step makes

  struct group {
    std::map<key, std::set<holder>> holders;  // of every block in use
    std::map<key, std::uint64_t> given_back;  // the ticket at which one of its holders left: its work may go on
    std::multiset<std::uint64_t> retiring;    // the tickets that the retiring blocks wait for
  };

  static std::int64_t length(const sequence& seq) { return static_cast<std::int64_t>(seq.tokens.size()); }

  std::int64_t blocks_for(std::int64_t tokens) const {
    std::int64_t blocks = 0;
    while (blocks * config_.block_size < tokens) ++blocks;
    return blocks;
  }

  bool reads(std::size_t g, std::int64_t query, std::int64_t t) const {
    const pagoda::retention& keep = config_.groups[g].keep;
    return t <= query && (keep.window == pagoda::unlimited || t < keep.sinks || query - t < keep.window);
  }

  bool writes_shared_block(std::size_t g, const planned& entry) const {
    const sequence& seq = sequences_.at(entry.sequence);
    if (entry.tokens.empty() || length(seq) % config_.block_size == 0) return false;
    const key last = seq.table[g].rbegin()->second;
    const auto given_back = groups_[g].given_back.find(last);
    if (given_back != groups_[g].given_back.end() && given_back->second > completed_) return true;
    return groups_[g].holders.at(last).size() > 1;
  }

  key take(std::size_t g, key owner) {
    groups_[g].holders[++last_key_].insert({owner, false});
    return last_key_;
  }

  void drop(std::size_t g, key block, holder who) {
    group& state = groups_[g];
    const bool waits = config_.reuse == pagoda::reuse_rule::on_completion && issued_ > completed_;
    state.holders.at(block).erase(who);
    if (waits) state.given_back[block] = issued_;
    if (!state.holders.at(block).empty()) return;
    state.holders.erase(block);
    state.given_back.erase(block);
    if (waits) state.retiring.insert(issued_);
  }

  // Drops the logical blocks from `first` on.
  void cut(key name, std::int64_t first) {
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      auto& table = sequences_.at(name).table[g];
      while (!table.empty() && table.rbegin()->first >= first) {
        drop(g, table.rbegin()->second, {name, false});
        table.erase(table.rbegin()->first);
      }
    }
  }

  void settle(planned& entry, const std::vector<std::int32_t>& kept) {
    sequence& seq = sequences_.at(entry.sequence);
    const std::int64_t before = blocks_for(length(seq));
    for (const std::int32_t i : kept) seq.tokens.push_back(entry.tokens[static_cast<std::size_t>(i)]);
    seq.in_step = false;
    cut(entry.sequence, blocks_for(length(seq)));
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      if (!entry.copied[g]) continue;
      key& last = seq.table[g].at(before - 1);
      if (kept.empty()) {
        drop(g, last, {entry.sequence, false});
        last = *entry.copied[g];
        groups_[g].holders[last].erase({entry.sequence, true});
        groups_[g].holders[last].insert({entry.sequence, false});
      } else {
        drop(g, *entry.copied[g], {entry.sequence, true});
      }
    }
    if (seq.released) {
      destroy(entry.sequence);
    } else {
      retain(entry.sequence);
    }
  }

  // Drops each block without a token that the next query, or any after it, reads or writes.
  void retain(key name) {
    sequence& seq = sequences_.at(name);
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      for (auto it = seq.table[g].begin(); it != seq.table[g].end();) {
        bool needed = false;
        for (std::int64_t i = 0; i < config_.block_size; ++i) {
          const std::int64_t t = it->first * config_.block_size + i;
          needed = needed || reads(g, std::max(t, length(seq)), t);
        }
        if (needed) {
          ++it;
        } else {
          drop(g, it->second, {name, false});
          it = seq.table[g].erase(it);
        }
      }
    }
  }

  pagoda::manager_config config_;
  std::vector<group> groups_;
  std::map<key, sequence> sequences_;
  std::map<int, open_step> steps_;
  std::uint64_t issued_ = 0;
  std::uint64_t completed_ = 0;
  key last_key_ = 0;
};

}  // namespace pagoda_test
