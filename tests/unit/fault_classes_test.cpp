// SPDX-License-Identifier: Apache-2.0
// Classes of faults that users of other cache managers reported, where prefixes, eviction and transfers could bring
// them in; manager_faults_test.cpp has those of sequences and plans alone.
#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <new>
#include <optional>
#include <set>
#include <string>
#include <type_traits>
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
using pagoda::sequence_id;
using pagoda::shortage;
using pagoda::step;
using pagoda::token_history;

manager_config config_of(std::int32_t blocks, std::int32_t block_size = 4) {
  return {.groups = {{.num_blocks = blocks}}, .block_size = block_size, .max_sequences = 8, .max_open_steps = 2};
}

std::vector<pagoda::block_stats> all_stats(const block_manager& manager) {
  return manager.snapshot().groups;
}

TEST_CASE("double free of one block in one batch: a cached window block dropped by three sequences at one commit") {
  for (const auto rule : {pagoda::reuse_rule::stream_ordered, pagoda::reuse_rule::on_completion}) {
    manager_config config = config_of(16);
    config.groups[0].keep = {.window = 4};
    config.reuse = rule;
    block_manager manager(config);
    {
      const sequence a = prefill(manager, rising(6));
      const sequence b = manager.make_sequence(manager.match({.tokens = rising(6)}, 6));
      const sequence c = manager.make_sequence(manager.match({.tokens = rising(6)}, 6));
      step step = manager.plan({{a, 9}, {b, 9}, {c, 9}});
      (void)step.take_copies();
      step.commit();
      CHECK(faults(manager) == "");
    }
    manager.complete(pagoda::ticket{100});
    CHECK(manager.stats().cached == 2);
    CHECK(manager.stats().free == 14);
    manager.clear_prefixes();
    const ids free = free_list(manager);
    CHECK(free.size() == 16);
    CHECK(std::set<std::int32_t>(free.begin(), free.end()).size() == 16);
  }
}

TEST_CASE("slot freed by two owners: a part of a block published, accepted in part, cancelled and released") {
  block_manager manager(config_of(12));
  {
    const sequence a = manager.make_sequence();
    step step = manager.plan({{a, 7}});
    step.commit(std::array<std::int32_t, 1>{5});
    CHECK(manager.publish(a, {.tokens = rising(7)}) == 2);  // 5 tokens, not 7
    CHECK(found(manager, rising(7)) == 5);
    const sequence b = manager.make_sequence(manager.match({.tokens = rising(7)}, 7));
    pagoda::step both = manager.plan({{a, 4}, {b, 4}});
    (void)both.take_copies();
    both.cancel(1);
    both.commit(std::array<std::int32_t, 2>{1, 0});
    CHECK(a.position() == 6);
    CHECK(b.position() == 5);
    CHECK(faults(manager) == "");
  }
  CHECK(manager.stats() == pagoda::block_stats{.total = 12, .free = 10, .cached = 2});
}

TEST_CASE("leak when scheduling fails after a partial acquire: a plan short in one group evicts in none") {
  for (std::size_t scarce = 0; scarce < 3; ++scarce) {
    CAPTURE(scarce);
    manager_config config = three_groups(6);
    for (std::size_t g = 0; g < 3; ++g) config.groups[g].num_blocks = g == scarce ? 5 : 6;
    block_manager manager(config);
    { const sequence ended = prefill(manager, rising(8)); }
    const sequence a = manager.make_sequence();
    const auto before = all_stats(manager);
    const auto hit = found(manager, rising(8));
    CHECK(hit > 0);
    for (int i = 0; i < 100; ++i) {
      shortage why;
      REQUIRE_FALSE(manager.try_plan({{a, 24}}, &why).has_value());
      REQUIRE(why.group == static_cast<std::int32_t>(scarce));
    }
    CHECK(all_stats(manager) == before);
    CHECK(found(manager, rising(8)) == hit);
    CHECK(manager.snapshot().evictions == 0);
    CHECK(faults(manager) == "");
  }
}

