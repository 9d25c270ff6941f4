// SPDX-License-Identifier: Apache-2.0
// What the generic kernel writes depends on tokens and queries alone: to the bit the same for any order of threads and
// blocks, any placement and layout, any neighbours, and whatever unused memory holds.
#include <sys/mman.h>

#include <cstdint>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <pagoda/memory/borrowed.hpp>

#include "generic_kernel.hpp"

namespace {

using pagoda::attention_options;
using pagoda::block_id;
using pagoda_test::attention_case;
using pagoda_test::attention_result;
using pagoda_test::batch_entry;
using pagoda_test::case_config;
using pagoda_test::int8;
using pagoda_test::noise;
using pagoda_test::run_generic;

const std::vector<batch_entry> ragged{{541, 1, -1, 1}, {77, 77, 11, 2}, {1030, 3, -1, 3},
                                      {1, 1, -1, 4},   {50, 0, 5, 5},   {60, 18, -1, 6}};

case_config config_of(std::vector<batch_entry> batch = ragged) {
  return {.shape = {.kv_heads = 2, .head_dim = 32, .value_head_dim = 48}, .query_group = 3, .batch = std::move(batch)};
}

/// Option sets that reach every path: whole tiles, causal edges, windows with a gap, per-token distances.
std::vector<attention_options> option_sets() {
  static const std::vector<float> slopes{0.01f, 0.02f, 0.03f, 0.04f, 0.05f, 0.06f};
  static const std::vector<float> logits{0.5f, -1.0f, 2.0f, 0.0f, 1.0f, 3.0f};
  return {{},
          {.causal = false},
          {.scale = 0.3f, .window = 70, .sinks = 5, .sink_logits = logits, .soft_cap = 6.0f, .alibi_slopes = slopes}};
}

bool same_bits(const attention_result& a, const attention_result& b) {
  return a.output.size() == b.output.size() && a.lse.size() == b.lse.size() &&
         std::memcmp(a.output.data(), b.output.data(), 4 * a.output.size()) == 0 &&
         std::memcmp(a.lse.data(), b.lse.data(), 4 * a.lse.size()) == 0;
}

template <class Case>
std::vector<attention_result> results(const Case& batch, std::uint32_t seed = 0) {
  pagoda::simt::host_machine machine({.schedule_seed = seed});
  std::vector<attention_result> all;
  for (const attention_options& options : option_sets()) all.push_back(run_generic(batch, options, machine));
  return all;
}

void check_same(const std::vector<attention_result>& a, const std::vector<attention_result>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    CAPTURE(i);
    CHECK(same_bits(a[i], b[i]));
  }
}

#define SOME_QUANTIZERS \
  pagoda_test::f32, pagoda_test::int8, pagoda_test::user_int4, pagoda_test::user_int8_grouped, pagoda_test::bf16

TEST_CASE_TEMPLATE("results do not depend on the order of threads and blocks", Q, SOME_QUANTIZERS) {
  const attention_case<Q> batch(config_of());
  const std::vector<attention_result> expected = results(batch);
  for (const std::uint32_t seed : {1u, 2u, 3u}) check_same(results(batch, seed), expected);
}

TEST_CASE_TEMPLATE("results do not depend on which blocks hold a sequence, on layout, pool order or block size", Q,
                   SOME_QUANTIZERS) {
  case_config config = config_of();
  config.scatter = 0;
  const std::vector<attention_result> expected = results(attention_case<Q>(config));
  config.scatter = 2;
  check_same(results(attention_case<Q>(config)), expected);
  check_same(results(attention_case<Q, Q, pagoda::tokens_heads_dim>(config)), expected);
  check_same(results(attention_case<Q, Q, pagoda_test::user_chunked>(config)), expected);
  config.order = pagoda::pool_order::by_block;
  config.shape.layers = 3;
  check_same(results(attention_case<Q>(config)), expected);
  for (const std::int32_t block_size : {1, 64}) {
    config.block_size = block_size;
    check_same(results(attention_case<Q>(config)), expected);
  }
}

/// The rows of one batch entry.
attention_result rows_of(const attention_result& all, const pagoda::batch_view& batch, std::int32_t i) {
  const auto at = [](std::int32_t n) { return static_cast<std::ptrdiff_t>(n); };
  const std::int32_t begin = batch.query_offsets[i] * 6;
  const std::int32_t end = batch.query_offsets[i + 1] * 6;
  return {{all.output.begin() + at(begin * 48), all.output.begin() + at(end * 48)},
          {all.lse.begin() + at(begin), all.lse.begin() + at(end)}};
}

TEST_CASE_TEMPLATE("a sequence alone and in a batch gives the same bits", Q, SOME_QUANTIZERS) {
  const attention_case<Q> together(config_of());
  const std::vector<attention_result> all = results(together);
  for (std::size_t i = 0; i < ragged.size(); ++i) {
    const std::vector<attention_result> alone = results(attention_case<Q>(config_of({ragged[i]})));
    for (std::size_t o = 0; o < all.size(); ++o) {
      CAPTURE(i);
      CAPTURE(o);
      CHECK(same_bits(rows_of(all[o], together.view.batch, static_cast<std::int32_t>(i)), alone[o]));
    }
  }
}

