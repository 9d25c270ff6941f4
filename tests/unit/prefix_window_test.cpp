// SPDX-License-Identifier: Apache-2.0
// Prefixes under windows, sinks and several layer groups: a hit needs what will be read, in every group, and no more.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <pagoda/block_manager.hpp>
#include <pagoda/eviction/fifo.hpp>

#include "prefix_support.hpp"

namespace {

using namespace pagoda_test;
using pagoda::block_manager;
using pagoda::manager_config;
using pagoda::prefix_match;
using pagoda::retention;
using pagoda::sequence;
using pagoda::step;

manager_config one_group(retention keep, std::int32_t blocks = 16) {
  return {.groups = {{.num_blocks = blocks, .keep = keep}}, .block_size = 4, .max_sequences = 8};
}

/// All tokens, and a window of 6 in a group of its own.
manager_config two_groups(std::int32_t all = 12, std::int32_t window = 12) {
  return {.groups = {{.num_blocks = all, .layers = {0}}, {.num_blocks = window, .keep = {.window = 6}, .layers = {1}}},
          .block_size = 4,
          .max_sequences = 8};
}

/// Takes every free block of one group, and evicts what is cached there, from sequences of other tokens.
void evict_all(block_manager& manager, int group) {
  const sequence filler = manager.make_sequence();
  const pagoda::block_stats stats = manager.stats(group);
  const step all = manager.plan({{filler, static_cast<std::int32_t>(4 * (stats.free + stats.cached))}});
}

TEST_CASE("window: a hit needs only the blocks that the window reads") {
  block_manager manager(one_group({.window = 6}));
  // 20 tokens: the query at 20 reads from 15 on, so blocks 3 and 4 are kept.
  sequence a = prefill(manager, rising(20));
  CHECK(table(manager, a).size() == 2);
  CHECK(manager.snapshot().stored == 2);
  const ids kept = table(manager, a);
  a = sequence();
  const prefix_match hit = manager.match({.tokens = rising(24)}, 23);
  CHECK(hit.tokens() == 20);
  CHECK(table(manager, hit.id()) == kept);
  CHECK(manager.snapshot().sequences == 1);
  CHECK(manager.stats().tokens == 8);  // 12 of the 20 are dropped
  CHECK(faults(manager) == "");
}

TEST_CASE("window: a shorter hit would read blocks that are gone") {
  block_manager manager(one_group({.window = 6}));
  const sequence a = prefill(manager, rising(20));
  // Of 19 tokens the query at 19 reads 14 on: blocks 3 and 4. Of 17, 12 on. Of 16, 11 on: block 2, which is gone.
  CHECK(found(manager, rising(19)) == 19);
  CHECK(found(manager, rising(17)) == 17);
  CHECK(found(manager, rising(16)) == 0);
  CHECK(found(manager, rising(18) + token_list{-1, -2}) == 18);  // it diverges inside the last block
  CHECK(found(manager, rising(16) + token_list{-1, -2}) == 0);
}

TEST_CASE("window: sequences published as they grow leave every block behind, and every prefix is found") {
  block_manager manager(one_group({.window = 6}));
  {
    const sequence a = manager.make_sequence();
    for (std::int32_t length = 0; length < 32;) {
      grow(manager, a, 2);
      length += 2;
      manager.publish(a, {.tokens = rising(32)});
    }
  }
  CHECK(manager.stats().cached == 8);
  for (std::int32_t length = 1; length <= 32; ++length) {
    CAPTURE(length);
    const prefix_match hit = manager.match({.tokens = rising(length)}, length);
    CHECK(hit.tokens() == length);
    // It holds exactly the blocks from the first that a later query reads.
    const std::int64_t first = length < 6 ? 0 : (length - 5) / 4;
    CHECK(static_cast<std::int64_t>(table(manager, hit.id()).size()) == (length + 3) / 4 - first);
    CHECK(faults(manager) == "");
  }
}

TEST_CASE("window: a match may hold no block at all where the next query reads itself only") {
  block_manager manager(one_group({.window = 1}));
  sequence a = manager.make_sequence();
  grow(manager, a, 7);
  CHECK(manager.publish(a, {.tokens = rising(20)}) == 1);
  grow(manager, a, 5);
  a = sequence();
  CHECK(found(manager, rising(7)) == 7);
  // Block 1 keeps its three tokens: a hit of them, or of fewer in the same block; block 0 is gone.
  CHECK(found(manager, rising(6)) == 6);
  const prefix_match hit = manager.match({.tokens = rising(4)}, 4);
  CHECK(hit.tokens() == 4);  // the query at token 4 reads nothing before it
  CHECK(table(manager, hit.id()).empty());
  CHECK(found(manager, rising(3)) == 0);
  CHECK(faults(manager) == "");
}

TEST_CASE("window: the sequence made from a match goes on, drops and publishes as if it had computed all") {
  block_manager manager(one_group({.window = 6}));
  sequence a = prefill(manager, rising(20));
  const sequence b = manager.make_sequence(manager.match({.tokens = rising(18) + rising(20, 90)}, 37));
  CHECK(b.position() == 18);
  CHECK(b.resident() == 6);  // tokens 12 to 17
  {
    step step = manager.plan({{b, 20}});
    CHECK(block_copies(step.take_copies()).size() == 1);
    step.commit();
  }
  CHECK(b.resident() == 6);  // 32 to 37
  CHECK(manager.publish(b, {.tokens = rising(18) + rising(20, 90)}) == 2);
  CHECK(found(manager, rising(18) + rising(20, 90)) == 38);
  CHECK(found(manager, rising(20)) == 20);
  a = sequence();
  CHECK(faults(manager) == "");
}

TEST_CASE("sinks: a hit needs the sinks' blocks and those of the window") {
  block_manager manager(one_group({.sinks = 5, .window = 6}));
  sequence a = prefill(manager, rising(24));
  const ids kept = table(manager, a);
  CHECK(kept.size() == 4);  // 0 and 1 hold sinks; the query at 24 reads from 19 on: 4 and 5
  a = sequence();
  {
    const prefix_match hit = manager.match({.tokens = rising(24)}, 24);
    CHECK(hit.tokens() == 24);
    CHECK(table(manager, hit.id()) == kept);
    CHECK(manager.stats().tokens == 16);
  }
  CHECK(found(manager, rising(21)) == 21);
  CHECK(found(manager, rising(20)) == 8);  // would read from 15 on; what is left are the sinks' blocks
  CHECK(found(manager, rising(8) + rising(9, 70)) == 8);
  CHECK(faults(manager) == "");
}

TEST_CASE("sinks: without one of their blocks nothing behind it is found") {
  manager_config config = one_group({.sinks = 8, .window = 4}, 6);
  block_manager manager(config, pagoda::evict_by<pagoda::fifo>);
  { const sequence a = prefill(manager, rising(20)); }  // blocks 0, 1 and 4 are kept, and stored in this order
  CHECK(manager.stats().cached == 3);
  CHECK(found(manager, rising(20)) == 20);
  const auto evict_one = [&] {
    const sequence filler = manager.make_sequence();
    const step step = manager.plan({{filler, static_cast<std::int32_t>(4 * (manager.stats().free + 1))}});
  };
  evict_one();
  CHECK(manager.stats().cached == 2);
  CHECK(found(manager, rising(20)) == 0);
  CHECK(faults(manager) == "");
}

TEST_CASE("groups: a hit is limited by the group that has least") {
  const auto manager_with_16_tokens = [](std::int32_t all, std::int32_t window) {
    block_manager manager(two_groups(all, window));
    const sequence a = manager.make_sequence();
    for (int i = 0; i < 4; ++i) {
      grow(manager, a, 4);
      manager.publish(a, {.tokens = rising(16)});
    }
    return manager;
  };
  const auto evict = [](block_manager& manager, int group, std::int32_t blocks) {
    const sequence filler = manager.make_sequence();
    const auto free = static_cast<std::int32_t>(manager.stats(group).free);
    const step step = manager.plan({{filler, 4 * (free + blocks)}});
  };
  SUBCASE("the group of all tokens loses the tail") {
    block_manager manager = manager_with_16_tokens(6, 20);
    CHECK(found(manager, rising(16)) == 16);
    evict(manager, 0, 1);
    CHECK(manager.stats(0).cached == 3);
    CHECK(manager.stats(1).cached == 4);
    CHECK(found(manager, rising(16)) == 12);
    evict(manager, 0, 2);
    CHECK(found(manager, rising(16)) == 4);
    CHECK(faults(manager) == "");
  }
  SUBCASE("the window's group loses what the window dropped first") {
    block_manager manager = manager_with_16_tokens(20, 6);
    evict(manager, 1, 1);  // block 0
    CHECK(manager.stats(0).cached == 4);
    CHECK(manager.stats(1).cached == 3);
    CHECK(found(manager, rising(16)) == 16);
    CHECK(found(manager, rising(9)) == 9);  // the query at 9 reads from 4 on
    CHECK(found(manager, rising(8)) == 0);  // that at 8 from 3 on
    evict(manager, 1, 2);                   // the blocks that were found last stay
    CHECK(manager.stats(0).cached == 4);
    CHECK(found(manager, rising(16)) < 16);
    CHECK(faults(manager) == "");
  }
}

TEST_CASE("groups: a window's group without blocks hides what the others have, except where it reads nothing") {
  block_manager manager(
      {.groups = {{.num_blocks = 30, .layers = {0}}, {.num_blocks = 5, .keep = {.window = 6}, .layers = {1}}},
       .block_size = 4,
       .max_sequences = 8});
  {
    const sequence a = manager.make_sequence();
    for (int i = 0; i < 4; ++i) {
      grow(manager, a, 4);
      manager.publish(a, {.tokens = rising(16)});
    }
  }
  evict_all(manager, 1);
  CHECK(manager.stats(0).cached == 4);
  CHECK(manager.stats(1).cached == 0);
  CHECK(found(manager, rising(16)) == 0);
  // Computing it once more enters the missing blocks beside those of group 0, which it does not replace.
  const ids before = [&] {
    const sequence b = manager.make_sequence();
    grow(manager, b, 16);
    CHECK(manager.publish(b, {.tokens = rising(16)}) == 2);  // blocks 2 and 3 of the window
    return table(manager, b, 0);
  }();
  CHECK(manager.stats(0).cached == 4);
  const prefix_match hit = manager.match({.tokens = rising(16)}, 16);
  CHECK(hit.tokens() == 16);
  for (const std::int32_t block : table(manager, hit.id(), 0)) {
    for (const std::int32_t duplicate : before) CHECK(block != duplicate);
  }
  CHECK(faults(manager) == "");
}

TEST_CASE("groups: a hit shorter than a window finds the window's blocks further back") {
  block_manager manager(two_groups());
  sequence a = manager.make_sequence();
  for (int i = 0; i < 6; ++i) {
    grow(manager, a, 4);
    manager.publish(a, {.tokens = rising(24)});
  }
  a = sequence();
  for (std::int32_t length = 1; length <= 24; ++length) {
    CHECK(found(manager, rising(length) + token_list{-1, -2, -3, -4, -5}) == length);
  }
  CHECK(faults(manager) == "");
}

TEST_CASE("bare nodes: long windowed streams never fill the index, and the last window is found") {
  block_manager manager(one_group({.window = 6}, 8));
  for (std::int32_t round = 0; round < 30; ++round) {
    const sequence a = manager.make_sequence();
    const token_list tokens = rising(400, 1000 * round);
    for (int i = 0; i < 100; ++i) {
      grow(manager, a, 4);
      manager.publish(a, {.tokens = tokens});
    }
    CHECK(faults(manager) == "");
  }
  CHECK(manager.snapshot().evictions > 0);
}

TEST_CASE("bare nodes: a stream that is published as a whole is found while its nodes fit the index") {
  block_manager manager(one_group({.window = 6}, 16));
  {
    const sequence a = manager.make_sequence();
    for (int i = 0; i < 15; ++i) grow(manager, a, 4);
    CHECK(manager.publish(a, {.tokens = rising(60)}) == 2);
  }
  CHECK(found(manager, rising(60)) == 60);
  {
    const sequence b = manager.make_sequence();  // longer than the index: its last blocks cannot be entered
    for (int i = 0; i < 30; ++i) grow(manager, b, 4);
    CHECK(manager.publish(b, {.tokens = rising(120, 500)}) == 0);
  }
  CHECK(faults(manager) == "");
}

TEST_CASE("a hit fits the table of its sequence") {
  block_manager manager(
      {.groups = {{.num_blocks = 16}}, .block_size = 4, .max_sequences = 8, .max_resident_tokens = 8});
  sequence a = prefill(manager, rising(8));
  CHECK(found(manager, rising(8)) == 8);
  CHECK(found(manager, rising(12)) == 8);
  CHECK(faults(manager) == "");
}

TEST_CASE("two groups: a tail that one of them lost is published again, and hides no other") {
  block_manager manager({.groups = {{.num_blocks = 64, .layers = {0}}, {.num_blocks = 4, .layers = {1}}},
                         .block_size = 4,
                         .max_sequences = 8});
  { const sequence a = prefill(manager, rising(2)); }
  CHECK(found(manager, rising(2)) == 2);
  evict_all(manager, 1);
  CHECK(found(manager, rising(2)) == 0);
  const sequence b = prefill(manager, rising(2));  // enters the block of the group that lost its own
  CHECK(found(manager, rising(2)) == 2);

  {
    const sequence longer = manager.make_sequence();  // in blocks of its own
    grow(manager, longer, 3);
    CHECK(manager.publish(longer, {.tokens = rising(3)}) == 2);
  }
  CHECK(found(manager, rising(3)) == 3);
  evict_all(manager, 1);
  CHECK(found(manager, rising(3)) == 2);
  CHECK(faults(manager) == "");
}

TEST_CASE("where there are several groups one has to be named, copies or no copies") {
  block_manager manager(two_groups());
  const sequence a = manager.make_sequence();
  step step = manager.plan({{a, 1}});
  const pagoda::copy_list none = step.take_copies();
  CHECK(none.empty());
  CHECK(none.blocks(1).empty());
  CHECK_THROWS_AS((void)none.blocks(), pagoda::out_of_range);
  CHECK_THROWS_AS((void)none.rows(2), pagoda::out_of_range);
}

}  // namespace
