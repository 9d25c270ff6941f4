// SPDX-License-Identifier: Apache-2.0
// Blocks and utilisation of two public request traces, every request on its own blocks at its final length.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <pagoda/block_manager.hpp>

#include "manager_support.hpp"

namespace {

using pagoda::block_manager;
using pagoda::sequence;
using pagoda::step;

struct request {
  std::int32_t context = 0;
  std::int32_t generated = 0;
};

std::filesystem::path data_directory() {
  if (const char* path = std::getenv("PAGODA_TEST_DATA")) return path;
#if defined(PAGODA_TEST_DATA)
  return PAGODA_TEST_DATA;
#elif defined(PAGODA_SOURCE_DIR)
  return std::filesystem::path(PAGODA_SOURCE_DIR) / ".." / "shared" / "data";
#else
  return "data";
#endif
}

/// The requests of a trace; none, and a word about where it comes from, if the file is not there.
std::vector<request> read_trace(const std::string& name) {
  const std::filesystem::path path = data_directory() / "azure" / name;
  std::ifstream file(path);
  std::vector<request> requests;
  if (!file) {
    std::cout << "[SKIPPED] " << path.string() << " is missing: get " << name
              << " from Azure/AzurePublicDataset on GitHub (data/), put it into DIRECTORY/azure, and set the "
                 "environment variable PAGODA_TEST_DATA to DIRECTORY\n";
    return requests;
  }
  std::string line;
  std::getline(file, line);
  REQUIRE(line.rfind("TIMESTAMP,ContextTokens,GeneratedTokens", 0) == 0);
  while (std::getline(file, line)) {
    const std::size_t first = line.find(',');
    if (first == std::string::npos) continue;
    const std::size_t second = line.find(',', first + 1);
    REQUIRE(second != std::string::npos);
    requests.push_back({std::stoi(line.substr(first + 1, second - first - 1)), std::stoi(line.substr(second + 1))});
  }
  return requests;
}

/// Gives every request its prompt and then, in chunks, its generated tokens, and keeps all of them alive.
/// Returns the statistics at the end. Throws: out_of_blocks if the pool is too small.
pagoda::block_stats replay(const std::vector<request>& requests, std::int32_t block_size, std::int64_t blocks) {
  std::int32_t longest = 0;
  for (const request& r : requests) longest = std::max(longest, r.context + r.generated);
  block_manager manager({.groups = {{.num_blocks = static_cast<std::int32_t>(blocks)}},
                         .block_size = block_size,
                         .max_sequences = static_cast<std::int32_t>(requests.size()),
                         .max_batch = 1,
                         .max_resident_tokens = longest});
  std::vector<sequence> alive;
  for (const request& r : requests) {
    alive.push_back(manager.make_sequence());
    pagoda_test::grow(manager, alive.back(), r.context);
    for (std::int32_t done = 0; done < r.generated; done += 7) {
      pagoda_test::grow(manager, alive.back(), std::min(7, r.generated - done));
    }
  }
  CHECK(pagoda_test::faults(manager) == "");
  return manager.stats();
}

struct expectation {
  std::int32_t block_size;
  std::int64_t blocks;
  std::int64_t millionths;  // of utilisation, as far as it is known
};

void check_trace(const std::string& name, std::size_t count, std::int64_t reserved_ten_thousandths,
                 const std::vector<expectation>& expected) {
  const std::vector<request> requests = read_trace(name);
  if (requests.empty()) return;
  REQUIRE(requests.size() == count);
  std::int64_t tokens = 0;
  for (const request& r : requests) tokens += r.context + r.generated;
  for (const expectation& wanted : expected) {
    CAPTURE(wanted.block_size);
    const pagoda::block_stats stats = replay(requests, wanted.block_size, wanted.blocks);
    CHECK(stats.used == wanted.blocks);
    CHECK(stats.free == 0);
    CHECK(stats.tokens == tokens);
    const double utilisation = static_cast<double>(stats.tokens) / static_cast<double>(stats.used * wanted.block_size);
    CHECK(std::llround(utilisation * 1e6) == wanted.millionths);
    CHECK_THROWS_AS(replay(requests, wanted.block_size, wanted.blocks - 1), pagoda::out_of_blocks);
  }
  // What reserving 8192 slots for every request would use of them.
  const pagoda::block_stats reserved = replay(requests, 8192, static_cast<std::int64_t>(2 * requests.size()));
  const double slots = 8192.0 * static_cast<double>(requests.size());
  CHECK(std::llround(static_cast<double>(reserved.tokens) / slots * 1e4) == reserved_ten_thousandths);
}

TEST_CASE("the Azure code trace needs exactly its blocks") {
  check_trace("AzureLLMInferenceTrace_code.csv", 8'819, 2534,
              {{16, 1'148'326, 996'335}, {64, 290'424, 984'868}, {256, 76'144, 939'106}});
}

TEST_CASE("the Azure conversation trace needs exactly its blocks") {
  check_trace("AzureLLMInferenceTrace_conv.csv", 19'366, 1667,
              {{16, 1'662'197, 994'562}, {64, 422'614, 977'936}, {256, 112'328, 919'828}});
}

}  // namespace
