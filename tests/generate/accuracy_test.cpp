// SPDX-License-Identifier: Apache-2.0
// What each type of keys and values costs a trained model: the 200 tokens of the expected text are given, not
// generated, so that all caches see the same, and logits and perplexity are compared with those of a float cache.
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "byte_reader.hpp"
#include "comparison.hpp"
#include "kv_storage.hpp"
#include "model.hpp"
#include "stories_files.hpp"
#include "tiny_files.hpp"
#include "tokenizer.hpp"
#include "transformer.hpp"

namespace {

/// Bounds of one pair: the largest difference of two logits, and how far the ratio of the perplexities is from 1. The
/// comments are what was measured, the difference and the ratio; the bounds leave room for a factor of two and more.
struct bounds {
  const char* keys;
  const char* values;
  double logits_low;  // a cache that is narrower must differ
  double logits_high;
  double ratio;
};

// clang-format off
constexpr bounds all_bounds[] = {
    {"float", "float", 0, 0, 0},
    {"half", "half", 0.0058, 0.047, 0.00059},  // 0.0233, 0.99996
    {"bfloat16", "bfloat16", 0.038, 0.3, 0.0011},  // 0.152, 1.0003
    {"fp8_e4m3", "fp8_e4m3", 0.52, 4.2, 0.029},  // 2.08, 1.0114
    {"fp8_e5m2", "fp8_e5m2", 1.1, 8.8, 0.098},  // 4.41, 1.0391
    {"int8", "int8", 0.27, 2.2, 0.011},  // 1.08, 1.0041
    {"int4", "int4", 3.4, 27, 1},  // 13.4, 1.4049
    {"hadamard-fp8_e4m3", "hadamard-fp8_e4m3", 1.2, 9.6, 0.06},  // 4.78, 1.024
    {"hadamard-fp8_e5m2", "hadamard-fp8_e5m2", 2.6, 21, 0.26},  // 10.3, 1.1029
    {"hadamard-int8", "hadamard-int8", 0.2, 1.6, 0.0043},  // 0.805, 1.0015
    {"hadamard-int4", "hadamard-int4", 2.7, 22, 0.44},  // 10.9, 1.1747
    {"half", "int8", 0.014, 0.12, 0.00085},  // 0.0579, 1.0001
    {"half", "int4", 0.17, 1.3, 0.0023},  // 0.665, 1.0007
    {"fp8_e4m3", "half", 0.62, 5, 0.016},  // 2.5, 1.0061
    {"int8", "half", 0.22, 1.7, 0.012},  // 0.873, 1.0045
    {"int8", "int4", 0.27, 2.1, 0.014},  // 1.06, 1.0056
    {"hadamard-int8", "half", 0.2, 1.6, 0.0047},  // 0.794, 1.0017
    {"hadamard-int8", "int8", 0.2, 1.6, 0.0026},  // 0.806, 1.0009
    {"hadamard-int8", "int4", 0.24, 1.9, 0.013},  // 0.966, 1.0048
    {"hadamard-int4", "int8", 2.8, 23, 0.37},  // 11.3, 1.1471
};
// clang-format on

}  // namespace

