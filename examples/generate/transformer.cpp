// SPDX-License-Identifier: Apache-2.0
#include "transformer.hpp"

#include <algorithm>
#include <cmath>

#include "error.hpp"

transformer::transformer(const model& model, pagoda::host::thread_pool& pool) : model_(model), pool_(pool) {
  const std::int32_t head_dim = model.config.head_dim();
  for (std::int32_t position = 0; position < model.config.context_length; ++position) {
    for (std::int32_t d = 0; d < head_dim; d += 2) {
      const float frequency = 1.0f / std::pow(10000.0f, static_cast<float>(d) / static_cast<float>(head_dim));
      const float angle = static_cast<float>(position) * frequency;
      cosines_.push_back(std::cos(angle));
      sines_.push_back(std::sin(angle));
    }
  }
}

std::span<const float> transformer::forward(std::span<const std::int32_t> tokens, kv_cache& cache, logits_of which) {
  check(tokens, cache.position());
  const auto count = static_cast<std::int64_t>(tokens.size());
  reserve(count);

  pagoda::step step = cache.plan(static_cast<std::int32_t>(count));
  embed(tokens);
  for (std::int32_t layer = 0; layer < model_.config.layers; ++layer) {
    attend(layer, count, step, cache);
    feed_forward(layer, count);
  }
  step.commit();

  const std::int64_t first = which == logits_of::every_token ? 0 : count - 1;
  normalise(model_.final_norm, first, count - first);
  logits_.resize(static_cast<std::size_t>((count - first) * model_.config.vocabulary));
  multiply(model_.classifier, normalised_, logits_, count - first, pool_);
  return logits_;
}

void transformer::check(std::span<const std::int32_t> tokens, std::int64_t position) const {
  if (tokens.empty()) refuse("a step of no tokens has no logits: pass at least one");
  for (const std::int32_t token : tokens) {
    if (token < 0 || token >= model_.config.vocabulary) {
      refuse("token ", token, " lies outside the model's vocabulary of ", model_.config.vocabulary,
             ": pass tokens of its own tokenizer");
    }
  }
  if (position + static_cast<std::int64_t>(tokens.size()) > model_.config.context_length) {
    refuse(tokens.size(), " tokens after ", position, " do not fit the model's context of ",
           model_.config.context_length, " tokens: generate fewer");
  }
}

void transformer::reserve(std::int64_t tokens) {
  const model_config& c = model_.config;
  const auto resize = [&](std::vector<float>& values, std::int64_t size) {
    values.resize(static_cast<std::size_t>(tokens * size));
  };
  for (auto* values : {&stream_, &normalised_, &queries_, &attended_, &projected_}) resize(*values, c.dim);
  for (auto* values : {&keys_, &values_}) resize(*values, c.kv_dim());
  for (auto* values : {&gate_, &up_}) resize(*values, c.hidden_dim);
}

void transformer::embed(std::span<const std::int32_t> tokens) {
  const std::int64_t dim = model_.config.dim;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    std::copy_n(model_.embedding.data() + tokens[i] * dim, dim, stream_.data() + static_cast<std::int64_t>(i) * dim);
  }
}

void transformer::attend(std::int32_t layer, std::int64_t tokens, const pagoda::step& step, kv_cache& cache) {
  const model_config& c = model_.config;
  const layer_weights& weights = model_.layers[static_cast<std::size_t>(layer)];
  normalise(weights.attention_norm, 0, tokens);
  multiply(weights.query, normalised_, queries_, tokens, pool_);
  multiply(weights.key, normalised_, keys_, tokens, pool_);
  multiply(weights.value, normalised_, values_, tokens, pool_);
  rotate(queries_, c.heads, tokens, cache.position());
  rotate(keys_, c.kv_heads, tokens, cache.position());

  const pagoda::rows_shape query_rows{tokens, c.heads, c.head_dim()};
  const pagoda::rows_shape kv_rows{tokens, c.kv_heads, c.head_dim()};
  cache.storage().append(layer, step, pagoda::rows_view<const float>(keys_, kv_rows),
                         pagoda::rows_view<const float>(values_, kv_rows), pool_);
  cache.storage().attention(layer, step, pagoda::rows_view<const float>(queries_, query_rows),
                            pagoda::rows_view<float>(attended_, query_rows), pool_);

  multiply(weights.attention_output, attended_, projected_, tokens, pool_);
  add_to_stream(projected_);
}

void transformer::feed_forward(std::int32_t layer, std::int64_t tokens) {
  const layer_weights& weights = model_.layers[static_cast<std::size_t>(layer)];
  normalise(weights.feed_forward_norm, 0, tokens);
  multiply(weights.gate, normalised_, gate_, tokens, pool_);
  multiply(weights.up, normalised_, up_, tokens, pool_);
  for (std::size_t i = 0; i < gate_.size(); ++i) {
    gate_[i] = gate_[i] * (1.0f / (1.0f + std::exp(-gate_[i]))) * up_[i];
  }
  multiply(weights.down, gate_, projected_, tokens, pool_);
  add_to_stream(projected_);
}

/// RMSNorm of the stream's tokens from first_token on, to the front of normalised_.
void transformer::normalise(std::span<const float> weights, std::int64_t first_token, std::int64_t tokens) {
  const std::int64_t dim = model_.config.dim;
  for (std::int64_t token = 0; token < tokens; ++token) {
    const float* from = stream_.data() + (first_token + token) * dim;
    float* to = normalised_.data() + token * dim;
    float squares = 0.0f;
    for (std::int64_t d = 0; d < dim; ++d) squares += from[d] * from[d];
    if (!std::isfinite(squares)) {
      refuse("the model's activations exceed what a float holds: its weights are too large to be those of a model");
    }
    const float scale = 1.0f / std::sqrt(squares / static_cast<float>(dim) + 1e-5f);
    for (std::int64_t d = 0; d < dim; ++d) to[d] = weights[static_cast<std::size_t>(d)] * (scale * from[d]);
  }
}

/// Rotary embedding: turns each adjacent pair of a head by the angle of its token's position.
void transformer::rotate(std::span<float> rows, std::int64_t heads, std::int64_t tokens, std::int64_t position) const {
  const std::int64_t pairs = model_.config.head_dim() / 2;
  float* pair = rows.data();
  for (std::int64_t token = 0; token < tokens; ++token) {
    const float* cosine = cosines_.data() + (position + token) * pairs;
    const float* sine = sines_.data() + (position + token) * pairs;
    for (std::int64_t i = 0; i < heads * pairs; ++i, pair += 2) {
      const float c = cosine[i % pairs];
      const float s = sine[i % pairs];
      const float x = pair[0];
      const float y = pair[1];
      pair[0] = x * c - y * s;
      pair[1] = x * s + y * c;
    }
  }
}

void transformer::add_to_stream(std::span<const float> values) {
  for (std::size_t i = 0; i < stream_.size(); ++i) stream_[i] += values[i];
}