TEST_CASE_TEMPLATE("results do not depend on what unused slots, scales, padding and other layers hold", Q,
                   SOME_QUANTIZERS) {
  case_config config = config_of({{541, 1, -1, 1}, {30, 30, 11, 2}, {17, 1, -1, 3}});
  config.shape.layers = 2;
  config.shape.head_dim = std::is_same_v<Q, pagoda_test::user_int8_grouped> ? 48 : 40;  // rows with padding
  config.unused = pagoda_test::poison::zeros;
  const std::vector<attention_result> expected = results(attention_case<Q>(config));
  for (const pagoda_test::poison kind : pagoda_test::poisons) {
    CAPTURE(static_cast<std::uint32_t>(kind));
    config.unused = kind;
    check_same(results(attention_case<Q>(config)), expected);
    check_same(results(attention_case<Q, Q, pagoda_test::user_chunked>(config)), expected);
  }
}

TEST_CASE("results do not depend on table entries beyond those in use, nor is any reported") {
  case_config config = config_of();
  pagoda::simt::host_machine machine;
  for (const pagoda::retention& keep : {pagoda::retention{}, pagoda::retention{.sinks = 3, .window = 40}}) {
    config.keep = keep;
    attention_case<int8> batch(config);
    const pagoda::batch_view before = batch.view.batch;
    const attention_options options{.window = 38, .sinks = keep.sinks};
    const attention_result expected = run_generic(batch, options, machine);
    for (const std::int32_t tail : {-1, INT32_MAX, INT32_MIN, batch.view.num_blocks}) {
      CAPTURE(tail);
      const pagoda_test::tables_with_tails tables(before, tail);
      batch.view.batch = tables.batch();
      CHECK(same_bits(run_generic(batch, options, machine), expected));
    }
  }
}

/// Tables written by hand: one sequence in the given blocks, all its tokens new, three queries.
struct hand_tables {
  std::vector<block_id> blocks;
  std::int32_t pool;
  std::int32_t tokens = 70;
  std::int32_t sequences = 1;
  std::int32_t skipped = 0;
  std::int32_t query_offsets[2] = {0, 3};
  std::int32_t token_offsets[2] = {0, tokens};
  std::int64_t table_offset = 0;

  pagoda::batch_view batch(int) const {
    return {.num_sequences = &sequences,
            .context_lengths = &tokens,
            .query_offsets = query_offsets,
            .token_offsets = token_offsets,
            .table_offsets = &table_offset,
            .skipped_blocks = &skipped,
            .block_table = blocks.data(),
            .block_size = 16,
            .num_blocks = pool};
  }
};

/// Appends 70 tokens of two heads and attends to them.
template <class Storage>
std::vector<float> append_and_attend(const Storage& storage, const hand_tables& tables) {
  constexpr std::int64_t dim = 64;
  std::vector<float> keys;
  std::vector<float> values;
  std::vector<float> queries;
  for (std::int64_t i = 0; i < 70 * 2 * dim; ++i) {
    keys.push_back(noise(1, 1, i, 0, 0));
    values.push_back(noise(1, 2, i, 0, 0));
  }
  for (std::int64_t i = 0; i < 3 * 4 * dim; ++i) queries.push_back(noise(1, 3, i, 0, 0));
  std::vector<float> output(queries.size());
  const auto view = storage.view(0, tables);
  pagoda::host::append(view, pagoda::rows_view(keys, {70, 2, dim}), pagoda::rows_view(values, {70, 2, dim}));
  pagoda_test::attention_launch<int8, int8> call(view, pagoda::rows_view<const float>(queries, {3, 4, dim}),
                                                 pagoda::rows_view<float>(output, {3, 4, dim}), {});
  pagoda::simt::host_machine machine;
  call.run<pagoda_test::generic_kernel<int8, int8>>(machine);
  CHECK(call.report.fault == 0);
  return output;
}

TEST_CASE("offsets above 2^31 and 2^32: blocks at the far end of a large pool") {
  // Pages are taken from the system only where a block is touched.
  constexpr std::size_t bytes = std::size_t{9} << 30;
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  REQUIRE(memory != MAP_FAILED);
  using far_storage = pagoda::block_storage<int8, int8, pagoda::heads_tokens_dim, pagoda::borrowed_memory>;
  const pagoda::storage_shape shape{.kv_heads = 2, .head_dim = 64};
  const std::int64_t block = far_storage::block_bytes(shape, 16);
  const auto count = static_cast<std::int32_t>(static_cast<std::int64_t>(bytes) / block);
  const auto above = [&](std::int64_t offset) { return block_id{static_cast<std::int32_t>(offset / block + 1)}; };
  const hand_tables far{{block_id{count - 1}, above(std::int64_t{1} << 31), block_id{0}, above(std::int64_t{1} << 32),
                         above(std::int64_t{2} << 32)},
                        count};
  const hand_tables near{{block_id{0}, block_id{1}, block_id{2}, block_id{3}, block_id{4}}, 5};
  const far_storage large(shape, 16, pagoda::num_blocks{count},
                          pagoda::borrowed_memory(std::span(static_cast<std::byte*>(memory), bytes)));
  const pagoda::block_storage<int8> small(shape, 16, pagoda::num_blocks{5});
  CHECK(append_and_attend(large, far) == append_and_attend(small, near));
  munmap(memory, bytes);
}

}  // namespace
