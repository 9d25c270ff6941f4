// SPDX-License-Identifier: Apache-2.0
// What must hold after every call of a manager that shares prefixes, over random calls on a storage whose contents
// depend on everything before them: the properties that exclude whole classes of faults.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <pagoda/block_manager.hpp>
#include <pagoda/eviction/built_in.hpp>

#include "prefix_support.hpp"

namespace {

using namespace pagoda_test;
using pagoda::block_manager;
using pagoda::key_domain;
using pagoda::manager_config;
using pagoda::prefix_match;
using pagoda::sequence;
using pagoda::step;
using pagoda::token_history;

const std::array<key_domain, 3> domains{key_domain().add("tenant", "a"), key_domain().add("tenant", "b"),
                                        key_domain().add("tenanta", "")};

/// What a model would store for each token: it depends on all tokens so far and on the domain.
token_list contents_of(const token_list& tokens, std::size_t domain) {
  std::uint32_t state = 17 + static_cast<std::uint32_t>(domain);
  token_list contents;
  for (const std::int32_t token : tokens) {
    state = (state ^ static_cast<std::uint32_t>(token)) * 0x9e3779b1u;
    state ^= state >> 15;
    contents.push_back(static_cast<std::int32_t>(state & 0x7fffffff));
  }
  return contents;
}

manager_config config_of(std::int32_t block_size) {
  return {.groups = {{.num_blocks = 14}}, .block_size = block_size, .max_sequences = 12, .prefix_hash_bits = 6};
}

/// Random calls, checked one by one.
class random_life {
 public:
  template <class Policy>
  random_life(std::int32_t block_size, std::uint32_t seed, pagoda::evict_by_tag<Policy> policy)
      : cache(config_of(block_size), policy), random_(seed) {}

  void call() {
    const auto what = random_() % 100;
    if (running_.empty() || what < 12) return admit();
    living& one = running_[random_() % running_.size()];
    if (what < 50) return append(one);
    if (what < 65) {
      cache.manager.publish(one.sequence, history(one));
    } else if (what < 70) {
      const auto cut = static_cast<std::int64_t>(random_() % (one.tokens.size() + 1));
      cache.manager.truncate(one.sequence, cut);
      one.tokens.resize(static_cast<std::size_t>(cut));
    } else if (what < 76) {
      if (running_.size() + leases_.size() < 11) {
        living twin{cache.manager.fork(one.sequence), one.tokens, one.domain};
        running_.push_back(std::move(twin));
      }
    } else if (what < 84) {
      lease();
    } else if (what < 97) {
      running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(random_() % running_.size()));
    } else if (what < 99) {
      leases_.clear();
    } else if (random_() % 8 == 0) {
      cache.manager.clear_prefixes();
    }
  }

  /// Empty if free, cached, used and retiring blocks are all, the tables' references are the pool's, and each block is
  /// in one state.
  std::string accounting() {
    const pagoda::block_stats stats = cache.manager.stats();
    if (stats.free + stats.cached + stats.used + stats.retiring != stats.total) return "the states are not the total";
    std::map<std::int32_t, int> holders;
    std::int64_t tokens = 0;
    for (const living& one : running_) {
      tokens += one.sequence.position();
      for (const std::int32_t block : table(cache.manager, one.sequence)) ++holders[block];
    }
    for (const leased& one : leases_) {
      tokens += one.match.tokens();
      for (const std::int32_t block : table(cache.manager, one.match.id())) ++holders[block];
    }
    const auto shared = std::count_if(holders.begin(), holders.end(), [](const auto& x) { return x.second > 1; });
    if (static_cast<std::int64_t>(holders.size()) != stats.used) return "used blocks are not those of the tables";
    if (shared != stats.shared) return "shared blocks are not those of two tables";
    if (tokens != stats.tokens) return "tokens are not those of the sequences";
    return faults(cache.manager);
  }

  /// Empty if every sequence and every lease reads what was computed for its own tokens in its own domain.
  std::string contents() {
    for (const living& one : running_) {
      if (one.sequence.position() != static_cast<std::int64_t>(one.tokens.size())) return "a position is wrong";
      if (cache.read(one.sequence) != contents_of(one.tokens, one.domain)) return "a sequence reads others' tokens";
    }
    for (const leased& one : leases_) {
      if (cache.read(one.match.id(), one.match.tokens()) != contents_of(one.tokens, one.domain)) {
        return "a lease reads others' tokens";
      }
    }
    return "";
  }

