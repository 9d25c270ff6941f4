// SPDX-License-Identifier: Apache-2.0
// Every option of an attention call, alone and with others, on the host against the reference.
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include <doctest/doctest.h>

#include "attention_case.hpp"

namespace {

using pagoda::attention_options;
using pagoda_test::attention_case;
using pagoda_test::attention_error;
using pagoda_test::batch_entry;
using pagoda_test::case_config;

/// Decode, prefill and chunked prefill side by side, across tiles and a chunk boundary.
const std::vector<batch_entry> mixed_batch{{540, 1, -1, 1}, {150, 150, 40, 2}, {90, 30, -1, 3},
                                           {1, 1, -1, 4},   {0, 0, 1, 5},      {600, 12, -1, 6}};
constexpr std::size_t mixed_heads = 6;

#define EVERY_FORM                                                     \
  attention_case<pagoda_test::f32>, attention_case<pagoda_test::int8>, \
      attention_case<pagoda_test::user_int4, pagoda_test::user_int4, pagoda_test::user_chunked>

case_config mixed_config(std::vector<batch_entry> batch = mixed_batch) {
  return {.shape = {.kv_heads = 2, .head_dim = 32}, .query_group = 3, .batch = std::move(batch)};
}

std::vector<float> per_head(float first, float step) {
  std::vector<float> result;
  for (std::size_t i = 0; i < mixed_heads; ++i) result.push_back(first + step * static_cast<float>(i));
  return result;
}

template <class Case>
void check_within_bound(const Case& batch, const attention_options& options) {
  const attention_error serial = batch.error(options);
  CHECK(serial.output < Case::bound);
  CHECK(serial.lse < Case::bound);
  pagoda_test::split_items split;
  CHECK(batch.run(options, split) == batch.run(options));
}

TEST_CASE_TEMPLATE("scale", T, EVERY_FORM) {
  const T batch(mixed_config());
  for (const float scale : {0.05f, 0.5f, -0.2f}) check_within_bound(batch, {.scale = scale});
  CHECK(batch.run({.scale = 0.05f}).output != batch.run().output);
}

TEST_CASE_TEMPLATE("window and sinks", T, EVERY_FORM) {
  const T batch(mixed_config());
  for (const std::int64_t window : {1, 2, 15, 16, 17, 64, 89, 511, 512, 513, 10000}) {
    CAPTURE(window);
    check_within_bound(batch, {.window = window});
  }
  for (const std::int64_t sinks : {1, 5, 64, 70, 520}) {
    CAPTURE(sinks);
    check_within_bound(batch, {.window = 1, .sinks = sinks});
    check_within_bound(batch, {.window = 33, .sinks = sinks});
  }
}

TEST_CASE_TEMPLATE("sink logits", T, EVERY_FORM) {
  const T batch(mixed_config());
  const std::vector<float> logits = per_head(-3.0f, 2.0f);
  check_within_bound(batch, {.sink_logits = logits});
  const std::vector<float> huge = per_head(20.0f, 10.0f);
  check_within_bound(batch, {.sink_logits = huge});
  const std::vector<float> none(mixed_heads, -std::numeric_limits<float>::infinity());
  CHECK(batch.run({.sink_logits = none}) == batch.run());
}

TEST_CASE_TEMPLATE("soft cap", T, EVERY_FORM) {
  const T batch(mixed_config());
  for (const float cap : {0.5f, 5.0f, 30.0f, 50.0f, 1000.0f, 10000.0f}) {
    CAPTURE(cap);
    check_within_bound(batch, {.scale = 1.0f, .soft_cap = cap});
  }
}

TEST_CASE_TEMPLATE("ALiBi slopes", T, EVERY_FORM) {
  const T batch(mixed_config());
  const std::vector<float> slopes = per_head(0.01f, 0.03f);
  check_within_bound(batch, {.alibi_slopes = slopes});
  check_within_bound(batch, {.causal = false, .alibi_slopes = slopes});
}

TEST_CASE_TEMPLATE("all options that go together at once", T, EVERY_FORM) {
  const T batch(mixed_config());
  const std::vector<float> logits = per_head(-1.0f, 0.5f);
  const std::vector<float> slopes = per_head(0.002f, 0.01f);
  check_within_bound(
      batch,
      {.scale = 0.3f, .window = 70, .sinks = 9, .sink_logits = logits, .soft_cap = 8.0f, .alibi_slopes = slopes});
  check_within_bound(batch,
                     {.scale = 0.3f, .causal = false, .sink_logits = logits, .soft_cap = 8.0f, .alibi_slopes = slopes});
}

/// Random trees of which each token sees itself; rows of a whole batch.
std::vector<std::uint32_t> random_tree(const pagoda::batch_view& batch, std::int32_t words, bool upwards_only) {
  std::mt19937 random(7);
  std::vector<std::uint32_t> mask(static_cast<std::size_t>(batch.total_queries() * words));
  for (std::int32_t i = 0; i < batch.sequences(); ++i) {
    for (std::int32_t q = 0; q < batch.queries(i); ++q) {
      const std::int32_t own = batch.new_tokens(i) - batch.queries(i) + q;
      const std::int32_t end = upwards_only ? own : batch.new_tokens(i);
      const std::size_t row = static_cast<std::size_t>((batch.query_offsets[i] + q) * words);
      for (std::int32_t t = 0; t < end; ++t) {
        if (random() % 2 != 0) mask[row + static_cast<std::size_t>(t / 32)] |= 1u << (t % 32);
      }
      mask[row + static_cast<std::size_t>(own / 32)] |= 1u << (own % 32);
    }
  }
  return mask;
}

const std::vector<batch_entry> tree_batch{{540, 40, -1, 1}, {8, 8, -1, 2}, {100, 1, -1, 3},
                                          {90, 70, 50, 4},  {90, 0, 0, 5}, {530, 25, 3, 6}};

TEST_CASE_TEMPLATE("tree masks", T, EVERY_FORM) {
  const T batch(mixed_config(tree_batch));
  const std::vector<float> logits = per_head(-1.0f, 0.5f);
  const std::vector<std::uint32_t> words = random_tree(batch.view.batch, 3, true);
  check_within_bound(batch, {.tree = {words, 3}});
  check_within_bound(batch, {.sink_logits = logits, .soft_cap = 3.0f, .tree = {words, 3}});
}

TEST_CASE_TEMPLATE("a tree mask alone says who sees whom: also a token that stands later", T, EVERY_FORM) {
  const T batch(mixed_config(tree_batch));
  const std::vector<std::uint32_t> words = random_tree(batch.view.batch, 3, false);
  check_within_bound(batch, {.tree = {words, 3}});
}

TEST_CASE_TEMPLATE("a full lower triangle as tree is causal attention, to the bit", T, EVERY_FORM) {
  const T batch(mixed_config({{540, 20, -1, 1}, {31, 31, -1, 2}}));
  std::vector<std::uint32_t> words;
  for (std::uint32_t q = 0; q < 20; ++q) words.push_back((2u << q) - 1u);
  for (std::uint32_t q = 0; q < 31; ++q) words.push_back((2u << q) - 1u);
  CHECK(batch.run({.tree = {words, 1}}) == batch.run());
}

TEST_CASE_TEMPLATE("window 0 follows what a layer group keeps, and reads nothing that it dropped", T, EVERY_FORM) {
  const std::vector<batch_entry> batch{{300, 1, -1, 1}, {300, 40, -1, 2}, {30, 30, -1, 3}, {650, 8, 3, 4}};
  const pagoda::retention keeps[] = {{0, 33}, {5, 33}, {16, 64}, {70, 20}};
  for (const pagoda::retention& keep : keeps) {
    const std::int64_t sinks = keep.sinks;
    const std::int64_t window = keep.window;
    CAPTURE(sinks);
    CAPTURE(window);
    case_config config = mixed_config(batch);
    const T all(config);
    config.keep = keep;
    const T kept(config);
    CHECK(kept.run() == all.run({.window = window, .sinks = sinks}));
    CHECK(kept.run({.window = 10, .sinks = sinks}) == all.run({.window = 10, .sinks = sinks}));
    CHECK(kept.run({.window = 10}) == all.run({.window = 10}));
    check_within_bound(kept, {});
  }
}

}  // namespace
