// SPDX-License-Identifier: Apache-2.0
// What a manager tells about its prefixes: events for routers, and the numbers of snapshot().
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <pagoda/block_manager.hpp>

#include "prefix_support.hpp"

namespace {

using namespace pagoda_test;
using pagoda::block_id;
using pagoda::block_manager;
using pagoda::log2_histogram;
using pagoda::manager_config;
using pagoda::manager_stats;
using pagoda::prefix_event;
using pagoda::sequence;
using pagoda::step;
using events = std::vector<prefix_event>;
using kind = prefix_event::kind;

constexpr std::uint64_t seed = 0xfeedface;

manager_config config_of(std::int32_t blocks, std::int32_t max_events) {
  return {.groups = {{.num_blocks = blocks}},
          .block_size = 4,
          .max_sequences = 8,
          .prefix_seed = seed,
          .max_events = max_events};
}

events take_all(block_manager& manager) {
  events all(64);
  all.resize(manager.take_events(all));
  return all;
}

std::vector<std::uint64_t> hashes_of(const pagoda::token_history& history) {
  std::vector<std::uint64_t> hashes(history.tokens.size() / 4);
  pagoda::prefix_hashes(history, 4, seed, hashes);
  return hashes;
}

prefix_event event(kind what, std::int32_t block, std::int32_t depth, const std::vector<std::uint64_t>& hashes,
                   std::int32_t group = 0) {
  const auto i = static_cast<std::size_t>(depth);
  return {.what = what,
          .group = group,
          .block = block_id{block},
          .depth = depth,
          .hash = hashes[i],
          .parent_hash = depth == 0 ? seed : hashes[i - 1]};
}

TEST_CASE("events: stored and removed full blocks in order, under the hashes of prefix_hashes") {
  block_manager manager(config_of(4, 16));
  const token_list tokens = rising(10);
  const auto hashes = hashes_of({.tokens = tokens});
  { const sequence a = prefill(manager, tokens); }  // the tail of two tokens is no event
  CHECK(take_all(manager) == events{event(kind::stored, 0, 0, hashes), event(kind::stored, 1, 1, hashes)});
  CHECK(take_all(manager).empty());
  {
    const sequence b = manager.make_sequence();
    grow(manager, b, 12);  // one free block, the tail, and block 1
  }
  CHECK(take_all(manager) == events{event(kind::removed, 1, 1, hashes)});
  { const sequence c = prefill(manager, tokens); }
  const events again = take_all(manager);
  REQUIRE(again.size() == 1);
  CHECK(again[0].what == kind::stored);
  CHECK(again[0].hash == hashes[1]);
  manager.clear_prefixes();
  CHECK(take_all(manager) == events{{.what = kind::cleared}});
}

TEST_CASE("events: of a domain and of tags, too") {
  block_manager manager(config_of(8, 16));
  const token_list tokens = rising(8);
  const auto acme = pagoda::key_domain().add("tenant", "acme");
  const std::array<pagoda::content_tag, 1> tags{{{.begin = 5, .end = 8, .fingerprint = {std::byte{9}}}}};
  const pagoda::token_history history{.tokens = tokens, .tags = tags, .domain = &acme};
  const auto hashes = hashes_of(history);
  CHECK(hashes != hashes_of({.tokens = tokens}));
  const sequence a = prefill(manager, history);
  CHECK(take_all(manager) == events{event(kind::stored, 0, 0, hashes), event(kind::stored, 1, 1, hashes)});
}

TEST_CASE("events: duplicates and what is published already are none; a tail that fills up is one") {
  block_manager manager(config_of(8, 16));
  const auto hashes = hashes_of({.tokens = rising(8)});
  const sequence a = prefill(manager, rising(6));
  const sequence b = manager.make_sequence();
  grow(manager, b, 6);
  manager.publish(b, {.tokens = rising(6)});
  CHECK(take_all(manager) == events{event(kind::stored, 0, 0, hashes)});
  grow(manager, a, 2);
  manager.publish(a, {.tokens = rising(8)});
  manager.publish(a, {.tokens = rising(8)});
  CHECK(take_all(manager) == events{event(kind::stored, 1, 1, hashes)});
}

TEST_CASE("events: each group tells its own, and a sequence of them gives what is cached") {
  block_manager manager(
      {.groups = {{.num_blocks = 12, .layers = {0}}, {.num_blocks = 6, .keep = {.window = 6}, .layers = {1}}},
       .block_size = 4,
       .max_sequences = 8,
       .prefix_seed = seed,
       .max_events = 1000});
  std::vector<std::vector<std::uint64_t>> known(2);  // by group and block; 0: nothing
  known[0].resize(12);
  known[1].resize(6);
  for (std::int32_t round = 0; round < 40; ++round) {
    {
      const sequence a = manager.make_sequence();
      const token_list tokens = rising(4 + 4 * (round % 5), 100 * (round % 7));
      for (std::size_t t = 0; t < tokens.size(); t += 4) {
        grow(manager, a, 4);
        manager.publish(a, {.tokens = tokens});
      }
    }
    for (const prefix_event& e : take_all(manager)) {
      REQUIRE(e.what != kind::lost);
      std::uint64_t& held = known[static_cast<std::size_t>(e.group)][static_cast<std::size_t>(e.block)];
      REQUIRE(held == (e.what == kind::stored ? 0 : e.hash));
      held = e.what == kind::stored ? e.hash : 0;
    }
    for (int g = 0; g < 2; ++g) {
      std::int64_t count = 0;
      for (const std::uint64_t hash : known[static_cast<std::size_t>(g)]) count += hash != 0 ? 1 : 0;
      REQUIRE(count == manager.stats(g).cached);
    }
  }
  CHECK(manager.snapshot().evictions > 0);
}

TEST_CASE("events: what nobody takes in time is lost, and a marker says so once") {
  block_manager manager(config_of(20, 3));
  const auto hashes = hashes_of({.tokens = rising(20)});
  const sequence a = prefill(manager, rising(20));  // five events
  std::array<prefix_event, 2> two{};
  CHECK(manager.take_events(std::span<prefix_event>()) == 0);
  CHECK(manager.take_events(two) == 2);
  CHECK(two[0] == prefix_event{.what = kind::lost});
  CHECK(two[1] == event(kind::stored, 2, 2, hashes));
  CHECK(manager.take_events(two) == 2);
  CHECK(two[0] == event(kind::stored, 3, 3, hashes));
  CHECK(two[1] == event(kind::stored, 4, 4, hashes));
  CHECK(manager.take_events(two) == 0);
  block_manager silent(config_of(20, 0));
  const sequence b = prefill(silent, rising(20));
  CHECK(silent.take_events(two) == 0);
}

TEST_CASE("snapshot: every number of a short life") {
  manager_config config = config_of(6, 0);
  config.groups[0].block_bytes = 1000;
  config.max_open_steps = 2;
  block_manager manager(config);
  manager_stats expected;
  expected.groups.push_back({.total = 6, .free = 6});
  const auto same = [&] {
    const manager_stats now = manager.snapshot();
    CHECK(now.groups == expected.groups);
    CHECK(now.sequences == expected.sequences);
    CHECK(now.open_steps == expected.open_steps);
    CHECK(now.plans == expected.plans);
    CHECK(now.failed_plans == expected.failed_plans);
    CHECK(now.rollbacks == expected.rollbacks);
    CHECK(now.matches == expected.matches);
    CHECK(now.asked_tokens == expected.asked_tokens);
    CHECK(now.hit_tokens == expected.hit_tokens);
    CHECK(now.lookups == expected.lookups);
    CHECK(now.hits == expected.hits);
    CHECK(now.stored == expected.stored);
    CHECK(now.evictions == expected.evictions);
    CHECK(now.copied_blocks == expected.copied_blocks);
    CHECK(now.copied_rows == expected.copied_rows);
    CHECK(now.copied_bytes == expected.copied_bytes);
  };
  same();
  sequence a = prefill(manager, rising(6));  // asks for 5 tokens in 2 blocks
  expected.groups[0] = {.total = 6, .free = 4, .used = 2, .tokens = 6, .slack = 2};
  expected.sequences = 1;
  expected.plans = 1;
  expected.matches = 1;
  expected.asked_tokens = 5;
  expected.lookups = 2;
  expected.stored = 2;
  same();
  sequence b = manager.make_sequence(manager.match({.tokens = rising(30)}, 29));  // 8 blocks; 2 of them hit
  expected.groups[0] = {.total = 6, .free = 4, .used = 2, .shared = 2, .tokens = 12, .slack = 4};
  expected.sequences = 2;
  expected.matches = 2;
  expected.asked_tokens += 29;
  expected.lookups += 8;
  expected.hit_tokens = 6;
  expected.hits = 2;
  same();
  {
    step open = manager.plan({{b, 3}});  // a copy of the tail, and one block
    // The tail is still held twice: by a, and for the copy.
    expected.groups[0] = {.total = 6, .free = 2, .used = 4, .shared = 2, .tokens = 12, .slack = 8};
    expected.open_steps = 1;
    expected.plans = 2;
    same();
    (void)open.take_copies();
    expected.copied_blocks = 1;
    expected.copied_bytes = 1000;
    same();
  }
  expected.groups[0] = {.total = 6, .free = 4, .used = 2, .shared = 2, .tokens = 12, .slack = 4};
  expected.open_steps = 0;
  expected.rollbacks = 1;
  same();
  CHECK_FALSE(manager.try_plan({{b, 30}}).has_value());
  CHECK_THROWS_AS((void)manager.plan({{b, 1}, {b, 1}}), pagoda::invalid_argument);  // no want of blocks
  expected.failed_plans = 1;
  same();
  a = sequence();
  {
    step tree = manager.plan({{b, 4}});
    const std::array<std::int32_t, 2> path{1, 3};
    const std::array<std::int32_t, 2> offsets{0, 2};
    CHECK(tree.take_copies().empty());  // it holds the tail alone
    CHECK(tree.commit_paths({path, offsets}).rows().size() == 2);
  }
  expected.plans = 3;
  expected.sequences = 1;
  expected.copied_rows = 2;
  expected.copied_bytes += 2 * 250;
  expected.groups[0] = {.total = 6, .free = 4, .used = 2, .tokens = 8};
  same();
  b = sequence();  // its tail's block was published with 2 of its 4 tokens
  expected.sequences = 0;
  expected.groups[0] = {.total = 6, .free = 4, .cached = 2};
  same();
  const sequence c = manager.make_sequence();
  grow(manager, c, 20);
  expected.sequences = 1;
  expected.plans = 4;
  expected.evictions = 1;
  expected.groups[0] = {.total = 6, .free = 0, .cached = 1, .used = 5, .tokens = 20};
  same();
}

TEST_CASE("eviction ages are lookups since the last use") {
  block_manager manager(config_of(3, 0));
  { const sequence a = prefill(manager, rising(8)); }  // stored at lookup 2
  CHECK(found(manager, rising(4)) == 4);               // block 0 used at lookup 3
  CHECK(found(manager, rising(40, 500)) == 0);         // ten lookups
  const sequence b = manager.make_sequence();
  grow(manager, b, 12);
  log2_histogram expected;
  expected.add(11);  // block 1
  expected.add(10);  // block 0
  CHECK(manager.snapshot().eviction_ages == expected);
}

TEST_CASE("reuse distances are the different blocks used in between, counted on request only") {
  for (const bool track : {false, true}) {
    manager_config config = config_of(16, 0);
    config.track_reuse = track;
    block_manager manager(config);
    log2_histogram expected;
    const auto use = [&](std::int32_t what) { CHECK(found(manager, rising(4, 100 * what)) == 4); };
    for (std::int32_t i = 1; i <= 5; ++i) prefill(manager, rising(4, 100 * i)).position();
    // Published is used: 1, 2, 3, 4, 5 in this order.
    const auto expect = [&](std::uint64_t distance) {
      if (track) expected.add(distance);
    };
    use(5), expect(0);
    use(4), expect(1);
    use(1), expect(4);
    use(1), expect(0);
    use(5), expect(2);
    CHECK(manager.snapshot().reuse_distances == expected);
  }
}

TEST_CASE("reuse distances: a content whose blocks are gone begins anew, under windows as well") {
  block_manager manager(
      {.groups = {{.num_blocks = 8, .keep = {.window = 4}}}, .block_size = 4, .max_sequences = 4, .track_reuse = true});
  const auto pass = [&](std::int32_t first) {
    const sequence a = manager.make_sequence();
    grow(manager, a, 12);
    CHECK(manager.publish(a, {.tokens = rising(12, first)}) == 1);
  };
  pass(1);
  CHECK(found(manager, rising(12)) == 12);  // the two blocks before are known, but nobody holds them
  log2_histogram expected;
  expected.add(0);
  CHECK(manager.snapshot().reuse_distances == expected);
  for (std::int32_t round = 1; round < 20; ++round) pass(100 * round);
  CHECK(manager.snapshot().reuse_distances == expected);
}

}  // namespace
