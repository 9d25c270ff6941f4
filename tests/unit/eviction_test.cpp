// SPDX-License-Identifier: Apache-2.0
// The exact order in which each policy evicts, by cases made by hand.
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <pagoda/eviction/built_in.hpp>

#define PAGODA_TEST_NEW_IS_REPLACED_ELSEWHERE
#include "counting_new.hpp"
#include "eviction_calls.hpp"

namespace {

using namespace pagoda_test;
using pagoda::block_id;
using pagoda::cached_block;
using pagoda::fifo;
using pagoda::lfu;
using pagoda::lru;
using pagoda::never;
using order = std::vector<int>;

cached_block used(int id, std::uint32_t hits) {
  return {.id = block_id{id}, .hits = hits};
}

cached_block advised(int id, std::int32_t priority, std::int64_t expires = pagoda::never_expires) {
  return {.id = block_id{id}, .priority = priority, .expires = expires};
}

TEST_CASE("lru: the block inserted longest ago goes first, and a use makes it young again") {
  lru policy(6);
  CHECK(evict(policy) == -1);
  insert(policy, {3, 0, 5, 1});
  CHECK(policy.size() == 4);
  erase(policy, {0});
  CHECK(policy.size() == 3);
  CHECK(evict(policy) == 3);
  insert(policy, {0, 3});
  CHECK(drain(policy) == order{5, 1, 0, 3});
  CHECK(policy.size() == 0);
}

TEST_CASE("lru: nothing but the order of insertion counts") {
  lru policy(3);
  policy.insert({.id = block_id{2}, .depth = 7, .hits = 90, .priority = 100});
  policy.insert({.id = block_id{1}, .depth = 0, .hits = 0, .priority = 0, .expires = 0});
  policy.insert({.id = block_id{0}, .depth = 3, .hits = 5, .priority = 50});
  CHECK(drain(policy) == order{2, 1, 0});
}

TEST_CASE("fifo: the order of stored() decides, neither that of release nor later use") {
  fifo policy(6);
  store(policy, {0, 1, 2, 3});
  insert(policy, {3, 2, 1, 0});
  CHECK(policy.size() == 4);
  erase(policy, {0});  // used, and given back
  insert(policy, {0});
  CHECK(evict(policy) == 0);
  store(policy, {5, 0});
  insert(policy, {0, 5});
  CHECK(drain(policy) == order{1, 2, 3, 5, 0});
}

TEST_CASE("fifo: a block whose turn came while it was held goes before all others once it is given back") {
  fifo policy(6);
  store(policy, {0, 1, 2, 3, 4});
  insert(policy, {2, 3, 4});
  CHECK(evict(policy) == 2);  // 0 and 1 are held: overdue from now on
  CHECK(policy.size() == 2);
  insert(policy, {1});
  CHECK(policy.size() == 3);
  insert(policy, {0});
  CHECK(drain(policy) == order{1, 0, 3, 4});
}

TEST_CASE("fifo: an overdue block that is held again keeps its right, and loses it when it leaves the index") {
  fifo policy(6);
  store(policy, {0, 1, 2, 3});
  insert(policy, {2, 3});
  CHECK(evict(policy) == 2);
  insert(policy, {0, 1});
  erase(policy, {0, 1});
  CHECK(policy.size() == 1);
  policy.forgotten(block_id{1});
  store(policy, {1, 2});
  insert(policy, {2, 1, 0});
  CHECK(drain(policy) == order{0, 3, 1, 2});
}

TEST_CASE("fifo: held blocks stay in turn while nothing can be evicted") {
  fifo policy(3);
  store(policy, {0, 1, 2});
  CHECK(evict(policy) == -1);
  insert(policy, {2, 0, 1});
  CHECK(drain(policy) == order{0, 1, 2});
}

TEST_CASE("fifo: a block that was forgotten is young when it is stored anew") {
  fifo policy(3);
  store(policy, {0, 1});
  insert(policy, {0, 1});
  erase(policy, {0});
  policy.forgotten(block_id{0});
  store(policy, {2, 0});
  insert(policy, {0, 2});
  CHECK(drain(policy) == order{1, 2, 0});
}

TEST_CASE("fifo: without stored() blocks go in the order in which they were given back") {
  fifo policy(3);
  insert(policy, {2, 0, 1});
  CHECK(drain(policy) == order{2, 0, 1});
}

TEST_CASE("lfu: the block with the fewest hits goes first, and of equal ones that inserted longest ago") {
  lfu policy(6);
  policy.insert(used(0, 2));
  policy.insert(used(4, 1));
  policy.insert(used(1, 0));
  policy.insert(used(2, 1));
  policy.insert(used(3, 0));
  CHECK(policy.size() == 5);
  policy.erase(block_id{4});
  policy.insert(used(4, 1));
  CHECK(drain(policy) == order{1, 3, 2, 4, 0});
}

TEST_CASE("lfu: the key of the block evicted last is added to those that come, so that old hits fade") {
  lfu policy(4);
  policy.insert(used(0, 3));  // key 4
  policy.insert(used(1, 0));  // key 1
  CHECK(evict(policy) == 1);  // age 1
  policy.insert(used(1, 1));  // key 3
  CHECK(evict(policy) == 1);  // age 3
  policy.insert(used(1, 0));  // key 4, as 0, which is older
  policy.insert(used(2, 1));  // key 5
  CHECK(drain(policy) == order{0, 1, 2});
}

TEST_CASE("lfu: a block with many hits of long ago goes in the end") {
  lfu policy(2);
  policy.insert(used(0, 100));
  int rounds = 0;
  for (; rounds < 1000; ++rounds) {
    policy.insert(used(1, 0));
    if (evict(policy) == 0) break;
  }
  CHECK(rounds == 100);  // the age has become 100, and the newcomer's key 101
}

TEST_CASE("lfu: the number of hits may be the largest there is") {
  lfu policy(3);
  policy.insert(used(0, std::numeric_limits<std::uint32_t>::max()));
  policy.insert(used(1, 1));
  CHECK(drain(policy) == order{1, 0});
  policy.insert(used(0, 0));
  policy.insert(used(1, std::numeric_limits<std::uint32_t>::max()));
  policy.insert(used(2, 0));
  CHECK(drain(policy) == order{0, 2, 1});
}

TEST_CASE("priority: the lowest goes first, and of equal ones that inserted longest ago") {
  pagoda::priority policy(8);
  for (const cached_block& block :
       {advised(0, 50), advised(1, 100), advised(2, 0), advised(3, 50), advised(4, 1), advised(5, 0), advised(6, 99)}) {
    policy.insert(block);
  }
  CHECK(policy.size() == 7);
  CHECK(drain(policy) == order{2, 5, 4, 0, 3, 6, 1});
}

TEST_CASE("priority: without advice it is lru") {
  pagoda::priority policy(4);
  insert(policy, {2, 0, 3, 1});
  erase(policy, {0});
  insert(policy, {0});
  CHECK(drain(policy) == order{2, 3, 1, 0});
}

TEST_CASE("priority: from its expiry on a block counts as priority 0, in the order of insertion") {
  pagoda::priority policy(8);
  policy.insert(advised(0, 100, 10));
  policy.insert(advised(1, 0));
  policy.insert(advised(2, 90, 11));
  policy.insert(advised(3, 50));
  policy.insert(advised(4, 100, 12));
  policy.advance(9);
  CHECK(evict(policy) == 1);
  policy.advance(10);
  policy.insert(advised(1, 0));
  CHECK(evict(policy) == 0);  // demoted, and inserted before 1
  CHECK(evict(policy) == 1);
  CHECK(evict(policy) == 3);
  policy.advance(12);
  policy.insert(advised(3, 0));
  CHECK(policy.size() == 3);
  CHECK(drain(policy) == order{2, 4, 3});
}

TEST_CASE("priority: what has expired before it is inserted counts as priority 0 at once") {
  pagoda::priority policy(4);
  policy.advance(5);
  policy.insert(advised(0, 1));
  policy.insert(advised(1, 100, 5));
  policy.insert(advised(2, 100, 4));
  policy.insert(advised(3, 100, 6));
  CHECK(drain(policy) == order{1, 2, 0, 3});
}

TEST_CASE("priority: time starts at 0 and does not run backwards") {
  pagoda::priority policy(4);
  policy.insert(advised(0, 2));
  policy.insert(advised(1, 100, 0));
  CHECK(evict(policy) == 1);
  policy.advance(20);
  policy.advance(3);
  policy.insert(advised(1, 100, 20));
  CHECK(drain(policy) == order{1, 0});
}

TEST_CASE("priority: new advice about a cached block takes the place of the old") {
  pagoda::priority policy(4);
  policy.insert(advised(0, 10, 3));
  policy.insert(advised(1, 20));
  policy.insert(advised(2, 30));
  policy.erase(block_id{0});
  policy.insert(advised(0, 100));  // no longer expires
  policy.erase(block_id{2});
  policy.insert(advised(2, 100, 7));
  policy.advance(6);
  CHECK(evict(policy) == 1);
  CHECK(evict(policy) == 0);
  policy.insert(advised(0, 1));
  policy.advance(7);
  CHECK(drain(policy) == order{2, 0});
}

TEST_CASE("priority: an evicted block leaves no expiry behind") {
  pagoda::priority policy(2);
  policy.insert(advised(0, 10, 3));
  CHECK(evict(policy) == 0);
  policy.insert(advised(0, 10));
  policy.insert(advised(1, 5));
  policy.advance(3);
  CHECK(drain(policy) == order{1, 0});
}

TEST_CASE("priority: what never expires does not, even at the end of time") {
  pagoda::priority policy(2);
  policy.insert(advised(0, 10));
  policy.advance(std::numeric_limits<std::int64_t>::max());
  policy.insert(advised(1, 11));
  CHECK(drain(policy) == order{0, 1});
}

TEST_CASE("priority: numbers outside the range count as its ends") {
  pagoda::priority policy(4);
  policy.insert(advised(0, 1000));
  policy.insert(advised(1, 100));
  policy.insert(advised(2, 0));
  policy.insert(advised(3, -7));
  CHECK(drain(policy) == order{2, 3, 0, 1});
}

TEST_CASE("never: nothing is evicted") {
  never policy(4);
  insert(policy, {0, 1, 2, 3});
  CHECK(policy.size() == 0);
  CHECK(evict(policy) == -1);
  erase(policy, {1});
  CHECK(policy.size() == 0);
}

TEST_CASE("every built-in policy is chosen by its name") {
  const auto next = [](std::string_view name) {
    return pagoda::dispatch(pagoda::built_in_evictions{}, name, []<class P>(pagoda::type_tag<P>) {
      P policy(4);
      if constexpr (pagoda::has_stored<P>) store(policy, {3, 2, 1, 0});
      policy.insert({.id = block_id{0}, .hits = 1, .priority = 9});
      policy.insert({.id = block_id{1}, .hits = 0, .priority = 8});
      policy.insert({.id = block_id{2}, .hits = 1, .priority = 7});
      policy.insert({.id = block_id{3}, .hits = 1, .priority = 8});
      return evict(policy);
    });
  };
  CHECK(next("lru") == 0);
  CHECK(next("fifo") == 3);
  CHECK(next("lfu") == 1);
  CHECK(next("priority") == 2);
  CHECK(next("never") == -1);
  CHECK_THROWS_WITH_AS(next("arc"), doctest::Contains("choose one of lru, fifo, lfu, priority, never"),
                       pagoda::invalid_argument);
}

TEST_CASE_TEMPLATE("a copy and a moved policy go on as the original would", P, lru, fifo, lfu, pagoda::priority) {
  P policy(5);
  insert(policy, {4, 2, 0, 3});
  CHECK(evict(policy) == 4);
  P copy(policy);
  insert(policy, {1});
  P moved(std::move(policy));
  CHECK(copy.size() == 3);
  insert(copy, {4});
  CHECK(drain(copy) == order{2, 0, 3, 4});
  CHECK(drain(moved) == order{2, 0, 3, 1});
}

TEST_CASE_TEMPLATE("a policy of no block or of too many is refused", P, lru, fifo, lfu, pagoda::priority) {
  for (const std::int32_t bad :
       {0, -1, std::numeric_limits<std::int32_t>::min(), std::numeric_limits<std::int32_t>::max()}) {
    CHECK_THROWS_WITH_AS(P{bad}, doctest::Contains(("num_blocks is " + std::to_string(bad)).c_str()),
                         pagoda::invalid_argument);
  }
}

TEST_CASE_TEMPLATE("nothing allocates after construction", P, lru, fifo, lfu, pagoda::priority, never) {
  P policy(64);
  const allocation_scope scope;
  std::int32_t given = 0;
  for (int round = 0; round < 100; ++round) {
    for (int i = 0; i < 64; ++i) {
      if constexpr (pagoda::has_stored<P>) policy.stored(block_id{i});
      policy.insert({.id = block_id{i}, .hits = static_cast<std::uint32_t>(i % 5), .priority = i % 7, .expires = i});
    }
    if constexpr (pagoda::has_advance<P>) policy.advance(round);
    for (int i = 0; i < 64; i += 3) policy.erase(block_id{i});
    while (policy.evict() != block_id::none) ++given;
    if constexpr (pagoda::has_forgotten<P>) {
      for (int i = 0; i < 64; i += 3) policy.forgotten(block_id{i});
    }
  }
  CHECK(scope.allocated() == 0);
  CHECK(given == (P::name == "never" ? 0 : 4200));
}

TEST_CASE("what is known of a cached block, by default") {
  const cached_block block{};
  CHECK(block.id == block_id::none);
  CHECK(block.depth == 0);
  CHECK(block.hits == 0);
  CHECK(block.priority == 50);
  CHECK(block.expires == std::numeric_limits<std::int64_t>::max());
  CHECK(pagoda::highest_priority == 100);
}

}  // namespace
