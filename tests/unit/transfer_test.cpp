// SPDX-License-Identifier: Apache-2.0
// transfer between two managers: what twins get, what makes room for them, and when blocks may be used again.
#include <cstdint>
#include <numeric>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <pagoda/block_manager.hpp>

#include "manager_support.hpp"
#include "transfer_support.hpp"

namespace {

using pagoda::block_manager;
using pagoda::manager_config;
using pagoda::reuse_rule;
using pagoda::sequence;
using pagoda::sequence_id;
using pagoda::ticket;
using pagoda::transferred;
using pagoda_test::cache_prefix;
using pagoda_test::faults;
using pagoda_test::grow;
using pagoda_test::ids;
using pagoda_test::pool_of;
using pagoda_test::table;
using pagoda_test::tokens_from;

TEST_CASE("each block of each table is copied once, to the block at the same place of the twin's table") {
  block_manager from(pool_of(20));
  block_manager to(pool_of(20));
  const sequence a = from.make_sequence();
  grow(from, a, 10);
  const sequence b = from.fork(a);
  grow(from, b, 7);  // a copy of the last block, and two more
  const sequence c = from.fork(b);
  const sequence empty = from.make_sequence();
  const sequence there = to.make_sequence();
  grow(to, there, 9);
  const transferred made = transfer(from, {c, a, empty, b}, to);
  REQUIRE(made.sequences.size() == 4);
  const sequence* const old[] = {&c, &a, &empty, &b};
  std::set<std::pair<std::int32_t, std::int32_t>> pairs;
  for (std::size_t i = 0; i < 4; ++i) {
    const ids before = table(from, *old[i]);
    const ids after = table(to, made.sequences[i]);
    CHECK(made.sequences[i].position() == old[i]->position());
    REQUIRE(before.size() == after.size());
    for (std::size_t k = 0; k < before.size(); ++k) pairs.emplace(before[k], after[k]);
  }
  CHECK(pairs.size() == 6);  // the two that all share, a's third, and three of b and c
  std::set<std::pair<std::int32_t, std::int32_t>> listed;
  for (const pagoda::block_copy& copy : made.copies.blocks()) {
    listed.emplace(pagoda_test::number(copy.from), pagoda_test::number(copy.to));
  }
  CHECK(listed == pairs);
  CHECK(made.copies.blocks().size() == 6);
  CHECK(made.copies.rows().empty());
  CHECK(made.copies.block_size() == 4);
  CHECK(from.stats().used == 6);
  CHECK(to.stats().used == 3 + 6);
  CHECK(to.stats().shared == from.stats().shared);
  CHECK(from.snapshot().copied_blocks == 1 + 6);  // the fork's, and these
  CHECK(from.snapshot().copied_bytes == 7000);
  CHECK(to.snapshot().copied_blocks == 0);
  CHECK(to.snapshot().sequences == 5);
  CHECK(faults(from) == "");
  CHECK(faults(to) == "");
}

TEST_CASE("two managers given the same calls give the same ids and the same copies") {
  const auto run = [] {
    block_manager from(pool_of(20));
    block_manager to(pool_of(20));
    std::vector<sequence> sequences;
    for (std::int32_t i = 0; i < 3; ++i) {
      sequences.push_back(from.make_sequence());
      grow(from, sequences.back(), 5 + i);
    }
    from.truncate(sequences[0], 2);
    const transferred made = transfer(from, {sequences[2], sequences[0]}, to);
    return std::vector<pagoda::block_copy>(made.copies.blocks().begin(), made.copies.blocks().end());
  };
  CHECK(run() == run());
}

TEST_CASE("no sequences, and sequences without tokens, make an empty list") {
  block_manager from(pool_of(4));
  block_manager to(pool_of(4));
  CHECK(transfer(from, std::span<const sequence_id>(), to).copies.empty());
  const sequence empty = from.make_sequence();
  const transferred made = transfer(from, {empty}, to);
  CHECK(made.copies.empty());
  CHECK(made.sequences[0].position() == 0);
  CHECK(faults(to) == "");
}

TEST_CASE("a window that has dropped every block moves none, and its places go along") {
  manager_config config = pool_of(9);
  config.groups[0].keep = {.window = 1};
  block_manager from(config);
  block_manager to(config);
  const sequence seq = from.make_sequence();
  grow(from, seq, 8);
  REQUIRE(from.blocks(seq).empty());
  const transferred made = transfer(from, {seq}, to);
  CHECK(made.copies.empty());
  CHECK(made.sequences[0].position() == 8);
  CHECK(made.sequences[0].resident() == 0);
  CHECK(faults(to) == "");
  grow(to, made.sequences[0], 3);
  CHECK(to.blocks(made.sequences[0]).size() == 1);
  CHECK(faults(to) == "");
}

TEST_CASE("cached prefixes of the target make room, oldest first, and its statistics and events say so") {
  block_manager from(pool_of(20));
  block_manager to(pool_of(8));
  const sequence seq = from.make_sequence();
  grow(from, seq, 20);  // 5 blocks
  const std::vector<std::int32_t> old_prefix = tokens_from(0, 8);
  const std::vector<std::int32_t> new_prefix = tokens_from(100, 12);
  cache_prefix(to, old_prefix);
  cache_prefix(to, new_prefix);
  std::vector<pagoda::prefix_event> events(64);
  CHECK(to.take_events(events) == 5);
  CHECK(to.stats().cached == 5);
  const transferred made = transfer(from, {seq}, to);
  CHECK(to.snapshot().evictions == 2);
  CHECK(to.stats().cached == 3);
  CHECK(to.stats().used == 5);
  REQUIRE(to.take_events(events) == 2);
  CHECK(events[0].what == pagoda::prefix_event::kind::removed);
  CHECK(events[1].what == pagoda::prefix_event::kind::removed);
  CHECK(to.match({.tokens = old_prefix}, 8).tokens() == 0);
  CHECK(to.match({.tokens = new_prefix}, 12).tokens() == 12);
  CHECK(from.snapshot().evictions == 0);
  CHECK(faults(to) == "");
}

TEST_CASE("pinned prefixes of the target stay") {
  block_manager from(pool_of(20));
  block_manager to(pool_of(8));
  const sequence seq = from.make_sequence();
  grow(from, seq, 20);
  cache_prefix(to, tokens_from(0, 16), {.pinned = true});
  CHECK_THROWS_AS((void)transfer(from, {seq}, to), pagoda::out_of_blocks);
  CHECK(to.stats().cached == 4);
  from.truncate(seq, 16);
  CHECK(transfer(from, {seq}, to).copies.blocks().size() == 4);
  CHECK(to.stats().pinned == 4);
  CHECK(faults(to) == "");
}

TEST_CASE("what was published stays where it was; twins are published for themselves") {
  block_manager from(pool_of(20));
  block_manager to(pool_of(20));
  const std::vector<std::int32_t> tokens = tokens_from(0, 22);
  sequence seq = from.make_sequence();
  grow(from, seq, 10);
  from.publish(seq, {.tokens = tokens});
  transferred made = transfer(from, {seq}, to);
  seq = {};
  CHECK(from.stats().cached == 3);
  CHECK(from.match({.tokens = tokens}, 22).tokens() == 10);
  CHECK(to.match({.tokens = tokens}, 22).tokens() == 0);
  grow(to, made.sequences[0], 12);
  CHECK(to.publish(made.sequences[0], {.tokens = tokens}) == 6);
  CHECK(to.match({.tokens = tokens}, 22).tokens() == 22);

  from.clear_prefixes();
  const sequence fresh = from.make_sequence();
  grow(from, fresh, 4);
  CHECK(to.publish(transfer(from, {fresh}, to).sequences[0], {.tokens = tokens_from(50, 4)}) == 1);
  from.clear_prefixes();  // fresh is of the old weights now
  CHECK(to.publish(transfer(from, {fresh}, to).sequences[0], {.tokens = tokens_from(60, 4)}) == 0);
  CHECK(faults(from) == "");
  CHECK(faults(to) == "");
}

TEST_CASE("a match, too, can be moved: it holds what a transfer reads") {
  block_manager from(pool_of(5));
  block_manager to(pool_of(20));
  const std::vector<std::int32_t> tokens = tokens_from(0, 16);
  cache_prefix(from, tokens);
  const pagoda::prefix_match hit = from.match({.tokens = tokens}, 15);
  const transferred made = transfer(from, {hit.id()}, to);
  CHECK(made.copies.blocks().size() == 4);
  CHECK(made.sequences[0].position() == 15);
  const sequence other = from.make_sequence();
  CHECK_FALSE(from.try_plan({{other, 8}}).has_value());
}

TEST_CASE("blocks that a transfer reads are not given out before the transfer is complete") {
  block_manager from(pool_of(6, reuse_rule::on_completion));
  block_manager to(pool_of(20));
  sequence seq = from.make_sequence();
  grow(from, seq, 16);  // 4 blocks
  from.complete(from.plan({{seq, 0}}).issued());
  const transferred made = transfer(from, {seq}, to);
  const ids read = table(from, seq);
  seq = {};
  CHECK(from.stats().retiring == 4);
  const sequence next = from.make_sequence();
  CHECK_FALSE(from.try_plan({{next, 12}}).has_value());
  from.complete(ticket{static_cast<std::uint64_t>(made.read) - 1});
  CHECK(from.stats().retiring == 4);
  {
    const pagoda::step step = from.plan({{next, 8}});
    for (const std::int32_t block : table(from, next)) {
      for (const std::int32_t other : read) CHECK(block != other);
    }
  }
  from.complete(made.read);
  CHECK(from.stats().retiring == 2);  // of the step that was rolled back later
  CHECK(from.try_plan({{next, 16}}).has_value());
  CHECK(faults(from) == "");
}

TEST_CASE("nobody writes into a block that a transfer still reads: whoever shares it gets a copy") {
  const std::vector<std::int32_t> tokens = tokens_from(0, 7);
  const auto copies_of = [&](reuse_rule reuse, auto prepare, bool completed) {
    block_manager from(pool_of(12, reuse));
    block_manager to(pool_of(12));
    sequence seq = from.make_sequence();
    grow(from, seq, 6);
    from.publish(seq, {.tokens = tokens_from(0, 6)});
    grow(from, seq, 1);  // behind what was published
    const sequence writer = prepare(from, seq);
    const transferred made = transfer(from, {seq}, to);
    seq = {};
    if (completed) from.complete(made.read);
    const sequence late = writer ? sequence() : from.make_sequence(from.match({.tokens = tokens}, 6));
    const sequence& chosen = writer ? writer : late;
    REQUIRE(chosen.position() == 6);
    pagoda::step step = from.plan({{chosen, 1}});
    const auto copies = step.take_copies().blocks().size();
    step.commit();
    CHECK(faults(from) == "");
    return copies;
  };
  const auto found_late = [](block_manager&, const sequence&) { return sequence(); };
  const auto forked_before = [](block_manager& manager, const sequence& parent) {
    sequence child = manager.fork(parent);
    manager.truncate(child, 6);
    return child;
  };
  CHECK(copies_of(reuse_rule::on_completion, found_late, false) == 1);
  CHECK(copies_of(reuse_rule::on_completion, found_late, true) == 0);
  CHECK(copies_of(reuse_rule::on_completion, forked_before, false) == 1);
  CHECK(copies_of(reuse_rule::on_completion, forked_before, true) == 0);
  CHECK(copies_of(reuse_rule::stream_ordered, found_late, false) == 0);
  CHECK(copies_of(reuse_rule::stream_ordered, forked_before, false) == 0);

  block_manager from(pool_of(12, reuse_rule::on_completion));
  block_manager to(pool_of(12));
  const sequence goes_on = from.make_sequence();
  grow(from, goes_on, 7);
  const transferred made = transfer(from, {goes_on}, to);
  from.truncate(goes_on, 5);
  pagoda::step first = from.plan({{goes_on, 1}});
  CHECK(first.take_copies().blocks().size() == 1);
  first.commit();
  pagoda::step second = from.plan({{goes_on, 1}});
  CHECK(second.take_copies().empty());
  second.commit();
}

TEST_CASE("a twin that ends before its blocks are written keeps them until they are") {
  block_manager from(pool_of(6));
  block_manager to(pool_of(6, reuse_rule::on_completion));
  const sequence seq = from.make_sequence();
  grow(from, seq, 16);
  transferred made = transfer(from, {seq}, to);
  made.sequences.clear();
  CHECK(to.stats().retiring == 4);
  CHECK_THROWS_AS((void)transfer(from, {seq}, to), pagoda::out_of_blocks);
  to.complete(made.written);
  CHECK(to.stats().free == 6);
  CHECK(transfer(from, {seq}, to).copies.blocks().size() == 4);
  CHECK(faults(to) == "");
}

TEST_CASE("tickets of transfers and of steps are one series") {
  block_manager from(pool_of(20));
  block_manager to(pool_of(20));
  const sequence seq = from.make_sequence();
  const ticket first = from.plan({{seq, 3}}).issued();
  const transferred made = transfer(from, {seq}, to);
  const ticket after = from.plan({{seq, 3}}).issued();
  CHECK(first < made.read);
  CHECK(made.read < after);
  CHECK(made.written > ticket::none);
}

TEST_CASE("steps that are open for other sequences go on on both sides") {
  block_manager from(pool_of(20));
  block_manager to(pool_of(20));
  const sequence moved = from.make_sequence();
  const sequence here = from.make_sequence();
  const sequence there = to.make_sequence();
  grow(from, moved, 9);
  pagoda::step source = from.plan({{here, 5}});
  pagoda::step target = to.plan({{there, 6}});
  const transferred made = transfer(from, {moved}, to);
  source.commit();
  target.commit();
  CHECK(here.position() == 5);
  CHECK(there.position() == 6);
  CHECK(made.sequences[0].position() == 9);
  CHECK(faults(from) == "");
  CHECK(faults(to) == "");
}

}  // namespace
