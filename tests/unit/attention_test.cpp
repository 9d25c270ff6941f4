// SPDX-License-Identifier: Apache-2.0
// Host attention against the reference: keys and values alike, every quantizer; lengths, groups, and kinds of batches.
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>
#include <pagoda/host/thread_pool.hpp>

#include "attention_case.hpp"

namespace pagoda_test {

PAGODA_TEST_FOR_SAME_QUANTIZERS(PAGODA_TEST_DEFINE_ATTENTION);

}  // namespace pagoda_test

namespace {

using pagoda_test::attention_case;
using pagoda_test::batch_entry;
using pagoda_test::case_config;

template <class Case>
void check_within_bound(const Case& batch, const pagoda::attention_options& options = {}) {
  const pagoda_test::attention_error error = batch.error(options);
  CHECK(error.output < Case::bound);
  CHECK(error.lse < Case::bound);
}

/// Lengths at and around the ends of blocks (16), tiles (64) and chunks (512).
constexpr std::int32_t edge_lengths[] = {0,   1,   2,   15,  16,  17,  63,  64,   65,  127,
                                         128, 129, 511, 512, 513, 575, 576, 1023, 1025};

template <class Quantizer, std::int32_t KeyDim, std::int32_t ValueDim, class Layout>
struct alike {
  using type = attention_case<Quantizer, Quantizer, Layout>;
  static constexpr pagoda::storage_shape shape{.kv_heads = 2, .head_dim = KeyDim, .value_head_dim = ValueDim};
};

#define EVERY_QUANTIZER                                                 \
  alike<pagoda_test::f32, 40, 8, pagoda::heads_tokens_dim>,             \
      alike<pagoda_test::f16, 128, 128, pagoda::tokens_heads_dim>,      \
      alike<pagoda_test::bf16, 72, 72, pagoda_test::user_chunked>,      \
      alike<pagoda_test::int8, 128, 128, pagoda::heads_tokens_dim>,     \
      alike<pagoda_test::int4, 80, 64, pagoda::tokens_heads_dim>,       \
      alike<pagoda_test::fp8, 64, 120, pagoda::heads_tokens_dim>,       \
      alike<pagoda_test::user_int8, 8, 24, pagoda::tokens_heads_dim>,   \
      alike<pagoda_test::user_int4, 64, 40, pagoda_test::user_chunked>, \
      alike<pagoda_test::user_int8_grouped, 96, 48, pagoda::heads_tokens_dim>

TEST_CASE_TEMPLATE("decode agrees with the reference at every edge of block, tile and chunk", T, EVERY_QUANTIZER) {
  case_config config{.shape = T::shape};
  for (const std::int32_t length : edge_lengths) {
    if (length > 0) config.batch.push_back({length, 1, -1, static_cast<std::uint64_t>(length)});
  }
  const typename T::type batch(config);
  check_within_bound(batch);
  pagoda_test::split_items split;
  CHECK(batch.run({}, split) == batch.run());
  pagoda_test::pooled_items pool(3);
  CHECK(batch.run({}, pool) == batch.run());
}

TEST_CASE_TEMPLATE("prefill agrees with the reference up to two tiles", T, EVERY_QUANTIZER) {
  for (const std::int32_t length : {1, 2, 15, 16, 17, 63, 64, 65, 129}) {
    CAPTURE(length);
    const case_config config{.shape = T::shape, .query_group = 3, .batch = {{length, length}}};
    check_within_bound(typename T::type(config));
  }
}

TEST_CASE_TEMPLATE("chunked prefill, decode, cross-attention and empty sequences agree in one batch", T,
                   EVERY_QUANTIZER) {
  const std::vector<batch_entry> batch{{515, 9, -1, 1}, {0, 0, 2, 2},   {77, 77, 3, 3}, {1, 1, -1, 4},
                                       {30, 30, -1, 5}, {600, 0, 7, 6}, {48, 5, 0, 7},  {130, 64, 70, 8}};
  for (const bool causal : {true, false}) {
    for (const std::int32_t block_size : {1, 8, 64}) {
      CAPTURE(causal);
      CAPTURE(block_size);
      const case_config config{.shape = T::shape, .block_size = block_size, .query_group = 2, .batch = batch};
      check_within_bound(typename T::type(config), {.causal = causal});
    }
  }
}

TEST_CASE_TEMPLATE("every group size agrees with the reference", T, EVERY_QUANTIZER) {
  for (const std::int32_t group : {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 32, 65}) {
    CAPTURE(group);
    const case_config config{.shape = T::shape, .query_group = group, .batch = {{70, 3, -1, 1}, {9, 1, -1, 2}}};
    check_within_bound(typename T::type(config));
  }
}

TEST_CASE("prefill over chunk boundaries agrees for every query that is asked for") {
  for (const std::int32_t length : {513, 577, 1025}) {
    const case_config config{
        .shape = {.kv_heads = 1, .head_dim = 16}, .query_group = 2, .batch = {{length, length, 70}}};
    check_within_bound(attention_case<pagoda_test::f16>(config));
    check_within_bound(attention_case<pagoda_test::f16>(config), {.causal = false});
  }
}

TEST_CASE("an output row that sees no token is zero and its LSE is -infinity, whatever was there before") {
  const case_config config{.batch = {{0, 0, 3}, {20, 1}, {0, 0, 1}}};
  const attention_case<pagoda_test::int8> batch(config);
  for (const bool causal : {true, false}) {
    const auto result = batch.run({.causal = causal});
    const std::size_t row = 64;
    for (const std::size_t i : {std::size_t{0}, std::size_t{1}, std::size_t{2}, std::size_t{4}}) {
      for (std::size_t d = i * 8 * row; d < (i + 1) * 8 * row; ++d) CHECK(result.output[d] == 0.0f);
      for (std::size_t h = i * 8; h < (i + 1) * 8; ++h) CHECK(result.lse[h] == -std::numeric_limits<float>::infinity());
    }
    CHECK(result.output[3 * 8 * row] != 0.0f);
  }
}

}  // namespace