  paper_cache cache;
  bool gave_out_a_held_block = false;

 private:
  struct living {
    pagoda::sequence sequence;
    token_list tokens;
    std::size_t domain = 0;
  };
  struct leased {
    prefix_match match;
    token_list tokens;
    std::size_t domain = 0;
  };

  token_history history(const living& one) const { return {.tokens = one.tokens, .domain = &domains[one.domain]}; }

  token_list random_tokens(std::size_t most) {
    token_list tokens(random_() % (most + 1));
    for (std::int32_t& token : tokens) token = random_() % 12 == 0 ? 1 : 0;  // few, so that prompts have much in common
    return tokens;
  }

  void admit() {
    if (running_.size() + leases_.size() >= 11) return;
    const token_list prompt = random_tokens(20);
    const std::size_t domain = random_() % domains.size();
    const token_history wanted{.tokens = prompt, .domain = &domains[domain]};
    prefix_match hit = cache.manager.match(wanted, static_cast<std::int64_t>(random_() % (prompt.size() + 1)));
    living fresh{{}, prompt, domain};
    fresh.tokens.resize(static_cast<std::size_t>(hit.tokens()));
    fresh.sequence = cache.manager.make_sequence(std::move(hit));
    running_.push_back(std::move(fresh));
  }

  void lease() {
    if (running_.size() + leases_.size() >= 11 || leases_.size() > 2) return;
    leased one{cache.manager.match({}, 0), random_tokens(20), random_() % domains.size()};
    one.match = cache.manager.match({.tokens = one.tokens, .domain = &domains[one.domain]}, 20);
    one.tokens.resize(static_cast<std::size_t>(one.match.tokens()));
    leases_.push_back(std::move(one));
  }

  void append(living& one) {
    const token_list more = random_tokens(9);
    std::vector<std::int32_t> held;
    for (const living& other : running_) {
      for (const std::int32_t block : table(cache.manager, other.sequence)) held.push_back(block);
    }
    for (const leased& other : leases_) {
      for (const std::int32_t block : table(cache.manager, other.match.id())) held.push_back(block);
    }
    auto step = cache.manager.try_plan({{one.sequence, static_cast<std::int32_t>(more.size())}});
    if (!step) return;
    for (const std::int32_t block : numbers(step->new_blocks(0, 0))) {
      gave_out_a_held_block |= std::find(held.begin(), held.end(), block) != held.end();
    }
    if (random_() % 4 == 0) return;  // rolled back before its copies were made
    const token_list all = contents_of(one.tokens + more, one.domain);
    cache.execute(*step, {token_list(all.end() - static_cast<std::ptrdiff_t>(more.size()), all.end())});
    const auto kept = static_cast<std::int32_t>(random_() % (more.size() + 1));
    step->commit(std::array<std::int32_t, 1>{kept});
    one.tokens.insert(one.tokens.end(), more.begin(), more.begin() + kept);
  }

  std::mt19937 random_;
  std::vector<living> running_;
  std::vector<leased> leases_;
};

TEST_CASE_TEMPLATE(
    "property: after every call free + cached + used + retiring is the total, tables hold what the pool counts, no "
    "block "
    "is in two states, no evicted block was held, no token of another prefix or namespace is read",
    Policy, pagoda::lru, pagoda::fifo, pagoda::lfu, pagoda::priority) {
  for (const std::int32_t block_size : {1, 4, 8}) {
    CAPTURE(block_size);
    random_life life(block_size, static_cast<std::uint32_t>(block_size), pagoda::evict_by<Policy>);
    for (int i = 0; i < 1500; ++i) {
      CAPTURE(i);
      life.call();
      REQUIRE(life.accounting() == "");
      REQUIRE(life.contents() == "");
      REQUIRE_FALSE(life.gave_out_a_held_block);
    }
    const pagoda::manager_stats stats = life.cache.manager.snapshot();
    CHECK(stats.evictions > 20);
    CHECK(stats.hit_tokens > 100);
    CHECK(stats.copied_blocks > (block_size == 1 ? -1 : 20));
    CHECK(stats.failed_plans > 0);
    CHECK(stats.rollbacks > 20);
  }
}

