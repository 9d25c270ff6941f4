// SPDX-License-Identifier: Apache-2.0
// When released blocks may be given out again: at once, or after the ticket of the steps that may still read them.
#include <array>
#include <cstdint>
#include <set>
#include <vector>

#include <doctest/doctest.h>
#include <pagoda/block_manager.hpp>

#include "manager_support.hpp"

namespace {

using pagoda::block_manager;
using pagoda::reuse_rule;
using pagoda::sequence;
using pagoda::step;
using pagoda::ticket;
using pagoda_test::faults;
using pagoda_test::grow;
using pagoda_test::ids;
using pagoda_test::table;

block_manager make_manager(reuse_rule reuse, std::int32_t blocks = 8, std::int32_t open_steps = 2) {
  return block_manager({.groups = {{.num_blocks = blocks}},
                        .block_size = 4,
                        .max_sequences = 4,
                        .max_open_steps = open_steps,
                        .reuse = reuse});
}

std::uint64_t number(ticket t) {
  return static_cast<std::uint64_t>(t);
}

TEST_CASE("tickets count the steps from 1, and refused plans take none") {
  block_manager manager = make_manager(reuse_rule::stream_ordered);
  const sequence seq = manager.make_sequence();
  for (std::uint64_t i = 1; i <= 3; ++i) {
    const step step = manager.plan({{seq, 1}});
    CHECK(number(step.issued()) == i);
  }
  CHECK_FALSE(manager.try_plan({{seq, 1000}}).has_value());
  const step step = manager.plan({{seq, 1}});
  CHECK(number(step.issued()) == 4);
}

TEST_CASE("ordered on one stream, released blocks are free at once") {
  block_manager manager = make_manager(reuse_rule::stream_ordered);
  {
    const sequence seq = manager.make_sequence();
    grow(manager, seq, 16);
    CHECK(manager.stats().free == 4);
  }
  CHECK(manager.stats().free == 8);
  CHECK(manager.stats().retiring == 0);
}

TEST_CASE("released blocks retire until the latest ticket before the release is complete") {
  block_manager manager = make_manager(reuse_rule::on_completion);
  sequence a = manager.make_sequence();
  const sequence b = manager.make_sequence();
  grow(manager, a, 9);  // ticket 1
  grow(manager, b, 1);  // ticket 2
  a = sequence();
  CHECK(manager.stats().retiring == 3);
  CHECK(manager.stats().used == 1);
  CHECK(manager.stats().free == 4);
  CHECK(faults(manager) == "");
  manager.complete(ticket{1});
  CHECK(manager.stats().retiring == 3);
  manager.complete(ticket{2});
  CHECK(manager.stats().retiring == 0);
  CHECK(manager.stats().free == 7);
  CHECK(faults(manager) == "");
}

TEST_CASE("a release after every issued ticket is complete frees at once") {
  block_manager manager = make_manager(reuse_rule::on_completion);
  sequence a = manager.make_sequence();
  grow(manager, a, 9);
  manager.complete(ticket{1});
  a = sequence();
  CHECK(manager.stats().retiring == 0);
  CHECK(manager.stats().free == 8);
}

TEST_CASE("tickets completed out of order free what the latest allows") {
  block_manager manager = make_manager(reuse_rule::on_completion);
  const sequence a = manager.make_sequence();
  const sequence b = manager.make_sequence();
  grow(manager, a, 8);     // 1
  grow(manager, b, 8);     // 2
  manager.truncate(a, 4);  // retires after 2
  grow(manager, a, 1);     // 3
  manager.truncate(b, 4);  // retires after 3
  CHECK(manager.stats().retiring == 2);
  manager.complete(ticket{2});
  CHECK(manager.stats().retiring == 1);
  manager.complete(ticket{1});  // older than what is known
  CHECK(manager.stats().retiring == 1);
  manager.complete(ticket::none);
  CHECK(manager.stats().retiring == 1);
  manager.complete(ticket{3});
  CHECK(manager.stats().retiring == 0);
  CHECK(faults(manager) == "");
}

TEST_CASE("completing a ticket that was never issued does not free later releases early") {
  block_manager manager = make_manager(reuse_rule::on_completion);
  const sequence a = manager.make_sequence();
  grow(manager, a, 8);  // 1
  manager.truncate(a, 4);
  manager.complete(ticket{1'000'000});
  CHECK(manager.stats().retiring == 0);
  grow(manager, a, 4);  // 2
  manager.truncate(a, 4);
  CHECK(manager.stats().retiring == 1);
  manager.complete(ticket{2});
  CHECK(manager.stats().retiring == 0);
}

TEST_CASE("a rolled back or cancelled growth retires under its own ticket") {
  block_manager manager = make_manager(reuse_rule::on_completion);
  const sequence a = manager.make_sequence();
  const sequence b = manager.make_sequence();
  { const step dropped = manager.plan({{a, 5}}); }
  CHECK(manager.stats().retiring == 2);
  step step = manager.plan({{a, 1}, {b, 4}});
  step.cancel(1);
  CHECK(manager.stats().retiring == 3);
  step.commit(std::array<std::int32_t, 2>{1, 0});
  manager.complete(ticket{1});
  CHECK(manager.stats().retiring == 1);
  manager.complete(ticket{2});
  CHECK(manager.stats().retiring == 0);
  CHECK(manager.stats().used == 1);
  CHECK(faults(manager) == "");
}

TEST_CASE("a copied block retires until the step that copies it is complete") {
  block_manager manager = make_manager(reuse_rule::on_completion);
  const sequence a = manager.make_sequence();
  grow(manager, a, 2);  // 1
  manager.complete(ticket{1});
  sequence b = manager.fork(a);
  step step = manager.plan({{a, 1}, {b, 1}});  // 2: both copy block 0
  (void)step.take_copies();
  step.commit();
  CHECK(manager.stats().used == 2);
  CHECK(manager.stats().retiring == 1);
  manager.complete(ticket{2});
  CHECK(manager.stats().free == 6);
  CHECK(faults(manager) == "");
}

TEST_CASE("the blocks of a sequence destroyed in an open step wait for the step and then for its ticket") {
  block_manager manager = make_manager(reuse_rule::on_completion);
  sequence a = manager.make_sequence();
  grow(manager, a, 4);                 // 1
  step step = manager.plan({{a, 4}});  // 2
  a = sequence();
  CHECK(manager.stats().used == 2);
  manager.complete(ticket{1});
  CHECK(manager.stats().used == 2);
  step.commit();
  CHECK(manager.stats().used == 0);
  CHECK(manager.stats().retiring == 2);
  manager.complete(ticket{2});
  CHECK(manager.stats().free == 8);
  CHECK(faults(manager) == "");
}

TEST_CASE("a shortage tells how many blocks would come free with their tickets") {
  block_manager manager = make_manager(reuse_rule::on_completion, 4);
  const sequence a = manager.make_sequence();
  grow(manager, a, 12);  // 1
  manager.truncate(a, 4);
  pagoda::shortage why;
  CHECK_FALSE(manager.try_plan({{a, 8}}, &why).has_value());
  CHECK(why.needed == 2);
  CHECK(why.free == 1);
  CHECK(why.retiring == 2);
  manager.complete(ticket{1});
  CHECK(manager.try_plan({{a, 8}}).has_value());
}

TEST_CASE("what a window drops retires, too") {
  block_manager manager(
      {.groups = {{.num_blocks = 8, .keep = {.window = 4}}}, .block_size = 4, .reuse = reuse_rule::on_completion});
  const sequence seq = manager.make_sequence();
  grow(manager, seq, 12);  // the next query reads from 9 on
  CHECK(manager.stats().used == 1);
  CHECK(manager.stats().retiring == 2);
  manager.complete(ticket{1});
  CHECK(manager.stats().free == 7);
  CHECK(faults(manager) == "");
}

TEST_CASE("no block is given out while an incomplete step may read it") {
  block_manager manager = make_manager(reuse_rule::on_completion, 6);
  const sequence a = manager.make_sequence();
  const sequence b = manager.make_sequence();
  grow(manager, a, 12);  // 1 reads three blocks
  const ids read = table(manager, a);
  manager.truncate(a, 0);
  grow(manager, b, 12);  // takes the other three
  std::set<std::int32_t> both(read.begin(), read.end());
  for (const std::int32_t block : table(manager, b)) both.insert(block);
  CHECK(both.size() == 6);
  CHECK_FALSE(manager.try_plan({{a, 1}}).has_value());
  manager.complete(ticket{1});
  CHECK(manager.try_plan({{a, 1}}).has_value());
}

TEST_CASE("what another sequence's work under way may use is copied before it is written") {
  block_manager manager({.groups = {{.num_blocks = 8}}, .reuse = pagoda::reuse_rule::on_completion});
  sequence first = manager.make_sequence();
  grow(manager, first, 3);
  const sequence second = manager.fork(first);
  const pagoda::ticket last = [&] {
    step step = manager.plan({{first, 0, 1}});  // reads the block that both hold
    const pagoda::ticket issued = step.issued();
    step.commit();
    return issued;
  }();
  { const sequence gone = std::move(first); }
  CHECK(manager.exclusive_blocks(second) == 1);
  {
    const step step = manager.plan({{second, 1}});
    CHECK(step.copies_pending());
  }
  manager.complete(last);
  {
    const step step = manager.plan({{second, 1}});
    CHECK_FALSE(step.copies_pending());
  }
}

}  // namespace
