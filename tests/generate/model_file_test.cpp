// SPDX-License-Identifier: Apache-2.0
// Model files: what is read, and that a spoilt file is refused in words or runs, and never does anything else.
#include <cstring>
#include <exception>
#include <limits>
#include <random>
#include <stdexcept>
#include <string>

#include <doctest/doctest.h>

#include "model.hpp"
#include "refusal.hpp"
#include "tiny_files.hpp"
#include "transformer.hpp"

namespace {

std::string refusal(std::span<const std::byte> file) {
  return refusal_of([&] { parse_model(file); });
}

std::vector<float> logits_after(const model& weights, std::span<const std::int32_t> tokens) {
  pagoda::host::thread_pool pool(1);
  transformer engine(weights, pool);
  const auto length = static_cast<std::int32_t>(tokens.size());
  kv_cache cache(weights.config.kv_shape(), {.dtype = "float", .max_tokens = length, .max_step_tokens = length});
  const auto logits = engine.forward(tokens, cache);
  return {logits.begin(), logits.end()};
}

/// Whether a file that may be spoilt was good enough to run.
bool reads_and_runs(std::span<const std::byte> file) {
  if (!refusal(file).empty()) return false;
  const model weights = parse_model(file);
  const std::vector<std::int32_t> tokens(1, 0);
  try {
    const std::size_t logits = logits_after(weights, tokens).size();
    CHECK(logits == static_cast<std::size_t>(weights.config.vocabulary));
    return true;
  } catch (const std::runtime_error& error) {
    CHECK(contains(error.what(), "exceed what a float holds"));
    return false;
  }
}

}  // namespace

TEST_CASE("a model file is read") {
  const model weights = parse_model(tiny::model_file());
  CHECK(weights.config.dim == 16);
  CHECK(weights.config.head_dim() == 8);
  CHECK(weights.config.kv_dim() == 8);
  CHECK(weights.config.vocabulary == 300);
  CHECK(weights.layers.size() == 2);
  CHECK(weights.layers[1].down.rows() == 16);
  CHECK(weights.layers[1].down.columns() == 20);
}

TEST_CASE("a negative vocabulary means a classifier of its own") {
  const std::vector<std::int32_t> tokens = {1, 50, 270};
  const std::vector<float> shared = logits_after(parse_model(tiny::model_file()), tokens);
  CHECK(logits_after(parse_model(tiny::model_file({.vocabulary = -300})), tokens) == shared);
  const std::vector<float> doubled = logits_after(parse_model(tiny::model_file({.vocabulary = -300}, 2.0f)), tokens);
  REQUIRE(doubled.size() == shared.size());
  for (std::size_t i = 0; i < shared.size(); ++i) CHECK(doubled[i] == 2 * shared[i]);
}

TEST_CASE("headers that cannot be are refused, with the number at fault") {
  const tiny::bytes good = tiny::model_file();
  const auto with = [&](const tiny::header& h) {
    tiny::bytes file = good;
    const tiny::bytes header = tiny::header_of(h);
    std::copy(header.begin(), header.end(), file.begin());
    return refusal(file);
  };
  CHECK(contains(with({.dim = 0}), "dim 0"));
  CHECK(contains(with({.hidden_dim = -20}), "hidden_dim -20"));
  CHECK(contains(with({.layers = 0}), "n_layers 0"));
  CHECK(contains(with({.heads = -2}), "n_heads -2"));
  CHECK(contains(with({.kv_heads = 0}), "n_kv_heads 0"));
  CHECK(contains(with({.vocabulary = 0}), "vocab_size 0"));
  CHECK(contains(with({.vocabulary = INT32_MIN}), "2147483648"));
  CHECK(contains(with({.context_length = -1}), "seq_len -1"));
  CHECK(contains(with({.heads = 3}), "3 heads"));
  CHECK(contains(with({.kv_heads = 3}), "3 kv heads"));
  CHECK(contains(with({.heads = 4}), "head_dim is 4"));
  CHECK(contains(with({.dim = 2000, .heads = 2}), "head_dim is 1000"));
  CHECK(contains(with({.vocabulary = 301}), "truncated"));
  CHECK(contains(with({.vocabulary = 299}), "trailing"));
  CHECK(contains(with({1 << 30, 1 << 30, 1 << 20, 1 << 27, 1, 1 << 30, 1 << 30}), "64 bits"));
  CHECK(contains(with({576, INT32_MAX, 1 << 10, 1, 1, INT32_MAX, INT32_MAX}), "truncated"));
}

TEST_CASE("every other length is refused") {
  tiny::bytes file = tiny::model_file();
  for (std::size_t size = 0; size < 2 * tiny::header_bytes; ++size) {
    CHECK(contains(refusal(std::span(file).first(size)), "truncated"));
  }
  std::mt19937 random(2);
  for (int i = 0; i < 200; ++i) CHECK(contains(refusal(std::span(file).first(random() % file.size())), "truncated"));
  file.push_back({});
  CHECK(contains(refusal(file), "trailing"));
}

TEST_CASE("weights that are not finite are refused") {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    tiny::bytes file = tiny::model_file();
    std::memcpy(file.data() + tiny::header_bytes + 7 * sizeof(float), &bad, sizeof(bad));
    CHECK(contains(refusal(file), "element 7 of tok_emb"));
  }
}

TEST_CASE("finite weights that overflow in use are refused then") {
  tiny::bytes file = tiny::model_file();
  const float huge = 3e38f;
  for (std::size_t at = tiny::header_bytes; at + sizeof(huge) <= file.size(); at += sizeof(huge)) {
    std::memcpy(file.data() + at, &huge, sizeof(huge));
  }
  CHECK(refusal(file).empty());
  CHECK_FALSE(reads_and_runs(file));
}

TEST_CASE("a spoilt header is refused in words, or runs") {
  const tiny::bytes good = tiny::model_file();
  CHECK(reads_and_runs(good));
  for (std::size_t bit = 0; bit < 8 * tiny::header_bytes; ++bit) {
    tiny::bytes file = good;
    file[bit / 8] ^= std::byte{1} << (bit % 8);
    reads_and_runs(file);
  }
  std::mt19937 random(3);
  int refused = 0;
  for (int i = 0; i < 5000; ++i) {
    tiny::bytes file = good;
    for (auto flips = 1 + random() % 4; flips > 0; --flips) {
      file[random() % tiny::header_bytes] = static_cast<std::byte>(random() % 256);
    }
    if (random() % 2 == 0) file.resize(random() % file.size());
    refused += reads_and_runs(file) ? 0 : 1;
  }
  CHECK(refused > 4000);
}

TEST_CASE("spoilt weights are refused in words, or run") {
  const tiny::bytes good = tiny::model_file();
  std::mt19937 random(4);
  int ran = 0;
  for (int i = 0; i < 300; ++i) {
    tiny::bytes file = good;
    for (int flips = 0; flips < 8; ++flips) file[random() % file.size()] = static_cast<std::byte>(random() % 256);
    ran += reads_and_runs(file) ? 1 : 0;
  }
  CHECK(ran > 30);
}
