// SPDX-License-Identifier: Apache-2.0
// A stand-in for a model of one layer. Keys and values of a token depend on all tokens before it and on the adapter, as
// a real model's do, so that a wrong hit or a lost block changes what is generated.
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <pagoda/shape.hpp>

namespace toy_model {

inline constexpr int query_heads = 4, kv_heads = 2, head_dim = 16, width = query_heads * head_dim;
inline constexpr pagoda::storage_shape shape{.layers = 1, .kv_heads = kv_heads, .head_dim = head_dim};
enum class row_kind : std::uint64_t { key, value, query };

inline std::uint64_t mix(std::uint64_t state, std::uint64_t more) {
  state = (state ^ more) * 0x9e3779b97f4a7c15u;
  return state ^ state >> 29;
}

/// The hidden state before the first token.
inline std::uint64_t begin(std::string_view adapter) {
  std::uint64_t state = 1;
  for (const char c : adapter) state = mix(state, static_cast<unsigned char>(c));
  return state;
}

inline void add_row(std::vector<float>& rows, std::uint64_t state, row_kind kind) {
  state = mix(state, static_cast<std::uint64_t>(kind));
  const int elements = kind == row_kind::query ? width : kv_heads * head_dim;
  for (int i = 0; i < elements; ++i) {
    state = mix(state, 1);
    rows.push_back(static_cast<float>(static_cast<std::int32_t>(state >> 32)) * 0x1p-30f);
  }
}

/// The next token: any other bit of the output gives another one.
inline std::int32_t sample(std::span<const float> output) {
  std::uint64_t state = 1;
  for (const float x : output) state = mix(state, std::bit_cast<std::uint32_t>(x));
  return static_cast<std::int32_t>(state >> 48);
}

}  // namespace toy_model
