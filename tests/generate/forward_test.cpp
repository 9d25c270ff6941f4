// SPDX-License-Identifier: Apache-2.0
// The forward pass: logits do not depend, to the bit, on threads, blocks or layouts, and on steps only by rounding.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "comparison.hpp"
#include "generation.hpp"
#include "model.hpp"
#include "tiny_files.hpp"
#include "transformer.hpp"

namespace {

std::vector<std::int32_t> some_tokens(std::size_t count) {
  std::mt19937 random(7);
  std::vector<std::int32_t> tokens(count);
  for (std::int32_t& token : tokens) token = static_cast<std::int32_t>(random() % 300);
  return tokens;
}

/// The logits of every token, its sequence cut into steps of at most `chunk`.
std::vector<float> all_logits(const model& weights, std::span<const std::int32_t> tokens, cache_settings settings,
                              std::size_t chunk, std::int32_t threads) {
  pagoda::host::thread_pool pool(threads);
  transformer engine(weights, pool);
  settings.max_tokens = static_cast<std::int32_t>(tokens.size());
  settings.max_step_tokens = static_cast<std::int32_t>(chunk);
  kv_cache cache(weights.config.kv_shape(), settings);
  std::vector<float> result;
  while (!tokens.empty()) {
    const auto count = std::min(chunk, tokens.size());
    const auto logits = engine.forward(tokens.first(count), cache, logits_of::every_token);
    result.insert(result.end(), logits.begin(), logits.end());
    tokens = tokens.subspan(count);
  }
  return result;
}

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  REQUIRE(a.size() == b.size());
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::fabs(double{a[i]} - double{b[i]}));
  return largest;
}

}  // namespace

TEST_CASE("threads, blocks and layouts change no bit, and steps change rounding only") {
  const model weights = parse_model(tiny::model_file());
  const std::vector<std::int32_t> tokens = some_tokens(48);
  for (const char* dtype : {"float", "half", "bfloat16", "int8", "int4", "hadamard-int8"}) {
    const pagoda::retention all;
    const pagoda::retention window{.sinks = 3, .window = 11};
    for (const pagoda::retention& keep : {all, window}) {
      const std::vector<float> by_token = all_logits(weights, tokens, {.dtype = dtype, .keep = keep}, 1, 1);
      for (const std::size_t chunk : {1u, 5u, 48u}) {
        const std::vector<float> expected = all_logits(weights, tokens, {.dtype = dtype, .keep = keep}, chunk, 1);
        INFO(dtype, ' ', chunk);
        // Rounding may move an element of a narrow cache to the next code.
        CHECK(largest_difference(expected, by_token) < (std::string_view(dtype) == "float" ? 1e-5 : 2e-2));
        for (const char* layout : {"heads_tokens_dim", "tokens_heads_dim"}) {
          for (const std::int32_t block_size : {1, 4, 16, 64}) {
            for (const std::int32_t threads : {1, 3}) {
              INFO(layout, ' ', block_size, ' ', threads);
              const cache_settings settings{.dtype = dtype, .layout = layout, .block_size = block_size, .keep = keep};
              CHECK(all_logits(weights, tokens, settings, chunk, threads) == expected);
            }
          }
        }
      }
    }
  }
}

TEST_CASE("a window drops tokens from the first that leaves it, and no other") {
  const model weights = parse_model(tiny::model_file());
  const std::vector<std::int32_t> tokens = some_tokens(48);
  const auto logits = [&](const pagoda::retention& keep) {
    return all_logits(weights, tokens, {.dtype = "float", .block_size = 4, .keep = keep}, 7, 1);
  };
  const std::vector<float> full = logits({});
  CHECK(logits({.window = 48}) == full);
  CHECK(logits({.window = 1000}) == full);
  CHECK(logits({.sinks = 48, .window = 1}) == full);
  CHECK(logits({.sinks = 20, .window = 28}) == full);
  const std::vector<float> window = logits({.window = 10});
  const std::ptrdiff_t same = 10 * 300;
  CHECK(std::equal(full.begin(), full.begin() + same, window.begin()));
  CHECK_FALSE(std::equal(full.begin() + same, full.begin() + same + 300, window.begin() + same));
  CHECK(logits({.sinks = 4, .window = 10}) != window);
}

