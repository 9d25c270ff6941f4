// SPDX-License-Identifier: Apache-2.0
// Forks share blocks; whoever writes into a shared block first gets a copy of it.
#include <array>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>
#include <pagoda/block_manager.hpp>

#include "manager_support.hpp"

namespace {

using pagoda::block_copy;
using pagoda::block_id;
using pagoda::block_manager;
using pagoda::copy_list;
using pagoda::sequence;
using pagoda::step;
using pagoda_test::faults;
using pagoda_test::free_list;
using pagoda_test::grow;
using pagoda_test::ids;
using pagoda_test::table;

block_manager make_manager(std::int32_t open_steps = 1) {
  return block_manager(
      {.groups = {{.num_blocks = 8}}, .block_size = 4, .max_sequences = 4, .max_open_steps = open_steps});
}

std::vector<block_copy> block_copies(const copy_list& list, int group = 0) {
  return {list.blocks(group).begin(), list.blocks(group).end()};
}

TEST_CASE("a fork shares every block and costs none") {
  block_manager manager = make_manager();
  const sequence parent = manager.make_sequence();
  grow(manager, parent, 6);
  const sequence child = manager.fork(parent);
  CHECK(child.position() == 6);
  CHECK(table(manager, child) == table(manager, parent));
  CHECK(manager.stats().used == 2);
  CHECK(manager.stats().tokens == 12);
  CHECK(faults(manager) == "");
}

TEST_CASE("writing into a shared block asks for exactly one copy of it") {
  block_manager manager = make_manager();
  const sequence parent = manager.make_sequence();
  grow(manager, parent, 6);
  const sequence child = manager.fork(parent);
  step step = manager.plan({{child, 1}});
  CHECK(table(manager, child) == ids{0, 2});
  CHECK(table(manager, parent) == ids{0, 1});
  CHECK(step.new_blocks(0, 0).empty());
  const copy_list copies = step.take_copies();
  CHECK(block_copies(copies) == std::vector<block_copy>{{block_id{1}, block_id{2}}});
  CHECK(copies.rows().empty());
  CHECK_THROWS_AS((void)copies.blocks(1), pagoda::out_of_range);
  CHECK_THROWS_AS((void)copies.rows(-2), pagoda::out_of_range);
  CHECK(step.take_copies().empty());
  step.commit();
  CHECK(manager.stats().used == 3);
  grow(manager, parent, 1);  // it is the only owner now and writes in place
  CHECK(table(manager, parent) == ids{0, 1});
  CHECK(manager.stats().used == 3);
  CHECK(faults(manager) == "");
}

TEST_CASE("no copy is needed at a block's end, without new tokens, or for the only owner") {
  block_manager manager = make_manager();
  const sequence parent = manager.make_sequence();
  grow(manager, parent, 8);
  const sequence child = manager.fork(parent);
  {
    step step = manager.plan({{child, 1}, {parent, 2}});
    CHECK(step.take_copies().empty());
    step.commit();
  }
  CHECK(table(manager, parent) == ids{0, 1, 3});
  CHECK(table(manager, child) == ids{0, 1, 2});
  {
    const step reading = manager.plan({{child, 0, 1}});
    CHECK(manager.stats().used == 4);
  }
  {
    step step = manager.plan({{child, 1}});
    CHECK(step.take_copies().empty());
    step.commit();
  }
  CHECK(faults(manager) == "");
}

TEST_CASE("two owners that write in one step both get a copy, and the shared block goes back") {
  block_manager manager = make_manager();
  const sequence a = manager.make_sequence();
  grow(manager, a, 2);
  const sequence b = manager.fork(a);
  step step = manager.plan({{a, 1}, {b, 3}});
  CHECK(manager.stats().used == 4);  // the shared one, two copies, one more for b
  CHECK(block_copies(step.take_copies()) ==
        std::vector<block_copy>{{block_id{0}, block_id{1}}, {block_id{0}, block_id{2}}});
  CHECK(faults(manager) == "");
  step.commit();
  CHECK(manager.stats().used == 3);
  CHECK(table(manager, a) == ids{1});
  CHECK(table(manager, b) == ids{2, 3});
  CHECK(faults(manager) == "");
}

TEST_CASE("a commit is refused while copies are not taken, and stays possible") {
  block_manager manager = make_manager();
  const sequence parent = manager.make_sequence();
  grow(manager, parent, 2);
  const sequence child = manager.fork(parent);
  step step = manager.plan({{child, 1}});
  const std::array<std::int32_t, 1> kept{1};
  const std::array<std::int32_t, 1> path{0};
  const std::array<std::int32_t, 2> offsets{0, 1};
  CHECK_THROWS_AS(step.commit(), pagoda::logic_error);
  CHECK_THROWS_AS(step.commit(kept), pagoda::logic_error);
  CHECK_THROWS_AS((void)step.commit_paths({path, offsets}), pagoda::logic_error);
  CHECK(child.position() == 2);
  CHECK(faults(manager) == "");
  CHECK_FALSE(step.take_copies().empty());
  step.commit();
  CHECK(child.position() == 3);
}

TEST_CASE("a rollback restores the shared block, whether the copies were taken or not") {
  for (const bool taken : {false, true}) {
    for (const bool by_zero_commit : {false, true}) {
      block_manager manager = make_manager();
      const sequence parent = manager.make_sequence();
      grow(manager, parent, 6);
      const sequence child = manager.fork(parent);
      const ids free_before = free_list(manager);
      {
        step step = manager.plan({{child, 5}});
        if (taken || by_zero_commit) (void)step.take_copies();
        if (by_zero_commit) step.commit(std::array<std::int32_t, 1>{0});
      }
      CHECK(table(manager, child) == table(manager, parent));
      CHECK(manager.stats().used == 2);
      CHECK(free_list(manager) == free_before);
      CHECK(faults(manager) == "");
    }
  }
}

TEST_CASE("a cancelled entry needs its copy no more") {
  block_manager manager = make_manager();
  const sequence a = manager.make_sequence();
  grow(manager, a, 2);
  const sequence b = manager.fork(a);
  const sequence c = manager.fork(a);
  {
    step step = manager.plan({{a, 1}, {b, 1}});
    step.cancel(0);
    CHECK_THROWS_AS(step.commit(), pagoda::logic_error);
    const ids copy = table(manager, b);
    CHECK(block_copies(step.take_copies()) == std::vector<block_copy>{{block_id{0}, block_id{copy[0]}}});
    step.commit();
  }
  CHECK(table(manager, a) == table(manager, c));
  step step = manager.plan({{c, 1}});
  step.cancel(0);
  CHECK(step.take_copies().empty());
  step.commit();
  CHECK(table(manager, a) == table(manager, c));
  CHECK(manager.stats().used == 2);
  CHECK(faults(manager) == "");
}

TEST_CASE("the copies of a step count as blocks that it needs") {
  block_manager manager({.groups = {{.num_blocks = 3}}, .block_size = 4, .max_sequences = 4});
  const sequence a = manager.make_sequence();
  grow(manager, a, 6);
  const sequence b = manager.fork(a);
  pagoda::shortage why;
  CHECK_FALSE(manager.try_plan({{a, 1}, {b, 1}}, &why).has_value());
  CHECK(why.needed == 2);
  CHECK(why.free == 1);
  CHECK(table(manager, a) == table(manager, b));
  CHECK(manager.try_plan({{b, 1}}).has_value());
  CHECK(faults(manager) == "");
}

TEST_CASE("the last owner that survives an open step writes in place afterwards") {
  block_manager manager = make_manager(2);
  const sequence a = manager.make_sequence();
  grow(manager, a, 2);
  sequence b = manager.fork(a);
  {
    step of_a = manager.plan({{a, 1}});
    step of_b = manager.plan({{b, 1}});  // the block is still shared: of_a may be rolled back
    CHECK(block_copies(of_b.take_copies()) == std::vector<block_copy>{{block_id{0}, block_id{2}}});
    b = sequence();
    of_b.commit();
    CHECK(faults(manager) == "");
  }
  CHECK(table(manager, a) == ids{0});
  step step = manager.plan({{a, 1}});
  CHECK(step.take_copies().empty());
  step.commit();
  CHECK(manager.stats().used == 1);
  CHECK(faults(manager) == "");
}

TEST_CASE("a fork whose parent is truncated keeps its tokens") {
  block_manager manager = make_manager();
  const sequence parent = manager.make_sequence();
  grow(manager, parent, 11);
  const sequence child = manager.fork(parent);
  manager.truncate(parent, 5);
  CHECK(table(manager, child) == ids{0, 1, 2});
  step step = manager.plan({{parent, 1}});
  CHECK(block_copies(step.take_copies()) == std::vector<block_copy>{{block_id{1}, block_id{3}}});
  step.commit();
  CHECK(table(manager, parent) == ids{0, 3});
  CHECK(child.position() == 11);
  CHECK(faults(manager) == "");
}

}  // namespace
