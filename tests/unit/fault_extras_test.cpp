// SPDX-License-Identifier: Apache-2.0
// More faults that users of other cache managers reported: swaps, evicted parents, stale notes, livelock.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
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
using pagoda::sequence;
using pagoda::step;

manager_config config_of(std::int32_t blocks) {
  return {.groups = {{.num_blocks = blocks}}, .block_size = 4, .max_sequences = 8, .max_open_steps = 2};
}

TEST_CASE("block id is not pool slot after swap: tokens follow their blocks there and back, others' stay") {
  paper_cache device(config_of(10));
  paper_cache host(config_of(10));
  const sequence other_there = host.manager.make_sequence();
  host.append(other_there, rising(5, 700));
  sequence a = device.manager.make_sequence();
  device.append(a, rising(11));
  const ids before = table(device.manager, a);
  pagoda::transferred out = pagoda::transfer(device.manager, {a}, host.manager);
  host.perform(out.copies, device);
  a = sequence();
  CHECK(table(host.manager, out.sequences[0]) != before);  // ids of one manager mean nothing in the other
  const sequence b = device.manager.make_sequence();
  device.append(b, rising(14, 500));  // takes the blocks that a had
  CHECK(table(device.manager, b)[0] == before[0]);
  pagoda::transferred back = pagoda::transfer(host.manager, {out.sequences[0]}, device.manager);
  device.perform(back.copies, host);
  out.sequences.clear();
  a = std::move(back.sequences[0]);
  CHECK(table(device.manager, a) != before);
  CHECK(device.read(a) == rising(11));
  device.append(a, {12, 13});
  CHECK(device.read(a) == rising(13));
  CHECK(device.read(b) == rising(14, 500));
  CHECK(host.read(other_there) == rising(5, 700));
}

TEST_CASE(
    "tokens of other prompts with a second tier: the old blocks may go before the copies are done, not by reuse") {
  manager_config config = config_of(4);
  config.reuse = pagoda::reuse_rule::on_completion;
  block_manager device(config);
  block_manager host(config);
  sequence a = device.make_sequence();
  grow(device, a, 16);
  device.complete(pagoda::ticket{1});
  const pagoda::transferred moved = pagoda::transfer(device, {a}, host);
  a = sequence();
  const sequence b = device.make_sequence();
  CHECK_FALSE(device.try_plan({{b, 1}}).has_value());  // the copy still reads them
  CHECK(device.stats().retiring == 4);
  device.complete(moved.read);
  CHECK(device.try_plan({{b, 16}}).has_value());
}

TEST_CASE("a block that others stand behind may be evicted first, and comes back when it is computed again") {
  paper_cache cache(config_of(6), evict_by<pagoda::fifo>);
  {
    const sequence a = cache.manager.make_sequence();
    cache.append(a, rising(16));
    cache.manager.publish(a, {.tokens = rising(16)});
  }
  {
    const sequence filler = cache.manager.make_sequence();
    cache.append(filler, rising(12, 500));  // evicts block 0: three blocks are cached behind it, out of reach
  }
  CHECK(cache.manager.stats().cached == 3);
  CHECK(found(cache.manager, rising(16)) == 0);
  CHECK(faults(cache.manager) == "");
  {
    const sequence b = cache.manager.make_sequence();
    cache.append(b, rising(4));
    CHECK(cache.manager.publish(b, {.tokens = rising(4)}) == 1);
    const pagoda::prefix_match hit = cache.manager.match({.tokens = rising(16)}, 16);
    CHECK(hit.tokens() == 16);
    CHECK(cache.read(hit.id(), 16) == rising(16));
  }
  CHECK(faults(cache.manager) == "");
}

TEST_CASE("append after a row is filtered out: the others of the batch write behind their own tokens") {
  paper_cache cache(config_of(12));
  const sequence a = cache.manager.make_sequence();
  const sequence b = cache.manager.make_sequence();
  const sequence c = cache.manager.make_sequence();
  cache.append(a, rising(9));
  cache.append(b, rising(2, 100));
  cache.append(c, rising(5, 200));
  {
    step step = cache.manager.plan({{a, 1}, {b, 1}, {c, 1}});
    step.cancel(0);  // the longest leaves
    CHECK(step.batch().context_length(0) == 0);
    CHECK(step.batch().context_length(1) == 3);
    CHECK(step.batch().context_length(2) == 6);
    cache.execute(step, {{}, {102}, {205}});
    step.commit();
  }
  CHECK(cache.read(a) == rising(9));
  CHECK(cache.read(b) == rising(3, 100));
  CHECK(cache.read(c) == rising(6, 200));
}

