// SPDX-License-Identifier: Apache-2.0
// Every option of an attention call, alone and in pairs, in the generic kernel against the reference.
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "generic_kernel.hpp"

namespace {

using pagoda::attention_options;
using pagoda_test::attention_case;
using pagoda_test::attention_error;
using pagoda_test::attention_result;
using pagoda_test::batch_entry;
using pagoda_test::case_config;
using pagoda_test::generic_error;

/// Decode, prefill and chunked prefill side by side, across a chunk boundary.
const std::vector<batch_entry> mixed_batch{{540, 1, -1, 1}, {70, 70, 20, 2}, {45, 15, -1, 3},
                                           {1, 1, -1, 4},   {0, 0, 1, 5},    {520, 6, -1, 6}};
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
  const attention_error error = generic_error(batch, options);
  CHECK(error.output < Case::bound);
  CHECK(error.lse < Case::bound);
}

template <class Case>
attention_result run(const Case& batch, const attention_options& options) {
  pagoda::simt::host_machine machine;
  return pagoda_test::run_generic(batch, options, machine);
}

const std::vector<float> logits = per_head(-3.0f, 2.0f);
const std::vector<float> slopes = per_head(0.01f, 0.03f);

/// What each option changes; sets of options are made by applying several.
struct change {
  std::string name;
  void (*apply)(attention_options&);
};

const std::vector<change> changes{
    {"scale", [](attention_options& o) { o.scale = 0.4f; }},
    {"not causal", [](attention_options& o) { o.causal = false; }},
    {"window", [](attention_options& o) { o.window = 33; }},
    {"window and sinks", [](attention_options& o) { o.window = 17, o.sinks = 5; }},
    {"sink logits", [](attention_options& o) { o.sink_logits = logits; }},
    {"soft cap", [](attention_options& o) { o.soft_cap = 3.0f; }},
    {"ALiBi", [](attention_options& o) { o.alibi_slopes = slopes; }},
};

bool may_be_combined(const attention_options& options) {
  return options.causal || options.window == 0;
}

TEST_CASE_TEMPLATE("options alone and in pairs", T, EVERY_FORM) {
  const T batch(mixed_config());
  const attention_result plain = run(batch, {});
  for (std::size_t a = 0; a < changes.size(); ++a) {
    for (std::size_t b = a; b < changes.size(); ++b) {
      const std::string first = changes[a].name;
      const std::string second = changes[b].name;
      CAPTURE(first);
      CAPTURE(second);
      attention_options options;
      changes[a].apply(options);
      changes[b].apply(options);
      if (!may_be_combined(options)) continue;
      check_within_bound(batch, options);
      if (a == b) CHECK(run(batch, options).output != plain.output);
    }
  }
}

TEST_CASE_TEMPLATE("all options that go together at once", T, EVERY_FORM) {
  const T batch(mixed_config());
  const std::vector<float> small_slopes = per_head(0.002f, 0.01f);
  check_within_bound(
      batch,
      {.scale = 0.3f, .window = 70, .sinks = 9, .sink_logits = logits, .soft_cap = 8.0f, .alibi_slopes = small_slopes});
  check_within_bound(
      batch, {.scale = 0.3f, .causal = false, .sink_logits = logits, .soft_cap = 8.0f, .alibi_slopes = small_slopes});
}

TEST_CASE("windows and sinks of every size, whole chunks hidden among them") {
  const attention_case<pagoda_test::f32> batch(
      {.shape = {.kv_heads = 1, .head_dim = 16}, .query_group = 2, .batch = {{1100, 2, -1, 1}, {60, 60, 12, 2}}});
  for (const std::int64_t window : {1, 2, 16, 31, 32, 33, 75, 76, 512, 588, 589, 10000}) {
    CAPTURE(window);
    check_within_bound(batch, {.window = window});
    for (const std::int64_t sinks : {1, 32, 70, 520, 1050}) {
      CAPTURE(sinks);
      check_within_bound(batch, {.window = window, .sinks = sinks});
    }
  }
}

TEST_CASE("soft caps far above the scores, near them and below, keep the bound") {
  const attention_case<pagoda_test::f32> batch(mixed_config());
  for (const float cap : {0.5f, 5.0f, 30.0f, 1000.0f, 10000.0f, 1e6f}) {
    for (const float scale : {1.0f, 0.05f}) {
      CAPTURE(cap);
      check_within_bound(batch, {.scale = scale, .soft_cap = cap});
    }
  }
}

TEST_CASE("sink logits that outweigh all keys, and ones of -infinity") {
  const attention_case<pagoda_test::int8> batch(mixed_config());
  const std::vector<float> huge = per_head(20.0f, 10.0f);
  check_within_bound(batch, {.sink_logits = huge});
  const std::vector<float> none(mixed_heads, -std::numeric_limits<float>::infinity());
  CHECK(run(batch, {.sink_logits = none}) == run(batch, {}));
}

