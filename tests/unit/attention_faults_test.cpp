// SPDX-License-Identifier: Apache-2.0
// Faults that users of other attention libraries have reported: one test for each class that a CPU can have.
#include <sys/mman.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <pagoda/memory/borrowed.hpp>

#include "attention_case.hpp"

namespace {

using pagoda::attention_options;
using pagoda::block_id;
using pagoda::rows_view;
using pagoda_test::attention_case;
using pagoda_test::attention_error;
using pagoda_test::attention_result;
using pagoda_test::case_config;
using pagoda_test::f16;
using pagoda_test::f32;
using pagoda_test::int8;
using pagoda_test::noise;
using pagoda_test::user_int4;

constexpr float infinity = std::numeric_limits<float>::infinity();

/// Tables written by hand: one sequence in the given blocks, all its tokens new, three queries.
struct hand_tables {
  std::vector<block_id> blocks;
  std::int32_t pool;
  std::int32_t tokens;
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
  pagoda::host::append(view, rows_view(keys, {70, 2, dim}), rows_view(values, {70, 2, dim}));
  pagoda_test::serial_items serial;
  pagoda_test::attend(view, rows_view<const float>(queries, {3, 4, dim}), rows_view<float>(output, {3, 4, dim}), {},
                      serial);
  return output;
}

TEST_CASE("offsets above 2^31 and 2^32: blocks at the far end of a large pool hold what was written there") {
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
                        count,
                        70};
  const hand_tables near{{block_id{0}, block_id{1}, block_id{2}, block_id{3}, block_id{4}}, 5, 70};
  const far_storage large(shape, 16, pagoda::num_blocks{count},
                          pagoda::borrowed_memory(std::span(static_cast<std::byte*>(memory), bytes)));
  const pagoda::block_storage<int8> small(shape, 16, pagoda::num_blocks{5});
  CHECK(append_and_attend(large, far) == append_and_attend(small, near));
  munmap(memory, bytes);
}

TEST_CASE("0 * NaN: stale rows in the tail of the last block, finite or not, change nothing") {
  for (const pagoda_test::poison kind : pagoda_test::poisons) {
    case_config config{.batch = {{17, 1, -1, 1}, {33, 33, 5, 2}}, .unused = pagoda_test::poison::zeros};
    const attention_result clean = attention_case<f32>(config).run();
    config.unused = kind;
    CHECK(attention_case<f32>(config).run() == clean);
    CHECK(attention_case<f32>(config).run({.causal = false}).lse[0] == clean.lse[0]);
  }
}

TEST_CASE("empty sequences in any mix: output 0 and LSE -infinity, and their neighbours as if alone") {
  for (unsigned empty = 0; empty < 8; ++empty) {
    case_config config;
    for (unsigned i = 0; i < 3; ++i) {
      config.batch.push_back((empty >> i & 1u) != 0 ? pagoda_test::batch_entry{0, 0, 1, i}
                                                    : pagoda_test::batch_entry{20, 1, 1, i});
    }
    const attention_result all = attention_case<f16>(config).run();
    for (unsigned i = 0; i < 3; ++i) {
      const attention_result alone = attention_case<f16>({.batch = {config.batch[i]}}).run();
      for (std::size_t h = 0; h < 8; ++h) {
        CHECK(all.lse[i * 8 + h] == alone.lse[h]);
        CHECK((alone.lse[h] == -infinity) == ((empty >> i & 1u) != 0));
      }
      for (std::size_t d = 0; d < 8 * 64; ++d) CHECK(all.output[i * 8 * 64 + d] == alone.output[d]);
    }
  }
}

TEST_CASE("a merge of empty parts is empty, not NaN: a split call whose query sees nothing of most chunks") {
  // The sink logits are -infinity, a window hides all but 3 keys, and the work is cut into chunks.
  const attention_case<f16> batch({.batch = {{1600, 1}, {0, 0, 1}}});
  const std::vector<float> none(8, -infinity);
  pagoda_test::split_items split;
  const attention_options options{.window = 3, .sinks = 1, .sink_logits = none};
  CHECK(batch.run(options, split) == batch.run(options));
  CHECK(batch.error(options, split).output < attention_case<f16>::bound);
  CHECK(batch.run(options, split).lse[8] == -infinity);
}

