// SPDX-License-Identifier: Apache-2.0
// The steady state allocates no memory, and an allocation that fails changes nothing.
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <pagoda/block_manager.hpp>

#include "counting_new.hpp"
#include "fail_each.hpp"
#include "manager_support.hpp"

namespace {

using pagoda::block_manager;
using pagoda::growth;
using pagoda::manager_config;
using pagoda::sequence;
using pagoda::step;
using pagoda_test::allocation_scope;
using pagoda_test::fail_each;
using pagoda_test::faults;
using pagoda_test::grow;
using pagoda_test::table;

manager_config two_groups() {
  return {.groups = {{.num_blocks = 2048, .layers = {0}}, {.num_blocks = 1024, .keep = {.window = 64}, .layers = {1}}},
          .block_size = 16,
          .max_sequences = 80};
}

TEST_CASE("the counting operator new counts and fails where it is told to") {
  std::int64_t allocated = 0;
  std::int64_t live = 0;
  {
    const allocation_scope scope;
    std::optional<std::vector<int>> a(std::vector<int>(100));
    const std::vector<int> b(100);
    a.reset();
    allocated = scope.allocated();
    live = scope.live();
  }
  CHECK(allocated == 2);
  CHECK(live == 1);
  const std::int64_t failures =
      fail_each([] { std::vector<std::vector<int>>(3, std::vector<int>(10)).clear(); }, [] {});
  CHECK(failures == 5);
}

TEST_CASE("decoding allocates nothing") {
  block_manager manager(two_groups());
  std::vector<sequence> sequences;
  std::vector<growth> batch;
  for (std::int32_t i = 0; i < 64; ++i) {
    sequences.push_back(manager.make_sequence());
    batch.push_back({sequences.back(), 1});
    grow(manager, sequences.back(), 20 + i);
  }
  std::int64_t allocated = 0;
  {
    const allocation_scope scope;
    for (int i = 0; i < 300; ++i) {
      step step = manager.plan(batch);
      const pagoda::copy_list copies = step.take_copies();
      (void)step.batch(1);
      step.commit();
    }
    allocated = scope.allocated();
  }
  CHECK(allocated == 0);
  CHECK(sequences[63].position() == 383);
  CHECK(faults(manager) == "");
}

TEST_CASE("a refused try_plan, a rollback, a cancel and a shorter commit allocate nothing") {
  block_manager manager(two_groups());
  const sequence a = manager.make_sequence();
  const sequence b = manager.make_sequence();
  grow(manager, a, 30);
  std::int64_t allocated = 0;
  bool granted = false;
  {
    const allocation_scope scope;
    pagoda::shortage why;
    granted = manager.try_plan({{a, 1}, {b, 40'000}}, &why).has_value();
    granted = granted || manager.try_plan({{a, 1}, {a, 1}}, &why).has_value();
    { const step dropped = manager.plan({{a, 100}, {b, 50}}); }
    step step = manager.plan({{a, 100}, {b, 50}});
    step.cancel(1);
    const std::int32_t kept[] = {3, 0};
    step.commit(kept);
    allocated = scope.allocated();
  }
  CHECK_FALSE(granted);
  CHECK(allocated == 0);
  CHECK(a.position() == 33);
}

TEST_CASE("making, forking, truncating and releasing sequences allocates nothing") {
  block_manager manager(two_groups());
  const sequence parent = manager.make_sequence();
  grow(manager, parent, 100);
  std::int64_t allocated = 0;
  {
    const allocation_scope scope;
    for (int i = 0; i < 1000; ++i) {
      const sequence seq = manager.make_sequence();
      const sequence child = manager.fork(parent);
      manager.truncate(child, 97);
      manager.complete(pagoda::ticket{1});
    }
    allocated = scope.allocated();
  }
  CHECK(allocated == 0);
  CHECK(faults(manager) == "");
}

TEST_CASE("a construction that runs out of memory leaks nothing") {
  const manager_config config = two_groups();
  const std::int64_t failures = fail_each([&] { const block_manager manager(config); }, [] {});
  CHECK(failures > 20);
}

TEST_CASE("sequences, forks and plans have no allocation that could fail") {
  block_manager manager(two_groups());
  const sequence parent = manager.make_sequence();
  grow(manager, parent, 20);
  const auto nothing = [] {};
  CHECK(fail_each([&] { (void)manager.make_sequence(); }, nothing) == 0);
  CHECK(fail_each([&] { (void)manager.fork(parent); }, nothing) == 0);
  CHECK(fail_each([&] { (void)manager.plan({{parent, 20}}); }, nothing) == 0);
}

TEST_CASE("copies that run out of memory can be taken again") {
  block_manager manager(two_groups());
  const sequence parent = manager.make_sequence();
  grow(manager, parent, 20);
  const sequence child = manager.fork(parent);
  const sequence other = manager.fork(parent);
  step step = manager.plan({{child, 2}, {other, 1}});
  const auto before = table(manager, child);
  std::size_t taken = 0;
  const std::int64_t failures = fail_each(
      [&] {
        const pagoda::copy_list copies = step.take_copies();
        taken = copies.blocks(0).size() + copies.blocks(1).size();
      },
      [&] {
        CHECK_THROWS_AS(step.commit(), pagoda::logic_error);
        CHECK(table(manager, child) == before);
        CHECK(faults(manager) == "");
      });
  CHECK(failures >= 2);
  CHECK(taken == 4);
  step.commit();
  CHECK(child.position() == 22);
}

TEST_CASE("a tree commit that runs out of memory leaves the step open and unchanged") {
  block_manager manager(two_groups());
  const sequence a = manager.make_sequence();
  const sequence b = manager.make_sequence();
  grow(manager, a, 70);
  step step = manager.plan({{a, 40}, {b, 20}});
  const std::vector<std::int32_t> values{1, 2, 30, 5, 6, 7, 8, 19};
  const std::vector<std::int32_t> offsets{0, 3, 8};
  const auto blocks = table(manager, a, 1);
  std::size_t moved = 0;
  const std::int64_t failures = fail_each(
      [&] {
        const pagoda::copy_list moves = step.commit_paths({values, offsets});
        moved = moves.rows(0).size() + moves.rows(1).size();
      },
      [&] {
        CHECK(step.open());
        CHECK(a.position() == 70);
        CHECK(b.position() == 0);
        CHECK(table(manager, a, 1) == blocks);
        CHECK(faults(manager) == "");
      });
  CHECK(failures >= 4);
  CHECK(moved == 16);
  CHECK(a.position() == 73);
  CHECK(b.position() == 5);
  CHECK(faults(manager) == "");
}

TEST_CASE("an error whose message finds no memory still changes nothing") {
  block_manager manager(two_groups());
  const sequence seq = manager.make_sequence();
  grow(manager, seq, 5);
  const auto before = table(manager, seq);
  const pagoda::block_stats stats = manager.stats(0);
  std::int64_t thrown = 0;
  const std::int64_t failures = fail_each(
      [&] {
        try {
          (void)manager.plan({{seq, 1}, {seq, 1}});
        } catch (const pagoda::invalid_argument&) {
          ++thrown;
        }
      },
      [&] {
        CHECK(seq.position() == 5);
        CHECK(faults(manager) == "");
      });
  CHECK(failures > 0);
  CHECK(thrown == 1);
  CHECK(table(manager, seq) == before);
  CHECK(manager.stats(0) == stats);
}

}  // namespace
