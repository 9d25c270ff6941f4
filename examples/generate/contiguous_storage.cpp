// SPDX-License-Identifier: Apache-2.0
#include "contiguous_storage.hpp"

#include <algorithm>
#include <cmath>

#include "error.hpp"

namespace {

std::int64_t first_new_token(const pagoda::batch_view& batch) {
  if (batch.sequences() != 1) {
    refuse("a contiguous storage holds one sequence, but the step has ", batch.sequences(), ": take another type");
  }
  if (!batch.keep.keeps_all()) {
    refuse("a contiguous storage keeps all tokens: take another type for a window of ", batch.keep.window);
  }
  return batch.context_length(0) - batch.new_tokens(0);
}

}  // namespace

contiguous_storage::contiguous_storage(const pagoda::storage_shape& shape, std::int64_t tokens)
    : shape_(shape), tokens_(tokens), weights_(static_cast<std::size_t>(tokens)) {
  keys_.resize(static_cast<std::size_t>(row(shape.layers, 0, 0)));
  values_.resize(keys_.size());
}

void contiguous_storage::execute(const pagoda::copy_list&) {
  // One sequence shares no blocks: nothing is ever copied.
}

void contiguous_storage::append(std::int32_t layer, const pagoda::step& step, pagoda::rows_view<const float> keys,
                                pagoda::rows_view<const float> values, pagoda::host::thread_pool&) {
  const std::int64_t first = first_new_token(step.batch());
  for (std::int64_t token = 0; token < keys.tokens(); ++token) {
    for (std::int64_t head = 0; head < keys.heads(); ++head) {
      std::copy_n(keys.row(token, head), shape_.head_dim, keys_.data() + row(layer, first + token, head));
      std::copy_n(values.row(token, head), shape_.head_dim, values_.data() + row(layer, first + token, head));
    }
  }
}

void contiguous_storage::attention(std::int32_t layer, const pagoda::step& step, pagoda::rows_view<const float> queries,
                                   pagoda::rows_view<float> output, pagoda::host::thread_pool&) const {
  const std::int64_t first = first_new_token(step.batch());
  const std::int64_t dim = shape_.head_dim;
  const std::int64_t next = shape_.kv_heads * dim;  // from a token's row to that of the next token
  const float scale = 1.0f / std::sqrt(static_cast<float>(dim));
  for (std::int64_t token = 0; token < queries.tokens(); ++token) {
    const std::int64_t context = first + token + 1;
    for (std::int64_t head = 0; head < queries.heads(); ++head) {
      const std::int64_t kv_head = head * shape_.kv_heads / queries.heads();
      const float* query = queries.row(token, head);
      const float* keys = keys_.data() + row(layer, 0, kv_head);
      const float* values = values_.data() + row(layer, 0, kv_head);
      float* to = output.row(token, head);
      float* weights = weights_.data();
      float largest = -INFINITY;
      for (std::int64_t t = 0; t < context; ++t) {
        float score = 0;
        for (std::int64_t d = 0; d < dim; ++d) score += query[d] * keys[t * next + d];
        weights[t] = score * scale;
        largest = std::max(largest, weights[t]);
      }
      float sum = 0;
      for (std::int64_t t = 0; t < context; ++t) {
        weights[t] = std::exp(weights[t] - largest);
        sum += weights[t];
      }
      std::fill(to, to + dim, 0.0f);
      for (std::int64_t t = 0; t < context; ++t) {
        const float weight = weights[t] / sum;
        for (std::int64_t d = 0; d < dim; ++d) to[d] += weight * values[t * next + d];
      }
    }
  }
}

std::int64_t contiguous_storage::bytes_per_token() const {
  return 2 * static_cast<std::int64_t>(sizeof(float)) * shape_.layers * shape_.kv_heads * shape_.head_dim;
}

std::int64_t contiguous_storage::size_bytes() const {
  return static_cast<std::int64_t>((keys_.size() + values_.size()) * sizeof(float));
}