TEST_CASE("the LSE is a natural logarithm: of n equal scores 0 it is log(n)") {
  attention_case<f16> batch({.batch = {{100, 1}}});
  batch.queries.assign(batch.queries.size(), 0.0f);
  for (const float lse : batch.run().lse) CHECK(lse == doctest::Approx(std::log(100.0)).epsilon(1e-6));
}

TEST_CASE("boundary masks: with a zero query the output is the mean of the values, for every length up to two tiles") {
  for (std::int32_t length = 1; length <= 129; ++length) {
    for (const bool causal : {true, false}) {
      attention_case<int8> batch({.shape = {.kv_heads = 1, .head_dim = 8},
                                  .query_group = 1,
                                  .batch = {{length, length, length < 2 ? 1 : 2, 3}}});
      batch.queries.assign(batch.queries.size(), 0.0f);
      const attention_result result = batch.run({.causal = causal});
      for (std::size_t q = 0; q < result.lse.size(); ++q) {
        const auto seen =
            causal ? static_cast<std::size_t>(length) - result.lse.size() + q + 1 : static_cast<std::size_t>(length);
        double mean = 0;
        for (std::size_t t = 0; t < seen; ++t) mean += double{noise(3, 2, static_cast<std::int64_t>(t), 0, 2)};
        mean /= static_cast<double>(seen);
        CHECK(std::fabs(double{result.output[q * 8 + 2]} - mean) < 0.02);  // half a step of int8
        CHECK(std::fabs(double{result.lse[q]} - std::log(static_cast<double>(seen))) < 1e-5);
      }
    }
  }
}

TEST_CASE("group sizes and head dims that other libraries lack: all of them, short and long") {
  for (const std::int32_t dim : {40, 64, 72, 80, 96, 112, 128, 192, 256}) {
    for (const std::int32_t group : {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 32, 64}) {
      CAPTURE(dim);
      CAPTURE(group);
      const bool long_too = group == 5 || group == 16;
      const attention_error error = attention_case<int8>({.shape = {.kv_heads = 1, .head_dim = dim},
                                                          .query_group = group,
                                                          .batch = {{19, 1, -1, 1}, {long_too ? 521 : 70, 2, -1, 2}}})
                                        .error();
      CHECK(error.output < attention_case<int8>::bound);
      CHECK(error.lse < attention_case<int8>::bound);
    }
  }
}

/// A decode case whose keys and values are multiplied by powers of two that differ between heads.
template <class Quantizer>
attention_result scaled_run(float key_factor, float value_factor) {
  attention_case<Quantizer> batch({.shape = {.kv_heads = 2, .head_dim = 32}, .batch = {{75, 75, 4, 1}}});
  std::vector<float> keys;
  std::vector<float> values;
  for (std::int64_t t = 0; t < 75; ++t) {
    for (std::int64_t head = 0; head < 2; ++head) {
      for (std::int64_t d = 0; d < 32; ++d) {
        const float more = head == 1 ? 4.0f : 1.0f;
        keys.push_back(noise(1, 1, t, head, d) * key_factor * more);
        values.push_back(noise(1, 2, t, head, d) * value_factor * more);
      }
    }
  }
  pagoda::host::append(batch.view, rows_view(keys, {75, 2, 32}), rows_view(values, {75, 2, 32}));
  return batch.run({.scale = 0.1f / key_factor});
}

