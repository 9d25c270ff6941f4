// SPDX-License-Identifier: Apache-2.0
/// @file Greedy generation: a chunked prefill of the prompt, then one token a step.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "transformer.hpp"

struct generation {
  std::vector<std::int32_t> tokens;  ///< beginning token, prompt, and what was generated
  std::int64_t prompt_tokens = 0;    ///< the beginning token among them
  double prefill_seconds = 0;
  std::int64_t decode_steps = 0;
  double decode_seconds = 0;
};

/// Continues a prompt greedily until `steps` tokens have gone through the model or the model ends the text.
///
/// The cache's sequence must be empty. Calls print(previous, token) for every token after the first: the prompt's after
/// the prefill, the others as they come.
/// Requires: 1 <= prompt.size() <= steps; chunk >= 1.
generation generate(transformer& engine, kv_cache& cache, std::span<const std::int32_t> prompt, std::int64_t steps,
                    std::int64_t chunk, const std::function<void(std::int32_t, std::int32_t)>& print);