/// Tables, counts and the order of the free list of a manager with two sequences.
template <class Check>
auto state_of(block_manager& manager, const sequence& a, const sequence& b, Check check) {
  check(faults(manager));
  return std::tuple(table(manager, a), table(manager, b), manager.snapshot().groups, free_list(manager));
}

TEST_CASE("property: a plan without a commit, and one that fails, leave the state identical, prefixes included") {
  const auto run = [](bool with_plans) {
    block_manager manager({.groups = {{.num_blocks = 16}}, .block_size = 4, .max_sequences = 8, .max_open_steps = 2});
    { const sequence ended = prefill(manager, rising(10)); }
    const sequence a = manager.make_sequence(manager.match({.tokens = rising(10)}, 6));
    const sequence b = manager.fork(a);
    if (with_plans) {
      {
        const step first = manager.plan({{a, 7}});  // a copy, and blocks; there are free ones enough
        step second = manager.plan({{b, 9}});
        (void)second.take_copies();
      }
      CHECK_FALSE(manager.try_plan({{a, 40}, {b, 40}}).has_value());
      CHECK_THROWS_AS((void)manager.plan({{a, 1}, {a, 1}}), pagoda::invalid_argument);
    }
    CHECK(found(manager, rising(10)) == 10);
    return state_of(manager, a, b, [](const std::string& fault) { CHECK(fault == ""); });
  };
  CHECK(run(true) == run(false));
}

TEST_CASE("property: truncate and append is the same as a fresh append, where blocks are published and shared, too") {
  for (std::int32_t cut = 0; cut <= 13; ++cut) {
    for (const bool published : {false, true}) {
      CAPTURE(cut);
      CAPTURE(published);
      paper_cache cache({.groups = {{.num_blocks = 16}}, .block_size = 4, .max_sequences = 8});
      const sequence a = cache.manager.make_sequence();
      cache.append(a, rising(13));
      if (published) cache.manager.publish(a, {.tokens = rising(13)});
      cache.manager.truncate(a, cut);
      cache.append(a, rising(7, 200));
      CHECK(cache.read(a) == rising(cut) + rising(7, 200));
      cache.manager.publish(a, {.tokens = rising(cut) + rising(7, 200)});
      const prefix_match again = cache.manager.match({.tokens = rising(cut) + rising(7, 200)}, 100);
      CHECK(again.tokens() == cut + 7);
      CHECK(cache.read(again.id(), cut + 7) == rising(cut) + rising(7, 200));
      if (!published) continue;
      const prefix_match old = cache.manager.match({.tokens = rising(13)}, 100);
      CHECK(old.tokens() == 13);
      CHECK(cache.read(old.id(), 13) == rising(13));
      CHECK(faults(cache.manager) == "");
    }
  }
}

TEST_CASE("property: fork and append on either side leaves the other, and what is published, identical") {
  for (std::int32_t length = 1; length <= 9; ++length) {
    for (const bool parent_first : {false, true}) {
      paper_cache cache({.groups = {{.num_blocks = 16}}, .block_size = 4, .max_sequences = 8});
      sequence a = cache.manager.make_sequence();
      cache.append(a, rising(length));
      cache.manager.publish(a, {.tokens = rising(length)});
      sequence b = cache.manager.fork(a);
      sequence& first = parent_first ? a : b;
      sequence& second = parent_first ? b : a;
      const ids before = table(cache.manager, second);
      cache.append(first, rising(5, 100));
      CHECK(table(cache.manager, second) == before);
      CHECK(cache.read(second) == rising(length));
      const ids of_first = table(cache.manager, first);
      cache.append(second, rising(6, 200));
      CHECK(table(cache.manager, first) == of_first);
      CHECK(cache.read(first) == rising(length) + rising(5, 100));
      CHECK(cache.read(second) == rising(length) + rising(6, 200));
      const prefix_match hit = cache.manager.match({.tokens = rising(length)}, length);
      CHECK(hit.tokens() == length);
      CHECK(cache.read(hit.id(), length) == rising(length));
    }
  }
}

TEST_CASE("property: the same calls give the same ids, tables and statistics") {
  const auto run = [] {
    random_life life(4, 99, pagoda::evict_by<pagoda::lfu>);
    std::vector<pagoda::block_stats> history;
    for (int i = 0; i < 600; ++i) {
      life.call();
      history.push_back(life.cache.manager.stats());
    }
    return std::pair(history, free_list(life.cache.manager));
  };
  CHECK(run() == run());
}

}  // namespace
