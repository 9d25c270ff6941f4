// SPDX-License-Identifier: Apache-2.0
// step_tables on a backend whose device is the host: what an upload brings, where it lies, and what it refuses.
#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <pagoda/cuda/host_backend.hpp>

#include "backend_calls.hpp"

namespace {

using pagoda::batch_view;
using pagoda::block_id;
using pagoda::cuda::device_work;
using pagoda::cuda::host_backend;
using pagoda::cuda::step_limits;
using tables_type = pagoda::cuda::basic_step_tables<host_backend>;

constexpr step_limits small_limits{.sequences = 4,
                                   .queries = 40,
                                   .new_tokens = 50,
                                   .blocks = 60,
                                   .queries_per_sequence = 20,
                                   .query_heads = 8,
                                   .value_head_dim = 64};

pagoda::block_manager make_manager(pagoda::retention keep = {}, std::int32_t block_size = 16) {
  return pagoda::block_manager({.groups = {{.num_blocks = 64, .keep = keep}}, .block_size = block_size});
}

/// Sets the thread's device for one test and back again.
struct device_settings {
  explicit device_settings(bool deferred = false) {
    host_backend::device().deferred = deferred;
    host_backend::device().record_launches = true;
    host_backend::device().launches.clear();
  }
  device_settings(const device_settings&) = delete;
  device_settings& operator=(const device_settings&) = delete;
  ~device_settings() {
    host_backend::device().deferred = false;
    host_backend::device().record_launches = false;
    host_backend::device().properties = {.compute_capability = 80, .multiprocessors = 2, .shared_bytes = 163 * 1024};
  }
};

/// What a batch says, whatever its tables' addresses are. Device memory of this backend can be read.
struct batch_contents {
  std::vector<std::int32_t> contexts, queries, new_tokens, skipped;
  std::vector<block_id> blocks;
  friend bool operator==(const batch_contents&, const batch_contents&) = default;
};

batch_contents contents_of(const batch_view& view) {
  batch_contents result;
  for (std::int32_t i = 0; i < view.sequences(); ++i) {
    result.contexts.push_back(view.context_length(i));
    result.queries.push_back(view.queries(i));
    result.new_tokens.push_back(view.new_tokens(i));
    result.skipped.push_back(view.skipped_blocks[i]);
    for (std::int64_t entry = 0; entry < view.entries(i); ++entry) {
      result.blocks.push_back(view.block_table[view.table_offsets[i] + entry]);
    }
  }
  return result;
}

/// Tables that a test writes by hand.
struct hand_made {
  std::int32_t sequences = 1;
  std::array<std::int32_t, 2> contexts{40, 20};
  std::array<std::int32_t, 3> queries{0, 1, 2};
  std::array<std::int32_t, 3> tokens{0, 1, 2};
  std::array<std::int64_t, 2> offsets{0, 3};
  std::array<std::int32_t, 2> skipped{0, 0};
  std::array<block_id, 8> table{block_id{5}, block_id{6}, block_id{7}, block_id{8}, block_id{9}};
  batch_view shape{.block_size = 16, .num_blocks = 64};

