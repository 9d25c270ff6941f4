// SPDX-License-Identifier: Apache-2.0
// Host attention takes few query rows of a kv head in passes and many as blocks of a matrix product: every option,
// group size, head dim, length and block size on both, against the reference.
#include <algorithm>
#include <cstdint>
#include <random>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "attention_case.hpp"

namespace {

using pagoda::attention_options;
using pagoda_test::attention_case;
using pagoda_test::attention_error;
using pagoda_test::attention_result;
using pagoda_test::batch_entry;
using pagoda_test::bound_of;
using pagoda_test::case_config;

/// Floats, integers of 8 and of 4 bits with an offset, and a policy without wide hooks.
#define EVERY_KIND pagoda_test::f16, pagoda_test::int8, pagoda_test::int4, pagoda_test::user_int8

/// From this many query rows of a kv head on they are computed as a matrix product.
constexpr std::int32_t many_rows = 16;

template <class Case>
void check_within_bound(const Case& batch, const attention_options& options) {
  const attention_error error = batch.error(options);
  CHECK(error.output < Case::bound);
  CHECK(error.lse < Case::bound);
}

/// An option set, with what its spans point to.
struct named_options {
  std::string_view name;
  attention_options options{};
  float first_logit = 0;
  float first_slope = 0;  ///< 0: none
  bool has_logits = false;
  bool has_tree = false;
};

/// Windows begin and end in the midst of tiles of 64 tokens; some sinks leave a gap within one tile.
const named_options option_table[] = {
    {.name = "none"},
    {.name = "not causal", .options = {.causal = false}},
    {.name = "scale", .options = {.scale = 0.4f}},
    {.name = "negative scale", .options = {.scale = -0.2f}},
    {.name = "window of one", .options = {.window = 1}},
    {.name = "window of a tile", .options = {.window = 64}},
    {.name = "window over an edge", .options = {.window = 71}},
    {.name = "gap in the first tile", .options = {.window = 7, .sinks = 5}},
    {.name = "gap in the second tile", .options = {.window = 9, .sinks = 67}},
    {.name = "gap over tiles", .options = {.window = 3, .sinks = 62}},
    {.name = "gap of one token", .options = {.window = 40, .sinks = 88}},
    {.name = "logits", .first_logit = -2, .has_logits = true},
    {.name = "large logits", .first_logit = 15, .has_logits = true},
    {.name = "soft cap", .options = {.scale = 1.0f, .soft_cap = 4.0f}},
    {.name = "wide soft cap", .options = {.soft_cap = 50.0f}},
    {.name = "ALiBi", .first_slope = 0.02f},
    {.name = "ALiBi, not causal", .options = {.causal = false}, .first_slope = 0.05f},
    {.name = "tree", .has_tree = true},
    {.name = "tree with a cap and logits", .options = {.soft_cap = 3.0f}, .has_logits = true, .has_tree = true},
    {.name = "all",
     .options = {.scale = 0.3f, .window = 20, .sinks = 6, .soft_cap = 6.0f},
     .first_logit = 1,
     .first_slope = 0.01f,
     .has_logits = true},
};

std::vector<float> per_head(std::int64_t heads, float first, float step) {
  std::vector<float> result;
  for (std::int64_t i = 0; i < heads; ++i) result.push_back(first + step * static_cast<float>(i));
  return result;
}

/// Half of all pairs, in no order; each token sees itself.
std::vector<std::uint32_t> random_tree(const pagoda::batch_view& batch, std::int32_t words) {
  std::mt19937 random(5);
  std::vector<std::uint32_t> mask(static_cast<std::size_t>(batch.total_queries() * words));
  for (std::uint32_t& word : mask) word = static_cast<std::uint32_t>(random());
  for (std::int32_t i = 0; i < batch.sequences(); ++i) {
    for (std::int32_t q = 0; q < batch.queries(i); ++q) {
      const std::int32_t own = batch.new_tokens(i) - batch.queries(i) + q;
      mask[static_cast<std::size_t>((batch.query_offsets[i] + q) * words + own / 32)] |= 1u << (own % 32);
    }
  }
  return mask;
}

TEST_CASE_TEMPLATE("every option agrees with the reference, in passes and in panels", Q, EVERY_KIND) {
  // Rows of a kv head: 3, 9 and 15 in passes; 18, 27, 90 and 120 in panels.
  const std::vector<batch_entry> entries{{133, 1, -1, 1}, {90, 3, -1, 2},  {70, 70, 5, 3}, {65, 6, -1, 4},
                                         {140, 9, -1, 5}, {96, 90, 30, 6}, {40, 40, 40, 7}};
  const attention_case<Q> batch({.shape = {.kv_heads = 2, .head_dim = 40, .value_head_dim = 72},
                                 .block_size = 8,
                                 .query_group = 3,
                                 .batch = entries});
  const std::vector<std::uint32_t> tree = random_tree(batch.view.batch, 3);
  for (const named_options& row : option_table) {
    CAPTURE(row.name);
    const std::vector<float> logits = per_head(batch.heads(), row.first_logit, 0.5f);
    const std::vector<float> slopes = per_head(batch.heads(), row.first_slope, 0.01f);
    attention_options options = row.options;
    if (row.has_logits) options.sink_logits = logits;
    if (row.first_slope != 0) options.alibi_slopes = slopes;
    if (row.has_tree) options.tree = {tree, 3};
    check_within_bound(batch, options);
    pagoda_test::split_items split;
    CHECK(batch.run(options, split) == batch.run(options));
  }
}

TEST_CASE_TEMPLATE("every group size and head dim agrees with the reference, in passes and in panels", Q, EVERY_KIND) {
  for (const std::int32_t group : {1, 2, 3, 5, 7, 8, 16, 32}) {
    for (const std::int32_t dim : {8, 24, 40, 72, 80, 128, 576}) {
      CAPTURE(group);
      CAPTURE(dim);
      // One query, then as many as fit in passes, then one more; keys and values of different dims, in turn.
      const std::int32_t few = std::max(1, (many_rows - 1) / group);
      const bool narrow_values = (group + dim / 8) % 2 == 0;
      const attention_case<Q> batch(
          {.shape = {.kv_heads = 2, .head_dim = dim, .value_head_dim = narrow_values ? 24 : dim},
           .query_group = group,
           .batch = {{21, 1, -1, 1}, {19, few, -1, 2}, {18, few + 1, -1, 3}}});
      check_within_bound(batch, {});
    }
  }
}

TEST_CASE_TEMPLATE("every head dim there is agrees with the reference, whatever it leaves of a register", Q,
                   EVERY_KIND) {
  for (std::int32_t dim = 8; dim <= 576; dim += 8) {
    CAPTURE(dim);
    const attention_case<Q> batch({.shape = {.kv_heads = 1, .head_dim = dim, .value_head_dim = 584 - dim},
                                   .query_group = 1 + dim / 8 % 3,
                                   .batch = {{1, 1, -1, 1}, {18, 1, -1, 2}}});
    check_within_bound(batch, {});
  }
}

constexpr std::int32_t edge_lengths[] = {15, 16, 17, 63, 64, 65, 511, 512, 513};

const std::vector<attention_options>& edge_options() {
  static const std::vector<attention_options> sets{
      {}, {.causal = false}, {.window = 30, .sinks = 3}, {.window = 500}, {.window = 18, .sinks = 510}};
  return sets;
}

case_config edge_config(std::int32_t block_size) {
  case_config config{.shape = {.kv_heads = 2, .head_dim = 24, .value_head_dim = 40}, .block_size = block_size};
  for (const std::int32_t length : edge_lengths) {
    config.batch.push_back({length, 1, -1, static_cast<std::uint64_t>(length)});
    config.batch.push_back({length, 3, -1, static_cast<std::uint64_t>(length) + 1});  // 12 rows
    config.batch.push_back({length, 5, -1, static_cast<std::uint64_t>(length) + 2});  // 20 rows
  }
  return config;
}

TEST_CASE_TEMPLATE("lengths at every edge agree with the reference, and block size and layout change no bit", Q,
                   EVERY_KIND) {
  std::vector<attention_result> expected;
  for (const std::int32_t block_size : {1, 4, 16, 128}) {
    CAPTURE(block_size);
    const attention_case<Q> batch(edge_config(block_size));
    const attention_case<Q, Q, pagoda_test::user_chunked> chunked(edge_config(block_size));
    const attention_case<Q, Q, pagoda::tokens_heads_dim> tokens_first(edge_config(block_size));
    for (std::size_t o = 0; o < edge_options().size(); ++o) {
      CAPTURE(o);
      const attention_options& options = edge_options()[o];
      if (block_size == 1) {
        check_within_bound(batch, options);
        expected.push_back(batch.run(options));
      }
      CHECK(batch.run(options) == expected[o]);
      CHECK(chunked.run(options) == expected[o]);
      CHECK(tokens_first.run(options) == expected[o]);
    }
  }
}

TEST_CASE_TEMPLATE("a row spread in chunks gives the same bits at head dims that fill no register", Q, EVERY_KIND) {
  for (const std::int32_t dim : {8, 40, 72, 80, 128, 576}) {
    CAPTURE(dim);
    const case_config config{.shape = {.kv_heads = 2, .head_dim = dim},
                             .block_size = 4,
                             .query_group = 5,
                             .batch = {{70, 1, -1, 1}, {66, 3, -1, 2}, {67, 9, -1, 3}}};
    const attention_case<Q> plain(config);
    const attention_case<Q, Q, pagoda_test::user_chunked> chunked(config);
    CHECK(chunked.run() == plain.run());
    CHECK(chunked.run({.window = 13, .sinks = 9}) == plain.run({.window = 13, .sinks = 9}));
    check_within_bound(chunked, {.window = 13, .sinks = 9});
  }
}

TEST_CASE_TEMPLATE("a few heads and many heads of the same query agree: the same row in passes and in panels", Q,
                   EVERY_KIND) {
  // Alone a query has 5 rows of a kv head; together with three others 20.
  const case_config alone{.shape = {.kv_heads = 2, .head_dim = 128}, .query_group = 5, .batch = {{140, 1, -1, 9}}};
  case_config together = alone;
  together.batch = {{140, 4, -1, 9}};
  const attention_result one = attention_case<Q>(alone).run();
  const attention_result four = attention_case<Q>(together).run();
  const std::size_t begin = four.output.size() - one.output.size();
  double difference = 0;
  double norm = 0;
  for (std::size_t i = 0; i < one.output.size(); ++i) {
    const double a = one.output[i];
    difference += (a - four.output[begin + i]) * (a - four.output[begin + i]);
    norm += a * a;
  }
  CHECK(norm > 0);
  CHECK(difference < bound_of<Q> * bound_of<Q> * norm);
}

}  // namespace