TEST_CASE("a query that sees no key gives output 0 and LSE -infinity, or its sink logit") {
  const attention_case<pagoda_test::f32> batch(mixed_config({{0, 0, 3, 1}, {12, 12, -1, 2}, {0, 0, 20, 3}}));
  const attention_result result = run(batch, {});
  const attention_result sunk = run(batch, {.sink_logits = logits});
  for (std::size_t row = 0; row < result.lse.size(); ++row) {
    const bool is_empty = row < 3 * mixed_heads || row >= 15 * mixed_heads;
    CHECK((result.lse[row] == -std::numeric_limits<float>::infinity()) == is_empty);
    if (is_empty) CHECK(sunk.lse[row] == doctest::Approx(double{logits[row % mixed_heads]}).epsilon(1e-6));
    for (std::size_t d = row * 32; d < (row + 1) * 32; ++d) {
      CHECK((result.output[d] == 0.0f) == is_empty);
      CHECK((sunk.output[d] == 0.0f) == is_empty);
    }
  }
}

/// Random trees of which each token sees itself; rows of a whole batch.
std::vector<std::uint32_t> random_tree(const pagoda::batch_view& batch, std::int32_t words, bool upwards_only) {
  std::mt19937 random(7);
  std::vector<std::uint32_t> mask(static_cast<std::size_t>(batch.total_queries() * words));
  for (std::int32_t i = 0; i < batch.sequences(); ++i) {
    for (std::int32_t q = 0; q < batch.queries(i); ++q) {
      const std::int32_t own = batch.new_tokens(i) - batch.queries(i) + q;
      const std::int32_t end = upwards_only ? own : batch.new_tokens(i);
      const auto row = static_cast<std::size_t>((batch.query_offsets[i] + q) * words);
      for (std::int32_t t = 0; t < end; ++t) {
        if (random() % 2 != 0) mask[row + static_cast<std::size_t>(t / 32)] |= 1u << (t % 32);
      }
      mask[row + static_cast<std::size_t>(own / 32)] |= 1u << (own % 32);
    }
  }
  return mask;
}

const std::vector<batch_entry> tree_batch{{540, 40, -1, 1}, {8, 8, -1, 2}, {100, 1, -1, 3},
                                          {60, 35, 20, 4},  {90, 0, 0, 5}, {530, 25, 3, 6}};

TEST_CASE_TEMPLATE("tree masks, of ancestors only and of any new token, alone and with what goes with them", T,
                   EVERY_FORM) {
  const T batch(mixed_config(tree_batch));
  for (const bool upwards_only : {true, false}) {
    const std::vector<std::uint32_t> words = random_tree(batch.view.batch, 2, upwards_only);
    check_within_bound(batch, {.tree = {words, 2}});
    check_within_bound(batch, {.sink_logits = logits, .soft_cap = 3.0f, .tree = {words, 2}});
  }
}

TEST_CASE_TEMPLATE("a full lower triangle as tree is causal attention, to the bit", T, EVERY_FORM) {
  const T batch(mixed_config({{540, 20, -1, 1}, {31, 31, -1, 2}, {600, 7, -1, 3}}));
  std::vector<std::uint32_t> words;
  for (const std::uint32_t queries : {20u, 31u, 7u}) {
    for (std::uint32_t q = 0; q < queries; ++q) words.push_back((2u << q) - 1u);
  }
  CHECK(run(batch, {.tree = {words, 1}}) == run(batch, {}));
}

TEST_CASE_TEMPLATE("a tree may hide all of a row's keys", T, EVERY_FORM) {
  const T batch(mixed_config({{12, 12, 5, 1}, {9, 9, -1, 2}}));
  const std::vector<std::uint32_t> words(14, 0u);
  const attention_result result = run(batch, {.tree = {words, 1}});
  for (const float lse : result.lse) CHECK(lse == -std::numeric_limits<float>::infinity());
  for (const float value : result.output) CHECK(value == 0.0f);
}

TEST_CASE_TEMPLATE("window 0 follows what a layer group keeps, and reads nothing that it dropped", T, EVERY_FORM) {
  const std::vector<batch_entry> batch{{300, 1, -1, 1}, {150, 20, -1, 2}, {30, 30, -1, 3}, {1250, 8, 3, 4}};
  const pagoda::retention keeps[] = {{0, 33}, {5, 33}, {16, 64}, {70, 20}, {600, 40}};
  for (const pagoda::retention& keep : keeps) {
    const std::int64_t sinks = keep.sinks;
    const std::int64_t window = keep.window;
    CAPTURE(sinks);
    CAPTURE(window);
    case_config config = mixed_config(batch);
    const T all(config);
    config.keep = keep;
    const T kept(config);
    const attention_result got = run(kept, {});
    check_within_bound(kept, {});
    // Nothing is read of the chunks that the group dropped, and they would have added nothing.
    CHECK(got == run(all, {.window = window, .sinks = sinks}));
    check_within_bound(kept, {.window = 10, .sinks = sinks});
    check_within_bound(kept, {.window = 10});
  }
}

}  // namespace
