// SPDX-License-Identifier: Apache-2.0
/// @file The forward pass of a Llama model over a paged KV cache.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <pagoda/host/thread_pool.hpp>

#include "kv_cache.hpp"
#include "model.hpp"

/// Which tokens of a step get logits.
enum class logits_of { last_token, every_token };

/// Runs tokens through a model. It keeps no state of a sequence: that is the cache's.
///
/// A token's logits do not depend on the threads, to the bit, and on how steps are cut only by rounding.
class transformer {
 public:
  /// Requires: model and pool outlive the transformer.
  transformer(const model& model, pagoda::host::thread_pool& pool);

  /// Appends the tokens to the cache's sequence and returns logits, [1 or tokens, vocabulary], valid until the next
  /// call. Throws:  std::exception, with the sequence as it was, if the tokens leave the vocabulary, the context or the
  /// cache.
  std::span<const float> forward(std::span<const std::int32_t> tokens, kv_cache& cache,
                                 logits_of which = logits_of::last_token);

 private:
  void check(std::span<const std::int32_t> tokens, std::int64_t position) const;
  void reserve(std::int64_t tokens);
  void embed(std::span<const std::int32_t> tokens);
  void attend(std::int32_t layer, std::int64_t tokens, const pagoda::step& step, kv_cache& cache);
  void feed_forward(std::int32_t layer, std::int64_t tokens);
  void normalise(std::span<const float> weights, std::int64_t first_token, std::int64_t tokens);
  void rotate(std::span<float> rows, std::int64_t heads, std::int64_t tokens, std::int64_t position) const;
  void add_to_stream(std::span<const float> values);

  const model& model_;
  pagoda::host::thread_pool& pool_;
  std::vector<float> cosines_;  // [context_length, head_dim / 2]
  std::vector<float> sines_;

  // What a step computes: [tokens, ...]
  std::vector<float> stream_;
  std::vector<float> normalised_;
  std::vector<float> queries_;
  std::vector<float> keys_;
  std::vector<float> values_;
  std::vector<float> attended_;
  std::vector<float> projected_;
  std::vector<float> gate_;
  std::vector<float> up_;
  std::vector<float> logits_;
};
