// SPDX-License-Identifier: Apache-2.0
/// @file A Llama model and its file: llama2.c's version-0 format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <pagoda/shape.hpp>

#include "linear.hpp"

struct model_config {
  std::int32_t dim = 0;
  std::int32_t hidden_dim = 0;
  std::int32_t layers = 0;
  std::int32_t heads = 0;
  std::int32_t kv_heads = 0;
  std::int32_t vocabulary = 0;      ///< tokens
  std::int32_t context_length = 0;  ///< the most tokens of a sequence

  std::int32_t head_dim() const { return dim / heads; }
  std::int32_t kv_dim() const { return kv_heads * head_dim(); }
  pagoda::storage_shape kv_shape() const { return {.layers = layers, .kv_heads = kv_heads, .head_dim = head_dim()}; }
};

struct layer_weights {
  std::vector<float> attention_norm;  ///< [dim]
  matrix query;
  matrix key;
  matrix value;
  matrix attention_output;
  std::vector<float> feed_forward_norm;  ///< [dim]
  matrix gate;                           ///< w1 of the file
  matrix up;                             ///< w3
  matrix down;                           ///< w2
};

struct model {
  model_config config;
  std::vector<float> embedding;  ///< [vocabulary, dim]
  std::vector<layer_weights> layers;
  std::vector<float> final_norm;  ///< [dim]
  matrix classifier;
};

/// Reads the bytes of a model file: seven numbers, then float tensors. A negative vocabulary in the file means that the
/// classifier is a tensor of its own, at the end; otherwise it is the embedding.
///
/// Throws: std::exception unless the header is consistent, the file has exactly the bytes that it asks for, and every
///         weight is finite. Nothing is allocated for a header that the file does not back with bytes.
model parse_model(std::span<const std::byte> file);
