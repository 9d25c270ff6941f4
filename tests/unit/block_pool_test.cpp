// SPDX-License-Identifier: Apache-2.0
// The pool alone: who holds which block, and in which order blocks are given out.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <pagoda/block_pool.hpp>

namespace {

using pagoda::block_id;
using pagoda::block_pool;
using pagoda::num_blocks;
using pagoda::ticket;

std::vector<block_id> take(block_pool& pool, int count) {
  std::vector<block_id> blocks;
  for (int i = 0; i < count; ++i) blocks.push_back(pool.allocate());
  return blocks;
}

TEST_CASE("a new pool has only free blocks and gives out each of them once") {
  block_pool pool(num_blocks{7});
  CHECK(pool.size() == 7);
  CHECK(pool.free() == 7);
  CHECK(pool.used() == 0);
  CHECK(pool.retiring() == 0);
  CHECK(pool.consistent());
  std::set<block_id> seen;
  for (int i = 0; i < 7; ++i) {
    const block_id block = pool.allocate();
    CHECK(static_cast<int>(block) >= 0);
    CHECK(static_cast<int>(block) < 7);
    CHECK(pool.references(block) == 1);
    seen.insert(block);
    CHECK(pool.used() == i + 1);
    CHECK(pool.free() == 6 - i);
    CHECK(pool.consistent());
  }
  CHECK(seen.size() == 7);
}

TEST_CASE("an exhausted pool says so with its numbers and recovers after a release") {
  block_pool pool(num_blocks{3});
  const std::vector<block_id> blocks = take(pool, 3);
  pool.release(blocks[1], ticket{5});
  CHECK(pool.try_allocate() == block_id::none);
  try {
    pool.allocate();
    FAIL("an empty pool gave out a block");
  } catch (const pagoda::out_of_blocks& error) {
    CHECK(error.why().needed == 1);
    CHECK(error.why().free == 0);
    CHECK(error.why().retiring == 1);
    CHECK(std::string(error.what()).find("1 retiring") != std::string::npos);
  }
  CHECK(pool.used() == 2);
  CHECK(pool.consistent());
  pool.release(blocks[0]);
  CHECK(pool.allocate() == blocks[0]);
}

TEST_CASE("a shared block is freed by its last release only") {
  block_pool pool(num_blocks{2});
  const block_id block = pool.allocate();
  pool.share(block);
  pool.share(block);
  CHECK(pool.references(block) == 3);
  pool.release(block);
  pool.release(block);
  CHECK(pool.references(block) == 1);
  CHECK(pool.used() == 1);
  pool.release(block);
  CHECK(pool.references(block) == 0);
  CHECK(pool.free() == 2);
  CHECK(pool.consistent());
}

TEST_CASE("a second release is refused and changes nothing") {
  block_pool pool(num_blocks{3});
  const block_id block = pool.allocate();
  pool.release(block);
  CHECK_THROWS_AS(pool.release(block), pagoda::logic_error);
  CHECK_THROWS_AS(pool.share(block), pagoda::logic_error);
  CHECK(pool.free() == 3);
  CHECK(pool.consistent());
  const std::vector<block_id> all = take(pool, 3);
  CHECK(std::set<block_id>(all.begin(), all.end()).size() == 3);
}

TEST_CASE("a retiring block can be neither released, shared nor given out") {
  block_pool pool(num_blocks{2});
  const block_id block = pool.allocate();
  pool.release(block, ticket{1});
  CHECK(pool.retiring() == 1);
  CHECK(pool.used() == 0);
  CHECK(pool.references(block) == 0);
  CHECK_THROWS_AS(pool.release(block), pagoda::logic_error);
  CHECK_THROWS_AS(pool.release(block, ticket{2}), pagoda::logic_error);
  CHECK_THROWS_AS(pool.share(block), pagoda::logic_error);
  CHECK(pool.consistent());
  CHECK(pool.allocate() != block);
  CHECK(pool.try_allocate() == block_id::none);
  pool.complete(ticket{1});
  CHECK(pool.allocate() == block);
}

TEST_CASE("ids outside the pool are refused by every call") {
  block_pool pool(num_blocks{4});
  take(pool, 4);
  for (const block_id bad : {block_id::none, block_id{4}, block_id{std::numeric_limits<std::int32_t>::max()},
                             block_id{std::numeric_limits<std::int32_t>::min()}}) {
    CHECK_THROWS_AS(pool.share(bad), pagoda::out_of_range);
    CHECK_THROWS_AS(pool.release(bad), pagoda::out_of_range);
    CHECK_THROWS_AS(pool.references(bad), pagoda::out_of_range);
  }
  CHECK(pool.used() == 4);
  CHECK(pool.consistent());
}

TEST_CASE("complete frees the blocks of its ticket and of earlier ones") {
  block_pool pool(num_blocks{6});
  const std::vector<block_id> blocks = take(pool, 6);
  pool.release(blocks[0], ticket{1});
  pool.release(blocks[1], ticket{2});
  pool.release(blocks[2], ticket{2});
  pool.release(blocks[3], ticket{4});
  CHECK(pool.retiring() == 4);
  pool.complete(ticket::none);
  CHECK(pool.retiring() == 4);
  pool.complete(ticket{2});
  CHECK(pool.retiring() == 1);
  CHECK(pool.free() == 3);
  CHECK(pool.consistent());
  pool.complete(ticket{3});
  CHECK(pool.retiring() == 1);
  pool.complete(ticket{9});
  CHECK(pool.retiring() == 0);
  CHECK(pool.free() == 4);
  pool.release(blocks[4], ticket{10});
  CHECK(pool.retiring() == 1);
  CHECK(pool.consistent());
}

TEST_CASE("blocks are given out lowest first, and the one released last goes first") {
  block_pool pool(num_blocks{4});
  const std::vector<block_id> blocks = take(pool, 3);
  CHECK(blocks == std::vector<block_id>{block_id{0}, block_id{1}, block_id{2}});
  pool.release(blocks[0]);
  pool.release(blocks[2]);
  CHECK(pool.allocate() == block_id{2});
  CHECK(pool.allocate() == block_id{0});
  CHECK(pool.allocate() == block_id{3});
}

TEST_CASE("two pools given the same calls give out the same blocks") {
  block_pool a(num_blocks{32});
  block_pool b(num_blocks{32});
  std::vector<block_id> held;
  std::uint32_t random = 12345;
  std::uint64_t issued = 0;
  for (int i = 0; i < 2000; ++i) {
    random = random * 1664525u + 1013904223u;
    const std::uint32_t draw = random >> 16;
    if (draw % 3 != 0 || held.empty()) {
      const block_id block = a.try_allocate();
      REQUIRE(b.try_allocate() == block);
      if (block != block_id::none) held.push_back(block);
    } else {
      const std::size_t victim = draw / 3 % held.size();
      const ticket after = draw % 2 == 0 ? ticket::none : ticket{++issued};
      a.release(held[victim], after);
      b.release(held[victim], after);
      held.erase(held.begin() + static_cast<std::ptrdiff_t>(victim));
    }
    if (draw % 7 == 0) {
      a.complete(ticket{issued});
      b.complete(ticket{issued});
    }
    REQUIRE(a.used() == static_cast<std::int32_t>(held.size()));
    REQUIRE(a.consistent());
  }
}

TEST_CASE("a pool has at least one block") {
  CHECK_THROWS_AS(block_pool(num_blocks{0}), pagoda::invalid_argument);
  CHECK_THROWS_AS(block_pool(num_blocks{-1}), pagoda::invalid_argument);
  CHECK_THROWS_AS(block_pool(num_blocks{std::numeric_limits<std::int32_t>::max()}), pagoda::invalid_argument);
  block_pool one(num_blocks{1});
  CHECK(one.allocate() == block_id{0});
}

TEST_CASE(
    "a lent block is lent until its ticket completes, whoever holds it, and no longer when it is given out anew") {
  block_pool pool(num_blocks{2});
  const block_id block = pool.allocate();
  CHECK_FALSE(pool.lent(block, ticket::none));
  pool.lend(block, ticket{3});
  CHECK(pool.lent(block, ticket::none));
  CHECK(pool.lent(block, ticket{2}));
  CHECK_FALSE(pool.lent(block, ticket{3}));
  pool.keep(block);
  pool.release(block, ticket{3});
  pool.share(block);  // found again while it retires
  CHECK(pool.lent(block, ticket{2}));
  pool.forget(block);
  pool.release(block, ticket{4});
  pool.complete(ticket{4});
  CHECK(pool.allocate() == block);
  CHECK_FALSE(pool.lent(block, ticket::none));
  CHECK(pool.consistent());
}

TEST_CASE("a block that is kept is cached after its last release, and free once it is forgotten") {
  block_pool pool(num_blocks{3});
  const block_id block = pool.allocate();
  CHECK_FALSE(pool.kept(block));
  pool.keep(block);
  pool.keep(block);  // a second time changes nothing
  CHECK(pool.kept(block));
  pool.share(block);
  CHECK_FALSE(pool.release(block));
  CHECK_FALSE(pool.is_cached(block));
  CHECK(pool.release(block));
  CHECK(pool.is_cached(block));
  CHECK(pool.references(block) == 0);
  CHECK(pool.cached() == 1);
  CHECK(pool.free() == 2);
  CHECK(pool.used() == 0);
  CHECK(pool.consistent());
  CHECK_THROWS_AS(pool.release(block), pagoda::logic_error);
  CHECK_THROWS_AS(pool.keep(block), pagoda::logic_error);

  // It is not given out as long as it is cached.
  CHECK(pool.allocate() != block);
  CHECK(pool.allocate() != block);
  CHECK(pool.try_allocate() == block_id::none);
  pool.forget(block);
  CHECK_FALSE(pool.is_cached(block));
  CHECK(pool.cached() == 0);
  CHECK(pool.free() == 1);
  CHECK(pool.consistent());
  CHECK(pool.allocate() == block);
  CHECK_FALSE(pool.kept(block));
}

TEST_CASE("a cached block is in use again when it is shared, and cached again after that") {
  block_pool pool(num_blocks{2});
  const block_id block = pool.allocate();
  pool.keep(block);
  CHECK(pool.release(block));
  pool.share(block);
  CHECK(pool.cached() == 0);
  CHECK(pool.used() == 1);
  CHECK(pool.references(block) == 1);
  CHECK(pool.shared() == 0);
  pool.share(block);
  CHECK(pool.shared() == 1);
  CHECK(pool.consistent());
  CHECK_FALSE(pool.release(block));
  CHECK(pool.shared() == 0);
  CHECK(pool.release(block));
  CHECK(pool.cached() == 1);
  CHECK(pool.consistent());
}

TEST_CASE("shared counts the blocks with two references or more, each once") {
  block_pool pool(num_blocks{3});
  const std::vector<block_id> blocks = take(pool, 3);
  CHECK(pool.shared() == 0);
  pool.share(blocks[0]);
  pool.share(blocks[0]);
  pool.share(blocks[2]);
  CHECK(pool.shared() == 2);
  pool.release(blocks[0]);
  CHECK(pool.shared() == 2);
  pool.release(blocks[0], ticket{1});
  CHECK(pool.shared() == 1);
  pool.release(blocks[2], ticket{1});
  CHECK(pool.shared() == 0);
  CHECK(pool.retiring() == 0);
  CHECK(pool.used() == 3);
  CHECK(pool.consistent());
}

TEST_CASE("a block in use that is forgotten becomes free with its last release") {
  block_pool pool(num_blocks{2});
  const block_id block = pool.allocate();
  pool.keep(block);
  pool.forget(block);
  CHECK_FALSE(pool.kept(block));
  CHECK(pool.used() == 1);
  CHECK_FALSE(pool.release(block));
  CHECK(pool.free() == 2);
  pool.forget(block);  // nothing to forget
  CHECK(pool.free() == 2);
  CHECK(pool.consistent());
}

TEST_CASE("a kept block retires, and is cached when its ticket completes") {
  block_pool pool(num_blocks{4});
  const std::vector<block_id> blocks = take(pool, 4);
  for (const int i : {0, 1, 3}) pool.keep(blocks[static_cast<std::size_t>(i)]);
  CHECK_FALSE(pool.release(blocks[1], ticket{1}));
  CHECK_FALSE(pool.release(blocks[2], ticket{1}));
  CHECK_FALSE(pool.release(blocks[0], ticket{2}));
  CHECK_FALSE(pool.release(blocks[3], ticket{2}));
  CHECK(pool.retiring() == 4);
  CHECK(pool.cached() == 0);
  pool.forget(blocks[3]);  // still retires, but is free afterwards
  CHECK(pool.retiring() == 4);
  std::vector<block_id> cached;
  pool.complete(ticket{1}, [&](block_id block) { cached.push_back(block); });
  CHECK(cached == std::vector<block_id>{blocks[1]});
  CHECK(pool.cached() == 1);
  CHECK(pool.free() == 1);
  pool.complete(ticket{2}, [&](block_id block) { cached.push_back(block); });
  CHECK(cached == std::vector<block_id>{blocks[1], blocks[0]});
  CHECK(pool.cached() == 2);
  CHECK(pool.free() == 2);
  CHECK(pool.retiring() == 0);
  CHECK(pool.consistent());
}

TEST_CASE("a kept block that retires is found again: it leaves the queue from any place") {
  for (const std::size_t found : {std::size_t{0}, std::size_t{1}, std::size_t{2}}) {
    CAPTURE(found);
    block_pool pool(num_blocks{3});
    const std::vector<block_id> blocks = take(pool, 3);
    for (const block_id block : blocks) {
      pool.keep(block);
      pool.release(block, ticket{1});
    }
    pool.share(blocks[found]);
    CHECK(pool.retiring() == 2);
    CHECK(pool.used() == 1);
    CHECK(pool.references(blocks[found]) == 1);
    CHECK(pool.consistent());
    pool.complete(ticket{1});
    CHECK(pool.cached() == 2);
    CHECK(pool.used() == 1);
    CHECK_FALSE(pool.is_cached(blocks[found]));
    // Its next release waits for a ticket of its own.
    pool.release(blocks[found], ticket{2});
    CHECK(pool.retiring() == 1);
    pool.complete(ticket{1});
    CHECK(pool.retiring() == 1);
    pool.complete(ticket{2});
    CHECK(pool.cached() == 3);
    CHECK(pool.consistent());
  }
}

TEST_CASE("a retiring block that nobody keeps is not found again") {
  block_pool pool(num_blocks{1});
  const block_id block = pool.allocate();
  pool.keep(block);
  pool.release(block, ticket{1});
  pool.forget(block);
  CHECK_THROWS_AS(pool.share(block), pagoda::logic_error);
  CHECK(pool.retiring() == 1);
  pool.complete(ticket{1});
  CHECK(pool.free() == 1);
  CHECK(pool.cached() == 0);
  CHECK(pool.consistent());
}

TEST_CASE("keep, forget and the questions about a block refuse ids outside the pool and blocks nobody holds") {
  block_pool pool(num_blocks{2});
  for (const block_id bad : {block_id::none, block_id{2}}) {
    CHECK_THROWS_AS(pool.keep(bad), pagoda::out_of_range);
    CHECK_THROWS_AS(pool.forget(bad), pagoda::out_of_range);
    CHECK_THROWS_AS(pool.is_cached(bad), pagoda::out_of_range);
  }
  CHECK_THROWS_AS(pool.keep(block_id{0}), pagoda::logic_error);  // free
  CHECK_THROWS_WITH_AS(pool.share(block_id{1}), doctest::Contains("which is free"), pagoda::logic_error);
  const block_id block = pool.allocate();
  pool.keep(block);
  pool.release(block, ticket{1});
  CHECK_THROWS_WITH_AS(pool.keep(block), doctest::Contains("which is retiring"), pagoda::logic_error);
  pool.complete(ticket{1});
  CHECK_THROWS_WITH_AS(pool.keep(block), doctest::Contains("which is cached"), pagoda::logic_error);
  CHECK(pool.cached() == 1);
  CHECK(pool.consistent());
}

}  // namespace
