// SPDX-License-Identifier: Apache-2.0
// What a block costs in bookkeeping, its tokens for comparison included, and a table entry.
#include <cstdint>
#include <limits>
#include <string>

#include <doctest/doctest.h>
#include <pagoda/block_manager.hpp>
#include <pagoda/eviction/built_in.hpp>

#define PAGODA_TEST_NEW_IS_REPLACED_ELSEWHERE
#include "counting_new.hpp"

namespace {

template <class Policy>
std::int64_t bytes_of_manager(std::int32_t num_blocks, std::int32_t block_size, std::int32_t groups) {
  pagoda::manager_config config{.block_size = block_size, .max_sequences = 4};
  for (std::int32_t g = 0; g < groups; ++g) config.groups.push_back({.num_blocks = num_blocks, .layers = {g}});
  const pagoda_test::allocation_scope scope;
  const pagoda::block_manager manager(std::move(config), pagoda::evict_by<Policy>);
  return scope.bytes();
}

template <class Policy>
void check_policy() {
  constexpr std::int64_t fixed = 65536;  // sequences, steps and what else does not grow with the pool
  constexpr std::int32_t num_blocks = 100'000;
  for (const std::int32_t block_size : {1, 16, 64}) {
    for (const std::int32_t groups : {1, 2}) {
      CAPTURE(Policy::name);
      CAPTURE(block_size);
      CAPTURE(groups);
      const std::int64_t blocks = std::int64_t{num_blocks} * groups;
      const std::int64_t bytes = bytes_of_manager<Policy>(num_blocks, block_size, groups);
      const std::int64_t table_entries = 4 * blocks;
      CHECK(bytes <= (128 + 4 * block_size) * blocks + 8 * table_entries + fixed);
      // The tables take 4 bytes an entry; the blocks alone are within their share, too, but for more groups than one.
      CHECK(bytes - 4 * table_entries <= (128 + 4 * block_size + 4 * (groups - 1)) * blocks + fixed);
      CHECK(bytes - 4 * table_entries >= (64 + 4 * block_size) * blocks);  // what is measured is the bookkeeping
    }
  }
}

TEST_CASE("bookkeeping takes at most 128 bytes and its tokens a block") {
  check_policy<pagoda::lru>();
  check_policy<pagoda::fifo>();
  check_policy<pagoda::lfu>();
  check_policy<pagoda::priority>();
  check_policy<pagoda::never>();
}

}  // namespace
