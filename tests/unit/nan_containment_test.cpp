// SPDX-License-Identifier: Apache-2.0
// A number that is not finite reaches the outputs that attend to it, and no other.
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "attention_case.hpp"

namespace {

using pagoda::attention_options;
using pagoda_test::attention_case;
using pagoda_test::attention_result;
using pagoda_test::case_config;

constexpr float quiet_nan = std::numeric_limits<float>::quiet_NaN();
constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr std::int64_t group = 3;
constexpr std::int64_t heads = 2 * group;
constexpr std::int64_t dim = 32;

const case_config config{
    .shape = {.kv_heads = 2, .head_dim = dim}, .query_group = group, .batch = {{90, 90, 20, 1}, {30, 5, -1, 2}}};

#define EVERY_QUANTIZER                                                                                          \
  pagoda_test::f32, pagoda_test::f16, pagoda_test::bf16, pagoda_test::int8, pagoda_test::int4, pagoda_test::fp8, \
      pagoda_test::user_int8, pagoda_test::user_int4, pagoda_test::user_int8_grouped

bool row_is_finite(const attention_result& result, std::int64_t query, std::int64_t head) {
  for (std::int64_t d = 0; d < dim; ++d) {
    if (!std::isfinite(result.output[static_cast<std::size_t>((query * heads + head) * dim + d)])) return false;
  }
  return true;
}

bool row_is_same(const attention_result& a, const attention_result& b, std::int64_t query, std::int64_t head) {
  const auto row = static_cast<std::size_t>(query * heads + head);
  for (std::size_t d = row * dim; d < (row + 1) * dim; ++d) {
    if (a.output[d] != b.output[d]) return false;
  }
  return a.lse[row] == b.lse[row];
}

TEST_CASE_TEMPLATE("a NaN in a query stays in that query's head", Q, EVERY_QUANTIZER) {
  attention_case<Q> batch(config);
  const std::vector<float> slopes(heads, 0.01f);
  for (const attention_options& options :
       {attention_options{}, attention_options{.soft_cap = 5.0f, .alibi_slopes = slopes}}) {
    const attention_result clean = batch.run(options);
    for (const auto& [query, head] : {std::pair<std::int64_t, std::int64_t>{0, 0}, {7, 4}, {19, 5}, {22, 2}}) {
      float& element = batch.queries[static_cast<std::size_t>((query * heads + head) * dim + 9)];
      const float before = std::exchange(element, quiet_nan);
      const attention_result got = batch.run(options);
      element = before;
      for (std::int64_t q = 0; q < 25; ++q) {
        for (std::int64_t h = 0; h < heads; ++h) {
          if (q == query && h == head) {
            const auto row = static_cast<std::size_t>(q * heads + h);
            CHECK(std::isnan(got.lse[row]));
            for (std::size_t d = row * dim; d < (row + 1) * dim; ++d) CHECK(std::isnan(got.output[d]));
          } else {
            CHECK(row_is_same(got, clean, q, h));
          }
        }
      }
    }
  }
}

/// Appends the batch's own new rows again, but with one element of sequence 0's key or value `token` replaced.
template <class Q>
void write_poisoned(const attention_case<Q>& batch, bool in_key, std::int64_t token, std::int64_t kv_head, float bad) {
  std::vector<float> rows[2];
  for (std::int32_t i = 0; i < 2; ++i) {
    const std::int64_t end = batch.view.batch.context_length(i);
    for (std::int64_t t = end - batch.view.batch.new_tokens(i); t < end; ++t) {
      for (std::int64_t h = 0; h < 2; ++h) {
        for (std::int64_t d = 0; d < dim; ++d) {
          const bool here = i == 0 && t == token && h == kv_head && d == 17;
          const auto seed = static_cast<std::uint64_t>(i) + 1;
          rows[0].push_back(here && in_key ? bad : pagoda_test::noise(seed, 1, t, h, d));
          rows[1].push_back(here && !in_key ? bad : pagoda_test::noise(seed, 2, t, h, d));
        }
      }
    }
  }
  const pagoda::rows_shape shape{batch.view.batch.total_new_tokens(), 2, dim};
  pagoda::host::append(batch.view, pagoda::rows_view(rows[0], shape), pagoda::rows_view(rows[1], shape));
}

TEST_CASE_TEMPLATE("a NaN or infinity in a key or value row reaches only what attends to it", Q, EVERY_QUANTIZER) {
  const attention_case<Q> clean_batch(config);
  const attention_case<Q> batch(config);
  std::vector<std::uint32_t> tree(25 * 3);
  for (std::size_t q = 0; q < 20; ++q) {
    for (std::size_t t = 0; t <= 70 + q; ++t) {
      if (t % 5 != 4) tree[q * 3 + t / 32] |= 1u << (t % 32);
    }
  }
  const std::vector<attention_options> sets{
      {}, {.causal = false}, {.window = 7, .sinks = 2}, {.soft_cap = 5.0f}, {.tree = {tree, 3}}};
  for (const bool in_key : {true, false}) {
    for (const float bad : {quiet_nan, infinity, -infinity}) {
      for (const std::int64_t token : {0, 1, 2, 63, 64, 74, 79, 88}) {
        const std::int64_t kv_head = token % 2;
        write_poisoned(batch, in_key, token, kv_head, bad);
        for (std::size_t o = 0; o < sets.size(); ++o) {
          const attention_options& options = sets[o];
          CAPTURE(in_key);
          CAPTURE(bad);
          CAPTURE(token);
          CAPTURE(o);
          const attention_result clean = clean_batch.run(options);
          const attention_result got = batch.run(options);
          int leaks = 0;
          int misses = 0;
          for (std::int64_t q = 0; q < 25; ++q) {
            for (std::int64_t h = 0; h < heads; ++h) {
              const std::int64_t position = 70 + q;
              const bool causal = token <= position &&
                                  (options.window == 0 || token > position - options.window || token < options.sinks);
              const bool sees = options.causal ? options.tree.empty() ? causal : options.tree.sees(q, token) : true;
              const bool affected = q < 20 && h / group == kv_head && sees;
              if (!affected && !row_is_same(got, clean, q, h)) ++leaks;
              // A soft cap turns an infinite score into a finite one; an infinite key may score -infinity.
              const bool must_show = std::isnan(bad) || !in_key;
              if (affected && must_show && row_is_finite(got, q, h)) ++misses;
            }
          }
          CHECK(leaks == 0);
          CHECK(misses == 0);
        }
      }
    }
  }
}

}  // namespace
