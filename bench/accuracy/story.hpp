// SPDX-License-Identifier: Apache-2.0
/// @file A small trained model, to see what a cache's type costs it in perplexity and what the cache costs in time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <pagoda/host/thread_pool.hpp>

#include "model.hpp"
#include "transformer.hpp"

namespace pagoda_bench {

class story {
 public:
  /// Reads llama2.c's files. Throws: std::exception if they are none.
  story(const std::string& model_file, const std::string& tokenizer_file);

  std::int32_t head_dim() const { return weights_.config.head_dim(); }

  /// Perplexity over that of a float cache, on the text that the model writes with a float cache. Nothing where the
  /// model's heads do not fit the type.
  std::optional<double> perplexity_ratio(std::string_view kv);

  /// Tokens per second of generation with a cache of that type over those with contiguous floats and plain loops, one
  /// thread: the median of pairs of runs.
  double speed_ratio(std::string_view kv, std::int32_t block_size);

 private:
  double decode_seconds(std::string_view kv, std::int32_t block_size);

  model weights_;
  pagoda::host::thread_pool pool_;
  transformer engine_;
  std::vector<std::int32_t> tokens_;
};

}  // namespace pagoda_bench