TEST_CASE_TEMPLATE("scales ignored or taken twice: output is linear in the values' scale, and the keys' scale counts",
                   Q, int8, user_int4, pagoda_test::int4, pagoda_test::fp8, pagoda_test::user_int8,
                   pagoda_test::user_int8_grouped) {
  const attention_result plain = scaled_run<Q>(1.0f, 1.0f);
  const attention_result scaled = scaled_run<Q>(0.25f, 0.5f);
  CHECK(plain.lse == scaled.lse);
  for (std::size_t i = 0; i < plain.output.size(); ++i) CHECK(plain.output[i] * 0.5f == scaled.output[i]);
  // The second head's keys and values are 4 times the first's size: it must show in both.
  double norm[2] = {};
  for (std::size_t i = 0; i < plain.output.size(); ++i) norm[i / 32 % 8 / 4] += plain.output[i] * plain.output[i];
  CHECK(norm[1] > 9 * norm[0]);
}

TEST_CASE_TEMPLATE("rows of one value, of zeros and of denormals are attended to without NaN", Q, int8, user_int4, f16,
                   pagoda_test::int4, pagoda_test::fp8, pagoda_test::user_int8_grouped) {
  for (const float value : {0.0f, -0.0f, 3.0f, -0.125f, 1e-40f, -1e-44f}) {
    attention_case<Q> batch({.shape = {.kv_heads = 1, .head_dim = 32}, .query_group = 3, .batch = {{40, 40, 2, 1}}});
    const std::vector<float> rows(40 * 32, value);
    pagoda::host::append(batch.view, rows_view(rows, {40, 1, 32}), rows_view(rows, {40, 1, 32}));
    for (const float x : batch.run().output) CHECK(std::fabs(x - value) <= std::fabs(value) * 1e-3f + 1e-7f);
  }
}

/// Rows with gaps between them; keys and values with different strides everywhere.
struct gapped {
  static constexpr std::string_view name = "gapped";
  static constexpr pagoda::block_planes place(const pagoda::block_geometry& g) {
    const pagoda::plane keys{.offset = 32, .head = g.slots * (g.key_row_bytes + 48) + 64, .slot = g.key_row_bytes + 48};
    const std::int64_t end = 32 + g.heads * keys.head;
    const pagoda::plane values{
        .offset = end + 16, .head = g.value_row_bytes + 16, .slot = g.heads * (g.value_row_bytes + 16) + 80};
    return {keys, values, end + 16 + g.slots * values.slot};
  }
};

TEST_CASE("stride assumptions: gaps between rows, and other strides for keys than for values, change no bit") {
  const case_config config{.shape = {.kv_heads = 3, .head_dim = 32, .value_head_dim = 56},
                           .batch = {{90, 7, -1, 1}, {530, 1, -1, 2}}};
  CHECK(attention_case<int8, int8, gapped>(config).run() == attention_case<int8>(config).run());
  CHECK(attention_case<f32, int8, gapped>(config).run() == attention_case<f32, int8>(config).run());
}

TEST_CASE("scattered blocks and blocks above 128 tokens read the same as contiguous ones") {
  case_config config{.scatter = 0};
  config.batch = {{700, 1, -1, 1}, {300, 3, -1, 2}};
  const attention_result expected = attention_case<f16>(config).run();
  for (const std::int32_t block_size : {1, 16, 256, 1024}) {
    config.block_size = block_size;
    config.scatter = 9;
    CHECK(attention_case<f16>(config).run() == expected);
  }
}

TEST_CASE("stale plans: calls that grow and shrink in turn give what a thread gives that has never called before") {
  pagoda_test::split_items split;
  for (const std::int32_t length : {3, 1600, 1, 700, 5000, 64, 2, 1600}) {
    const attention_case<int8> batch({.batch = {{length, 1, -1, 4}, {length / 2 + 1, 1, -1, 5}}});
    attention_result fresh;
    std::thread([&] { fresh = batch.run(); }).join();
    CHECK(batch.run() == fresh);
    CHECK(batch.run({}, split) == fresh);
  }
}

TEST_CASE("silent slow paths: whether a quantizer has the wide path is known at compile time") {
  CHECK(pagoda::is_vectorized_v<f16>);
  CHECK(pagoda::is_vectorized_v<int8>);
  CHECK_FALSE(pagoda::is_vectorized_v<user_int4>);
}

}  // namespace
