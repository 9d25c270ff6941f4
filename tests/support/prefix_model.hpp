// SPDX-License-Identifier: Apache-2.0
/// @file A simple model of a block manager with shared prefixes. It is told which blocks the manager chose, checks that
/// it might choose them, and knows from there what must follow.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <pagoda/statistics.hpp>

#include "manager_support.hpp"
#include "pool_model.hpp"

namespace pagoda_test {

class prefix_model {
 public:
  using key = std::int64_t;
  using state = pool_model::state;
  using event = pagoda::prefix_event;

  struct sequence {
    text script{};              // committed tokens, and what comes behind them
    std::int64_t position = 0;  // committed
    std::vector<ids> table{};   // of each group
    std::vector<std::int64_t> skipped{};
    bool in_step = false;
    bool released = false;
    bool publishable = true;
    index_model::id published = index_model::nothing;
  };

  struct planned {
    key name = 0;
    std::int64_t tokens = 0;
    std::vector<std::int32_t> accepted{};  // numbers of the new tokens that will be kept
    bool cancelled = false;
    std::vector<std::int32_t> replaced{};  // of each group: the shared block that a copy stands in for; -1: none
    std::vector<std::int64_t> before{};    // of each group: table entries before the plan
  };

  /// A block that was given out.
  struct fresh {
    std::size_t group;
    std::int32_t block;
  };

  enum class verdict { fits, too_long, too_few };

  prefix_model(const pagoda::manager_config& config, std::string_view policy)
      : config_(config), index_(config.groups.size(), config.block_size, blocks_of(config)) {
    for (const pagoda::layer_group& group : config_.groups) pools_.emplace_back(group.num_blocks, policy);
  }

  std::map<key, sequence>& sequences() { return sequences_; }
  const std::map<key, sequence>& sequences() const { return sequences_; }
  std::map<int, std::vector<planned>>& steps() { return steps_; }
  const index_model& index() const { return index_; }
  const pool_model& pool(std::size_t g) const { return pools_[g]; }
  std::size_t groups() const { return pools_.size(); }
  std::uint64_t issued() const { return issued_; }
  std::int64_t now() const { return now_; }
  void advance(std::int64_t now) { now_ = now; }

  /// What the manager must have counted and told since the last look.
  pagoda::manager_stats counts{};
  std::vector<event> events{};

  pagoda::block_stats stats(std::size_t g) const {
    const pool_model& pool = pools_[g];
    pagoda::block_stats all{.total = pool.size(),
                            .free = pool.count(state::free),
                            .cached = pool.count(state::cached),
                            .pinned = pool.pinned(),
                            .used = pool.count(state::used),
                            .retiring = pool.count(state::retiring),
                            .shared = pool.shared()};
    for (const auto& [name, seq] : sequences_) {
      all.tokens += resident(seq, g);
      all.slack += static_cast<std::int64_t>(seq.table[g].size()) * config_.block_size - resident(seq, g);
    }
    return all;
  }

  std::int64_t resident(const sequence& seq, std::size_t g) const {
    return seq.position - seq.skipped[g] * config_.block_size;
  }

  // ---- sequences
  sequence& make(key name, text script) {
    sequence& seq = sequences_[name];
    seq.script = std::move(script);
    seq.table.resize(groups());
    seq.skipped.assign(groups(), 0);
    return seq;
  }

  void fork(key parent, key child) {
    sequences_[child] = sequences_.at(parent);
    for (std::size_t g = 0; g < groups(); ++g) {
      for (const std::int32_t block : sequences_.at(child).table[g]) pools_[g].hold(block);
    }
  }

  void destroy(key name) {
    sequence& seq = sequences_.at(name);
    seq.released = true;
    if (seq.in_step) return;
    for (std::size_t g = 0; g < groups(); ++g) cut(g, seq, 0);
    sequences_.erase(name);
  }

