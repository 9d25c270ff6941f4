// SPDX-License-Identifier: Apache-2.0
// Windows and sinks: which blocks a commit frees, what a table then looks like, and what truncate still allows.
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <pagoda/block_manager.hpp>

#include "manager_support.hpp"

namespace {

using pagoda::block_manager;
using pagoda::retention;
using pagoda::sequence;
using pagoda::step;
using pagoda_test::faults;
using pagoda_test::grow;
using pagoda_test::ids;
using pagoda_test::table;

block_manager one_group(retention keep, std::int32_t blocks = 32, std::int32_t block_size = 4) {
  return block_manager(
      {.groups = {{.num_blocks = blocks, .keep = keep}}, .block_size = block_size, .max_sequences = 8});
}

/// Whether a query at `position` reads token t, by definition.
bool reads(const retention& keep, std::int64_t position, std::int64_t t) {
  return t <= position && (t < keep.sinks || keep.window == pagoda::unlimited || t > position - keep.window);
}

/// The logical blocks that hold a token some query at `length` or later reads, or that such a query's token goes to.
std::vector<std::int64_t> needed_blocks(const retention& keep, std::int64_t length, std::int64_t block_size) {
  std::vector<std::int64_t> needed;
  for (std::int64_t block = 0; block * block_size < length; ++block) {
    bool used = false;
    for (std::int64_t t = block * block_size; t < (block + 1) * block_size; ++t) {
      used = used || reads(keep, t < length ? length : t, t);
    }
    if (used) needed.push_back(block);
  }
  return needed;
}

TEST_CASE("window_begin is the first token that a query still reads") {
  for (const std::int64_t window : {1, 2, 3, 7, 16}) {
    const retention keep{.window = window};
    CHECK_FALSE(keep.keeps_all());
    for (std::int64_t position = 0; position < 40; ++position) {
      std::int64_t first = 0;
      while (!reads(keep, position, first)) ++first;
      CHECK(keep.window_begin(position) == first);
    }
  }
  CHECK(retention{}.keeps_all());
  CHECK(retention{}.window_begin(1'000'000'000'000) == 0);
}

TEST_CASE("a commit keeps exactly the blocks that later queries can read") {
  for (const std::int32_t block_size : {1, 4, 8}) {
    for (const std::int64_t sinks : {0, 1, 4, 5, 8}) {
      for (const std::int64_t window : {1, 3, 4, 5, 9}) {
        for (const std::int32_t chunk : {1, 3, 13}) {
          CAPTURE(block_size);
          CAPTURE(sinks);
          CAPTURE(window);
          CAPTURE(chunk);
          const retention keep{sinks, window};
          block_manager manager = one_group(keep, 64, block_size);
          const sequence seq = manager.make_sequence();
          for (std::int64_t length = chunk; length <= 50; length += chunk) {
            grow(manager, seq, chunk);
            const auto needed = needed_blocks(keep, length, block_size);
            REQUIRE(table(manager, seq).size() == needed.size());
            REQUIRE(manager.stats().used == static_cast<std::int64_t>(needed.size()));
            const std::int64_t all = (length + block_size - 1) / block_size;
            const std::int64_t dropped = all - static_cast<std::int64_t>(needed.size());
            REQUIRE(seq.position() == length);
            REQUIRE(seq.resident() == length - dropped * block_size);
            REQUIRE(manager.stats().tokens == seq.resident());
          }
          REQUIRE(faults(manager) == "");
        }
      }
    }
  }
}

TEST_CASE("a window frees a block with the commit after which no query reads it") {
  block_manager manager = one_group({.window = 4});
  const sequence seq = manager.make_sequence();
  grow(manager, seq, 4);
  CHECK(table(manager, seq) == ids{0});
  grow(manager, seq, 2);  // the next query, at 6, reads 3 to 6
  CHECK(table(manager, seq) == ids{0, 1});
  grow(manager, seq, 1);  // the next query, at 7, reads 4 to 7
  CHECK(table(manager, seq) == ids{1});
  CHECK(seq.resident() == 3);
  CHECK(seq.position() == 7);
}

TEST_CASE("nothing is dropped by a plan or a rollback, only by a commit, on its committed length") {
  block_manager manager = one_group({.window = 4});
  const sequence seq = manager.make_sequence();
  grow(manager, seq, 6);
  {
    const step step = manager.plan({{seq, 9}});
    CHECK(table(manager, seq).size() == 4);
  }
  CHECK(table(manager, seq).size() == 2);
  step step = manager.plan({{seq, 9}});
  step.commit(std::array<std::int32_t, 1>{1});
  CHECK(table(manager, seq).size() == 1);
  CHECK(seq.position() == 7);
  CHECK(faults(manager) == "");
}

TEST_CASE("the table of sinks and a window has no entry for the blocks between") {
  block_manager manager = one_group({.sinks = 5, .window = 6});
  const sequence seq = manager.make_sequence();
  for (int i = 0; i < 23; ++i) grow(manager, seq, 1);
  const step step = manager.plan({{seq, 3}});
  const pagoda::batch_view view = step.batch();
  CHECK(view.sink_blocks == 2);
  CHECK(view.keep == retention{5, 6});
  CHECK(view.context_length(0) == 26);
  CHECK(view.skipped_blocks[0] == 2);  // tokens 8 to 15: the query at 23 reads from 18 on
  const ids blocks = table(manager, seq);
  CHECK(blocks.size() == 5);
  CHECK(blocks[0] == 0);
  CHECK(blocks[1] == 1);
  for (const std::int64_t logical : {0, 1, 4, 5, 6}) {
    const std::size_t entry = static_cast<std::size_t>(logical < 2 ? logical : logical - 2);
    CHECK(pagoda_test::number(view.block(0, logical)) == blocks[entry]);
  }
  CHECK(seq.resident() == 15);
}

TEST_CASE("a fork shares what the window still holds, and each side drops for itself") {
  block_manager manager = one_group({.sinks = 2, .window = 5});
  const sequence parent = manager.make_sequence();
  grow(manager, parent, 18);
  const sequence child = manager.fork(parent);
  CHECK(child.position() == 18);
  CHECK(child.resident() == parent.resident());
  CHECK(table(manager, child) == table(manager, parent));
  const ids before = table(manager, parent);
  grow(manager, child, 9);
  CHECK(table(manager, parent) == before);
  CHECK(table(manager, child)[0] == before[0]);
  CHECK(child.resident() == 4 + 7);  // the sink block, then tokens 20 to 26: the next query reads from 23 on
  CHECK(faults(manager) == "");
}

TEST_CASE("truncate is refused exactly where dropped tokens would be needed") {
  for (const std::int64_t sinks : {0, 3, 8}) {
    for (const std::int64_t window : {1, 4, 6}) {
      for (std::int64_t length = 0; length <= 30; ++length) {
        for (std::int64_t target = 0; target <= length; ++target) {
          CAPTURE(sinks);
          CAPTURE(window);
          CAPTURE(length);
          CAPTURE(target);
          const retention keep{sinks, window};
          block_manager manager = one_group(keep);
          const sequence seq = manager.make_sequence();
          for (std::int64_t i = 0; i < length; ++i) grow(manager, seq, 1);
          std::vector<bool> dropped(static_cast<std::size_t>(length / 4 + 1), true);
          for (const std::int64_t block : needed_blocks(keep, length, 4))
            dropped[static_cast<std::size_t>(block)] = false;
          if (length % 4 == 0) dropped.back() = false;  // not begun
          bool begun_before = false;
          bool needs_dropped = false;
          for (std::int64_t t = 0; t <= target; ++t) {
            const bool is_dropped = dropped[static_cast<std::size_t>(t / 4)];
            begun_before = begun_before || (is_dropped && t < target);
            needs_dropped = needs_dropped || (is_dropped && reads(keep, target, t));
          }
          const std::int64_t used = manager.stats().used;
          if (begun_before && needs_dropped) {
            CHECK_THROWS_AS(manager.truncate(seq, target), pagoda::invalid_argument);
            REQUIRE(seq.position() == length);
            REQUIRE(manager.stats().used == used);
          } else {
            manager.truncate(seq, target);
            REQUIRE(seq.position() == target);
            grow(manager, seq, 7);
            REQUIRE(seq.position() == target + 7);
          }
          REQUIRE(faults(manager) == "");
        }
      }
    }
  }
}

TEST_CASE("a refused truncate names the lengths that are allowed, and those work") {
  block_manager manager = one_group({.sinks = 4, .window = 6});
  const sequence seq = manager.make_sequence();
  grow(manager, seq, 21);  // dropped: 4 to 15
  std::string message;
  try {
    manager.truncate(seq, 18);
  } catch (const pagoda::invalid_argument& error) {
    message = error.what();
  }
  CHECK(message.find("truncate to 4 or fewer, or to 21 or more") != std::string::npos);
  manager.truncate(seq, 21);
  manager.truncate(seq, 4);
  CHECK(seq.resident() == 4);
  CHECK(manager.stats().used == 1);
  CHECK(faults(manager) == "");
}

TEST_CASE("a plan that one group cannot serve takes nothing from the others") {
  block_manager manager({.groups = {{.num_blocks = 16, .layers = {0, 2}}, {.num_blocks = 3, .layers = {1}}},
                         .block_size = 4,
                         .max_sequences = 4});
  const sequence a = manager.make_sequence();
  const sequence b = manager.make_sequence();
  grow(manager, a, 6);
  const sequence c = manager.fork(a);
  const pagoda::block_stats first = manager.stats(0);
  const pagoda::block_stats second = manager.stats(1);
  pagoda::shortage why;
  CHECK_FALSE(manager.try_plan({{c, 1}, {b, 3}}, &why).has_value());
  CHECK(why.group == 1);
  CHECK(why.needed == 2);
  CHECK(why.free == 1);
  CHECK(manager.stats(0) == first);
  CHECK(manager.stats(1) == second);
  CHECK(table(manager, c, 0) == table(manager, a, 0));
  CHECK(faults(manager) == "");
  CHECK(manager.try_plan({{b, 3}}).has_value());
}

TEST_CASE("groups of different retention follow one position") {
  block_manager manager({.groups = {{.num_blocks = 16, .layers = {0}},
                                    {.num_blocks = 16, .keep = {.window = 4}, .layers = {1}},
                                    {.num_blocks = 16, .keep = {.sinks = 4, .window = 4}, .layers = {2}}},
                         .block_size = 4});
  const sequence seq = manager.make_sequence();
  grow(manager, seq, 31);
  CHECK(seq.position() == 31);
  CHECK(seq.resident(0) == 31);
  CHECK(seq.resident(1) == 3);
  CHECK(seq.resident(2) == 7);
  CHECK(manager.stats(0).used == 8);
  CHECK(manager.stats(1).used == 1);
  CHECK(manager.stats(2).used == 2);
  CHECK_THROWS_AS((void)seq.resident(3), pagoda::out_of_range);
  CHECK_THROWS_AS((void)manager.stats(-1), pagoda::out_of_range);
  CHECK_THROWS_AS(manager.truncate(seq, 30), pagoda::invalid_argument);
  CHECK(seq.resident(0) == 31);
  CHECK(faults(manager) == "");
}

TEST_CASE("a window streams for ever in a pool that holds the window alone") {
  // The window of 8 touches three blocks at most, the sinks one.
  block_manager manager = one_group({.sinks = 2, .window = 8}, 4);
  const sequence seq = manager.make_sequence();
  for (int i = 0; i < 10'000; ++i) {
    grow(manager, seq, 1);
    REQUIRE(manager.stats().used <= 4);
  }
  CHECK(seq.position() == 10'000);
  CHECK(seq.resident() <= 16);
  CHECK(faults(manager) == "");
}

TEST_CASE("locate finds each layer's group and its place in it") {
  block_manager manager(
      {.groups = {{.num_blocks = 4, .layers = {0, 5, 2}}, {.num_blocks = 4, .keep = {.window = 8}, .layers = {1, 4}}}});
  CHECK(manager.locate(0).group == 0);
  CHECK(manager.locate(5).index == 1);
  CHECK(manager.locate(2).index == 2);
  CHECK(manager.locate(4).group == 1);
  CHECK(manager.locate(4).index == 1);
  CHECK_THROWS_AS((void)manager.locate(3), pagoda::out_of_range);
  CHECK_THROWS_AS((void)manager.locate(6), pagoda::out_of_range);
  CHECK_THROWS_AS((void)manager.locate(-1), pagoda::out_of_range);
  const block_manager single({.groups = {{.num_blocks = 4}}});
  CHECK(single.locate(31).group == 0);
  CHECK(single.locate(31).index == 31);
  CHECK_THROWS_AS((void)single.locate(-1), pagoda::out_of_range);
}

}  // namespace