TEST_CASE("what leaves the vocabulary, the context or the cache is refused, and the sequence is what it was") {
  const model weights = parse_model(tiny::model_file());
  pagoda::host::thread_pool pool(1);
  transformer engine(weights, pool);
  kv_cache cache(weights.config.kv_shape(), {.max_tokens = 48, .max_step_tokens = 48});
  kv_cache small(weights.config.kv_shape(), {.max_tokens = 16, .max_step_tokens = 16});
  const std::vector<std::int32_t> tokens = some_tokens(49);
  const std::vector<std::int32_t> foreign = {5, 300};
  const std::vector<std::int32_t> negative = {-1};
  CHECK_THROWS_WITH(engine.forward(tokens, cache), doctest::Contains("context of 48"));
  CHECK_THROWS_WITH(engine.forward(foreign, cache), doctest::Contains("token 300"));
  CHECK_THROWS_WITH(engine.forward(negative, cache), doctest::Contains("token -1"));
  CHECK_THROWS_WITH(engine.forward({}, cache), doctest::Contains("no tokens"));
  CHECK_THROWS_AS(engine.forward(std::span(tokens).first(17), small), pagoda::out_of_blocks);
  CHECK(cache.position() == 0);
  CHECK(small.position() == 0);
  CHECK_NOTHROW(engine.forward(std::span(tokens).first(16), small));
  CHECK(small.position() == 16);
}

TEST_CASE("a prompt that was generated is continued as without the interruption") {
  const model weights = parse_model(tiny::model_file());
  pagoda::host::thread_pool pool(2);
  transformer engine(weights, pool);
  const auto run = [&](std::span<const std::int32_t> prompt, std::int64_t chunk) {
    kv_cache cache(weights.config.kv_shape(), {.max_tokens = 48, .max_step_tokens = 48});
    std::vector<std::int32_t> printed;
    const generation result =
        generate(engine, cache, prompt, 48, chunk, [&](std::int32_t, std::int32_t token) { printed.push_back(token); });
    CHECK(printed == std::vector<std::int32_t>(result.tokens.begin() + 1, result.tokens.end()));
    return result.tokens;
  };
  const std::vector<std::int32_t> beginning = {1};
  const std::vector<std::int32_t> whole = run(beginning, 1);
  REQUIRE(whole.size() == 49);
  for (const std::size_t length : {2u, 17u, 48u}) {
    for (const std::int64_t chunk : {1, 7, 64}) CHECK(run(std::span(whole).first(length), chunk) == whole);
  }
}

TEST_CASE("the comparison counts what it says") {
  const model weights = parse_model(tiny::model_file());
  pagoda::host::thread_pool pool(1);
  transformer engine(weights, pool);
  const std::vector<std::int32_t> tokens = some_tokens(30);
  const std::vector<float> exact = all_logits(weights, tokens, {.dtype = "float"}, 30, 1);
  const std::vector<float> narrow = all_logits(weights, tokens, {.dtype = "int8"}, 30, 1);
  double largest = 0;
  double sum = 0;
  double surprise = 0;
  for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
    double total = 0;
    for (std::size_t t = 0; t < 300; ++t) {
      const double difference = std::abs(double{exact[i * 300 + t]} - double{narrow[i * 300 + t]});
      largest = std::max(largest, difference);
      sum += difference;
      total += std::exp(double{narrow[i * 300 + t]});
    }
    surprise -= std::log(std::exp(double{narrow[i * 300 + static_cast<std::size_t>(tokens[i + 1])]}) / total);
  }
  kv_cache first(weights.config.kv_shape(), {.dtype = "int8", .max_tokens = 30, .max_step_tokens = 8});
  kv_cache second(weights.config.kv_shape(), {.dtype = "float", .max_tokens = 30, .max_step_tokens = 8});
  const comparison result = compare(engine, first, second, tokens, 8);
  CHECK(largest > 0);
  CHECK(result.largest_difference == doctest::Approx(largest));
  CHECK(result.mean_difference == doctest::Approx(sum / (29 * 300)));
  CHECK(result.perplexity == doctest::Approx(std::exp(surprise / 29)));
  CHECK(result.perplexity != result.other_perplexity);
}