TEST_CASE("logits and perplexity of every type, and of keys and values apart, stay close to those of float") {
  const std::filesystem::path directory = data_directory() / "stories260K";
  if (!have_files(directory)) return;
  const model weights = parse_model(read_file((directory / "stories260K.bin").string()));
  const tokenizer words(read_file((directory / "tok512.bin").string()), weights.config.vocabulary);
  const std::vector<std::byte> text = read_file((directory / "expected_t0_n200.txt").string());
  std::vector<std::int32_t> tokens = {tokenizer::beginning};
  for (const std::int32_t token : words.encode({reinterpret_cast<const char*>(text.data()), text.size()})) {
    tokens.push_back(token);
  }
  REQUIRE(tokens.size() == 201);

  pagoda::host::thread_pool pool(1);
  transformer engine(weights, pool);
  for (const bounds& bound : all_bounds) {
    INFO(bound.keys, " keys, ", bound.values, " values");
    kv_cache cache(weights.config.kv_shape(),
                   {.keys = bound.keys, .values = bound.values, .max_tokens = 200, .max_step_tokens = 64});
    kv_cache exact(weights.config.kv_shape(), {.dtype = "float", .max_tokens = 200, .max_step_tokens = 64});
    const comparison result = compare(engine, cache, exact, tokens, 64);
    CHECK(result.largest_difference >= bound.logits_low);
    CHECK(result.largest_difference <= bound.logits_high);
    CHECK(result.perplexity / result.other_perplexity >= 1 - bound.ratio);
    CHECK(result.perplexity / result.other_perplexity <= 1 + bound.ratio);
  }
}

TEST_CASE("the bounds name every type that a head of 8 can have; groups of 32 are refused, and so are odd pairs") {
  const pagoda::storage_shape shape{.layers = 1, .kv_heads = 1, .head_dim = 8};
  const auto make = [&](std::string_view keys, std::string_view values, std::string_view layout = "heads_tokens_dim") {
    return make_kv_storage({keys, values, layout}, shape, 16, pagoda::num_blocks{1});
  };
  for (const std::string_view name : kv_type_names()) {
    if (name.ends_with("g32")) {
      CHECK_THROWS_WITH(make(name, name), doctest::Contains("head_dim is 8"));
      continue;
    }
    int bounded = 0;
    for (const bounds& bound : all_bounds) bounded += bound.keys == name && bound.values == name;
    CHECK_MESSAGE(bounded == 1, std::string(name));
    CHECK(make(name, name, "tokens_heads_dim") != nullptr);
  }
  CHECK_THROWS_WITH(make("int8", "int4g32"), doctest::Contains("value head_dim is 8"));
  CHECK_THROWS_WITH(make("int4", "half"), doctest::Contains("keys of type \"int4\" with values of type \"half\""));
  CHECK_THROWS_WITH(make("int8", "bfloat16"), doctest::Contains("or keys of half, fp8_e4m3, int8"));
  CHECK_THROWS_WITH(make("int8", "int4", "tokens_heads_dim"), doctest::Contains("\"heads_tokens_dim\" alone"));
  CHECK_THROWS_WITH(make("fp4", "half"), doctest::Contains("no type is named \"fp4\""));
  CHECK_THROWS_WITH(make("half", "fp4"), doctest::Contains("no type is named \"fp4\""));
  CHECK_THROWS_WITH(make("half", "half", "flat"), doctest::Contains("no type is named \"flat\""));
  CHECK_THROWS_WITH(make("contiguous", "half"), doctest::Contains("\"contiguous\""));
}

TEST_CASE("the baseline computes what a float cache does, and refuses a window") {
  const model weights = parse_model(tiny::model_file());
  pagoda::host::thread_pool pool(1);
  transformer engine(weights, pool);
  std::vector<std::int32_t> tokens;
  for (std::int32_t i = 0; i < 48; ++i) tokens.push_back(i * 37 % 300);
  kv_cache baseline(weights.config.kv_shape(), {.dtype = "contiguous", .max_tokens = 48, .max_step_tokens = 7});
  kv_cache exact(weights.config.kv_shape(), {.dtype = "float", .max_tokens = 48, .max_step_tokens = 7});
  const comparison result = compare(engine, baseline, exact, tokens, 7);
  CHECK(result.largest_difference < 1e-3);
  CHECK(result.largest_difference > 0);
  kv_cache window(weights.config.kv_shape(),
                  {.dtype = "contiguous", .max_tokens = 48, .keep = {.sinks = 0, .window = 8}});
  CHECK_THROWS_WITH(engine.forward(std::span(tokens).first(1), window), doctest::Contains("keeps all tokens"));
}