  bool may_truncate(const sequence& seq, std::int64_t target) const {
    for (std::size_t g = 0; g < groups(); ++g) {
      const std::int64_t dropped_begin = sink_blocks(g) * config_.block_size;
      const std::int64_t dropped_end = dropped_begin + seq.skipped[g] * config_.block_size;
      // Some of what is left is gone, and the query at the new end would read it.
      if (dropped_end > dropped_begin && target > dropped_begin && window_begin(g, target) < dropped_end) return false;
    }
    return true;
  }

  void truncate(key name, std::int64_t target) {
    sequence& seq = sequences_.at(name);
    for (std::size_t g = 0; g < groups(); ++g) {
      const bool dropped_too = target <= sink_blocks(g) * config_.block_size;
      cut(g, seq, blocks_for(target) - (dropped_too ? 0 : seq.skipped[g]));
      if (dropped_too) seq.skipped[g] = 0;
    }
    seq.position = target;
    while (index_.lives(seq.published) && index_.at(seq.published).depth >= target / config_.block_size) {
      seq.published = index_.at(seq.published).before;
    }
  }

  // ---- steps, in prefix_model_steps.hpp
  std::int64_t needed(std::size_t g, const planned& entry) const {
    const sequence& seq = sequences_.at(entry.name);
    return blocks_for(seq.position + entry.tokens) - blocks_for(seq.position) + (must_copy(g, entry) ? 1 : 0);
  }

  verdict check(const std::vector<planned>& batch, pagoda::shortage* why) const;

  /// The tables after the plan are those of the manager. Says what is wrong with them, if anything; `removed` are the
  /// events that the manager told of. Requires: check() says fits.
  std::string plan(int index, std::vector<planned> batch, const std::vector<std::vector<ids>>& tables,
                   const std::vector<event>& removed, std::vector<fresh>& given);

  void take_copies(int index) { untaken_.erase(index); }

  /// Whether the step of a sequence still waits for copies.
  bool copies_pending(key name) const {
    for (const int index : untaken_) {
      bool member = false;
      bool copies = false;
      for (const planned& entry : steps_.at(index)) {
        if (entry.cancelled) continue;
        member = member || entry.name == name;
        copies = copies || *std::max_element(entry.replaced.begin(), entry.replaced.end()) >= 0;
      }
      if (member && copies) return true;
    }
    return false;
  }

  void cancel(int index, std::size_t entry);

  void commit(int index);

  void roll_back(int index);

  void complete(std::uint64_t done);

  // ---- transfer
  verdict check_arrival(const std::vector<ids>& blocks, pagoda::shortage* why) const {
    for (std::size_t g = 0; g < groups(); ++g) {
      if (static_cast<std::int64_t>(blocks[g].size()) <= pools_[g].available()) continue;
      *why = lacking(g, static_cast<std::int64_t>(blocks[g].size()));
      return verdict::too_few;
    }
    return verdict::fits;
  }

  /// Blocks were given out for sequences that come from elsewhere; each is held by `holders[g][i]` of them.
  std::string arrive(const std::vector<ids>& blocks, const std::vector<ids>& holders,
                     const std::vector<event>& removed);

  /// A transfer has begun; it reads these blocks until its ticket completes.
  void issue(const std::vector<ids>& read) {
    ++issued_;
    for (std::size_t g = 0; g < read.size() && config_.reuse == pagoda::reuse_rule::on_completion; ++g) {
      for (const std::int32_t block : read[g]) pools_[g].lend(block, issued_);
    }
  }

  // ---- prefixes, in prefix_model_prefixes.hpp
  std::pair<std::int64_t, std::int64_t> findable(const text& history, std::int64_t limit) const;
  std::string match(key name, const text& history, std::int64_t limit, std::int64_t found,
                    const std::vector<ids>& table);
  bool published_elsewhere(const sequence& seq, const text& history, std::int64_t size, std::int64_t tokens) const;
  std::int64_t publish(key name, const text& history, std::int64_t tokens, const pagoda::block_advice& advice);
  std::int64_t advise(const text& history, const pagoda::block_advice& advice);
  void clear();

