// SPDX-License-Identifier: Apache-2.0
// The chunk plan: the host's against a count by hand of the chunks that hold a kept key, the device's against the
// host's.
#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <pagoda/kernels/plan_chunks.hpp>
#include <pagoda/simt/host_context.hpp>

namespace {

using pagoda::retention;
using pagoda::kernels::build_chunk_plan;
using pagoda::kernels::chunk_item;
using pagoda::kernels::plan_chunks;

bool same(const chunk_item& a, const chunk_item& b) {
  return a.sequence == b.sequence && a.chunk == b.chunk;
}

struct lengths {
  std::int32_t context;
  std::int32_t queries;
};

/// The tables of a batch that a plan is made from.
class planned_batch {
 public:
  planned_batch(const std::vector<lengths>& batch, const retention& keep)
      : sequences_(static_cast<std::int32_t>(batch.size())) {
    for (const lengths& entry : batch) {
      context_.push_back(entry.context);
      query_offsets_.push_back(query_offsets_.back() + entry.queries);
    }
    view.num_sequences = &sequences_;
    view.context_lengths = context_.data();
    view.query_offsets = query_offsets_.data();
    view.keep = keep;
  }
  planned_batch(const planned_batch&) = delete;
  planned_batch& operator=(const planned_batch&) = delete;

  pagoda::batch_view view{};

