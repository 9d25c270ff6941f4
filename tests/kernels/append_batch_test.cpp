// SPDX-License-Identifier: Apache-2.0
// kernels::append and the batch: which sequences' rows are written where, and what is left alone.
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <doctest/doctest.h>
#include <pagoda/block_manager.hpp>
#include <pagoda/kernels/append.hpp>
#include <pagoda/memory/borrowed.hpp>
#include <pagoda/simt/host_context.hpp>

#include "append_case.hpp"
#include "attention_case.hpp"
#include "policy_products.hpp"

namespace {

using pagoda::block_id;
using pagoda::half;
using pagoda::num_blocks;
using pagoda::kernels::erased_rows;
using pagoda::kernels::table_report;
using pagoda::simt::host_machine;
using pagoda_test::append_on;
using pagoda_test::bytes_of;
using pagoda_test::count_differences;
using pagoda_test::int8;
using pagoda_test::spread_rows;

constexpr pagoda::storage_shape shape{.kv_heads = 2, .head_dim = 64};
using storage_type = pagoda::block_storage<int8>;

/// Two storages full of ones and the rows of so many tokens.
struct pools {
  explicit pools(std::int64_t tokens, std::int32_t blocks = 64)
      : by_host(shape, 16, num_blocks{blocks}),
        by_kernel(shape, 16, num_blocks{blocks}),
        keys(tokens, 2, 2, 64, [](auto... at) { return pagoda_test::noise(1, 1, at...); }),
        values(tokens, 2, 2, 64, [](auto... at) { return pagoda_test::noise(1, 2, at...); }) {
    pagoda_test::fill(bytes_of(by_host), pagoda_test::poison::ones);
    pagoda_test::fill(bytes_of(by_kernel), pagoda_test::poison::ones);
  }

  template <class Tables>
  void append_both(host_machine& machine, const Tables& tables, std::uint32_t grid = 0) {
    pagoda::host::append(by_host.view(0, tables), keys.rows(), values.rows());
    append_on(machine, by_kernel.view(0, tables), keys.erased(), values.erased(), nullptr, grid);
  }
  std::size_t differences() const { return count_differences(bytes_of(by_host), bytes_of(by_kernel)); }
  bool is_untouched() const {
    for (const std::byte byte : bytes_of(by_kernel)) {
      if (byte != std::byte{0xff}) return false;
    }
    return true;
  }

