// SPDX-License-Identifier: Apache-2.0
// The tensor-core kernels against the reference: every quantizer and head dim; lengths, groups, options, layouts.
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

#include <doctest/doctest.h>

#include "tensor_kernels.hpp"

namespace {

using pagoda_test::attention_case;
using pagoda_test::attention_error;
using pagoda_test::batch_entry;
using pagoda_test::case_config;
using pagoda_test::tensor_bound;
using pagoda_test::tensor_error;

/// Kernels of one pair of quantizers and one head dim.
template <class Keys, class Values, int Dim>
struct kernels_of {
  static constexpr int dim = Dim;
  static constexpr double bound = tensor_bound<Keys, Values>;
  using type = attention_case<Keys, Values>;

  static case_config config(std::int32_t group, std::vector<batch_entry> batch) {
    return {.shape = {.kv_heads = 2, .head_dim = Dim}, .query_group = group, .batch = std::move(batch)};
  }
};

template <class Kernels, class Case>
void check_within_bound(const Case& batch, const pagoda::attention_options& options = {}) {
  const attention_error error = tensor_error<Kernels::dim>(batch, options);
  CHECK(error.output < Kernels::bound);
  CHECK(error.lse < Kernels::bound);
}

#define PAGODA_TEST_KERNELS(K, V, Dim) kernels_of<pagoda_test::K, pagoda_test::V, Dim>
#define EVERY_KERNEL                                                                                                   \
  PAGODA_TEST_KERNELS(f16, f16, 64), PAGODA_TEST_KERNELS(f16, f16, 80), PAGODA_TEST_KERNELS(f16, f16, 96),             \
      PAGODA_TEST_KERNELS(f16, f16, 112), PAGODA_TEST_KERNELS(f16, f16, 128), PAGODA_TEST_KERNELS(f16, f16, 192),      \
      PAGODA_TEST_KERNELS(f16, f16, 256), PAGODA_TEST_KERNELS(bf16, bf16, 64), PAGODA_TEST_KERNELS(bf16, bf16, 80),    \
      PAGODA_TEST_KERNELS(bf16, bf16, 96), PAGODA_TEST_KERNELS(bf16, bf16, 128), PAGODA_TEST_KERNELS(bf16, bf16, 192), \
      PAGODA_TEST_KERNELS(bf16, bf16, 256), PAGODA_TEST_KERNELS(int8, int8, 64), PAGODA_TEST_KERNELS(int8, int8, 80),  \
      PAGODA_TEST_KERNELS(int8, int8, 96), PAGODA_TEST_KERNELS(int8, int8, 128), PAGODA_TEST_KERNELS(int8, int8, 192), \
      PAGODA_TEST_KERNELS(int8, int8, 256), PAGODA_TEST_KERNELS(int4, int4, 64), PAGODA_TEST_KERNELS(int4, int4, 80),  \
      PAGODA_TEST_KERNELS(int4, int4, 96), PAGODA_TEST_KERNELS(int4, int4, 128), PAGODA_TEST_KERNELS(int4, int4, 192), \
      PAGODA_TEST_KERNELS(int4, int4, 256), PAGODA_TEST_KERNELS(fp8, fp8, 64), PAGODA_TEST_KERNELS(fp8, fp8, 80),      \
      PAGODA_TEST_KERNELS(fp8, fp8, 96), PAGODA_TEST_KERNELS(fp8, fp8, 128), PAGODA_TEST_KERNELS(fp8, fp8, 192),       \
      PAGODA_TEST_KERNELS(fp8, fp8, 256), PAGODA_TEST_KERNELS(f16, int8, 64), PAGODA_TEST_KERNELS(int4, bf16, 64)
#define ONE_DIM_EACH                                                                                              \
  PAGODA_TEST_KERNELS(f16, f16, 64), PAGODA_TEST_KERNELS(bf16, bf16, 64), PAGODA_TEST_KERNELS(int8, int8, 64),    \
      PAGODA_TEST_KERNELS(int4, int4, 64), PAGODA_TEST_KERNELS(fp8, fp8, 64), PAGODA_TEST_KERNELS(f16, int8, 64), \
      PAGODA_TEST_KERNELS(int4, bf16, 64)

TEST_CASE_TEMPLATE("decode agrees with the reference at every edge of tile, block and chunk", T, EVERY_KERNEL) {
  std::vector<batch_entry> batch;
  for (const std::int32_t length : {0, 1, 15, 16, 17, 33, 512, 513}) {
    batch.push_back({length, length > 0 ? 1 : 0, 1, static_cast<std::uint64_t>(length)});
  }
  check_within_bound<T>(typename T::type(T::config(3, batch)));
}

TEST_CASE_TEMPLATE("two chunks and a token are split, merged, and agree", T, ONE_DIM_EACH) {
  check_within_bound<T>(typename T::type(T::config(5, {{1025, 1, -1, 1}, {1024, 2, -1, 2}, {3, 1, -1, 3}})));
}

TEST_CASE_TEMPLATE("every group size agrees with the reference", T, ONE_DIM_EACH) {
  for (const std::int32_t group : {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 32}) {
    CAPTURE(group);
    check_within_bound<T>(typename T::type(T::config(group, {{40, 1, -1, 1}, {17, 3, -1, 2}, {12, 11, -1, 3}})));
  }
}

TEST_CASE_TEMPLATE("prefill, chunked prefill, several queries and decode agree in one batch", T, EVERY_KERNEL) {
  check_within_bound<T>(typename T::type(T::config(3, {{100, 30, -1, 1},
                                                       {0, 0, 2, 2},
                                                       {45, 45, -1, 3},
                                                       {9, 9, -1, 4},
                                                       {70, 8, -1, 5},
                                                       {33, 1, -1, 6},
                                                       {20, 4, 0, 7},
                                                       {0, 0, 12, 8}})));
}

TEST_CASE_TEMPLATE("cross-attention agrees: more queries than tokens, none of them masked", T, ONE_DIM_EACH) {
  check_within_bound<T>(typename T::type(T::config(2, {{5, 0, 20, 1}, {40, 0, 3, 2}, {1, 0, 1, 3}})),
                        {.causal = false});
}

TEST_CASE_TEMPLATE("every option agrees, alone and with others", T, ONE_DIM_EACH) {
  const typename T::type batch(T::config(3, {{150, 20, -1, 1}, {530, 1, -1, 2}, {64, 5, -1, 3}, {9, 9, -1, 4}}));
  const std::vector<float> logits{0.5f, -2.0f, 3.0f, 0.0f, 1.0f, -1.0f};
  const std::vector<float> slopes{0.25f, 0.0f, 0.03125f, -0.125f, 0.5f, 0.0625f};
  const pagoda::attention_options alone[] = {
      {.scale = 0.3f},
      {.scale = -0.2f},
      {.window = 1},
      {.window = 17},
      {.window = 40, .sinks = 5},
      {.window = 600, .sinks = 20},
      {.sink_logits = logits},
      {.soft_cap = 1.5f},
      {.alibi_slopes = slopes},
      {.causal = false, .sink_logits = logits},
      {.window = 40, .sinks = 5, .sink_logits = logits},
      {.window = 33, .sinks = 20, .soft_cap = 2.0f},
      {.window = 25, .alibi_slopes = slopes},
      {.scale = 0.5f, .sink_logits = logits, .soft_cap = 3.0f, .alibi_slopes = slopes},
      {.causal = false, .soft_cap = 2.0f, .alibi_slopes = slopes},
  };
  for (const pagoda::attention_options& options : alone) {
    CAPTURE(options.window);
    CAPTURE(options.soft_cap);
    check_within_bound<T>(batch, options);
  }
}

TEST_CASE_TEMPLATE("a tree of new tokens is masked as the tree says", T, ONE_DIM_EACH) {
  const typename T::type batch(T::config(3, {{60, 12, -1, 1}, {20, 5, -1, 2}, {40, 40, -1, 3}}));
  std::vector<std::uint32_t> words;
  std::uint32_t random = 12345;
  for (std::int32_t i = 0; i < batch.view.batch.sequences(); ++i) {
    for (std::int32_t q = 0; q < batch.view.batch.queries(i); ++q) {
      std::uint32_t two[2];
      for (std::uint32_t& word : two) word = random = random * 1664525u + 1013904223u;
      two[q / 32] |= 1u << (q % 32);
      words.insert(words.end(), two, two + 2);
    }
  }
  check_within_bound<T>(batch, {.tree = {words, 2}});
  check_within_bound<T>(batch, {.soft_cap = 2.0f, .tree = {words, 2}});
}

TEST_CASE_TEMPLATE("dropped tokens are not looked up: a window with sinks over freed blocks", T, ONE_DIM_EACH) {
  case_config config = T::config(2, {{700, 1, -1, 1}, {650, 10, -1, 2}, {100, 20, -1, 3}, {1300, 3, -1, 4}});
  for (const pagoda::retention& keep :
       {pagoda::retention{0, 64}, pagoda::retention{5, 40}, pagoda::retention{600, 50}}) {
    CAPTURE(keep.sinks);
    config.keep = keep;
    const typename T::type batch(config);
    check_within_bound<T>(batch);
    check_within_bound<T>(batch, {.window = 30});
  }
}

/// What the same batch gives when its pool is laid out otherwise.
template <class T, class Layout>
pagoda_test::attention_result run_layout(const case_config& config) {
  pagoda::simt::host_machine machine;
  return pagoda_test::run_tensor<T::dim>(
      attention_case<typename T::type::view_type::key_quantizer, typename T::type::view_type::value_quantizer, Layout>(
          config),
      {}, machine);
}

TEST_CASE_TEMPLATE("layout, block size, pool order and placement change no bit", T, ONE_DIM_EACH) {
  case_config config = T::config(3, {{100, 20, -1, 1}, {530, 2, -1, 2}, {33, 1, -1, 3}});
  const pagoda_test::attention_result expected = run_layout<T, pagoda::heads_tokens_dim>(config);
  CHECK(run_layout<T, pagoda::tokens_heads_dim>(config) == expected);
  CHECK(run_layout<T, pagoda_test::user_chunked>(config) == expected);
  for (const std::uint32_t scatter : {0u, 2u}) {
    config.scatter = scatter;
    CHECK(run_layout<T, pagoda::heads_tokens_dim>(config) == expected);
  }
  for (const std::int32_t block_size : {32, 256}) {
    config.block_size = block_size;
    CHECK(run_layout<T, pagoda::heads_tokens_dim>(config) == expected);
  }
  config.shape.layers = 3;
  config.order = pagoda::pool_order::by_block;
  CHECK(run_layout<T, pagoda::heads_tokens_dim>(config) == expected);
}

TEST_CASE_TEMPLATE("nothing that unused slots hold changes a bit", T, ONE_DIM_EACH) {
  case_config config = T::config(3, {{100, 20, -1, 1}, {530, 2, -1, 2}, {1, 1, -1, 3}, {700, 1, -1, 4}});
  for (const pagoda::retention& keep : {pagoda::retention{}, pagoda::retention{3, 50}}) {
    config.keep = keep;
    config.unused = pagoda_test::poison::zeros;
    const pagoda_test::attention_result expected = run_layout<T, pagoda::heads_tokens_dim>(config);
    for (const pagoda_test::poison unused : pagoda_test::poisons) {
      CAPTURE(static_cast<std::uint32_t>(unused));
      config.unused = unused;
      CHECK(run_layout<T, pagoda::heads_tokens_dim>(config) == expected);
    }
  }
}

TEST_CASE_TEMPLATE("random schedules and any grid give the same bits", T, ONE_DIM_EACH) {
  const typename T::type batch(T::config(3, {{60, 20, -1, 1}, {530, 2, -1, 2}, {33, 1, -1, 3}}));
  pagoda::simt::host_machine in_order;
  const pagoda_test::attention_result expected = pagoda_test::run_tensor<T::dim>(batch, {}, in_order);
  for (const std::uint32_t seed : {1u, 2u, 3u}) {
    CAPTURE(seed);
    pagoda::simt::host_machine machine({.schedule_seed = seed});
    CHECK(pagoda_test::run_tensor<T::dim>(batch, {}, machine) == expected);
  }
  for (const std::int64_t grid : {1, 2, 1000})
    CHECK(pagoda_test::run_tensor<T::dim>(batch, {}, in_order, grid) == expected);
}

TEST_CASE_TEMPLATE("a sequence gives the same bits beside any neighbours", T, ONE_DIM_EACH) {
  pagoda::simt::host_machine machine;
  const auto rows_of = [&](const std::vector<batch_entry>& entries, std::size_t index) {
    const typename T::type batch(T::config(3, entries));
    const pagoda_test::attention_result all = pagoda_test::run_tensor<T::dim>(batch, {}, machine);
    const auto first = static_cast<std::ptrdiff_t>(batch.view.batch.query_offsets[index]) * 6;
    const auto last = static_cast<std::ptrdiff_t>(batch.view.batch.query_offsets[index + 1]) * 6;
    pagoda_test::attention_result mine;
    mine.output.assign(all.output.begin() + first * T::dim, all.output.begin() + last * T::dim);
    mine.lse.assign(all.lse.begin() + first, all.lse.begin() + last);
    return mine;
  };
  for (const batch_entry& entry : {batch_entry{530, 2, -1, 1}, batch_entry{90, 30, -1, 2}}) {
    const pagoda_test::attention_result alone = rows_of({entry}, 0);
    CHECK(rows_of({{17, 1, -1, 5}, entry, {60, 9, -1, 6}}, 1) == alone);
    CHECK(rows_of({{40, 40, -1, 7}, {600, 1, -1, 8}, entry}, 2) == alone);
  }
}

TEST_CASE_TEMPLATE("queries of any size come through: they are scaled by a power of two before they are rounded", T,
                   ONE_DIM_EACH) {
  typename T::type batch(T::config(3, {{60, 20, -1, 1}, {40, 2, -1, 2}}));
  pagoda::simt::host_machine machine;
  const pagoda_test::attention_result expected = pagoda_test::run_tensor<T::dim>(batch, {.scale = 0.125f}, machine);
  for (const float size : {0x1p-60f, 0x1p-20f, 0x1p20f, 0x1p60f}) {
    CAPTURE(size);
    for (float& q : batch.queries) q *= size;
    CHECK(pagoda_test::run_tensor<T::dim>(batch, {.scale = 0.125f / size}, machine) == expected);
    for (float& q : batch.queries) q /= size;
  }
}

TEST_CASE_TEMPLATE("huge scores stay right as far as they are told apart, and never become NaN", T, ONE_DIM_EACH) {
  typename T::type batch(T::config(3, {{60, 20, -1, 1}, {40, 2, -1, 2}}));
  for (float& q : batch.queries) q *= 1e9f;
  pagoda::simt::host_machine machine;
  const pagoda_test::attention_result got = pagoda_test::run_tensor<T::dim>(batch, {}, machine);
  for (const float x : got.output) REQUIRE(x - x == 0.0f);
}

TEST_CASE("an infinity in a scale reaches no row from which the mask hides its token") {
  using T = kernels_of<pagoda_test::int8, pagoda_test::int8, 64>;
  const typename T::type batch(T::config(3, {{20, 20, -1, 1}, {20, 8, -1, 2}}));
  pagoda::simt::host_machine machine;
  const pagoda_test::attention_result expected = pagoda_test::run_tensor<T::dim>(batch, {}, machine);
  for (std::int32_t i = 0; i < 2; ++i) {
    const pagoda::block_id block = batch.view.batch.block(i, 1);  // the last token's: slot 3 of the second block
    for (std::int32_t head = 0; head < 2; ++head) {
      const float infinity = std::numeric_limits<float>::infinity();
      std::memcpy(batch.view.value_scales.row(block, head, 3), &infinity, sizeof(infinity));
    }
  }
  const pagoda_test::attention_result got = pagoda_test::run_tensor<T::dim>(batch, {}, machine);
  const std::size_t row = 6 * T::dim;  // of one query, all heads
  for (std::size_t query = 0; query < 28; ++query) {
    const bool is_last = query == 19 || query == 27;  // the only ones that see the last token
    for (std::size_t d = query * row; d < (query + 1) * row; ++d) {
      REQUIRE((is_last ? got.output[d] - got.output[d] != 0.0f : got.output[d] == expected.output[d]));
    }
  }
}

}  // namespace
