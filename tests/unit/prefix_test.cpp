// SPDX-License-Identifier: Apache-2.0
// Sharing by prefix: what match finds and publish enters, by cases made by hand.
#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <pagoda/block_manager.hpp>

#include "prefix_support.hpp"

namespace {

using namespace pagoda_test;
using pagoda::block_manager;
using pagoda::manager_config;
using pagoda::prefix_match;
using pagoda::sequence;
using pagoda::step;
using copies = std::vector<std::pair<std::int32_t, std::int32_t>>;

manager_config config_of(std::int32_t blocks = 12) {
  return {.groups = {{.num_blocks = blocks}}, .block_size = 4, .max_sequences = 8, .max_open_steps = 2};
}

TEST_CASE("match finds the longest published beginning, whole blocks and a part of the next") {
  block_manager manager(config_of());
  const sequence a = manager.make_sequence();
  grow(manager, a, 10);
  CHECK(found(manager, rising(10)) == 0);
  CHECK(manager.publish(a, {.tokens = rising(10)}) == 3);
  CHECK(found(manager, rising(10)) == 10);
  CHECK(found(manager, rising(30)) == 10);
  CHECK(found(manager, rising(9)) == 9);
  CHECK(found(manager, rising(8)) == 8);
  CHECK(found(manager, rising(8) + token_list{-5}) == 8);
  CHECK(found(manager, rising(9) + token_list{-5}) == 9);
  CHECK(found(manager, rising(6) + token_list{-5, -6, -7}) == 6);
  CHECK(found(manager, rising(4) + rising(4)) == 4);
  CHECK(found(manager, rising(1) + rising(9)) == 1);
  CHECK(found(manager, rising(10, 2)) == 0);
  CHECK(found(manager, token_list{}) == 0);
  CHECK(faults(manager) == "");
}

TEST_CASE("a match holds the blocks that it found, and at_most cuts it inside a block, too") {
  block_manager manager(config_of());
  const sequence a = prefill(manager, rising(10));
  const token_list tokens = rising(10);
  for (std::int64_t at_most = 0; at_most <= 12; ++at_most) {
    const prefix_match hit = manager.match({.tokens = tokens}, at_most);
    const std::int64_t expected = std::min<std::int64_t>(at_most, 10);
    CHECK(hit.tokens() == expected);
    ids blocks = table(manager, a);
    blocks.resize(static_cast<std::size_t>((expected + 3) / 4));
    CHECK(table(manager, hit.id()) == blocks);
    CHECK(manager.stats().shared == (expected + 3) / 4);
    CHECK(faults(manager) == "");
  }
  CHECK(manager.stats().shared == 0);
}

TEST_CASE("a sequence made from a match begins at the tokens found and writes into blocks of its own") {
  block_manager manager(config_of());
  const sequence a = prefill(manager, rising(8));
  const token_list tokens = rising(8) + token_list{20, 21};
  sequence b = manager.make_sequence(manager.match({.tokens = tokens}, 9));
  CHECK(b.position() == 8);
  CHECK(table(manager, b) == ids{0, 1});
  {
    step step = manager.plan({{b, 2}});
    CHECK(step.take_copies().empty());
    CHECK(numbers(step.new_blocks(0, 0)) == ids{2});
    CHECK(step.batch().context_length(0) == 10);
    step.commit();
  }
  CHECK(manager.publish(b, {.tokens = tokens}) == 1);
  b = sequence();
  CHECK(manager.stats().cached == 1);
  CHECK(manager.stats().used == 2);
  CHECK(found(manager, tokens) == 10);
  CHECK(table(manager, a) == ids{0, 1});
}

TEST_CASE("a part of a block is shared by copy-on-write, while its owner lives and after") {
  for (const bool owner_lives : {true, false}) {
    block_manager manager(config_of());
    sequence a = prefill(manager, rising(8));
    if (!owner_lives) a = sequence();
    const token_list other = rising(6) + token_list{90, 91};
    const sequence b = manager.make_sequence(manager.match({.tokens = other}, 8));
    CHECK(b.position() == 6);
    CHECK(table(manager, b) == ids{0, 1});
    step step = manager.plan({{b, 2}});
    CHECK(block_copies(step.take_copies()) == copies{{1, 2}});
    CHECK(table(manager, b) == ids{0, 2});
    step.commit();
    CHECK(manager.publish(b, {.tokens = other}) == 1);
    CHECK(found(manager, other) == 8);
    CHECK(found(manager, rising(8)) == 8);
    CHECK(manager.stats().cached == (owner_lives ? 0 : 1));
    CHECK(faults(manager) == "");
  }
}

TEST_CASE("the tail of a prompt is found, and its owner writes behind it without a copy") {
  block_manager manager(config_of());
  sequence a = prefill(manager, rising(6));
  {
    step step = manager.plan({{a, 1}});
    CHECK(step.take_copies().empty());
    CHECK(table(manager, a) == ids{0, 1});
    step.commit();
  }
  CHECK(found(manager, rising(7)) == 6);                  // the seventh token is not published
  CHECK(manager.publish(a, {.tokens = rising(7)}) == 1);  // the longer tail stands in for the shorter
  CHECK(found(manager, rising(7)) == 7);
  CHECK(manager.snapshot().stored == 3);
  grow(manager, a, 1);
  CHECK(manager.publish(a, {.tokens = rising(8)}) == 1);
  CHECK(found(manager, rising(8)) == 8);
  a = sequence();
  CHECK(manager.stats().cached == 2);
  CHECK(faults(manager) == "");
}

TEST_CASE("who matched a tail and its owner both go on: each has its own tokens behind it") {
  block_manager manager(config_of());
  const sequence a = prefill(manager, rising(6));
  const sequence b = manager.make_sequence(manager.match({.tokens = rising(6)}, 6));
  CHECK(table(manager, b) == ids{0, 1});
  step of_a = manager.plan({{a, 1}});
  CHECK(block_copies(of_a.take_copies()) == copies{{1, 2}});
  of_a.commit();
  step of_b = manager.plan({{b, 1}});
  CHECK(of_b.take_copies().empty());  // now it holds the block alone, and nothing behind token 6 is promised
  of_b.commit();
  CHECK(table(manager, a) == ids{0, 2});
  CHECK(table(manager, b) == ids{0, 1});
  CHECK(manager.publish(a, {.tokens = rising(6) + token_list{50}}) == 1);
  CHECK(manager.publish(b, {.tokens = rising(6) + token_list{60}}) == 1);
  CHECK(found(manager, rising(6) + token_list{50}) == 7);
  CHECK(found(manager, rising(6) + token_list{60}) == 7);
  CHECK(faults(manager) == "");
}

TEST_CASE("a fully cached prompt computes its last token only, in a copy of its block") {
  block_manager manager(config_of());
  sequence a = prefill(manager, rising(8));
  a = sequence();
  const sequence b = manager.make_sequence(manager.match({.tokens = rising(8)}, 7));
  CHECK(b.position() == 7);
  step step = manager.plan({{b, 1}});
  CHECK(block_copies(step.take_copies()) == copies{{1, 2}});
  CHECK(step.batch().total_new_tokens() == 1);
  step.commit();
  CHECK(manager.publish(b, {.tokens = rising(8)}) == 0);
  CHECK(manager.stats() == pagoda::block_stats{.total = 12, .free = 9, .cached = 1, .used = 2, .tokens = 8});
}

TEST_CASE("two requests that prefill one prompt at once keep their own blocks, and one of them is found") {
  block_manager manager(config_of());
  sequence a = manager.make_sequence(manager.match({.tokens = rising(9)}, 8));
  sequence b = manager.make_sequence(manager.match({.tokens = rising(9)}, 8));
  step step = manager.plan({{a, 9}, {b, 9}});
  step.commit();
  CHECK(manager.publish(a, {.tokens = rising(9)}) == 3);
  CHECK(manager.publish(b, {.tokens = rising(9)}) == 0);
  CHECK(table(manager, a) == ids{0, 1, 2});
  CHECK(table(manager, b) == ids{3, 4, 5});
  CHECK(table(manager, manager.match({.tokens = rising(9)}, 9).id()) == ids{0, 1, 2});
  SUBCASE("the twin goes on, and what it adds is found behind the other's blocks") {
    grow(manager, b, 3);
    CHECK(manager.publish(b, {.tokens = rising(12)}) == 1);
    CHECK(table(manager, b) == ids{3, 4, 5});
    CHECK(table(manager, manager.match({.tokens = rising(12)}, 12).id()) == ids{0, 1, 5});
  }
  SUBCASE("the duplicate is free at once when its sequence ends, the published one is cached") {
    b = sequence();
    CHECK(manager.stats().free == 9);
    a = sequence();
    CHECK(manager.stats().cached == 3);
  }
  SUBCASE("once the published ones are evicted, the duplicates are entered before what stands behind them") {
    grow(manager, b, 3);
    CHECK(manager.publish(b, {.tokens = rising(12)}) == 1);
    a = sequence();
    {
      const sequence c = manager.make_sequence();
      grow(manager, c, 9 * 4);
    }
    CHECK(found(manager, rising(12)) == 0);
    CHECK(manager.publish(b, {.tokens = rising(12)}) == 2);
    CHECK(table(manager, manager.match({.tokens = rising(12)}, 12).id()) == ids{3, 4, 5});
  }
  SUBCASE("once the published ones are evicted, the duplicates are entered") {
    a = sequence();
    {
      const sequence c = manager.make_sequence();
      grow(manager, c, 9 * 4);
      CHECK(manager.stats().cached == 0);
      CHECK(found(manager, rising(9)) == 0);
    }
    CHECK(manager.publish(b, {.tokens = rising(9)}) == 3);
    CHECK(table(manager, manager.match({.tokens = rising(9)}, 9).id()) == ids{3, 4, 5});
  }
  CHECK(faults(manager) == "");
}

TEST_CASE("publish may come late and twice, takes committed tokens only, and the history may go on") {
  block_manager manager(config_of());
  const sequence a = manager.make_sequence();
  grow(manager, a, 5);
  grow(manager, a, 2);
  CHECK(manager.publish_first(a, 5, {.tokens = rising(40)}) == 2);
  CHECK(found(manager, rising(40)) == 5);
  CHECK(manager.publish_first(a, 5, {.tokens = rising(40)}) == 0);
  CHECK(manager.publish_first(a, 2, {.tokens = rising(40)}) == 0);
  CHECK(manager.publish(a, {.tokens = rising(40)}) == 1);
  CHECK(manager.publish(a, {.tokens = rising(40)}) == 0);
  CHECK(found(manager, rising(40)) == 7);
  step step = manager.plan({{a, 5}});
  CHECK(manager.publish(a, {.tokens = rising(40)}) == 0);  // planned is not committed
  CHECK(found(manager, rising(40)) == 7);
  step.commit();
  CHECK(manager.publish(a, {.tokens = rising(40)}) == 2);
  CHECK(found(manager, rising(40)) == 12);
  CHECK(manager.publish_first(a, 0, {.tokens = rising(40)}) == 0);
  CHECK(faults(manager) == "");
}

TEST_CASE("a block that an open step is yet to copy is not published before its copies are taken") {
  block_manager manager(config_of());
  const sequence a = manager.make_sequence();
  grow(manager, a, 6);
  const sequence b = manager.fork(a);
  {
    step step = manager.plan({{b, 1}});
    CHECK(table(manager, b) == ids{0, 2});
    CHECK(manager.publish(b, {.tokens = rising(6)}) == 1);
    CHECK(found(manager, rising(6)) == 4);
    SUBCASE("rolled back without the copy") {}
    SUBCASE("taken") {
      CHECK(block_copies(step.take_copies()) == copies{{1, 2}});
      CHECK(manager.publish(b, {.tokens = rising(6)}) == 1);
      CHECK(table(manager, manager.match({.tokens = rising(6)}, 6).id()) == ids{0, 2});
    }
  }
  CHECK(table(manager, b) == ids{0, 1});
  manager.publish(b, {.tokens = rising(6)});
  CHECK(found(manager, rising(6)) == 6);
  CHECK(faults(manager) == "");
}

TEST_CASE("publish after a truncate: what was published stays, what comes instead is entered beside it") {
  block_manager manager(config_of());
  const sequence a = prefill(manager, rising(11));
  manager.truncate(a, 6);  // inside a published block
  const token_list other = rising(6) + rising(5, 70);
  {
    step step = manager.plan({{a, 5}});
    CHECK(block_copies(step.take_copies()).size() == 1);
    step.commit();
  }
  CHECK(manager.publish(a, {.tokens = other}) == 2);
  CHECK(found(manager, other) == 11);
  CHECK(found(manager, rising(11)) == 11);
  manager.truncate(a, 4);  // between blocks
  grow(manager, a, 4);
  CHECK(manager.publish(a, {.tokens = rising(4) + rising(4, 80)}) == 1);
  CHECK(found(manager, rising(4) + rising(4, 80)) == 8);
  manager.truncate(a, 0);
  grow(manager, a, 4);
  CHECK(manager.publish(a, {.tokens = rising(4, 200)}) == 1);
  CHECK(found(manager, rising(4, 200)) == 4);
  CHECK(faults(manager) == "");
}

TEST_CASE("publish behind a fork enters what each of the two has computed, and the common part once") {
  block_manager manager(config_of());
  const sequence a = manager.make_sequence();
  grow(manager, a, 8);
  const sequence b = manager.fork(a);
  grow(manager, a, 4);
  grow(manager, b, 4);
  CHECK(manager.publish(b, {.tokens = rising(8) + rising(4, 50)}) == 3);
  CHECK(manager.publish(a, {.tokens = rising(12)}) == 1);
  const sequence c = manager.fork(b);
  grow(manager, c, 1);
  CHECK(manager.publish(c, {.tokens = rising(8) + rising(4, 50) + token_list{7}}) == 1);
  CHECK(found(manager, rising(12)) == 12);
  CHECK(found(manager, rising(8) + rising(4, 50) + token_list{7}) == 13);
  CHECK(faults(manager) == "");
}

TEST_CASE("clear_prefixes forgets everything; what was computed before is not published again") {
  block_manager manager(config_of());
  sequence ended = prefill(manager, rising(8));
  ended = sequence();
  const sequence alive = prefill(manager, rising(8, 50));
  const sequence fresh = manager.make_sequence();
  prefix_match leased = manager.match({.tokens = rising(8)}, 5);
  CHECK(leased.tokens() == 5);
  manager.clear_prefixes();
  CHECK(manager.stats() ==
        pagoda::block_stats{.total = 12, .free = 8, .used = 4, .tokens = 13, .slack = 3});  // two of them leased
  CHECK(found(manager, rising(8)) == 0);
  CHECK(manager.publish(alive, {.tokens = rising(8, 50)}) == 0);
  const sequence child = manager.fork(alive);
  CHECK(manager.publish(child, {.tokens = rising(8, 50)}) == 0);
  const sequence from_lease = manager.make_sequence(std::move(leased));
  grow(manager, from_lease, 3);
  CHECK(manager.publish(from_lease, {.tokens = rising(8)}) == 0);
  grow(manager, fresh, 4);
  CHECK(manager.publish(fresh, {.tokens = rising(4)}) == 1);
  CHECK(found(manager, rising(8)) == 4);
  CHECK(faults(manager) == "");
}

TEST_CASE("ids do not depend on the hash seed") {
  const auto run = [](std::uint64_t seed, std::int32_t bits) {
    manager_config config = config_of(10);
    config.prefix_seed = seed;
    config.prefix_hash_bits = bits;
    block_manager manager(config);
    std::vector<ids> tables;
    for (std::int32_t i = 0; i < 60; ++i) {
      const token_list tokens = rising(3 + i % 5, 10 * (i % 3)) + rising(i % 11, 100 * (i % 2)) + token_list{i};
      const sequence seq = prefill(manager, tokens);
      tables.push_back(table(manager, seq));
    }
    tables.push_back(ids{static_cast<std::int32_t>(manager.snapshot().hit_tokens)});
    return tables;
  };
  const std::vector<ids> expected = run(0, 64);
  CHECK(expected.back()[0] > 100);
  CHECK(run(0x123456789abcdef, 64) == expected);
  CHECK(run(77, 64) == expected);
  CHECK(run(0, 3) == expected);
  CHECK(run(1, 0) == expected);
}

TEST_CASE("what is wrong with a history or an argument is named, and nothing changes") {
  block_manager manager(config_of());
  const sequence a = prefill(manager, rising(8));
  const auto before = manager.snapshot().stored;
  CHECK(contains_all(message_of([&] { manager.publish(a, {.tokens = rising(6)}); }),
                     {"history has 6 tokens", "sequence has 8", "pass all tokens"}));
  CHECK(contains_all(message_of([&] { manager.publish_first(a, 9, {.tokens = rising(12)}); }),
                     {"tokens to publish is 9", "between 0 and 8", "committed"}));
  CHECK(contains_all(message_of([&] { manager.publish_first(a, -1, {.tokens = rising(12)}); }),
                     {"tokens to publish is -1", "between 0 and"}));
  CHECK(contains_all(message_of([&] { (void)manager.match({.tokens = rising(4)}, -1); }),
                     {"at_most is -1", "between 0 and", "pass how many"}));
  grow(manager, a, 4);
  CHECK(contains_all(message_of([&] { manager.publish(a, {.tokens = rising(4) + rising(8, 60)}); }),
                     {"does not go on where", "at token 8", "computed from"}));
  CHECK_THROWS_AS(manager.publish(a, {.tokens = rising(6)}), pagoda::invalid_argument);
  CHECK_THROWS_AS(manager.publish({}, {.tokens = rising(12)}), pagoda::invalid_argument);
  CHECK(manager.snapshot().stored == before);
  CHECK(found(manager, rising(12)) == 8);
  CHECK(manager.publish(a, {.tokens = rising(12)}) == 1);
  CHECK(faults(manager) == "");
}

TEST_CASE("a match is used once, by its own manager, and counts as a sequence") {
  manager_config config = config_of();
  config.max_sequences = 2;
  block_manager manager(config);
  block_manager other(config);
  const sequence a = prefill(manager, rising(8));
  prefix_match hit = manager.match({.tokens = rising(8)}, 8);
  CHECK(manager.snapshot().sequences == 2);
  CHECK_THROWS_AS((void)manager.match({.tokens = rising(8)}, 8), pagoda::capacity_exceeded);
  CHECK(manager.snapshot().matches == 1 + 1);
  CHECK_THROWS_AS((void)other.make_sequence(std::move(hit)), pagoda::invalid_argument);
  CHECK(hit.tokens() == 8);
  const sequence b = manager.make_sequence(std::move(hit));
  CHECK_THROWS_AS((void)manager.make_sequence(std::move(hit)), pagoda::logic_error);
  CHECK_THROWS_AS((void)hit.tokens(), pagoda::logic_error);
  CHECK(faults(manager) == "");
}

TEST_CASE("a hit that ends inside a block needs a block for its copy; cut to whole blocks it needs none") {
  block_manager manager(config_of(2));
  {
    const sequence a = manager.make_sequence();
    grow(manager, a, 8);
    manager.publish(a, {.tokens = rising(8)});
  }
  const sequence b = manager.make_sequence(manager.match({.tokens = rising(8)}, 7));
  CHECK(b.position() == 7);
  CHECK(manager.growable(b, 1) == 0);
  pagoda::shortage why;
  CHECK_FALSE(manager.try_plan({{b, 1}}, &why).has_value());
  CHECK(why.needed == 1);
  manager.truncate(b, 4);
  CHECK(manager.growable(b, 8) == 4);
  grow(manager, b, 4);
  CHECK(b.position() == 8);
  CHECK(faults(manager) == "");
}

TEST_CASE("a match that was used says so") {
  block_manager manager(config_of());
  prefix_match match = manager.match({.tokens = rising(4)}, 4);
  CHECK(match.tokens() == 0);
  const sequence a = manager.make_sequence(std::move(match));
  CHECK_THROWS_WITH_AS((void)match.tokens(), doctest::Contains("used already or moved from"), pagoda::logic_error);
}

}  // namespace
