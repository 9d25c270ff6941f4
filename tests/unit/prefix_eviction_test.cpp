// SPDX-License-Identifier: Apache-2.0
// Which cached blocks a manager gives up first, under each policy, and which it never gives up.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <pagoda/block_manager.hpp>
#include <pagoda/eviction/built_in.hpp>

#include "prefix_support.hpp"

namespace {

using namespace pagoda_test;
using pagoda::block_manager;
using pagoda::evict_by;
using pagoda::manager_config;
using pagoda::prefix_match;
using pagoda::sequence;
using pagoda::shortage;
using pagoda::step;

manager_config config_of(std::int32_t blocks = 6) {
  return {.groups = {{.num_blocks = blocks}}, .block_size = 4, .max_sequences = 8, .max_open_steps = 2};
}

const token_list a_tokens = rising(8, 100);
const token_list b_tokens = rising(8, 200);
const token_list c_tokens = rising(8, 300);

/// Prompts of two blocks each, computed and cached in this order: blocks 0, 1, then 2, 3, then 4, 5.
void cache_three(block_manager& manager) {
  for (const token_list& tokens : {a_tokens, b_tokens, c_tokens}) prefill(manager, tokens).position();
}

void use(block_manager& manager, const token_list& tokens) {
  CHECK(found(manager, tokens) == 8);
}

/// Takes so many blocks for a moment; returns them in the order in which they were given out.
ids take(block_manager& manager, std::int32_t blocks) {
  const sequence filler = manager.make_sequence();
  const step step = manager.plan({{filler, 4 * blocks}});
  return numbers(step.new_blocks(0, 0));
}

std::vector<std::int64_t> found_of_three(block_manager& manager) {
  return {found(manager, a_tokens), found(manager, b_tokens), found(manager, c_tokens)};
}

using lengths = std::vector<std::int64_t>;

TEST_CASE("lru: what was given back longest ago goes first, a prompt's tail before its beginning") {
  block_manager manager(config_of());
  CHECK(manager.eviction() == "lru");
  cache_three(manager);
  CHECK(manager.stats() == pagoda::block_stats{.total = 6, .cached = 6});
  use(manager, a_tokens);
  CHECK(take(manager, 3) == ids{5, 2, 3});  // 3, 2, 5 in this order; the last one freed lies on top
  CHECK(found_of_three(manager) == lengths{8, 0, 4});
  CHECK(faults(manager) == "");
}

TEST_CASE("fifo: what was entered first goes first, however often it is used") {
  block_manager manager(config_of(), evict_by<pagoda::fifo>);
  CHECK(manager.eviction() == "fifo");
  cache_three(manager);
  use(manager, a_tokens);
  CHECK(take(manager, 3) == ids{2, 1, 0});
  CHECK(found_of_three(manager) == lengths{0, 0, 8});  // block 3 is cached, but nothing leads to it
  CHECK(manager.stats().cached == 3);
  CHECK(faults(manager) == "");
}

TEST_CASE("lfu: what was hit least goes first, and old fame fades") {
  block_manager manager(config_of(), evict_by<pagoda::lfu>);
  cache_three(manager);
  for (int i = 0; i < 4; ++i) use(manager, a_tokens);
  use(manager, c_tokens);
  CHECK(take(manager, 3) == ids{5, 2, 3});
  CHECK(found(manager, b_tokens) == 0);
  CHECK(found(manager, c_tokens) == 4);
  int rounds = 0;
  for (; rounds < 50 && manager.advise({.tokens = a_tokens}, {}) == 8; ++rounds) {  // asks without a hit
    prefill(manager, rising(12, 1000 + 100 * rounds)).position();
  }
  CHECK(rounds > 1);
  CHECK(rounds < 10);
  CHECK(faults(manager) == "");
}

TEST_CASE("priority: advice decides, then age; what expires goes first") {
  block_manager manager(config_of(), evict_by<pagoda::priority>);
  prefill(manager, a_tokens, {.priority = 10, .expires = pagoda::never_expires}).position();
  prefill(manager, b_tokens, {.priority = 90, .expires = 100}).position();
  prefill(manager, c_tokens).position();
  SUBCASE("the lowest first") {
    CHECK(take(manager, 3) == ids{5, 0, 1});
    CHECK(found_of_three(manager) == lengths{0, 8, 4});
  }
  SUBCASE("before its expiry a priority holds, from it on it is 0") {
    manager.advance(99);
    CHECK(take(manager, 1) == ids{1});
    manager.advance(100);
    CHECK(take(manager, 2) == ids{3, 1});  // block 1 is free already
    CHECK(found_of_three(manager) == lengths{4, 4, 8});
  }
  SUBCASE("demoted") {
    CHECK(manager.advise({.tokens = c_tokens}, {.priority = 0}) == 8);
    CHECK(take(manager, 2) == ids{4, 5});
  }
  SUBCASE("advice is about what is known of a history") {
    CHECK(manager.advise({.tokens = rising(4, 100) + token_list{-1}}, {.priority = 100}) == 4);
    CHECK(take(manager, 1) == ids{1});
    CHECK(take(manager, 3) == ids{4, 5, 1});  // not block 0, which is worth most now
    CHECK(found(manager, a_tokens) == 4);
  }
  CHECK(faults(manager) == "");
}

TEST_CASE("advice for a continuation raises what it stands on, and never lowers it") {
  block_manager manager(config_of(), evict_by<pagoda::priority>);
  {
    const sequence a = prefill(manager, a_tokens, {.priority = 20});
    const sequence b = prefill(manager, b_tokens, {.priority = 60});
    grow(manager, a, 4);
    CHECK(manager.publish(a, {.tokens = rising(12, 100)}, {.priority = 80}) == 1);
    grow(manager, b, 4);
    CHECK(manager.publish(b, {.tokens = rising(12, 200)}, {.priority = 10}) == 1);
  }
  // b: 60, 60, 10; a: 80, 80, 80.
  CHECK(take(manager, 1).size() == 1);
  CHECK(found(manager, rising(12, 200)) == 8);
  CHECK(take(manager, 3).size() == 3);
  CHECK(found(manager, rising(12, 200)) == 0);
  CHECK(found(manager, rising(12, 100)) == 12);
  CHECK(faults(manager) == "");
}

TEST_CASE_TEMPLATE("pins hold under every policy, until they are taken back", Policy, pagoda::lru, pagoda::fifo,
                   pagoda::lfu, pagoda::priority) {
  block_manager manager(config_of(), evict_by<Policy>);
  prefill(manager, a_tokens, {.pinned = true}).position();
  prefill(manager, b_tokens).position();
  prefill(manager, c_tokens).position();
  CHECK(manager.stats() == pagoda::block_stats{.total = 6, .cached = 6, .pinned = 2});
  shortage why;
  const sequence filler = manager.make_sequence();
  CHECK_FALSE(manager.try_plan({{filler, 17}}, &why).has_value());
  CHECK(why.needed == 5);
  CHECK(why.free == 0);
  CHECK(why.evictable == 4);
  CHECK(manager.growable(filler, 100) == 16);
  CHECK(found_of_three(manager) == lengths{8, 8, 8});  // the plan that failed evicted nothing
  take(manager, 4);
  CHECK(found_of_three(manager) == lengths{8, 0, 0});
  CHECK(manager.stats() == pagoda::block_stats{.total = 6, .free = 4, .cached = 2, .pinned = 2});
  CHECK(manager.advise({.tokens = a_tokens}, {}) == 8);
  CHECK(manager.stats().pinned == 0);
  CHECK(take(manager, 6).size() == 6);
  CHECK(found(manager, a_tokens) == 0);
  CHECK(faults(manager) == "");
}

TEST_CASE("a pin can be given while the blocks are held, and holds when they are given back") {
  block_manager manager(config_of());
  sequence a = prefill(manager, a_tokens);
  CHECK(manager.advise({.tokens = a_tokens}, {.pinned = true}) == 8);
  CHECK(manager.stats().pinned == 0);  // of the cached ones
  a = sequence();
  CHECK(manager.stats().pinned == 2);
  CHECK(take(manager, 4).size() == 4);
  CHECK(found(manager, a_tokens) == 8);
  manager.clear_prefixes();
  CHECK(manager.stats() == pagoda::block_stats{.total = 6, .free = 6});
  CHECK(faults(manager) == "");
}

TEST_CASE("never: cached blocks go only when the prefixes are cleared") {
  block_manager manager(config_of(), evict_by<pagoda::never>);
  cache_three(manager);
  const sequence seq = manager.make_sequence();
  CHECK(manager.growable(seq, 1) == 0);
  CHECK_THROWS_AS((void)manager.plan({{seq, 1}}), pagoda::out_of_blocks);
  manager.clear_prefixes();
  CHECK(manager.growable(seq, 100) == 24);
  CHECK(faults(manager) == "");
}

TEST_CASE("advice out of range and a time that falls are refused") {
  block_manager manager(config_of());
  const sequence a = prefill(manager, a_tokens);
  const auto advise = [&](const pagoda::block_advice& advice) {
    return message_of([&] { manager.advise({.tokens = a_tokens}, advice); });
  };
  CHECK(contains_all(advise({.priority = 101}), {"priority is 101", "between 0 and 100"}));
  CHECK(contains_all(advise({.priority = -1}), {"priority is -1", "between 0 and 100"}));
  CHECK(contains_all(advise({.expires = -1}), {"expires is -1", "logical time"}));
  CHECK_THROWS_AS(manager.publish(a, {.tokens = a_tokens}, {.priority = 101}), pagoda::invalid_argument);
  manager.advance(7);
  manager.advance(7);
  CHECK(contains_all(message_of([&] { manager.advance(6); }), {"logical time is 6", "between 7 and", "never falls"}));
  CHECK(faults(manager) == "");
}

TEST_CASE("lease: what a match holds is not evicted, however scarce blocks are") {
  block_manager manager(config_of());
  cache_three(manager);
  {
    const prefix_match lease = manager.match({.tokens = b_tokens}, 5);
    CHECK(table(manager, lease.id()) == ids{2, 3});
    for (int round = 0; round < 20; ++round) {
      const sequence filler = manager.make_sequence();
      CHECK(manager.growable(filler, 100) == 16);
      CHECK_FALSE(manager.try_plan({{filler, 17}}).has_value());
      const step step = manager.plan({{filler, 16}});
      for (const std::int32_t block : numbers(step.new_blocks(0, 0))) CHECK((block != 2 && block != 3));
    }
    CHECK(found_of_three(manager) == lengths{0, 8, 0});
  }
  CHECK(take(manager, 6).size() == 6);
  CHECK(found_of_three(manager) == lengths{0, 0, 0});
  CHECK(faults(manager) == "");
}

TEST_CASE("on completion: a cached block is not reused before its ticket, but found at once") {
  manager_config config = config_of();
  config.reuse = pagoda::reuse_rule::on_completion;
  block_manager manager(config);
  sequence a = manager.make_sequence();
  step work = manager.plan({{a, 8}});
  const pagoda::ticket ticket = work.issued();
  work.commit();
  CHECK(manager.publish(a, {.tokens = a_tokens}) == 2);
  a = sequence();
  CHECK(manager.stats() == pagoda::block_stats{.total = 6, .free = 4, .retiring = 2});
  const sequence b = manager.make_sequence();
  shortage why;
  CHECK_FALSE(manager.try_plan({{b, 17}}, &why).has_value());
  CHECK(why.free == 4);
  CHECK(why.evictable == 0);
  CHECK(why.retiring == 2);
  CHECK(manager.growable(b, 100) == 16);
  {
    const prefix_match hit = manager.match({.tokens = a_tokens}, 8);
    CHECK(hit.tokens() == 8);
    CHECK(table(manager, hit.id()) == ids{0, 1});
    CHECK(manager.stats() == pagoda::block_stats{.total = 6, .free = 4, .used = 2, .tokens = 8});
  }
  CHECK(manager.stats().retiring == 2);
  manager.complete(ticket);
  CHECK(manager.stats() == pagoda::block_stats{.total = 6, .free = 4, .cached = 2});
  CHECK(found(manager, a_tokens) == 8);
  CHECK(manager.growable(b, 100) == 24);
  grow(manager, b, 24);
  CHECK(manager.snapshot().evictions == 2);
  CHECK(faults(manager) == "");
}

TEST_CASE("on completion: clearing the prefixes leaves retiring blocks to their ticket") {
  manager_config config = config_of();
  config.reuse = pagoda::reuse_rule::on_completion;
  block_manager manager(config);
  sequence a = prefill(manager, a_tokens);
  a = sequence();
  manager.clear_prefixes();
  CHECK(manager.stats() == pagoda::block_stats{.total = 6, .free = 4, .retiring = 2});
  CHECK(found(manager, a_tokens) == 0);
  manager.complete(pagoda::ticket{1});
  CHECK(manager.stats() == pagoda::block_stats{.total = 6, .free = 6});
}

TEST_CASE("growable: a plan of so many tokens fits, and of one more does not") {
  for (const std::int32_t cut : {0, 1, 3, 4, 5, 6, 8}) {
    for (std::int32_t filled = 0; filled <= 6; ++filled) {
      for (const bool shared : {false, true}) {
        CAPTURE(cut);
        CAPTURE(filled);
        CAPTURE(shared);
        block_manager manager(config_of(9));
        sequence a = prefill(manager, a_tokens);
        if (!shared) a = sequence();
        const sequence b = manager.make_sequence(manager.match({.tokens = a_tokens}, cut));
        const sequence filler = manager.make_sequence();
        if (filled > 0) grow(manager, filler, 4 * filled);
        const std::int64_t most = manager.growable(b, 1000);
        CHECK(manager.growable(b, most) == most);
        CHECK(manager.growable(b, 0) == 0);
        if (most > 0) CHECK(manager.growable(b, most - 1) == most - 1);
        REQUIRE(manager.try_plan({{b, static_cast<std::int32_t>(most)}}).has_value());
        REQUIRE_FALSE(manager.try_plan({{b, static_cast<std::int32_t>(most) + 1}}).has_value());
      }
    }
  }
}

TEST_CASE("growable: stops at the table's end, in the poorest group, and refuses what is wrong") {
  block_manager manager({.groups = {{.num_blocks = 20, .layers = {0}}, {.num_blocks = 3, .layers = {1}}},
                         .block_size = 4,
                         .max_sequences = 4});
  const sequence a = manager.make_sequence();
  CHECK(manager.growable(a, 100) == 12);
  CHECK(manager.growable(a, 7) == 7);
  block_manager narrow({.groups = {{.num_blocks = 20}}, .block_size = 4, .max_sequences = 4, .max_resident_tokens = 8});
  const sequence b = narrow.make_sequence();
  const std::int64_t most = narrow.growable(b, 100);
  CHECK(narrow.try_plan({{b, static_cast<std::int32_t>(most)}}).has_value());
  CHECK_FALSE(narrow.try_plan({{b, static_cast<std::int32_t>(most) + 1}}).has_value());
  CHECK_THROWS_AS((void)manager.growable({}, 1), pagoda::invalid_argument);
  CHECK_THROWS_AS((void)manager.growable(a, -1), pagoda::invalid_argument);
  const step open = manager.plan({{a, 1}});
  CHECK_THROWS_AS((void)manager.growable(a, 1), pagoda::logic_error);
}

TEST_CASE("exclusive_blocks: those that a sequence's end would give back") {
  block_manager manager(config_of(9));
  sequence a = prefill(manager, a_tokens);
  grow(manager, a, 3);
  CHECK(manager.exclusive_blocks(a) == 3);
  const sequence b = manager.make_sequence(manager.match({.tokens = a_tokens}, 4));
  CHECK(manager.exclusive_blocks(a) == 2);
  CHECK(manager.exclusive_blocks(b) == 0);
  grow(manager, b, 1);
  CHECK(manager.exclusive_blocks(b) == 1);
  const sequence c = manager.fork(a);
  CHECK(manager.exclusive_blocks(a) == 0);
  const auto before = manager.stats().free + manager.stats().cached;
  const auto exclusive = manager.exclusive_blocks(a);
  a = sequence();
  CHECK(manager.stats().free + manager.stats().cached == before + exclusive);
  CHECK(manager.exclusive_blocks(c) == 2);
  CHECK_THROWS_AS((void)manager.exclusive_blocks(c, 1), pagoda::out_of_range);
  CHECK_THROWS_AS((void)manager.exclusive_blocks({}), pagoda::invalid_argument);
}

/// Names block 0 whenever it is asked, whoever holds it.
class liar {
 public:
  static constexpr std::string_view name = "liar";

  explicit liar(std::int32_t) {}

  void insert(const pagoda::cached_block&) noexcept {}
  void erase(pagoda::block_id) noexcept {}
  pagoda::block_id evict() noexcept { return pagoda::block_id{0}; }
  std::int32_t size() const noexcept { return 1; }
};

TEST_CASE("a policy that names a pinned block, or one in use, makes a plan fail and takes nothing") {
  for (const bool held : {false, true}) {
    CAPTURE(held);
    block_manager manager({.groups = {{.num_blocks = 2}}, .block_size = 4, .max_sequences = 4}, pagoda::evict_by<liar>);
    sequence first = manager.make_sequence();
    grow(manager, first, 4);
    CHECK(table(manager, first) == ids{0});
    CHECK(manager.publish(first, {.tokens = rising(4)}, {.pinned = true}) == 1);
    if (!held) first = sequence();
    const sequence other = manager.make_sequence();
    CHECK_FALSE(manager.try_plan({{other, 8}}).has_value());
    CHECK(manager.stats().pinned == (held ? 0 : 1));
    CHECK(manager.snapshot().evictions == 0);
    CHECK(found(manager, rising(4)) == 4);
  }
}

}  // namespace