  storage_type by_host;
  storage_type by_kernel;
  spread_rows<half> keys;
  spread_rows<float> values;
};

pagoda::block_manager make_manager(std::int32_t blocks = 64, const pagoda::retention& keep = {}) {
  return pagoda::block_manager(
      {.groups = {{.num_blocks = blocks, .keep = keep}}, .block_size = 16, .max_sequences = 64});
}

TEST_CASE("rows of cancelled sequences are skipped, first, last and in between") {
  for (unsigned cancelled = 0; cancelled < 16; ++cancelled) {
    pools p(10);
    pagoda::block_manager manager = make_manager();
    const pagoda::sequence s[] = {manager.make_sequence(), manager.make_sequence(), manager.make_sequence(),
                                  manager.make_sequence()};
    pagoda::step step = manager.plan({{s[0], 3}, {s[1], 4}, {s[2], 1}, {s[3], 2}});
    for (std::int32_t i = 0; i < 4; ++i) {
      if ((cancelled >> i & 1u) != 0) step.cancel(i);
    }
    host_machine machine;
    p.append_both(machine, step);
    CHECK(p.differences() == 0);
    CHECK(p.is_untouched() == (cancelled == 15));
  }
}

TEST_CASE("a step without new tokens appends nothing, however many rows the tensors have") {
  pools p(0);
  pagoda::block_manager manager = make_manager();
  const pagoda::sequence sequence = manager.make_sequence();
  const pagoda::step step = manager.plan({{sequence, 0, 4}});
  host_machine machine;
  append_on(machine, p.by_kernel.view(0, step), p.keys.erased(), p.values.erased());
  CHECK(p.is_untouched());
  const std::vector<half> none;
  append_on(machine, p.by_kernel.view(0, step), pagoda::kernels::erase(pagoda::rows_view<const half>(none, {0, 2, 64})),
            pagoda::kernels::erase(pagoda::rows_view<const half>(none, {0, 2, 64})));
  CHECK(p.is_untouched());
}

TEST_CASE("fewer rows than new tokens: none is read behind the tensor's end") {
  pools all(10);
  pools part(7);
  pagoda::block_manager manager = make_manager();
  const pagoda::sequence sequence = manager.make_sequence();
  const pagoda::step step = manager.plan({{sequence, 10}});
  host_machine machine;
  all.append_both(machine, step);
  erased_rows keys = part.keys.erased();
  erased_rows values = part.values.erased();
  keys.tokens = 7;
  values.tokens = 7;
  append_on(machine, part.by_kernel.view(0, step), keys, values);
  const auto layer = part.by_kernel.layer_view(0);
  for (std::int64_t t = 0; t < 10; ++t) {
    const std::vector<std::byte> stored = pagoda_test::stored_slot(layer, manager.blocks(sequence)[0], t);
    if (t < 7) {
      CHECK(stored == pagoda_test::stored_slot(all.by_host.layer_view(0), manager.blocks(sequence)[0], t));
    } else {
      CHECK(stored == std::vector<std::byte>(stored.size(), std::byte{0xff}));
    }
  }
}

TEST_CASE("every token finds its sequence among many, empty ones between them") {
  for (const std::int32_t sequences : {1, 2, 3, 5, 8, 37}) {
    std::vector<std::int32_t> counts;
    std::int64_t tokens = 0;
    for (std::int32_t i = 0; i < sequences; ++i) counts.push_back((i * 7 + 3) % 5 < 2 ? 0 : (i * 11) % 4 + 1);
    counts.back() = 3;
    for (const std::int32_t count : counts) tokens += count;
    pools p(tokens);
    pagoda::block_manager manager = make_manager();
    std::vector<pagoda::sequence> s;
    std::vector<pagoda::growth> batch;
    for (const std::int32_t count : counts) {
      s.push_back(manager.make_sequence());
      batch.push_back({s.back(), count});
    }
    const pagoda::step step = manager.plan(batch);
    host_machine machine;
    p.append_both(machine, step);
    CHECK(p.differences() == 0);
  }
}

TEST_CASE("windows and sinks: new tokens go behind the blocks that retention dropped") {
  const pagoda::retention keep{.sinks = 20, .window = 40};
  pools p(21);
  pagoda::block_manager manager = make_manager(64, keep);
  const pagoda::sequence a = manager.make_sequence();
  const pagoda::sequence b = manager.make_sequence();
  for (int i = 0; i < 10; ++i) manager.plan({{a, 23}, {b, 5}}).commit();
  const pagoda::step step = manager.plan({{a, 17}, {b, 4}});
  CHECK(step.batch().skipped_blocks[0] > 3);
  host_machine machine;
  p.append_both(machine, step);
  CHECK(p.differences() == 0);
}

TEST_CASE("any grid and any order of blocks, warps and lanes: the same bytes") {
  for (const std::uint32_t seed : {0u, 1u, 2u, 3u}) {
    for (const std::uint32_t grid : {1u, 2u, 3u, 50u}) {
      pools p(33);
      pagoda::block_manager manager = make_manager();
      const pagoda::sequence a = manager.make_sequence();
      const pagoda::sequence b = manager.make_sequence();
      const pagoda::step step = manager.plan({{a, 13}, {b, 20}});
      host_machine machine({.schedule_seed = seed});
      p.append_both(machine, step, grid);
      CHECK(p.differences() == 0);
    }
  }
}

TEST_CASE("old tokens stay as they are: a row's scale is its own") {
  pools p(4);
  pagoda::block_manager manager = make_manager();
  const pagoda::sequence sequence = manager.make_sequence();
  host_machine machine;
  std::vector<std::byte> first;
  for (int round = 0; round < 3; ++round) {
    pagoda::step step = manager.plan({{sequence, 4}});
    p.append_both(machine, step);
    step.commit();
    const std::vector<std::byte> now =
        pagoda_test::stored_slot(p.by_kernel.layer_view(0), manager.blocks(sequence)[0], 1);
    if (round == 0) first = now;
    CHECK(now == first);
  }
  CHECK(p.differences() == 0);
}

TEST_CASE("values in the keys: the keys alone are written, and no value row is read") {
  using latent_storage = pagoda::block_storage<int8, pagoda::values_in_keys<48>>;
  const latent_storage by_host(shape, 16, num_blocks{64});
  const latent_storage by_kernel(shape, 16, num_blocks{64});
  pagoda_test::fill(bytes_of(by_host), pagoda_test::poison::ones);
  pagoda_test::fill(bytes_of(by_kernel), pagoda_test::poison::ones);
  const pools p(9);
  pagoda::block_manager manager = make_manager();
  const pagoda::sequence sequence = manager.make_sequence();
  const pagoda::step step = manager.plan({{sequence, 9}});
  pagoda::host::append(by_host.view(0, step), p.keys.rows());
  host_machine machine;
  append_on(machine, by_kernel.view(0, step), p.keys.erased(), {});
  CHECK(count_differences(bytes_of(by_host), bytes_of(by_kernel)) == 0);
}

#if PAGODA_CHECK_TABLES
TEST_CASE("a table entry outside the pool is reported, its rows are not written, all others are") {
  for (const std::int32_t bad : {-1, -7, 64, INT32_MAX, INT32_MIN}) {
    pools p(40);
    pagoda::block_manager manager = make_manager();
    const pagoda::sequence a = manager.make_sequence();
    const pagoda::sequence b = manager.make_sequence();
    manager.plan({{b, 20}}).commit();
    const pagoda::step step = manager.plan({{a, 5}, {b, 35}});
    pagoda::batch_view batch = step.batch();
    // The second block of b's new tokens: positions 32 to 47 of its 55, rows 17 to 32 of the step.
    std::vector<block_id> table(batch.block_table, batch.block_table + batch.table_offsets[1] + 4);
    const auto entry = static_cast<std::size_t>(batch.table_offsets[1] + 2);
    const block_id good = table[entry];
    table[entry] = block_id{bad};
    pagoda::host::append(p.by_host.view(0, step), p.keys.rows(), p.values.rows());
    auto view = p.by_kernel.view(0, step);
    view.batch.block_table = table.data();
    host_machine machine;
    table_report report;
    append_on(machine, view, p.keys.erased(), p.values.erased(), &report);
    CHECK(report.fault == 1);
    CHECK(report.sequence == 1);
    CHECK(report.logical_block == 2);
    CHECK(report.block == bad);
    for (std::byte& byte : p.by_host.block_bytes(good, 0)) byte = std::byte{0xff};
    CHECK(p.differences() == 0);
  }
}
#endif

TEST_CASE("misaligned rows are a fault of the launch") {
  pools p(6);
  pagoda::block_manager manager = make_manager();
  const pagoda::sequence sequence = manager.make_sequence();
  const pagoda::step step = manager.plan({{sequence, 6}});
  const auto view = p.by_kernel.view(0, step);
  host_machine machine;
  const auto launch = [&](auto&& change) {
    erased_rows keys = p.keys.erased();
    erased_rows values = p.values.erased();
    change(keys, values);
    append_on(machine, view, keys, values);
  };
  CHECK_NOTHROW(launch([](erased_rows&, erased_rows&) {}));
  CHECK_THROWS_WITH_AS(launch([](erased_rows& keys, erased_rows&) { keys.data += 8; }), doctest::Contains("align"),
                       pagoda::simt::fault);
  CHECK_THROWS_AS(launch([](erased_rows& keys, erased_rows&) { keys.head_stride -= 1; }), pagoda::simt::fault);
  CHECK_THROWS_AS(launch([](erased_rows&, erased_rows& values) { values.token_stride -= 2; }), pagoda::simt::fault);
}

TEST_CASE("more rows than the grid can count are refused before the launch") {
  using kernel = pagoda::kernels::append<int8, int8>;
  kernel::arguments args;
  args.view.kv_heads = 1 << 20;
  args.view.values.base = reinterpret_cast<std::byte*>(&args);
  args.keys.tokens = 1 << 10;
  args.values.tokens = 1 << 10;
  CHECK(kernel::max_units(args) == std::int64_t{2} * (1 << 30) / 32);
  args.values.tokens = (1 << 10) + 1;
  CHECK_THROWS_WITH_AS(kernel::max_units(args), doctest::Contains("append in several calls"), pagoda::invalid_argument);
}

/// Tables made by hand.
struct hand_tables {
  std::vector<block_id> blocks;
  std::int32_t pool_blocks;
  std::int32_t tokens;
  std::int32_t one = 1;
  std::int32_t offsets[2] = {0, 0};
  std::int64_t table_offset = 0;
  std::int32_t skipped = 0;