TEST_CASE("preemption livelock with too few blocks: the oldest always gains a token, or its failure is certain") {
  for (std::int32_t blocks = 1; blocks <= 9; ++blocks) {
    CAPTURE(blocks);
    block_manager manager(config_of(blocks));
    const std::vector<std::int64_t> wanted{13, 9, 17, 5, 30};
    std::vector<sequence> running(wanted.size());
    std::vector<bool> failed(wanted.size(), false);
    std::size_t oldest = 0;
    int ticks = 0;
    while (oldest < wanted.size()) {
      REQUIRE(++ticks <= 13 + 9 + 17 + 5 + 30);  // no more than one for each token
      std::vector<pagoda::growth> batch;
      for (std::size_t i = oldest; i < wanted.size(); ++i) {
        if (!running[i]) running[i] = manager.make_sequence();
        batch.push_back({running[i], running[i].position() < wanted[i] ? 1 : 0});
      }
      std::optional<step> step;
      while (!(step = manager.try_plan(batch)) && batch.size() > 1) {
        running[oldest + batch.size() - 1] = sequence();  // dropped; to be computed again
        batch.pop_back();
      }
      if (!step) {
        // Alone, and no room: nothing that others could give back is left.
        REQUIRE(manager.growable(running[oldest], 1) == 0);
        REQUIRE(manager.exclusive_blocks(running[oldest]) == manager.stats().total);
        CHECK_THROWS_AS((void)manager.plan(batch), pagoda::out_of_blocks);
        failed[oldest] = true;
      } else {
        step->commit();
      }
      if (failed[oldest] || running[oldest].position() == wanted[oldest]) {
        running[oldest] = sequence();
        ++oldest;
      }
    }
    for (std::size_t i = 0; i < wanted.size(); ++i) CHECK(failed[i] == (wanted[i] > 4 * blocks));
    CHECK(manager.stats().free == blocks);
  }
}

TEST_CASE("a stale note of an evicted prefix frees and finds nothing: its place in the index has another content") {
  paper_cache cache(config_of(8));
  sequence a = cache.manager.make_sequence();
  sequence b = cache.manager.make_sequence();
  cache.append(a, rising(8));
  cache.append(b, rising(8));
  cache.manager.publish(a, {.tokens = rising(8)});
  CHECK(cache.manager.publish(b, {.tokens = rising(8)}) == 0);  // b is noted where a's blocks are
  a = sequence();
  for (std::int32_t round = 0; round < 5; ++round) {
    const sequence other = cache.manager.make_sequence();  // evicts them, and fills their places
    cache.append(other, rising(24, 1000 * (round + 1)));
    cache.manager.publish(other, {.tokens = rising(24, 1000 * (round + 1))});
  }
  CHECK(found(cache.manager, rising(8)) == 0);
  cache.append(b, rising(4, 9));
  CHECK(cache.manager.publish(b, {.tokens = rising(12)}) == 3);
  b = sequence();
  const pagoda::prefix_match hit = cache.manager.match({.tokens = rising(12)}, 12);
  CHECK(hit.tokens() == 12);
  CHECK(cache.read(hit.id(), 12) == rising(12));
  CHECK(found(cache.manager, rising(8, 5000) + rising(4, 9)) < 9);
  CHECK(faults(cache.manager) == "");
}

TEST_CASE(
    "a stale note of an evicted prefix frees and finds nothing: forks and truncated sequences keep theirs apart") {
  paper_cache cache(config_of(12));
  sequence a = cache.manager.make_sequence();
  cache.append(a, rising(12));
  cache.manager.publish(a, {.tokens = rising(12)});
  const sequence fork = cache.manager.fork(a);
  cache.manager.truncate(fork, 4);
  a = sequence();
  {
    const sequence filler = cache.manager.make_sequence();
    cache.append(filler, rising(44, 500));  // evicts blocks 1 and 2
    cache.manager.publish(filler, {.tokens = rising(44, 500)});
  }
  cache.append(fork, rising(8, 5));
  CHECK(cache.manager.publish(fork, {.tokens = rising(12)}) == 2);
  const pagoda::prefix_match hit = cache.manager.match({.tokens = rising(12)}, 12);
  CHECK(hit.tokens() == 12);
  CHECK(cache.read(hit.id(), 12) == rising(12));
  CHECK(faults(cache.manager) == "");
}

TEST_CASE("a stale note of an evicted prefix frees and finds nothing: the index gave the node to another content") {
  manager_config config = config_of(8);
  config.groups[0].keep = {.window = 4};
  block_manager manager(config);
  const sequence a = manager.make_sequence();
  grow(manager, a, 12);
  CHECK(manager.publish(a, {.tokens = rising(40)}) == 1);  // two nodes before it are bare
  CHECK(found(manager, rising(12)) == 12);
  for (std::int32_t round = 1; round <= 6; ++round) {  // three nodes each, of eight
    const sequence other = manager.make_sequence();
    grow(manager, other, 12);
    CHECK(manager.publish(other, {.tokens = rising(12, 1000 * round)}) == 1);
  }
  CHECK(found(manager, rising(12)) == 0);
  grow(manager, a, 4);
  CHECK(manager.publish(a, {.tokens = rising(40)}) == 1);
  CHECK(found(manager, rising(16)) == 16);
  for (std::int32_t round = 1; round <= 6; ++round) {
    CHECK(found(manager, rising(12, 1000 * round) + rising(4, 13)) <= 12);
  }
  CHECK(faults(manager) == "");
}

}  // namespace