  std::int64_t blocks_for(std::int64_t tokens) const { return (tokens + config_.block_size - 1) / config_.block_size; }
  std::int64_t row_capacity(std::size_t g) const {
    const pagoda::layer_group& group = config_.groups[g];
    if (config_.max_resident_tokens == 0) return group.num_blocks;
    const std::int64_t ends = group.keep.keeps_all() ? 0 : sink_blocks(g) > 0 ? 2 : 1;
    return std::min<std::int64_t>(group.num_blocks, blocks_for(config_.max_resident_tokens) + ends);
  }
  pagoda::shortage lacking(std::size_t g, std::int64_t number) const {
    return {.group = static_cast<std::int32_t>(g),
            .needed = static_cast<std::int32_t>(number),
            .free = static_cast<std::int32_t>(pools_[g].count(state::free)),
            .evictable = static_cast<std::int32_t>(pools_[g].evictable()),
            .retiring = static_cast<std::int32_t>(pools_[g].count(state::retiring))};
  }

 private:
  static std::size_t blocks_of(const pagoda::manager_config& config) {
    std::size_t sum = 0;
    for (const pagoda::layer_group& group : config.groups) sum += static_cast<std::size_t>(group.num_blocks);
    return sum;
  }

  std::int64_t window_begin(std::size_t g, std::int64_t position) const {
    const std::int64_t window = config_.groups[g].keep.window;
    return window == pagoda::unlimited || position < window ? 0 : position - window + 1;
  }
  std::int64_t sink_blocks(std::size_t g) const {
    return config_.groups[g].keep.keeps_all() ? 0 : blocks_for(config_.groups[g].keep.sinks);
  }
  /// Whether a sequence of that length reads a block, now or later.
  bool reads(std::size_t g, std::int64_t length, std::int64_t logical) const {
    return logical < sink_blocks(g) || logical >= window_begin(g, length) / config_.block_size;
  }
  std::int64_t skipped_at(std::size_t g, std::int64_t length) const {
    std::int64_t count = 0;
    for (std::int64_t logical = 0; logical < length / config_.block_size; ++logical) {
      count += reads(g, length, logical) ? 0 : 1;
    }
    return count;
  }

  bool must_copy(std::size_t g, const planned& entry) const;

  std::optional<std::uint64_t> reusable_after() const {
    const bool waits = config_.reuse == pagoda::reuse_rule::on_completion && issued_ > completed_;
    return waits ? std::optional(issued_) : std::nullopt;
  }
  void let_go(std::size_t g, std::int32_t block) { pools_[g].release(block, reusable_after(), index_); }

  void cut(std::size_t g, sequence& seq, std::int64_t entries) {
    while (static_cast<std::int64_t>(seq.table[g].size()) > entries) {
      let_go(g, seq.table[g].back());
      seq.table[g].pop_back();
    }
  }

  void settle(const planned& entry, std::int64_t kept);

  void tell(event::kind what, std::size_t g, std::int32_t block, std::int32_t depth) {
    events.push_back(
        {.what = what, .group = static_cast<std::int32_t>(g), .block = pagoda::block_id{block}, .depth = depth});
  }

  /// Blocks that the manager gave out: each was free, or evicted because the free ones did not suffice.
  std::string take(std::size_t g, const ids& blocks, std::int64_t number, const std::vector<event>& removed);
  static std::int32_t number_of(const event& e) { return static_cast<std::int32_t>(e.block); }

  index_model::id follow(const text& history, std::int64_t blocks, std::int64_t limit) const;
  std::int64_t serve(const text& history, std::int64_t length, bool with_tail) const;
  void change_advice(index_model::id name, const pagoda::block_advice& advice);

  pagoda::manager_config config_;
  index_model index_;
  std::vector<pool_model> pools_;
  std::map<key, sequence> sequences_;
  std::map<int, std::vector<planned>> steps_;
  std::set<int> untaken_;  // steps whose copies nobody has asked for
  std::uint64_t issued_ = 0;
  std::uint64_t completed_ = 0;
  std::int64_t now_ = 0;
};

}  // namespace pagoda_test
