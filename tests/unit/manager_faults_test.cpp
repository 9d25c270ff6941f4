// SPDX-License-Identifier: Apache-2.0
// One case for each class of fault that users of other cache managers reported, and the properties that exclude them.
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

#include "manager_world.hpp"

namespace {

using pagoda::block_manager;
using pagoda::manager_config;
using pagoda::sequence;
using pagoda::sequence_id;
using pagoda::shortage;
using pagoda::step;
using pagoda_test::append;
using pagoda_test::faults;
using pagoda_test::free_list;
using pagoda_test::grow;
using pagoda_test::ids;
using pagoda_test::manager_world;
using pagoda_test::table;
using pagoda_test::tables;
using pagoda_test::three_groups;

manager_config one_group(std::int32_t blocks, std::int32_t block_size = 4) {
  return {.groups = {{.num_blocks = blocks}}, .block_size = block_size, .max_sequences = 8};
}

TEST_CASE("double free: blocks held by several sequences of one batch go back once") {
  block_manager manager({.groups = {{.num_blocks = 12, .keep = {.window = 4}}}, .block_size = 4, .max_sequences = 4});
  {
    const sequence a = manager.make_sequence();
    grow(manager, a, 6);
    const sequence b = manager.fork(a);
    const sequence c = manager.fork(a);
    step step = manager.plan({{a, 7}, {b, 7}, {c, 7}});  // all three drop the two shared blocks at commit
    (void)step.take_copies();
    step.commit();
    CHECK(faults(manager) == "");
  }
  CHECK(manager.stats().free == 12);
  const ids free = free_list(manager);
  CHECK(std::set<std::int32_t>(free.begin(), free.end()).size() == 12);
}

TEST_CASE("two owners of one slot: a shorter commit and a later release agree on the length") {
  block_manager manager(one_group(8));
  {
    const sequence seq = manager.make_sequence();
    step step = manager.plan({{seq, 5}});
    step.commit(std::array<std::int32_t, 1>{4});  // the slot of token 4, alone in its block, was not accepted
    CHECK(manager.stats().free == 7);
    CHECK(seq.position() == 4);
    const pagoda::step next = manager.plan({{seq, 1}});
    CHECK(next.batch().context_length(0) == 5);
    CHECK(next.new_blocks(0, 0).size() == 1);
  }
  CHECK(manager.stats().free == 8);
  CHECK(faults(manager) == "");
}

TEST_CASE("leak after a partial acquire: a plan short in any group takes blocks from none") {
  for (std::size_t scarce = 0; scarce < 3; ++scarce) {
    manager_config config = three_groups();
    config.groups[scarce].num_blocks = 3;
    block_manager manager(config);
    const sequence a = manager.make_sequence();
    const sequence b = manager.make_sequence();
    grow(manager, a, 6);
    const std::vector<ids> before = tables(manager, a);
    for (int i = 0; i < 100; ++i) {
      shortage why;
      REQUIRE_FALSE(manager.try_plan({{a, 3}, {b, 4}}, &why).has_value());
      REQUIRE(why.group == static_cast<std::int32_t>(scarce));
    }
    CHECK(tables(manager, a) == before);
    for (std::size_t g = 0; g < 3; ++g) CHECK(manager.stats(static_cast<int>(g)).used == 2);
    CHECK(faults(manager) == "");
  }
}

TEST_CASE("accounting drift: shared blocks count once and shared tokens for each sequence") {
  block_manager manager(one_group(10, 8));
  const sequence a = manager.make_sequence();
  grow(manager, a, 20);
  {
    const sequence b = manager.fork(a);
    const sequence c = manager.fork(a);
    CHECK(manager.stats() ==
          pagoda::block_stats{.total = 10, .free = 7, .used = 3, .shared = 3, .tokens = 60, .slack = 12});
    grow(manager, b, 1);
    CHECK(manager.stats() ==
          pagoda::block_stats{.total = 10, .free = 6, .used = 4, .shared = 3, .tokens = 61, .slack = 11});
    manager.truncate(c, 8);
    CHECK(manager.stats() ==
          pagoda::block_stats{.total = 10, .free = 6, .used = 4, .shared = 2, .tokens = 49, .slack = 7});
  }
  CHECK(manager.stats() == pagoda::block_stats{.total = 10, .free = 7, .used = 3, .tokens = 20, .slack = 4});
  CHECK(faults(manager) == "");
}

TEST_CASE("use after free: no block that an open step reads is given out") {
  block_manager manager({.groups = {{.num_blocks = 6}}, .block_size = 4, .max_sequences = 4, .max_open_steps = 2});
  sequence a = manager.make_sequence();
  grow(manager, a, 8);
  sequence b = manager.fork(a);
  step reading = manager.plan({{a, 0, 1}, {b, 2}});
  const ids read = table(manager, b);
  a = sequence();
  b = sequence();
  const sequence c = manager.make_sequence();
  CHECK_FALSE(manager.try_plan({{c, 13}}).has_value());
  const step other = manager.plan({{c, 12}});
  for (const std::int32_t block : table(manager, c)) {
    for (const std::int32_t held : read) CHECK(block != held);
  }
  CHECK(faults(manager) == "");
  reading.commit();
  CHECK(manager.stats().free == 3);
}

TEST_CASE("block-boundary arithmetic: every growth from every length needs the blocks that counting says") {
  for (const std::int32_t block_size : {1, 2, 8}) {
    for (std::int32_t length = 0; length <= 2 * block_size + 1; ++length) {
      for (std::int32_t more = 0; more <= 2 * block_size + 1; ++more) {
        block_manager manager(one_group(16, block_size));
        const sequence seq = manager.make_sequence();
        grow(manager, seq, length);
        const sequence child = manager.fork(seq);
        std::set<std::int32_t> begun;  // blocks of tokens written by the child alone
        for (std::int32_t t = length; t < length + more; ++t) begun.insert(t / block_size);
        const std::int64_t used = manager.stats().used;
        CHECK(used == (length + block_size - 1) / block_size);
        grow(manager, child, more);
        REQUIRE(manager.stats().used == used + static_cast<std::int64_t>(begun.size()));
        manager.truncate(child, length);
        std::int64_t copied = 0;
        if (more > 0 && length % block_size != 0) copied = 1;
        REQUIRE(manager.stats().used == used + copied);
        REQUIRE(faults(manager) == "");
      }
    }
  }
}

TEST_CASE("32-bit overflow: table offsets are 64-bit and true beyond 2^31 entries") {
  static_assert(std::is_same_v<decltype(pagoda::batch_view::table_offsets), const std::int64_t*>);
  static_assert(std::is_same_v<decltype(pagoda::block_stats::total), std::int64_t>);
#if !defined(__SANITIZE_ADDRESS__)
  // The tables of 2^20 sequences: more than 8 GiB of addresses, of which only the rows in use become memory.
  constexpr std::int32_t sequences = 1 << 20;
  constexpr std::int32_t blocks = 2100;
  std::optional<block_manager> manager;
  try {
    manager.emplace(manager_config{
        .groups = {{.num_blocks = blocks}}, .block_size = 4, .max_sequences = sequences, .max_batch = 2});
  } catch (const std::bad_alloc&) {
    MESSAGE("this system does not reserve 8 GiB of addresses: only the types were checked");
    return;
  }
  std::vector<sequence> all;
  for (std::int32_t i = 0; i < sequences; ++i) all.push_back(manager->make_sequence());
  grow(*manager, all.front(), 5);
  step step = manager->plan({{all.front(), 1}, {all.back(), 6}});
  const pagoda::batch_view view = step.batch();
  CHECK(view.table_offsets[1] - view.table_offsets[0] == std::int64_t{sequences - 1} * blocks);
  CHECK(view.table_offsets[1] > std::int64_t{1} << 31);
  CHECK(pagoda_test::number(view.block(0, 1)) == table(*manager, all.front())[1]);
  CHECK(pagoda_test::number(view.block(1, 1)) == table(*manager, all.back())[1]);
  step.commit();
  CHECK(all.back().position() == 6);
#endif
}

TEST_CASE("32-bit overflow: tables that cannot be addressed are refused before they are made") {
  CHECK_THROWS_AS(block_manager({.groups = {{.num_blocks = 8}}, .max_sequences = (1 << 20) + 1}),
                  pagoda::invalid_argument);
  CHECK_THROWS_AS(block_manager({.groups = {{.num_blocks = std::numeric_limits<std::int32_t>::max()}}}),
                  pagoda::invalid_argument);
}

TEST_CASE("table row overrun: growth in small steps stops at the row's end") {
  block_manager manager(
      {.groups = {{.num_blocks = 32}}, .block_size = 4, .max_sequences = 3, .max_resident_tokens = 14});
  const sequence a = manager.make_sequence();
  const sequence b = manager.make_sequence();
  const sequence c = manager.make_sequence();
  for (const sequence* seq : {&a, &c}) grow(manager, *seq, 14);
  const std::vector<ids> before{table(manager, a), table(manager, c)};
  std::int32_t granted = 0;
  shortage why;
  for (int i = 0; i < 40; ++i) {
    std::optional<step> step = manager.try_plan({{b, 1}}, &why);
    if (!step) break;
    step->commit();
    ++granted;
  }
  CHECK(granted >= 14);
  CHECK(granted < 14 + 4);
  CHECK(why.group == -1);
  CHECK_THROWS_AS((void)manager.plan({{b, 1}}), pagoda::capacity_exceeded);
  CHECK(std::vector<ids>{table(manager, a), table(manager, c)} == before);
  CHECK(faults(manager) == "");
}

TEST_CASE("table row overrun: a window streams within its short row") {
  block_manager manager({.groups = {{.num_blocks = 32, .keep = {.sinks = 4, .window = 6}}},
                         .block_size = 4,
                         .max_sequences = 2,
                         .max_resident_tokens = 14});
  const sequence a = manager.make_sequence();
  const sequence b = manager.make_sequence();
  grow(manager, b, 9);
  const ids before = table(manager, b);
  for (int i = 0; i < 500; ++i) grow(manager, a, 1);
  CHECK(a.position() == 500);
  CHECK(table(manager, b) == before);
  CHECK(faults(manager) == "");
}

TEST_CASE("table row overrun: a row sized by the window alone is long enough for one token at a time") {
  block_manager manager({.groups = {{.num_blocks = 32, .keep = {.window = 8}}},
                         .block_size = 4,
                         .max_sequences = 2,
                         .max_resident_tokens = 8});
  const sequence seq = manager.make_sequence();
  for (int i = 0; i < 100; ++i) grow(manager, seq, 1);
  CHECK(seq.position() == 100);
  CHECK_THROWS_AS((void)manager.plan({{seq, 9}}), pagoda::capacity_exceeded);
}

TEST_CASE("table row overrun: sinks and window that begin and end inside blocks still fit their row") {
  for (std::int64_t sinks = 1; sinks <= 9; ++sinks) {
    for (std::int64_t window = 1; window <= 9; ++window) {
      CAPTURE(sinks);
      CAPTURE(window);
      block_manager manager({.groups = {{.num_blocks = 32, .keep = {.sinks = sinks, .window = window}}},
                             .block_size = 4,
                             .max_sequences = 1,
                             .max_resident_tokens = sinks + window});
      const sequence seq = manager.make_sequence();
      for (int i = 0; i < 60; ++i) grow(manager, seq, 1);
      CHECK(seq.position() == 60);
    }
  }
}

TEST_CASE("sentinels: no table, view or copy list ever names block -1, and it is refused as an argument") {
  manager_world world(three_groups());
  world.make();
  REQUIRE(append(world, 1, 100, 9) == "");
  world.fork(1);
  block_manager& manager = world.manager;
  step step = manager.plan({{world.handles.begin()->second, 6}, {std::next(world.handles.begin())->second, 6}});
  const pagoda::copy_list copies = step.take_copies();
  for (int g = 0; g < 3; ++g) {
    CHECK(copies.blocks(g).size() == 2);
    for (const pagoda::block_copy& copy : copies.blocks(g)) {
      CHECK(pagoda_test::number(copy.from) >= 0);
      CHECK(pagoda_test::number(copy.to) >= 0);
    }
    for (const auto& [name, seq] : world.handles) {
      for (const std::int32_t block : table(manager, seq, g)) CHECK((block >= 0 && block < 24));
    }
  }
  CHECK_THROWS_AS(step.cancel(-1), pagoda::out_of_range);
  CHECK_THROWS_AS((void)step.batch(-1), pagoda::out_of_range);
  CHECK_THROWS_AS((void)step.new_blocks(0, -1), pagoda::out_of_range);
  CHECK_THROWS_AS((void)step.new_blocks(-1, 0), pagoda::out_of_range);
}

TEST_CASE("row moves: tokens keep their contents when accepted paths move and windows drop") {
  manager_world world(three_groups());
  world.make();
  REQUIRE(append(world, 1, 100, 9) == "");
  CHECK(append(world, 1, 200, 7, std::vector<std::int32_t>{1, 3, 4, 6}) == "");
  CHECK(append(world, 1, 300, 2) == "");
  CHECK(append(world, 1, 400, 11, std::vector<std::int32_t>{0, 9, 10}) == "");
  CHECK(append(world, 1, 500, 3, std::vector<std::int32_t>{}) == "");
  CHECK(append(world, 1, 600, 1) == "");
  CHECK(world.counts.moves > 0);
  CHECK(world.handles.at(1).position() == 9 + 4 + 2 + 3 + 1);
}

TEST_CASE("true positions: dropped tokens still count for the next query's position") {
  block_manager manager({.groups = {{.num_blocks = 4, .keep = {.window = 4}}}, .block_size = 4, .max_sequences = 1});
  const sequence seq = manager.make_sequence();
  for (int i = 0; i < 25; ++i) grow(manager, seq, 1);
  const step step = manager.plan({{seq, 1}});
  CHECK(seq.resident() < seq.position());
  CHECK(step.batch().context_length(0) == 26);
  CHECK(step.batch().keep.window_begin(25) == 22);
}

TEST_CASE("stale, foreign and recycled ids are always found") {
  block_manager manager(one_group(8));
  block_manager other(one_group(8));
  const sequence foreign = other.make_sequence();
  grow(other, foreign, 3);
  sequence first = manager.make_sequence();
  const sequence_id stale = first.id();
  first = sequence();
  const sequence second = manager.make_sequence();
  CHECK(second.id().index() == stale.index());  // the place is recycled, the id is not
  CHECK_FALSE(second.id() == stale);
  CHECK(foreign.id().index() == second.id().index());
  for (const sequence_id bad : {stale, foreign.id(), sequence_id{}, sequence_id{~std::uint64_t{0}}}) {
    CHECK_THROWS_AS((void)manager.plan({{second, 1}, {bad, 1}}), pagoda::invalid_argument);
    CHECK_THROWS_AS((void)manager.fork(bad), pagoda::invalid_argument);
    CHECK_THROWS_AS(manager.truncate(bad, 0), pagoda::invalid_argument);
    CHECK_THROWS_AS((void)manager.blocks(bad), pagoda::invalid_argument);
  }
  CHECK(manager.stats().used == 0);
  CHECK(other.stats().used == 1);
  CHECK(faults(manager) == "");
}

TEST_CASE("preemption: a batch that does not fit changes nothing, however often it is tried") {
  block_manager manager(one_group(4));
  const sequence a = manager.make_sequence();
  std::optional<sequence> b(manager.make_sequence());
  grow(manager, a, 8);
  grow(manager, *b, 8);
  for (int i = 0; i < 100; ++i) REQUIRE_FALSE(manager.try_plan({{a, 1}, {*b, 1}}).has_value());
  CHECK(table(manager, a) == ids{0, 1});
  CHECK(table(manager, *b) == ids{2, 3});
  b.reset();
  CHECK(manager.try_plan({{a, 1}}).has_value());
  CHECK(faults(manager) == "");
}

TEST_CASE("beams: forks diverge in the groups of every kind, and no beam sees another's tokens") {
  manager_world world(three_groups());
  world.make();
  REQUIRE(append(world, 1, 100, 10) == "");
  std::vector<manager_world::key> beams{1};
  for (std::uint64_t round = 0; round < 12; ++round) {
    world.fork(beams[0]);
    const manager_world::key child = world.handles.rbegin()->first;
    const auto others = tables(world.manager, world.handles.at(beams[0]));
    REQUIRE(append(world, child, 1000 + 10 * round, 3) == "");
    REQUIRE(tables(world.manager, world.handles.at(beams[0])) == others);
    const auto of_child = tables(world.manager, world.handles.at(child));
    REQUIRE(append(world, beams[0], 5000 + 10 * round, 2) == "");
    REQUIRE(tables(world.manager, world.handles.at(child)) == of_child);
    world.destroy(round % 2 == 0 ? beams[0] : child);
    if (round % 2 == 0) beams[0] = child;
    REQUIRE(world.difference() == "");
  }
  CHECK(world.counts.copies > 0);
}

TEST_CASE("property: a plan without a commit leaves every group identical") {
  const auto run = [](bool with_plans) {
    block_manager manager(three_groups());
    const sequence a = manager.make_sequence();
    grow(manager, a, 11);
    const sequence b = manager.fork(a);
    grow(manager, b, 2);
    if (with_plans) {
      const step first = manager.plan({{b, 9}});
      const step second = manager.plan({{a, 5}});
    }
    CHECK(faults(manager) == "");
    grow(manager, a, 9);  // which blocks it gets shows the order of the free lists
    return std::pair(tables(manager, a), tables(manager, b));
  };
  CHECK(run(true) == run(false));
}

TEST_CASE("property: cutting tokens off and appending others is the same as having appended those") {
  for (std::int64_t cut = 0; cut <= 13; ++cut) {
    manager_world world({.groups = {{.num_blocks = 8}}, .block_size = 4, .max_sequences = 2});
    world.make();
    REQUIRE(append(world, 1, 100, 13) == "");
    world.manager.truncate(world.handles.at(1), cut);
    world.model.truncate(1, cut);
    REQUIRE(append(world, 1, 200, 7) == "");
    block_manager fresh(one_group(8));
    const sequence seq = fresh.make_sequence();
    grow(fresh, seq, static_cast<std::int32_t>(cut));
    grow(fresh, seq, 7);
    CHECK(table(world.manager, world.handles.at(1)) == table(fresh, seq));
    CHECK(world.manager.stats().tokens == fresh.stats().tokens);
  }
}

}  // namespace