 private:
  std::int32_t sequences_;
  std::vector<std::int32_t> context_;
  std::vector<std::int32_t> query_offsets_{0};
};

/// The chunks that hold a token which a query of the sequence may see, token by token.
std::set<std::int32_t> chunks_seen(const lengths& entry, const retention& keep) {
  std::set<std::int32_t> seen;
  for (std::int32_t q = 0; q < entry.queries; ++q) {
    const std::int64_t position = std::int64_t{entry.context} - entry.queries + q;
    for (std::int64_t token = 0; token < entry.context; ++token) {
      const bool in_window = keep.keeps_all() || token > position - keep.window;
      if (in_window || token < keep.sinks) seen.insert(static_cast<std::int32_t>(token / pagoda::chunk_tokens));
    }
  }
  return seen;
}

std::vector<chunk_item> host_items(const pagoda::batch_view& batch, std::vector<std::int32_t>& offsets) {
  std::vector<chunk_item> items(100000);
  offsets.resize(static_cast<std::size_t>(batch.sequences()) + 1);
  items.resize(static_cast<std::size_t>(build_chunk_plan(batch, items, offsets)));
  return items;
}

const std::vector<lengths> edges{{0, 1},    {1, 1},    {511, 1},  {512, 1},  {513, 1},  {0, 0},    {1024, 8}, {1025, 1},
                                 {1025, 8}, {1030, 7}, {2000, 9}, {5000, 1}, {5000, 8}, {4607, 3}, {4609, 2}, {3, 5}};
const std::vector<retention> keeps{{}, {0, 1}, {0, 100}, {4, 600}, {600, 512}, {1024, 1}, {513, 3000}, {9000, 9000}};

TEST_CASE("a plan has each chunk with a kept key that a query sees, in order, and one item for sequences without") {
  for (const retention& keep : keeps) {
    const planned_batch batch(edges, keep);
    std::vector<std::int32_t> offsets;
    const std::vector<chunk_item> items = host_items(batch.view, offsets);
    REQUIRE(offsets.front() == 0);
    REQUIRE(offsets.back() == static_cast<std::int32_t>(items.size()));
    for (std::size_t i = 0; i < edges.size(); ++i) {
      CAPTURE(i);
      CAPTURE(keep.sinks);
      CAPTURE(keep.window);
      std::vector<std::int32_t> expected;
      if (edges[i].queries > 0 && edges[i].queries <= pagoda::kernels::max_decode_queries) {
        for (const std::int32_t chunk : chunks_seen(edges[i], keep)) expected.push_back(chunk);
        if (expected.empty()) expected.push_back(-1);
      }
      std::vector<std::int32_t> got;
      for (std::int32_t at = offsets[i]; at < offsets[i + 1]; ++at) {
        const chunk_item& item = items[static_cast<std::size_t>(at)];
        CHECK(item.sequence == static_cast<std::int32_t>(i));
        got.push_back(item.chunk);
      }
      CHECK(got == expected);
    }
  }
}

TEST_CASE("max_items suffices for every batch within its limits") {
  std::mt19937 random(1);
  for (int repeat = 0; repeat < 200; ++repeat) {
    const std::int64_t block_size = std::int64_t{1} << (random() % 8);
    std::vector<lengths> entries;
    const retention keep = keeps[random() % keeps.size()];
    std::int64_t blocks = 0;
    for (std::uint32_t i = 0; i < 1 + random() % 6; ++i) {
      entries.push_back({static_cast<std::int32_t>(random() % 6000), static_cast<std::int32_t>(random() % 9)});
      const std::int64_t context = entries.back().context;
      // Blocks that the table still names: those of the sinks and of the window.
      const std::int64_t first = context - entries.back().queries;
      const std::int64_t window_block = keep.window_begin(first > 0 ? first : 0) / block_size;
      const std::int64_t sink_blocks = std::min(window_block, pagoda::divide_up(keep.sinks, block_size));
      blocks += pagoda::divide_up(context, block_size) - window_block + sink_blocks;
    }
    const planned_batch batch(entries, keep);
    std::vector<std::int32_t> offsets;
    CHECK(static_cast<std::int64_t>(host_items(batch.view, offsets).size()) <=
          pagoda::kernels::max_items(static_cast<std::int64_t>(entries.size()), blocks, block_size));
  }
}

TEST_CASE("spans that are too short are refused with both sizes, and nothing is written") {
  const planned_batch batch({{1025, 1}, {40, 1}}, {});
  std::vector<chunk_item> items(4, chunk_item{-7, -7});
  std::vector<std::int32_t> offsets(3, -7);
  CHECK_THROWS_WITH_AS(build_chunk_plan(batch.view, std::span(items).first(3), offsets),
                       doctest::Contains("has room for 3 items, but the 2 sequences need 4"), pagoda::invalid_argument);
  CHECK_THROWS_WITH_AS(build_chunk_plan(batch.view, items, std::span(offsets).first(2)),
                       doctest::Contains("has room for 2 offsets, but 2 sequences need 3"), pagoda::invalid_argument);
  CHECK(offsets == std::vector<std::int32_t>(3, -7));
  for (const chunk_item& item : items) CHECK(same(item, {-7, -7}));
  CHECK(build_chunk_plan(batch.view, items, offsets) == 4);
}

/// Runs plan_chunks with room for `room` items and compares with the host's plan, cut there.
void check_device_plan(const planned_batch& batch, std::int32_t room, pagoda::simt::host_machine& machine) {
  std::vector<std::int32_t> expected_offsets;
  std::vector<chunk_item> expected = host_items(batch.view, expected_offsets);
  if (static_cast<std::int64_t>(expected.size()) > room) expected.resize(static_cast<std::size_t>(room));
  for (std::int32_t& offset : expected_offsets) offset = std::min(offset, room);
  std::vector<chunk_item> items(static_cast<std::size_t>(room));  // just the size: the address sanitizer sees the end
  std::vector<std::int32_t> offsets(expected_offsets.size(), -7);
  machine.launch<plan_chunks>({1, 1, 1}, {batch.view, {items.data(), offsets.data()}, room});
  CHECK(offsets == expected_offsets);
  for (std::size_t i = 0; i < expected.size(); ++i) CHECK(same(items[i], expected[i]));
}

TEST_CASE("the device's plan is the host's: for every retention, and for batches of any size") {
  pagoda::simt::host_machine machine;
  for (const retention& keep : keeps) {
    const planned_batch batch(edges, keep);
    std::vector<std::int32_t> offsets;
    check_device_plan(batch, static_cast<std::int32_t>(host_items(batch.view, offsets).size()), machine);
  }
  std::mt19937 random(2);
  for (const std::uint32_t sequences : {0u, 1u, 31u, 32u, 33u, 255u, 256u, 257u, 700u}) {
    CAPTURE(sequences);
    std::vector<lengths> entries;
    for (std::uint32_t i = 0; i < sequences; ++i) {
      const bool is_long = random() % 50 == 0;
      entries.push_back({static_cast<std::int32_t>(is_long ? 20000 + random() % 40000 : random() % 2000),
                         static_cast<std::int32_t>(random() % 10)});
    }
    for (const retention& keep : {retention{}, retention{600, 700}}) {
      const planned_batch batch(entries, keep);
      std::vector<std::int32_t> offsets;
      check_device_plan(batch, static_cast<std::int32_t>(host_items(batch.view, offsets).size()), machine);
    }
  }
}

TEST_CASE("the device writes no item beyond its room, and its offsets end there") {
  pagoda::simt::host_machine machine;
  std::vector<lengths> entries(300, {700, 1});
  entries[40].context = 60000;
  const planned_batch batch(entries, {});
  for (const std::int32_t room : {0, 1, 79, 80, 81, 100, 300, 500, 716}) check_device_plan(batch, room, machine);
}

TEST_CASE("the device's plan does not depend on the order of its threads") {
  std::vector<lengths> entries;
  for (std::int32_t i = 0; i < 300; ++i) entries.push_back({i * 37 % 3000 + (i % 90 == 0 ? 30000 : 0), i % 10});
  const planned_batch batch(entries, {});
  for (const std::uint32_t seed : {1u, 2u, 3u}) {
    pagoda::simt::host_machine machine({.schedule_seed = seed});
    check_device_plan(batch, 2000, machine);
  }
}

}  // namespace