TEST_CASE("leak when scheduling fails after a partial acquire: a match that gets no sequence pins nothing") {
  manager_config config = config_of(4);
  config.max_sequences = 1;
  block_manager manager(config);
  { const sequence ended = prefill(manager, rising(8)); }
  {
    const sequence only = manager.make_sequence();
    for (int i = 0; i < 100; ++i) {
      CHECK_THROWS_AS((void)manager.match({.tokens = rising(8)}, 8), pagoda::capacity_exceeded);
    }
    CHECK(manager.growable(only, 100) == 16);
  }
  CHECK(manager.stats() == pagoda::block_stats{.total = 4, .free = 2, .cached = 2});
}

TEST_CASE("accounting drift at block sizes above 1: shared, cached and part-full blocks count once") {
  for (const std::int32_t block_size : {1, 2, 16, 64}) {
    CAPTURE(block_size);
    block_manager manager(config_of(40, block_size));
    const std::int32_t tokens = 3 * block_size + block_size / 2;
    const std::int64_t blocks = (tokens + block_size - 1) / block_size;
    {
      std::vector<sequence> all;
      all.push_back(prefill(manager, rising(tokens)));
      for (std::int32_t cut = 1; cut <= 6; ++cut) {
        all.push_back(manager.make_sequence(manager.match({.tokens = rising(tokens)}, cut * tokens / 6)));
      }
      CHECK(manager.stats().used == blocks);
      CHECK(manager.stats().shared == blocks);
      CHECK(manager.stats().tokens == tokens + [&] {
        std::int64_t sum = 0;
        for (std::int32_t cut = 1; cut <= 6; ++cut) sum += cut * tokens / 6;
        return sum;
      }());
      CHECK(manager.growable(all[0], 1 << 20) == 40 * block_size - blocks * block_size + [&] {
        const std::int64_t room = blocks * block_size - tokens;
        return room > 0 ? room - block_size : 0;  // its last block is shared: a copy takes one of the free ones
      }());
    }
    CHECK(manager.stats() == pagoda::block_stats{.total = 40, .free = 40 - blocks, .cached = blocks});
    CHECK(faults(manager) == "");
  }
}

TEST_CASE("use after free under eviction pressure: what an open step reads is in no other hands") {
  block_manager manager(config_of(8));
  { const sequence ended = prefill(manager, rising(12)); }
  sequence a = manager.make_sequence(manager.match({.tokens = rising(12)}, 10));
  std::optional<step> reading(manager.plan({{a, 1}}));
  const ids read = table(manager, a);
  const ids copied{0, 1, 2};  // the copy of block 2 is still to be made
  a = sequence();             // its user hangs up while the step runs
  for (int round = 0; round < 10; ++round) {
    const sequence filler = manager.make_sequence();
    CHECK(manager.growable(filler, 100) == 16);
    const step pressure = manager.plan({{filler, 16}});
    for (const std::int32_t block : numbers(pressure.new_blocks(0, 0))) {
      CHECK(std::count(read.begin(), read.end(), block) == 0);
      CHECK(std::count(copied.begin(), copied.end(), block) == 0);
    }
  }
  reading.reset();
  CHECK(manager.stats() == pagoda::block_stats{.total = 8, .free = 5, .cached = 3});
  CHECK(faults(manager) == "");
}

TEST_CASE("lower tier forgets the namespace: what is parked and comes back is found in its own domain only") {
  const manager_config config = config_of(12);
  paper_cache device(config);
  paper_cache host(config);
  const key_domain a_domain = key_domain().add("tenant", "a");
  const key_domain b_domain = key_domain().add("tenant", "b");
  const token_list tokens = rising(10);
  const token_history of_a{.tokens = tokens, .domain = &a_domain};
  const token_history of_b{.tokens = tokens, .domain = &b_domain};
  sequence a = device.manager.make_sequence();
  device.append(a, tokens);
  device.manager.publish(a, of_a);
  const auto nothing_crosses = [&](paper_cache& tier) {
    CHECK(found(tier.manager, of_b) == 0);
    CHECK(found(tier.manager, tokens) == 0);
  };
  for (int round = 0; round < 2; ++round) {
    paper_cache& from = round == 0 ? device : host;
    paper_cache& to = round == 0 ? host : device;
    pagoda::transferred moved = pagoda::transfer(from.manager, {a}, to.manager);
    to.perform(moved.copies, from);
    a = std::move(moved.sequences[0]);
    nothing_crosses(to);
    CHECK(found(to.manager, of_a) == (round == 0 ? 0 : 10));  // until it is published there
    CHECK(to.manager.publish(a, of_a) == (round == 0 ? 3 : 0));
    CHECK(found(to.manager, of_a) == 10);
    nothing_crosses(to);
    CHECK(to.read(a) == tokens);
  }
  CHECK(faults(device.manager) + faults(host.manager) == "");
}

