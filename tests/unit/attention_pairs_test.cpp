// SPDX-License-Identifier: Apache-2.0
// Host attention where keys and values differ: in quantizer, in head_dim, or both; and queries and outputs of every
// type.
#include <cstdint>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <pagoda/host/thread_pool.hpp>

#include "attention_case.hpp"

namespace pagoda_test {

PAGODA_TEST_FOR_MIXED_QUANTIZERS(PAGODA_TEST_DEFINE_ATTENTION);

}  // namespace pagoda_test

namespace {

using pagoda_test::attention_case;
using pagoda_test::attention_error;
using pagoda_test::batch_entry;
using pagoda_test::case_config;

template <class Keys, class Values, std::int32_t KeyDim, std::int32_t ValueDim, class Layout>
struct pair {
  using type = attention_case<Keys, Values, Layout>;
  static constexpr pagoda::storage_shape shape{.kv_heads = 2, .head_dim = KeyDim, .value_head_dim = ValueDim};
};

#define EVERY_PAIR                                                                                \
  pair<pagoda_test::int8, pagoda_test::f16, 96, 64, pagoda_test::user_chunked>,                   \
      pair<pagoda_test::f16, pagoda_test::user_int4, 128, 128, pagoda::heads_tokens_dim>,         \
      pair<pagoda_test::fp8, pagoda_test::int4, 192, 128, pagoda::heads_tokens_dim>,              \
      pair<pagoda_test::f32, pagoda_test::int8, 576, 512, pagoda::tokens_heads_dim>,              \
      pair<pagoda_test::user_int8_grouped, pagoda_test::int8, 64, 72, pagoda_test::user_chunked>, \
      pair<pagoda_test::user_int4, pagoda_test::bf16, 40, 128, pagoda::heads_tokens_dim>

TEST_CASE_TEMPLATE("keys and values of different quantizers and dims agree with the reference", T, EVERY_PAIR) {
  const std::vector<batch_entry> batch{{515, 9, -1, 1}, {0, 0, 2, 2}, {77, 77, 3, 3}, {64, 1, -1, 4}, {530, 0, 5, 6}};
  pagoda_test::pooled_items pool(2);
  const std::pair<std::int32_t, std::int32_t> sizes[] = {{1, 3}, {16, 8}, {128, 1}};
  for (const auto& size : sizes) {
    const std::int32_t block_size = size.first;
    const std::int32_t group = size.second;
    CAPTURE(block_size);
    const case_config config{.shape = T::shape, .block_size = block_size, .query_group = group, .batch = batch};
    const attention_error error = typename T::type(config).error({.causal = group != 3}, pool);
    CHECK(error.output < T::type::bound);
    CHECK(error.lse < T::type::bound);
  }
}

template <class T>
std::vector<T> narrowed(const std::vector<float>& from) {
  std::vector<T> result;
  for (const float x : from) result.push_back(pagoda::from_float<T>(x));
  return result;
}

TEST_CASE_TEMPLATE("queries and outputs may be narrow: the output is the float result, rounded once", T, pagoda::half,
                   pagoda::bfloat16) {
  using pagoda::rows_view;
  attention_case<pagoda_test::int8, pagoda_test::f16> batch({.batch = {{40, 5, -1, 1}, {9, 1, -1, 2}}});
  const std::vector<T> narrow = narrowed<T>(batch.queries);
  for (std::size_t i = 0; i < narrow.size(); ++i) batch.queries[i] = pagoda::to_float(narrow[i]);
  const std::vector<float> expected = batch.run().output;
  std::vector<T> output(expected.size());
  std::vector<float> wide(expected.size());
  const rows_view<const T> queries(narrow, batch.query_rows().shape());
  pagoda::host::attention(batch.view, queries, rows_view<T>(output, batch.output_shape()));
  pagoda::host::attention(batch.view, queries, rows_view<float>(wide, batch.output_shape()));
  CHECK(wide == expected);
  CHECK(output == narrowed<T>(expected));
}

TEST_CASE("queries and outputs may be slices of larger tensors, and nothing beside them is written") {
  using pagoda::rows_view;
  const attention_case<pagoda_test::int8, pagoda_test::f16> batch(
      {.shape = {.kv_heads = 2, .head_dim = 32, .value_head_dim = 16}, .query_group = 3, .batch = {{40, 5, -1, 1}}});
  const std::vector<float> expected = batch.run().output;
  constexpr std::size_t token = 1000;
  constexpr std::size_t query_head = 40;
  std::vector<float> fused(5 * token, 7.0f);
  for (std::size_t t = 0; t < 5; ++t) {
    for (std::size_t h = 0; h < 6; ++h) {
      for (std::size_t d = 0; d < 32; ++d) fused[t * token + h * query_head + d] = batch.queries[(t * 6 + h) * 32 + d];
    }
  }
  // Head outside, token inside: [heads, tokens, dim] seen as [tokens, heads, dim].
  std::vector<float> output(6 * 5 * 24, -3.0f);
  pagoda::host::attention(batch.view, rows_view<const float>(fused, {5, 6, 32}, {token, query_head}),
                          rows_view<float>(output, {5, 6, 16}, {24, 5 * 24}));
  for (std::size_t h = 0; h < 6; ++h) {
    for (std::size_t t = 0; t < 5; ++t) {
      const float* row = output.data() + (h * 5 + t) * 24;
      for (std::size_t d = 0; d < 24; ++d) CHECK(row[d] == (d < 16 ? expected[(t * 6 + h) * 16 + d] : -3.0f));
    }
  }
}

}  // namespace
