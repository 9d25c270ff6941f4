// SPDX-License-Identifier: Apache-2.0
/// @file The baseline: floats in one piece and plain loops over them, as one writes them without a library.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "kv_storage.hpp"

/// Keys and values of one sequence, [layer][token][kv head][head_dim] each, and attention one query head after the
/// other on the calling thread. It looks at the step's numbers, never at its blocks.
/// Throws: std::runtime_error for a step of several sequences, or with a window.
class contiguous_storage final : public kv_storage {
 public:
  static constexpr std::string_view name = "contiguous";

  contiguous_storage(const pagoda::storage_shape& shape, std::int64_t tokens);

  void execute(const pagoda::copy_list& copies) override;
  void append(std::int32_t layer, const pagoda::step& step, pagoda::rows_view<const float> keys,
              pagoda::rows_view<const float> values, pagoda::host::thread_pool& pool) override;
  void attention(std::int32_t layer, const pagoda::step& step, pagoda::rows_view<const float> queries,
                 pagoda::rows_view<float> output, pagoda::host::thread_pool& pool) const override;
  std::int64_t bytes_per_token() const override;
  std::int64_t size_bytes() const override;

 private:
  std::int64_t row(std::int32_t layer, std::int64_t token, std::int64_t head) const {
    return ((layer * tokens_ + token) * shape_.kv_heads + head) * shape_.head_dim;
  }

  pagoda::storage_shape shape_;
  std::int64_t tokens_;
  std::vector<float> keys_;
  std::vector<float> values_;
  mutable std::vector<float> weights_;  // of one query head
};