TEST_CASE("lower tier forgets the namespace: what was computed with old weights stays unpublished in every tier") {
  block_manager device(config_of(8));
  block_manager host(config_of(8));
  const sequence a = prefill(device, rising(8));
  device.clear_prefixes();
  const pagoda::transferred there = pagoda::transfer(device, {a}, host);
  CHECK(host.publish(there.sequences[0], {.tokens = rising(8)}) == 0);
  const pagoda::transferred back = pagoda::transfer(host, {there.sequences[0]}, device);
  CHECK(device.publish(back.sequences[0], {.tokens = rising(8)}) == 0);
  CHECK(found(host, rising(8)) == 0);
  CHECK(found(device, rising(8)) == 0);
}

TEST_CASE("window + prefix cache boundary: requests that diverge inside the last block hit all that is before") {
  for (std::int64_t window = 2; window <= 13; ++window) {
    for (std::int32_t length = 1; length <= 20; ++length) {
      for (std::int32_t same = 1; same <= length; ++same) {
        manager_config config = config_of(16);
        config.groups[0].keep = {.window = window};
        block_manager manager(config);
        {
          const sequence a = manager.make_sequence();
          for (std::int32_t t = 0; t < length; ++t) {
            grow(manager, a, 1);
            manager.publish(a, {.tokens = rising(length)});
          }
        }
        CAPTURE(window);
        CAPTURE(length);
        CAPTURE(same);
        REQUIRE(found(manager, rising(same) + token_list{-1, -2, -3}) == same);
      }
    }
  }
}

TEST_CASE("window + prefix cache boundary: a fully cached prompt computes one token, whatever its length") {
  for (std::int32_t length = 1; length <= 13; ++length) {
    block_manager manager(config_of(16));
    { const sequence a = prefill(manager, rising(length)); }
    const sequence b = manager.make_sequence(manager.match({.tokens = rising(length)}, length - 1));
    CAPTURE(length);
    CHECK(b.position() == length - 1);
    step step = manager.plan({{b, 1}});
    CHECK(step.batch().total_new_tokens() == 1);
    CHECK(block_copies(step.take_copies()).size() == (length % 4 == 1 ? 0 : 1));
    step.commit();
    CHECK(faults(manager) == "");
  }
}

TEST_CASE("32-bit overflow: lengths and limits that fit no 32 bits are refused or cut, never wrapped") {
  block_manager manager(config_of(8));
  const sequence a = prefill(manager, rising(8));
  CHECK(manager.match({.tokens = rising(8)}, std::numeric_limits<std::int64_t>::max()).tokens() == 8);
  CHECK(manager.match({.tokens = rising(8)}, (std::int64_t{1} << 32) + 3).tokens() == 8);
  CHECK(manager.growable(a, std::numeric_limits<std::int64_t>::max()) == 24);
  CHECK(manager.growable(a, std::int64_t{1} << 32) == 24);
  CHECK_THROWS_AS(manager.publish_first(a, (std::int64_t{1} << 32) + 4, {.tokens = rising(8)}),
                  pagoda::invalid_argument);
  const std::int32_t one = 1;  // a history of 2^31 tokens, of which none is read
  const token_history endless{.tokens = {&one, std::size_t{1} << 31}};
  CHECK_THROWS_AS((void)manager.match(endless, 8), pagoda::invalid_argument);
  CHECK_THROWS_AS(manager.publish(a, endless), pagoda::invalid_argument);
  CHECK(faults(manager) == "");
}

TEST_CASE("32-bit overflow: tokens, slack and bytes are counted in 64 bits") {
  static_assert(std::is_same_v<decltype(pagoda::manager_stats::copied_bytes), std::int64_t>);
  manager_config config{
      .groups = {{.num_blocks = 512, .block_bytes = std::int64_t{1} << 31}}, .block_size = 65536, .max_sequences = 200};
  block_manager manager(config);
  const sequence a = manager.make_sequence();
  grow(manager, a, 300 * 65536 + 1);
  std::vector<sequence> forks;
  for (int i = 0; i < 150; ++i) forks.push_back(manager.fork(a));
  CHECK(manager.stats().tokens == std::int64_t{151} * (300 * 65536 + 1));
  CHECK(manager.stats().slack == std::int64_t{151} * 65535);
  grow(manager, forks[0], 1);
  grow(manager, forks[1], 1);
  CHECK(manager.snapshot().copied_bytes == std::int64_t{2} << 31);
  CHECK(faults(manager) == "");
}

