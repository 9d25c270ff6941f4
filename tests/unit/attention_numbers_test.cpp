// SPDX-License-Identifier: Apache-2.0
// The numbers of host attention: long contexts, the ends of the integer loops, outliers, the smallest and the largest
// floats, and numbers that are not finite. Each with few query rows of a kv head (passes) and many (panels).
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <random>
#include <vector>

#include <doctest/doctest.h>

#include "attention_case.hpp"

namespace {

using pagoda::attention_options;
using pagoda_test::attention_case;
using pagoda_test::attention_error;
using pagoda_test::attention_result;
using pagoda_test::bound_of;
using pagoda_test::case_config;
using pagoda_test::f32;
using pagoda_test::int4;
using pagoda_test::int8;
using pagoda_test::noise;

constexpr float quiet_nan = std::numeric_limits<float>::quiet_NaN();
constexpr float infinity = std::numeric_limits<float>::infinity();

#define EVERY_KIND f32, pagoda_test::f16, int8, int4

/// Queries, of which each has 4 rows of a kv head: 12 rows go in passes, 36 in panels.
constexpr std::int32_t query_group = 4;
constexpr std::int32_t few_and_many[] = {3, 9};

/// One sequence, all of whose tokens are new, so that overwrite() writes them all.
case_config config_of(std::int32_t tokens, std::int32_t queries, std::int32_t dim, std::int32_t group = query_group) {
  return {.shape = {.kv_heads = 2, .head_dim = dim}, .query_group = group, .batch = {{tokens, tokens, queries, 1}}};
}

/// key(token, head, d) and value(token, head, d) give the new contents.
template <class Case, class Key, class Value>
void overwrite(const Case& batch, Key&& key, Value&& value) {
  const std::int64_t tokens = batch.view.batch.context_length(0);
  std::vector<float> keys;
  std::vector<float> values;
  for (std::int64_t t = 0; t < tokens; ++t) {
    for (std::int64_t head = 0; head < batch.view.kv_heads; ++head) {
      for (std::int64_t d = 0; d < batch.view.key_dim; ++d) keys.push_back(key(t, head, d));
      for (std::int64_t d = 0; d < batch.view.value_dim; ++d) values.push_back(value(t, head, d));
    }
  }
  pagoda::host::append(batch.view, pagoda::rows_view(keys, {tokens, batch.view.kv_heads, batch.view.key_dim}),
                       pagoda::rows_view(values, {tokens, batch.view.kv_heads, batch.view.value_dim}));
}

/// The contents that attention_case writes, times a factor.
auto noise_times(float factor, std::uint64_t stream) {
  return [=](std::int64_t t, std::int64_t head, std::int64_t d) { return noise(1, stream, t, head, d) * factor; };
}
constexpr std::uint64_t keys_stream = 1;
constexpr std::uint64_t values_stream = 2;

template <class Case>
void check_within(const Case& batch, double bound, const attention_options& options = {}) {
  const attention_error error = batch.error(options);
  CHECK(error.output < bound);
  CHECK(error.lse < bound);
}

TEST_CASE_TEMPLATE("the error does not grow with the context: 16384 tokens are as exact as 256", Q, EVERY_KIND) {
  for (const std::int32_t group : {4, 16}) {
    CAPTURE(group);
    double error[2] = {};
    for (const std::int32_t length : {256, 16384}) {
      const attention_case<Q> batch(
          {.shape = {.kv_heads = 1, .head_dim = 64}, .query_group = group, .batch = {{length, 1, -1, 1}}});
      error[length == 256 ? 0 : 1] = batch.error().output;
      check_within(batch, bound_of<Q>);
    }
    // The mean of many int4 values is small beside the offsets that cancel in it.
    if (Q::bits > 4) CHECK(error[1] < 2 * error[0]);
  }
}

/// Whether every element of a row of codes but the first stands at the quantizer's limit.
template <class Q>
float at_the_limit(std::int64_t d) {
  return Q::bits == 4 && d == 0 ? 0.0f : 1.0f;
}

TEST_CASE_TEMPLATE("16-bit queries and weights against codes at their limit leave no integer's range", Q, int8, int4) {
  for (const std::int32_t dim : {128, 256, 512, 576}) {
    for (const std::int32_t group : {1, 2, 4, 7}) {
      for (const float sign : {1.0f, -1.0f}) {
        CAPTURE(dim);
        CAPTURE(group);
        CAPTURE(sign);
        attention_case<Q> batch(config_of(130, 1, dim, group));
        overwrite(
            batch,
            [&](std::int64_t t, std::int64_t, std::int64_t d) {
              return sign * (1.0f + static_cast<float>(t) / 64.0f) * at_the_limit<Q>(d);
            },
            [&](std::int64_t t, std::int64_t, std::int64_t d) {
              return sign * (t % 3 == 0 ? 1.0f : 0.999f) * at_the_limit<Q>(d);
            });
        for (const float query : {1.0f, -1.0f}) {
          batch.queries.assign(batch.queries.size(), query);
          // Weights all alike, then not.
          for (const float scale : {1e-6f, 1.0f / static_cast<float>(dim)}) {
            check_within(batch, bound_of<Q>, {.scale = scale});
          }
        }
      }
    }
  }
}

/// int8 with hooks that a user would write: loops, and no bias or the largest.
template <int Bias>
struct looped_int8 : int8 {
  static constexpr int int16_bias = Bias;
  template <int W>
  static void load_float(const std::byte* codes, pagoda::vec<float, W>& values) {
    for (int i = 0; i < W; ++i) values[i] = codeword(static_cast<std::uint32_t>(codes[i]));
  }
  template <int W>
  static void load_int16(const std::byte* codes, pagoda::vec<std::int16_t, W>& values) {
    for (int i = 0; i < W; ++i) values[i] = static_cast<std::int16_t>(static_cast<int>(codes[i]) - 128 + Bias);
  }
};

TEST_CASE_TEMPLATE("the bias of 16-bit codes changes no bit of a result", Q, looped_int8<0>, looped_int8<-256>,
                   looped_int8<256>) {
  for (const std::int32_t dim : {16, 72, 128, 576}) {
    for (const std::int32_t group : {1, 4, 7}) {
      CAPTURE(dim);
      CAPTURE(group);
      const attention_case<int8> one(config_of(130, 2, dim, group));
      const attention_case<Q> other(config_of(130, 2, dim, group));
      const attention_result expected = one.run();
      const attention_result result = other.run();
      CHECK(result.output == expected.output);
      CHECK(result.lse == expected.lse);
    }
  }
}

TEST_CASE_TEMPLATE("the error grows no faster than the scores", Q, EVERY_KIND) {
  for (const std::int32_t queries : few_and_many) {
    const attention_case<Q> batch(config_of(150, queries, 64));
    for (const float deviation : {0.1f, 1.0f, 4.0f, 16.0f, 64.0f, 256.0f}) {
      CAPTURE(queries);
      CAPTURE(deviation);
      check_within(batch, bound_of<Q> * std::max(1.0, deviation / 2.0), {.scale = deviation / 8.0f});
    }
  }
}

/// The largest element of a query that attention_case makes.
constexpr float ordinary_largest = 3.5f;

/// Queries in 16 bits have steps in proportion to their largest element, and so have the errors of scores.
TEST_CASE_TEMPLATE("one huge element in a query, in its first place and in its last", Q, EVERY_KIND) {
  for (const std::int32_t queries : few_and_many) {
    for (const std::size_t place : {std::size_t{0}, std::size_t{71}}) {
      for (const float outlier : {30.0f, -100.0f}) {
        CAPTURE(queries);
        CAPTURE(place);
        CAPTURE(outlier);
        attention_case<Q> batch(config_of(90, queries, 72));
        for (std::size_t i = place; i < batch.queries.size(); i += 72) batch.queries[i] = outlier;
        check_within(batch, bound_of<Q> * (pagoda::has_load_int16<Q> ? std::fabs(outlier) / ordinary_largest : 1.0f));
      }
    }
  }
}

TEST_CASE_TEMPLATE("the smallest and the largest queries", Q, EVERY_KIND) {
  for (const std::int32_t queries : few_and_many) {
    CAPTURE(queries);
    for (const float factor : {1e-35f, 1e-38f, 1e30f}) {
      CAPTURE(factor);
      attention_case<Q> batch(config_of(90, queries, 72));
      for (float& x : batch.queries) x *= factor;
      check_within(batch, bound_of<Q>);
      if (factor != 1e-38f) check_within(batch, bound_of<Q>, {.scale = 0.1f / factor});
    }
    attention_case<Q> batch(config_of(90, queries, 72));
    batch.queries.assign(batch.queries.size(), 0.0f);
    check_within(batch, bound_of<Q>);
  }
}

template <class Q>
void check_values_times(float factor, double bound) {
  CAPTURE(factor);
  for (const std::int32_t queries : few_and_many) {
    CAPTURE(queries);
    const attention_case<Q> batch(config_of(90, queries, 72));
    overwrite(batch, noise_times(1, keys_stream), noise_times(factor, values_stream));
    check_within(batch, bound);
    check_within(batch, bound, {.window = 30, .sinks = 2});
    // Rows of ordinary size beside them.
    overwrite(batch, noise_times(1, keys_stream), [&](std::int64_t t, std::int64_t head, std::int64_t d) {
      return noise(1, values_stream, t, head, d) * (t % 2 == 0 || t < 64 ? factor : 1.0f);
    });
    check_within(batch, bound);
  }
}

TEST_CASE_TEMPLATE("the smallest and the largest values", Q, f32, int8) {
  for (const float factor : {1e-30f, 1e-34f, 1e-36f, 1e-37f, 1e30f, 1e36f, 1e37f}) {
    check_values_times<Q>(factor, bound_of<Q>);
  }
  // Denormals have fewer digits themselves.
  for (const float factor : {1e-39f, 1e-40f}) check_values_times<Q>(factor, 5e-3);
}

// ---- Numbers that are not finite.

constexpr std::int64_t tokens = 90;
constexpr std::int64_t kv_heads = 2;
constexpr std::int64_t heads = kv_heads * query_group;
constexpr std::int64_t dim = 40;

struct row_place {
  std::int64_t query;
  std::int64_t head;
};

bool is_finite(const attention_result& result, const row_place& row) {
  const auto begin = static_cast<std::size_t>((row.query * heads + row.head) * dim);
  return std::all_of(result.output.begin() + static_cast<std::ptrdiff_t>(begin),
                     result.output.begin() + static_cast<std::ptrdiff_t>(begin + dim),
                     [](float x) { return std::isfinite(x); });
}

bool is_same(const attention_result& a, const attention_result& b, const row_place& row) {
  const auto number = static_cast<std::size_t>(row.query * heads + row.head);
  for (std::size_t d = number * dim; d < (number + 1) * dim; ++d) {
    if (a.output[d] != b.output[d]) return false;
  }
  return a.lse[number] == b.lse[number];
}

/// Counts rows that changed though affected(row) says no, and those that stayed finite though it says yes.
struct rows_touched {
  int leaks = 0;
  int misses = 0;
};
template <class Affected>
rows_touched compare_rows(const attention_result& got, const attention_result& clean, std::int64_t queries,
                          Affected&& affected) {
  rows_touched result;
  for (std::int64_t query = 0; query < queries; ++query) {
    for (std::int64_t head = 0; head < heads; ++head) {
      const row_place row{query, head};
      if (affected(row)) {
        result.misses += is_finite(got, row);
      } else {
        result.leaks += !is_same(got, clean, row);
      }
    }
  }
  return result;
}

TEST_CASE_TEMPLATE("a NaN or an infinity in a query touches that query's head only", Q, EVERY_KIND) {
  for (const std::int32_t queries : few_and_many) {
    attention_case<Q> batch(config_of(tokens, queries, dim));
    const std::vector<float> good = batch.queries;
    for (const attention_options& options :
         {attention_options{}, attention_options{.window = 20, .sinks = 3}, attention_options{.soft_cap = 5.0f}}) {
      const attention_result clean = batch.run(options);
      for (const float bad : {quiet_nan, infinity, -infinity}) {
        for (std::int64_t query = 0; query < queries; ++query) {
          for (const std::int64_t head : {0, 2, 7}) {
            CAPTURE(queries);
            CAPTURE(options.window);
            CAPTURE(bad);
            CAPTURE(query);
            CAPTURE(head);
            batch.queries[static_cast<std::size_t>((query * heads + head) * dim + 33)] = bad;
            rows_touched touched = compare_rows(batch.run(options), clean, queries, [&](const row_place& row) {
              return row.query == query && row.head == head;
            });
            // A soft cap makes numbers of infinite scores, as the reference does, unless keys are integers.
            if (options.soft_cap > 0 && !std::isnan(bad)) {
              touched.misses = 0;
              if (!pagoda::has_load_int16<Q>) check_within(batch, bound_of<Q>, options);
            }
            CHECK(touched.leaks == 0);
            CHECK(touched.misses == 0);
            batch.queries = good;
          }
        }
      }
    }
  }
}

/// Half of all pairs.
std::vector<std::uint32_t> random_tree(std::int64_t queries) {
  std::mt19937 random(3);
  std::vector<std::uint32_t> words(static_cast<std::size_t>(queries) * 3);
  for (std::uint32_t& word : words) word = static_cast<std::uint32_t>(random());
  return words;
}

TEST_CASE_TEMPLATE("a NaN or an infinity in a key or a value touches the rows that see it, and no other", Q,
                   EVERY_KIND) {
  for (const std::int32_t queries : few_and_many) {
    const std::vector<std::uint32_t> tree = random_tree(queries);
    // The window's begin moves over token 64 with many queries; sinks end within a tile, with and without a gap.
    const attention_options sets[] = {{},
                                      {.causal = false},
                                      {.window = 20, .sinks = 3},
                                      {.window = 7, .sinks = 66},
                                      {.window = 26},
                                      {.soft_cap = 5.0f},
                                      {.tree = {tree, 3}}};
    const attention_case<Q> batch(config_of(tokens, queries, dim));
    std::vector<attention_result> clean;
    for (const attention_options& options : sets) clean.push_back(batch.run(options));
    for (const bool in_key : {true, false}) {
      for (const float bad : {quiet_nan, infinity, -infinity}) {
        for (const std::int64_t token : {0, 2, 3, 63, 64, 65, 66, 70, 81, 82, 85, 88, 89}) {
          const std::int64_t kv_head = token % 2;
          const auto poisoned = [&](std::uint64_t stream, bool here) {
            return [=](std::int64_t t, std::int64_t head, std::int64_t d) {
              return here && t == token && head == kv_head && d == 35 ? bad : noise(1, stream, t, head, d);
            };
          };
          overwrite(batch, poisoned(keys_stream, in_key), poisoned(values_stream, !in_key));
          for (std::size_t o = 0; o < std::size(sets); ++o) {
            CAPTURE(queries);
            CAPTURE(in_key);
            CAPTURE(bad);
            CAPTURE(token);
            CAPTURE(o);
            const attention_options& options = sets[o];
            const auto sees = [&](const row_place& row) {
              if (row.head / query_group != kv_head) return false;
              const std::int64_t position = tokens - queries + row.query;
              if (!options.causal) return true;
              if (!options.tree.empty()) return options.tree.sees(row.query, token);
              const bool in_window = options.window == 0 || token > position - options.window;
              return token <= position && (in_window || token < options.sinks);
            };
            rows_touched touched = compare_rows(batch.run(options), clean[o], queries, sees);
            // An infinite key may score -infinity, and a soft cap makes a number of +infinity.
            if (in_key && !std::isnan(bad)) touched.misses = 0;
            CHECK(touched.leaks == 0);
            CHECK(touched.misses == 0);
          }
        }
      }
    }
  }
}

}  // namespace
