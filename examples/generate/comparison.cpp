// SPDX-License-Identifier: Apache-2.0
#include "comparison.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace {

/// -log of the probability that the logits give to a token.
double surprise(std::span<const float> logits, std::int32_t token) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(double{logit} - largest);
  return std::log(sum) + largest - double{logits[static_cast<std::size_t>(token)]};
}

}  // namespace

comparison compare(transformer& engine, kv_cache& cache, kv_cache& other, std::span<const std::int32_t> tokens,
                   std::int64_t chunk) {
  comparison result;
  double surprises = 0;
  double other_surprises = 0;
  std::int64_t compared = 0;
  // The last token is only predicted.
  const std::span<const std::int32_t> inputs = tokens.first(tokens.size() - 1);
  std::vector<float> logits;
  for (std::size_t begin = 0; begin < inputs.size(); begin += static_cast<std::size_t>(chunk)) {
    const auto count = std::min(inputs.size() - begin, static_cast<std::size_t>(chunk));
    const auto step = inputs.subspan(begin, count);
    const auto first = engine.forward(step, cache, logits_of::every_token);
    logits.assign(first.begin(), first.end());
    const auto second = engine.forward(step, other, logits_of::every_token);
    for (std::size_t i = 0; i < logits.size(); ++i) {
      const double difference = std::abs(double{logits[i]} - double{second[i]});
      result.largest_difference = std::max(result.largest_difference, difference);
      result.mean_difference += difference;
    }
    compared += static_cast<std::int64_t>(logits.size());
    const std::size_t vocabulary = logits.size() / count;
    for (std::size_t i = 0; i < count; ++i) {
      const std::int32_t next = tokens[begin + i + 1];
      surprises += surprise(std::span(logits).subspan(i * vocabulary, vocabulary), next);
      other_surprises += surprise(second.subspan(i * vocabulary, vocabulary), next);
    }
  }
  const auto predictions = static_cast<double>(inputs.size());
  result.mean_difference /= static_cast<double>(compared);
  result.perplexity = std::exp(surprises / predictions);
  result.other_perplexity = std::exp(other_surprises / predictions);
  return result;
}
