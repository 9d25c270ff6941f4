// SPDX-License-Identifier: Apache-2.0
#include "generation.hpp"

#include <algorithm>
#include <chrono>

#include "tokenizer.hpp"

namespace {

/// The first of the largest logits.
std::int32_t greedy(std::span<const float> logits) {
  return static_cast<std::int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

generation generate(transformer& engine, kv_cache& cache, std::span<const std::int32_t> prompt, std::int64_t steps,
                    std::int64_t chunk, const std::function<void(std::int32_t, std::int32_t)>& print) {
  generation result;
  result.tokens.assign(prompt.begin(), prompt.end());
  result.prompt_tokens = static_cast<std::int64_t>(prompt.size());

  const auto prefill_start = std::chrono::steady_clock::now();
  std::span<const float> logits;
  while (!prompt.empty()) {
    const auto count = std::min(prompt.size(), static_cast<std::size_t>(chunk));
    logits = engine.forward(prompt.first(count), cache);
    prompt = prompt.subspan(count);
  }
  result.prefill_seconds = seconds_since(prefill_start);
  for (std::size_t i = 1; i < result.tokens.size(); ++i) print(result.tokens[i - 1], result.tokens[i]);

  const auto decode_start = std::chrono::steady_clock::now();
  while (true) {
    const std::int32_t token = greedy(logits);
    if (token == tokenizer::beginning) break;
    print(result.tokens.back(), token);
    result.tokens.push_back(token);
    if (cache.position() >= steps) break;
    logits = engine.forward(std::span(&result.tokens.back(), 1), cache);
    ++result.decode_steps;
  }
  result.decode_seconds = seconds_since(decode_start);
  return result;
}