  batch_view batch(int) const {
    batch_view view = shape;
    view.num_sequences = &sequences;
    view.context_lengths = contexts.data();
    view.query_offsets = queries.data();
    view.token_offsets = tokens.data();
    view.table_offsets = offsets.data();
    view.skipped_blocks = skipped.data();
    view.block_table = table.data();
    return view;
  }
};

TEST_CASE("an upload brings what the step's own view says, and never changes the tables' view") {
  const device_settings settings;
  pagoda::block_manager manager = make_manager({.sinks = 4, .window = 40});
  tables_type tables(manager, small_limits);
  const batch_view before = tables.batch();
  CHECK(before.sequences() == 0);
  std::vector<pagoda::sequence> sequences;
  for (int i = 0; i < 4; ++i) sequences.push_back(manager.make_sequence());
  for (int turn = 0; turn < 12; ++turn) {
    std::vector<pagoda::growth> batch;
    for (int i = turn % 3; i < 4; ++i) batch.push_back({sequences[static_cast<std::size_t>(i)], 3 * i + turn % 4, i});
    pagoda::step step = manager.plan(batch);
    if (turn == 5) step.cancel(1);
    tables.upload(step);
    CHECK(contents_of(tables.batch()) == contents_of(step.batch()));
    CHECK(tables.batch() == before);
    for (std::int32_t i = 0; i < step.size(); ++i) {
      for (std::int64_t b = 0; b * 16 < tables.batch().context_length(i); ++b) {
        if (b >= before.sink_blocks && b < before.sink_blocks + step.batch().skipped_blocks[i]) continue;
        CHECK(tables.batch().block(i, b) == step.batch().block(i, b));
      }
    }
    step.commit();
  }
  CHECK(tables.batch().skipped_blocks[0] > 0);  // the window did drop blocks
}

TEST_CASE("an upload brings the chunk plan that the step's lengths give") {
  const device_settings settings;
  pagoda::block_manager manager({.groups = {{.num_blocks = 256}}, .block_size = 16});
  tables_type tables(manager, {.sequences = 3,
                               .queries = 2000,
                               .new_tokens = 2000,
                               .blocks = 200,
                               .queries_per_sequence = 2000,
                               .query_heads = 1,
                               .value_head_dim = 8});
  const pagoda::sequence a = manager.make_sequence();
  const pagoda::sequence b = manager.make_sequence();
  const pagoda::sequence c = manager.make_sequence();
  pagoda::step step = manager.plan({{a, 1100, 2}, {b, 0, 1}, {c, 600, 600}});
  tables.upload(step);
  const device_work& work = *tables.batch().work;
  std::vector<pagoda::kernels::chunk_item> items(100);
  std::vector<std::int32_t> offsets(4);
  const auto count = static_cast<std::size_t>(pagoda::kernels::build_chunk_plan(step.batch(), items, offsets));
  CHECK(count == 4);  // three chunks of a, one item of b, none of c: it has too many queries
  CHECK(std::memcmp(work.plan.offsets, offsets.data(), 4 * sizeof(std::int32_t)) == 0);
  CHECK(std::memcmp(work.plan.items, items.data(), count * sizeof(items[0])) == 0);

  // The device makes the same plan of the same lengths, and another one when they have been advanced.
  std::memset(work.plan.items, 0x55, count * sizeof(items[0]));
  tables.plan_on_device();
  CHECK(std::memcmp(work.plan.items, items.data(), count * sizeof(items[0])) == 0);
  tables.device_lengths()[0] = 400;
  tables.plan_on_device();
  CHECK(work.plan.offsets[1] == 1);
}

TEST_CASE("an upload is one copy for each layer group, of what is used") {
  const device_settings settings;
  pagoda::block_manager manager({.groups = {{.num_blocks = 64, .layers = {0}},
                                            {.num_blocks = 64, .keep = {.window = 20}, .layers = {1}},
                                            {.num_blocks = 64, .layers = {2}}},
                                 .block_size = 16});
  step_limits limits = small_limits;
  limits.blocks = 1'000'000;
  tables_type tables(manager, limits);
  const pagoda::sequence sequence = manager.make_sequence();
  pagoda::step step = manager.plan({{sequence, 50, 2}});
  auto& device = host_backend::device();
  const std::int64_t copies = device.copies;
  const std::int64_t bytes = device.copied_bytes;
  tables.upload(step);
  CHECK(device.copies - copies == 3);
  const std::int64_t plan = tables.batch(0).work->max_items * std::int64_t{sizeof(pagoda::kernels::chunk_item)};
  CHECK(device.copied_bytes - bytes < 3 * plan + 10'000);  // not 3 tables of 4 MB
  for (int group = 0; group < 3; ++group) {
    CHECK(contents_of(tables.batch(group)) == contents_of(step.batch(group)));
    CHECK(tables.batch(group).keep == step.batch(group).keep);
  }
  CHECK_THROWS_WITH_AS(tables.batch(3), doctest::Contains("layer group 3 lies outside 0 to 2"), pagoda::out_of_range);
}

TEST_CASE("a staging buffer is not written while its copy is on its way") {
  const device_settings settings(/*deferred=*/true);
  auto& device = host_backend::device();
  pagoda::block_manager manager = make_manager();
  tables_type tables(manager, small_limits);
  const pagoda::sequence sequence = manager.make_sequence();
  std::vector<batch_contents> uploaded;
  const std::int64_t waits = device.waits;
  for (int i = 0; i < 4; ++i) {
    pagoda::step step = manager.plan({{sequence, 10}});
    uploaded.push_back(contents_of(step.batch()));
    tables.upload(step);
    step.commit();
    if (i == 2) CHECK(device.waits == waits);  // three uploads are on their way, and nobody waited
  }
  CHECK(device.waits == waits + 1);
  CHECK(contents_of(tables.batch()) == uploaded[0]);  // the one that was waited for arrived as it was sent
  host_backend::synchronize({});
  CHECK(contents_of(tables.batch()) == uploaded[3]);
}

TEST_CASE("an upload takes no memory, and the tables give back what they took") {
  const device_settings settings;
  auto& device = host_backend::device();
  const std::int64_t alive = device.live_allocations;
  {
    pagoda::block_manager manager = make_manager();
    tables_type tables(manager, small_limits);
    const std::int64_t taken = device.allocations;
    const pagoda::sequence sequence = manager.make_sequence();
    for (int i = 0; i < 5; ++i) {
      pagoda::step step = manager.plan({{sequence, 10}});
      tables.upload(step);
      step.commit();
    }
    CHECK(device.allocations == taken);
    CHECK(tables.device_bytes() == tables_type::size_bytes(manager, small_limits));

    const batch_view view = tables.batch();
    const tables_type moved = std::move(tables);
    CHECK(moved.batch() == view);
  }
  CHECK(device.live_allocations == alive);
}

TEST_CASE("memory follows from the limits: partial results of the most chunks, heads and queries") {
  pagoda::block_manager manager = make_manager();
  step_limits limits{
      .sequences = 2, .queries = 8, .new_tokens = 8, .blocks = 64, .query_heads = 4, .value_head_dim = 64};
  const std::int64_t items = pagoda::kernels::max_items(2, 64, 16);
  const std::int64_t one = tables_type::size_bytes(manager, limits);
  CHECK(one >= items * 4 * (64 + 2) * 4);
  limits.queries_per_sequence = 4;
  CHECK(tables_type::size_bytes(manager, limits) - one >= 3 * items * 4 * (64 + 2) * 4 - 512);
  limits.queries_per_sequence = 8;
  const std::int64_t eight = tables_type::size_bytes(manager, limits);
  limits.queries_per_sequence = 4096;  // prefill keeps no partial results
  CHECK(tables_type::size_bytes(manager, limits) == eight);
  limits.blocks = INT32_MAX - 1;
  CHECK_NOTHROW(tables_type::size_bytes(manager, limits));
}

TEST_CASE("limits that cannot be are refused by name") {
  pagoda::block_manager manager = make_manager();
  const auto refused = [&](auto change, const char* name) {
    step_limits limits = small_limits;
    change(limits);
    CHECK_THROWS_WITH_AS(tables_type(manager, limits), doctest::Contains(name), pagoda::invalid_argument);
  };
  refused([](step_limits& l) { l.sequences = 0; }, "step_limits::sequences is 0");
  refused([](step_limits& l) { l.queries = -1; }, "step_limits::queries is -1");
  refused([](step_limits& l) { l.new_tokens = -1; }, "step_limits::new_tokens is -1");
  refused([](step_limits& l) { l.blocks = 0; }, "step_limits::blocks is 0");
  refused([](step_limits& l) { l.queries_per_sequence = 0; }, "step_limits::queries_per_sequence is 0");
  refused([](step_limits& l) { l.query_heads = 0; }, "step_limits::query_heads is 0");
  refused([](step_limits& l) { l.value_head_dim = 7; }, "step_limits::value_head_dim is 7");
  manager = pagoda::block_manager({.groups = {{.num_blocks = 64}}, .block_size = 65536});
  refused([](step_limits& l) { l.blocks = INT32_MAX - 1; }, "chunks of a step within step_limits is ");
}

TEST_CASE("a step above the limits is refused by name, and the tables stay as they were") {
  const device_settings settings;
  pagoda::block_manager manager = make_manager();
  const pagoda::sequence a = manager.make_sequence();
  const pagoda::sequence b = manager.make_sequence();
  const auto refused = [&](auto change, const char* message) {
    step_limits limits = small_limits;
    change(limits);
    tables_type tables(manager, limits);
    const pagoda::sequence first = manager.make_sequence();
    pagoda::step good = manager.plan({{first, 5, 1}});
    tables.upload(good);
    good.commit();
    const batch_contents before = contents_of(tables.batch());
    const pagoda::step step = manager.plan({{a, 30, 6}, {b, 20, 5}});
    CHECK_THROWS_WITH_AS(tables.upload(step), doctest::Contains(message), pagoda::invalid_argument);
    CHECK(contents_of(tables.batch()) == before);
    CHECK(tables.batch().work->uploaded.queries == 1);
  };
  refused([](step_limits& l) { l.sequences = 1; },
          "sequences = 2, but the tables were made for 1: raise step_limits::");
  refused([](step_limits& l) { l.queries = 10; }, "queries = 11, but the tables were made for 10");
  refused([](step_limits& l) { l.new_tokens = 49; }, "new_tokens = 50, but the tables were made for 49");
  refused([](step_limits& l) { l.blocks = 3; }, "blocks = 4, but the tables were made for 3");
  refused([](step_limits& l) { l.queries_per_sequence = 5; },
          "queries_per_sequence = 6, but the tables were made for 5");

  tables_type tables(manager, small_limits);
  CHECK_NOTHROW(tables.upload(manager.plan({{a, 30, 6}, {b, 20, 5}})));
}

TEST_CASE("broken tables are refused before anything is sent") {
  const device_settings settings;
  pagoda::block_manager manager = make_manager();
  tables_type tables(manager, small_limits);
  hand_made good;
  good.sequences = 2;
  CHECK_NOTHROW(tables.upload(good));
  const batch_contents before = contents_of(tables.batch());
  CHECK(before.blocks.size() == 5);
  const auto refused = [&](auto change, const char* message) {
    hand_made broken = good;
    change(broken);
    CHECK_THROWS_WITH(tables.upload(broken), doctest::Contains(message));
    CHECK(contents_of(tables.batch()) == before);
  };
  refused([](hand_made& t) { t.table[4] = block_id{64}; }, "batch entry 1 names block 64 for its tokens from 16");
  refused([](hand_made& t) { t.table[0] = block_id::none; }, "batch entry 0 names block -1");
  refused([](hand_made& t) { t.queries[2] = 0; }, "the offsets of batch entry 1 fall");
  refused([](hand_made& t) { t.contexts[1] = -3; }, "batch entry 1 has context length -3");
  refused([](hand_made& t) { t.skipped[1] = 9; }, "batch entry 1 skips 9 blocks, more than its context of 20 tokens");
  refused([](hand_made& t) { t.shape.block_size = 32; }, "64 blocks of 32 tokens, but the tables are for 64 of 16");
  refused([](hand_made& t) { t.shape.num_blocks = 65; }, "65 blocks of 16 tokens, but the tables are for 64");
  refused([](hand_made& t) { t.shape.keep = {.window = 100}; },
          "upload steps of the manager that the tables were made");
  refused([&](hand_made& t) { t.shape.work = tables.batch().work; },
          "the view's tables are those of a cuda::step_tables");
}

TEST_CASE("a step whose copies were not taken is not uploaded") {
  const device_settings settings;
  pagoda::block_manager manager = make_manager();
  tables_type tables(manager, small_limits);
  const pagoda::sequence parent = manager.make_sequence();
  manager.plan({{parent, 5}}).commit();
  const pagoda::sequence child = manager.fork(parent);
  pagoda::step step = manager.plan({{child, 1}});
  CHECK_THROWS_WITH_AS(tables.upload(step), doctest::Contains("upload of a step whose copies were not taken"),
                       pagoda::logic_error);
  const pagoda::copy_list copies = step.take_copies();
  CHECK(copies.blocks().size() == 1);
  CHECK_NOTHROW(tables.upload(step));
}

TEST_CASE("check names the first block outside the pool that a kernel met, once") {
  const device_settings settings;
  pagoda::block_manager manager = make_manager();
  tables_type tables(manager, small_limits);
  CHECK_NOTHROW(tables.check());
  *tables.batch().work->report = {.fault = 1, .sequence = 2, .logical_block = 7, .block = 99};
  CHECK_THROWS_WITH_AS(tables.check(), doctest::Contains("block 99 as logical block 7 of batch entry 2"),
                       pagoda::out_of_range);
  CHECK_NOTHROW(tables.check());
}

TEST_CASE("tables that were moved from say so") {
  const device_settings settings;
  pagoda::block_manager manager = make_manager();
  tables_type tables(manager, small_limits);
  const tables_type moved(std::move(tables));
  CHECK_THROWS_WITH_AS(tables.check(), doctest::Contains("moved from"), pagoda::logic_error);
  CHECK_THROWS_WITH_AS(tables.upload(manager.plan({})), doctest::Contains("moved from"), pagoda::logic_error);
}

TEST_CASE("the host's functions refuse a view with tables of a device, and device storage tables of the host") {
  const device_settings settings;
  pagoda::block_manager manager = make_manager();
  tables_type tables(manager, small_limits);
  pagoda::block_storage<pagoda_test::f16, pagoda_test::f16, pagoda::heads_tokens_dim,
                        pagoda::cuda::basic_device_memory<host_backend>>
      storage({.kv_heads = 2, .head_dim = 64}, 16, pagoda::num_blocks{64});
  const pagoda::sequence sequence = manager.make_sequence();
  const pagoda::step step = manager.plan({{sequence, 1}});
  tables.upload(step);
  std::vector<float> rows(2 * 64);
  CHECK_THROWS_WITH_AS(pagoda::host::append(storage.view(0, tables), pagoda::rows_view(rows, {1, 2, 64}),
                                            pagoda::rows_view(rows, {1, 2, 64})),
                       doctest::Contains("the view's tables are those of a cuda::step_tables"),
                       pagoda::invalid_argument);
  CHECK_THROWS_WITH_AS(storage.view(0, step), doctest::Contains("the storage lies in device memory"),
                       pagoda::invalid_argument);
}

}  // namespace