TEST_CASE("moving rows without their metadata: accepted paths leave what was published as it was") {
  for (std::int32_t length = 5; length <= 8; ++length) {
    paper_cache cache(config_of(12));
    sequence a = cache.manager.make_sequence();
    cache.append(a, rising(length));
    cache.manager.publish(a, {.tokens = rising(length)});
    {
      step tree = cache.manager.plan({{a, 6}});
      cache.execute(tree, {{90, 91, 92, 93, 94, 95}});
      const std::array<std::int32_t, 3> path{1, 2, 5};
      const std::array<std::int32_t, 2> offsets{0, 3};
      const pagoda::copy_list moves = tree.commit_paths({path, offsets});
      for (const pagoda::row_copy& row : moves.rows()) {
        const bool published = number(row.to_block) == table(cache.manager, a)[1] && row.to_slot < (length - 1) % 4 + 1;
        CHECK_FALSE(published);
      }
    }
    a = sequence();
    const prefix_match hit = cache.manager.match({.tokens = rising(length)}, length);
    CHECK(hit.tokens() == length);
    CHECK(cache.read(hit.id(), length) == rising(length));
  }
}

TEST_CASE("positions are true, not a count of rows, behind a match whose first blocks a window has dropped") {
  manager_config config = config_of(8);
  config.groups[0].keep = {.window = 4};
  block_manager manager(config);
  { const sequence a = prefill(manager, rising(14)); }
  const sequence b = manager.make_sequence(manager.match({.tokens = rising(14)}, 14));
  CHECK(b.position() == 14);
  CHECK(b.resident() == 6);
  const step step = manager.plan({{b, 1}});
  CHECK(step.batch().context_length(0) == 15);
  CHECK(step.batch().skipped_blocks[0] == 2);
  CHECK(step.batch().keep.window_begin(14) == 11);
}

TEST_CASE("a failed transfer poisons neither manager, and touches no other sequence") {
  manager_config large = three_groups(24);
  for (std::size_t scarce = 0; scarce < 3; ++scarce) {
    manager_config small = three_groups(24);
    small.groups[scarce].num_blocks = 3;
    block_manager from(large);
    block_manager to(small);
    const sequence a = prefill(from, rising(13));
    const sequence b = prefill(from, rising(14, 50));
    const sequence other = prefill(to, rising(4, 90));
    const auto from_before = std::pair(tables(from, a), all_stats(from));
    const auto to_before = std::pair(tables(to, other), all_stats(to));
    CHECK_THROWS_AS((void)pagoda::transfer(from, {a, b}, to), pagoda::out_of_blocks);
    CHECK_THROWS_AS((void)pagoda::transfer(from, {a, a}, to), pagoda::invalid_argument);
    CHECK(std::pair(tables(from, a), all_stats(from)) == from_before);
    CHECK(std::pair(tables(to, other), all_stats(to)) == to_before);
    CHECK(to.snapshot().sequences == 1);
    CHECK(faults(from) + faults(to) == "");
    CHECK(found(to, rising(4, 90)) == 4);
  }
}

TEST_CASE("beam reorder: beams made from a match diverge by copy-on-write in the groups of every kind") {
  block_manager manager(three_groups());
  sequence root = prefill(manager, rising(10));
  root = sequence();
  sequence first = manager.make_sequence(manager.match({.tokens = rising(10)}, 10));
  const sequence second = manager.fork(first);
  const auto before = tables(manager, second);
  {
    step step = manager.plan({{first, 1}});
    const pagoda::copy_list copies = step.take_copies();
    for (int g = 0; g < 3; ++g) CHECK(copies.blocks(g).size() == 1);
    step.commit();
  }
  CHECK(tables(manager, second) == before);
  first = manager.fork(second);  // the other beam won; nothing of the old one stays
  CHECK(tables(manager, first) == before);
  CHECK(found(manager, rising(10)) == 10);
  CHECK(faults(manager) == "");
}

}  // namespace
