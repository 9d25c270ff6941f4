// SPDX-License-Identifier: Apache-2.0
// A model of a few thousand random weights and a tokenizer for it, as the bytes of their files.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace tiny {

using bytes = std::vector<std::byte>;

template <class T>
void put(bytes& file, T value) {
  for (const std::byte byte : std::as_bytes(std::span(&value, 1))) file.push_back(byte);
}

/// The numbers of a model file's header, in its order.
struct header {
  std::int32_t dim = 16;
  std::int32_t hidden_dim = 20;
  std::int32_t layers = 2;
  std::int32_t heads = 2;
  std::int32_t kv_heads = 1;
  std::int32_t vocabulary = 300;  // negative: the classifier is a tensor of its own
  std::int32_t context_length = 48;
};

inline constexpr std::size_t header_bytes = sizeof(header);

inline bytes header_of(const header& h) {
  bytes file;
  put(file, h);
  return file;
}

/// A whole model file. The classifier of its own, if there is one, is `classifier_scale` times the embedding.
inline bytes model_file(const header& h = {}, float classifier_scale = 1.0f) {
  bytes file = header_of(h);
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0.0f, 0.5f);
  const std::int64_t vocabulary = h.vocabulary < 0 ? -std::int64_t{h.vocabulary} : h.vocabulary;
  const std::int64_t dim = h.dim;
  const std::int64_t kv_dim = dim / h.heads * h.kv_heads;
  const auto tensor = [&](std::int64_t size) {
    std::vector<float> values(static_cast<std::size_t>(size));
    for (float& value : values) value = normal(random);
    for (const float value : values) put(file, value);
    return values;
  };
  const std::vector<float> embedding = tensor(vocabulary * dim);
  for (const std::int64_t size : {dim, dim * dim, kv_dim * dim, kv_dim * dim, dim * dim, dim, h.hidden_dim * dim,
                                  h.hidden_dim * dim, h.hidden_dim * dim}) {
    tensor(h.layers * size);
  }
  tensor(dim);
  tensor(h.context_length * dim / h.heads);
  if (h.vocabulary < 0) {
    for (const float value : embedding) put(file, value * classifier_scale);
  }
  return file;
}

/// The pieces of a tokenizer: the three special tokens, every byte, letters, and joins of them.
inline std::vector<std::string> pieces(std::int32_t vocabulary = 300) {
  std::vector<std::string> result = {"<unk>", "\n<s>\n", "\n</s>\n"};
  for (int byte = 0; byte < 256; ++byte) {
    char text[8];
    std::snprintf(text, sizeof(text), "<0x%02X>", static_cast<unsigned>(byte));
    result.emplace_back(text);
  }
  for (const char* piece : {" ", "a", "b", "c", "\xc3\xa9", "aa", "ab", "ba", " a", "bc", "aaa", "abc", "aab", " ab"}) {
    result.emplace_back(piece);
  }
  for (std::size_t id = result.size(); id < static_cast<std::size_t>(vocabulary); ++id) {
    result.push_back(std::to_string(id));
    result.back() += '~';
  }
  result.resize(static_cast<std::size_t>(vocabulary));
  return result;
}

/// Scores of joins repeat, so that equal ones meet.
inline float score(std::size_t id) {
  return id < 259 ? 0.0f : -static_cast<float>(id % 4);
}

inline bytes tokenizer_file(std::int32_t vocabulary = 300) {
  const std::vector<std::string> all = pieces(vocabulary);
  std::size_t longest = 0;
  for (const std::string& piece : all) longest = std::max(longest, piece.size());
  bytes file;
  put(file, static_cast<std::int32_t>(longest));
  for (std::size_t id = 0; id < all.size(); ++id) {
    put(file, score(id));
    put(file, static_cast<std::int32_t>(all[id].size()));
    for (const char c : all[id]) put(file, c);
  }
  return file;
}

}  // namespace tiny
