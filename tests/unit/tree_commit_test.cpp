// SPDX-License-Identifier: Apache-2.0
// commit_paths: the accepted path of each token tree, and the rows that have to move for it.
#include <cstdint>
#include <initializer_list>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <pagoda/block_manager.hpp>

#include "manager_support.hpp"

namespace {

using pagoda::block_id;
using pagoda::block_manager;
using pagoda::copy_list;
using pagoda::row_copy;
using pagoda::sequence;
using pagoda::step;
using pagoda_test::faults;
using pagoda_test::grow;
using pagoda_test::ids;
using pagoda_test::table;

/// Paths of a whole batch, as the call takes them.
struct path_list {
  path_list(std::initializer_list<std::initializer_list<std::int32_t>> paths) {
    offsets.push_back(0);
    for (const auto& path : paths) {
      values.insert(values.end(), path.begin(), path.end());
      offsets.push_back(static_cast<std::int32_t>(values.size()));
    }
  }
  operator pagoda::ragged<std::int32_t>() const { return {values, offsets}; }  // NOLINT

  std::vector<std::int32_t> values;
  std::vector<std::int32_t> offsets;
};

std::vector<row_copy> rows(const copy_list& list, int group = 0) {
  return {list.rows(group).begin(), list.rows(group).end()};
}

block_manager make_manager() {
  return block_manager({.groups = {{.num_blocks = 16}}, .block_size = 4, .max_sequences = 4});
}

TEST_CASE("an accepted path moves its rows together, in order") {
  block_manager manager = make_manager();
  const sequence seq = manager.make_sequence();
  grow(manager, seq, 2);
  step step = manager.plan({{seq, 8}});  // tokens 2 to 9 in blocks 0, 1, 2
  const copy_list moves = step.commit_paths(path_list{{1, 2, 4, 7}});
  CHECK(rows(moves) == std::vector<row_copy>{{block_id{0}, 3, block_id{0}, 2},
                                             {block_id{1}, 0, block_id{0}, 3},
                                             {block_id{1}, 2, block_id{1}, 0},
                                             {block_id{2}, 1, block_id{1}, 1}});
  CHECK(moves.blocks().empty());
  CHECK_FALSE(step.open());
  CHECK(seq.position() == 6);
  CHECK(table(manager, seq) == ids{0, 1});
  CHECK(faults(manager) == "");
}

TEST_CASE("a path that begins with the first tokens moves only what comes after a gap") {
  block_manager manager = make_manager();
  const sequence seq = manager.make_sequence();
  {
    step step = manager.plan({{seq, 6}});
    const copy_list moves = step.commit_paths(path_list{{0, 1, 2, 5}});
    CHECK(rows(moves) == std::vector<row_copy>{{block_id{1}, 1, block_id{0}, 3}});
  }
  CHECK(seq.position() == 4);
  step step = manager.plan({{seq, 5}});
  CHECK(step.commit_paths(path_list{{0, 1, 2, 3, 4}}).empty());
  CHECK(seq.position() == 9);
  CHECK(faults(manager) == "");
}

TEST_CASE("an empty path rolls its sequence back") {
  block_manager manager = make_manager();
  const sequence a = manager.make_sequence();
  grow(manager, a, 6);
  const sequence b = manager.fork(a);
  step step = manager.plan({{b, 4}, {a, 3}});
  (void)step.take_copies();
  CHECK(rows(step.commit_paths(path_list{{}, {2}})).size() == 1);
  CHECK(b.position() == 6);
  CHECK(table(manager, b) == ids{0, 1});
  CHECK(a.position() == 7);
  CHECK(manager.stats().used == 3);
  CHECK(faults(manager) == "");
}

TEST_CASE("invalid paths are refused and the step stays as it was") {
  block_manager manager = make_manager();
  const sequence a = manager.make_sequence();
  const sequence b = manager.make_sequence();
  step step = manager.plan({{a, 4}, {b, 2}});
  const auto refused = [&](const path_list& paths) {
    CHECK_THROWS_AS((void)step.commit_paths(paths), pagoda::invalid_argument);
    CHECK(step.open());
    CHECK(manager.stats().tokens == 0);
    CHECK(manager.stats().used == 2);
    CHECK(faults(manager) == "");
  };
  refused({{0}});
  refused({{0}, {0}, {0}});
  refused({{0}, {2}});
  refused({{4}, {0}});
  refused({{1, 1}, {0}});
  refused({{2, 1}, {0}});
  refused({{-1, 0}, {0}});
  const std::vector<std::int32_t> values{0, 1};
  for (const std::vector<std::int32_t>& offsets :
       std::vector<std::vector<std::int32_t>>{{0, 1, 3}, {0, 2, 1}, {-1, 1, 2}, {0, -1, 2}, {}, {0, 1}}) {
    CHECK_THROWS_AS((void)step.commit_paths({values, offsets}), pagoda::invalid_argument);
    CHECK(step.open());
  }
  CHECK(step.commit_paths(path_list{{0}, {0, 1}}).empty());
  CHECK(a.position() == 1);
  CHECK(b.position() == 2);
}

TEST_CASE("several sequences move within their own blocks") {
  block_manager manager = make_manager();
  const sequence a = manager.make_sequence();
  const sequence b = manager.make_sequence();
  const sequence c = manager.make_sequence();
  grow(manager, a, 3);
  grow(manager, b, 4);
  step step = manager.plan({{b, 3}, {c, 3}, {a, 2}});
  const ids of_a = table(manager, a);
  const ids of_b = table(manager, b);
  const ids of_c = table(manager, c);
  const copy_list moves = step.commit_paths(path_list{{0, 2}, {1}, {1}});
  CHECK(rows(moves) == std::vector<row_copy>{{block_id{of_b[1]}, 2, block_id{of_b[1]}, 1},
                                             {block_id{of_c[0]}, 1, block_id{of_c[0]}, 0},
                                             {block_id{of_a[1]}, 0, block_id{of_a[0]}, 3}});
  CHECK(a.position() == 4);
  CHECK(b.position() == 6);
  CHECK(c.position() == 1);
  CHECK(table(manager, a) == ids{of_a[0]});
  CHECK(faults(manager) == "");
}

TEST_CASE("a cancelled entry takes an empty path only") {
  block_manager manager = make_manager();
  const sequence a = manager.make_sequence();
  const sequence b = manager.make_sequence();
  grow(manager, a, 5);
  step step = manager.plan({{a, 3}, {b, 3}});
  step.cancel(0);
  const ids of_b = table(manager, b);
  CHECK_THROWS_AS((void)step.commit_paths(path_list{{0}, {2}}), pagoda::invalid_argument);
  const copy_list moves = step.commit_paths(path_list{{}, {2}});
  CHECK(rows(moves) == std::vector<row_copy>{{block_id{of_b[0]}, 2, block_id{of_b[0]}, 0}});
  CHECK(a.position() == 5);
  CHECK(b.position() == 1);
  CHECK(faults(manager) == "");
}

TEST_CASE("rows of a shared block move in the copy, not in the original") {
  block_manager manager = make_manager();
  const sequence parent = manager.make_sequence();
  grow(manager, parent, 2);
  const sequence child = manager.fork(parent);
  step step = manager.plan({{child, 3}});
  CHECK(step.take_copies().blocks().size() == 1);
  const ids of_child = table(manager, child);
  CHECK(of_child[0] != table(manager, parent)[0]);
  CHECK(rows(step.commit_paths(path_list{{1}})) ==
        std::vector<row_copy>{{block_id{of_child[0]}, 3, block_id{of_child[0]}, 2}});
  CHECK(faults(manager) == "");
}

TEST_CASE("behind skipped blocks each group moves the rows of its own table") {
  block_manager manager({.groups = {{.num_blocks = 16, .layers = {0}},
                                    {.num_blocks = 16, .keep = {.sinks = 3, .window = 4}, .layers = {1}}},
                         .block_size = 4,
                         .max_sequences = 4});
  const sequence seq = manager.make_sequence();
  for (int i = 0; i < 18; ++i) grow(manager, seq, 1);
  step step = manager.plan({{seq, 6}});  // tokens 18 to 23
  const ids all = table(manager, seq, 0);
  const ids window = table(manager, seq, 1);
  REQUIRE(all.size() == 6);
  REQUIRE(window.size() == 4);  // block 0 (sinks), then 3, 4, 5: the query at 18 reads from 15 on
  const copy_list moves = step.commit_paths(path_list{{1, 3, 5}});
  CHECK(rows(moves, 0) == std::vector<row_copy>{{block_id{all[4]}, 3, block_id{all[4]}, 2},
                                                {block_id{all[5]}, 1, block_id{all[4]}, 3},
                                                {block_id{all[5]}, 3, block_id{all[5]}, 0}});
  CHECK(rows(moves, 1) == std::vector<row_copy>{{block_id{window[2]}, 3, block_id{window[2]}, 2},
                                                {block_id{window[3]}, 1, block_id{window[2]}, 3},
                                                {block_id{window[3]}, 3, block_id{window[3]}, 0}});
  CHECK(seq.position() == 21);
  CHECK(table(manager, seq, 1) == ids{window[0], window[2], window[3]});  // the query at 21 reads from 18 on
  CHECK(faults(manager) == "");
}

}  // namespace
