// SPDX-License-Identifier: Apache-2.0
// Random operations on managers that share prefixes, swap with each other and evict all the time, and on a simple model
// of them: after each operation everything that can be seen agrees, and every block that a table or the index names
// holds its content.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "random_life_prefixes.hpp"

namespace {

using pagoda_test::happened;
using pagoda_test::random_life;

TEST_CASE("after any operations with prefixes the managers are what a simple model says") {
  const char* wish = std::getenv("PAGODA_TEST_OPERATIONS");
  const std::int64_t operations = wish != nullptr ? std::atoll(wish) : 200'000;
  constexpr std::int64_t in_one_life = 1000;
  const std::int64_t lives = (operations + in_one_life - 1) / in_one_life;
  happened all;
  for (std::int64_t seed = 1; seed <= lives; ++seed) {
    random_life life(static_cast<std::uint64_t>(seed));
    for (std::int64_t operation = 0; operation < in_one_life; ++operation) {
      const std::string fault = life.step();
      REQUIRE_MESSAGE(fault.empty(),
                      "seed " << seed << ", operation " << operation << ", " << life.last << ": " << fault);
    }
    life.add_to(all);
  }
  if (operations < 100'000) return;
  CHECK(all.size() == 19);
  for (const auto& count : all) {
    CAPTURE(count.first);
    CHECK(count.second >= 20);
  }
}

TEST_CASE("prompts with a common beginning are found however long ago the window dropped it") {
  // Of each prompt only the last block is read, so the block that all begin with is the first to be evicted.
  pagoda::block_manager manager(
      {.groups = {{.num_blocks = 8, .keep = {.window = 4}}}, .block_size = 4, .max_sequences = 2});
  for (std::int32_t i = 0; i < 100; ++i) {
    CAPTURE(i);
    std::vector<std::int32_t> prompt(16, 100 + i);
    std::fill_n(prompt.begin(), 4, 7);
    {
      const pagoda::sequence seq = manager.make_sequence();
      for (int block = 0; block < 4; ++block) {
        pagoda_test::grow(manager, seq, 4);
        (void)manager.publish(seq, {.tokens = prompt});
      }
    }
    CHECK(manager.match({.tokens = prompt}, 16).tokens() == 16);
    CHECK(pagoda_test::faults(manager) == "");
  }
}

}  // namespace