  pagoda::batch_view batch(int) const {
    return {.num_sequences = &one,
            .context_lengths = &tokens,
            .query_offsets = offsets,
            .token_offsets = offsets,
            .table_offsets = &table_offset,
            .skipped_blocks = &skipped,
            .block_table = blocks.data(),
            .block_size = 16,
            .num_blocks = pool_blocks};
  }
};

TEST_CASE("blocks above 2^31 and 2^32 bytes: rows go to the far end of a large pool") {
  // Pages are taken from the system only where a block is touched.
  constexpr std::size_t bytes = std::size_t{9} << 30;
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  REQUIRE(memory != MAP_FAILED);
  using far_storage = pagoda::block_storage<int8, int8, pagoda::heads_tokens_dim, pagoda::borrowed_memory>;
  const std::int64_t block = far_storage::block_bytes(shape, 16);
  const auto count = static_cast<std::int32_t>(static_cast<std::int64_t>(bytes) / block);
  const auto above = [&](std::int64_t offset) { return block_id{static_cast<std::int32_t>(offset / block + 1)}; };
  hand_tables far{
      {block_id{count - 1}, above(std::int64_t{1} << 31), block_id{0}, above(std::int64_t{1} << 32)}, count, 61};
  hand_tables near{{block_id{0}, block_id{1}, block_id{2}, block_id{3}}, 64, 61};
  far.offsets[1] = near.offsets[1] = 61;
  const far_storage large(shape, 16, num_blocks{count},
                          pagoda::borrowed_memory(std::span(static_cast<std::byte*>(memory), bytes)));
  pools p(61);
  host_machine machine;
  p.append_both(machine, near);
  append_on(machine, large.view(0, far), p.keys.erased(), p.values.erased());
  CHECK(p.differences() == 0);
  for (std::size_t position = 0; position < 61; ++position) {
    const auto slot = static_cast<std::int64_t>(position % 16);
    CHECK(pagoda_test::stored_slot(large.layer_view(0), far.blocks[position / 16], slot) ==
          pagoda_test::stored_slot(p.by_host.layer_view(0), near.blocks[position / 16], slot));
  }
  munmap(memory, bytes);
}

}  // namespace
