// SPDX-License-Identifier: Apache-2.0
#include "story.hpp"

#include <algorithm>
#include <array>

#include "byte_reader.hpp"
#include "comparison.hpp"
#include "generation.hpp"
#include "kv_cache.hpp"
#include "tokenizer.hpp"

namespace pagoda_bench {

namespace {

constexpr std::int32_t most_steps = 200;

cache_settings settings_of(std::string_view kv, std::int32_t tokens, std::int32_t block_size = 16) {
  return {.dtype = std::string(kv), .block_size = block_size, .max_tokens = tokens, .max_step_tokens = 64};
}

}  // namespace

story::story(const std::string& model_file, const std::string& tokenizer_file)
    : weights_(parse_file(model_file, parse_model)), pool_(1), engine_(weights_, pool_) {
  // Reading the tokenizer checks that the two belong together.
  parse_file(tokenizer_file, [&](const auto& bytes) { return tokenizer(bytes, weights_.config.vocabulary); });
  const std::int32_t steps = std::min(most_steps, weights_.config.context_length);
  kv_cache cache(weights_.config.kv_shape(), settings_of("float", steps));
  const std::vector<std::int32_t> beginning = {tokenizer::beginning};
  tokens_ = generate(engine_, cache, beginning, steps, 64, [](std::int32_t, std::int32_t) {}).tokens;
}

std::optional<double> story::perplexity_ratio(std::string_view kv) {
  const auto tokens = static_cast<std::int32_t>(tokens_.size());
  kv_cache exact(weights_.config.kv_shape(), settings_of("float", tokens));
  std::optional<kv_cache> narrow;
  try {
    narrow.emplace(weights_.config.kv_shape(), settings_of(kv, tokens));
  } catch (const pagoda::invalid_argument&) {
    return std::nullopt;
  }
  const comparison result = compare(engine_, *narrow, exact, tokens_, 64);
  return result.perplexity / result.other_perplexity;
}

double story::decode_seconds(std::string_view kv, std::int32_t block_size) {
  const auto steps = static_cast<std::int32_t>(tokens_.size()) - 1;
  kv_cache cache(weights_.config.kv_shape(), settings_of(kv, steps, block_size));
  const std::vector<std::int32_t> beginning = {tokenizer::beginning};
  const generation run = generate(engine_, cache, beginning, steps, 64, [](std::int32_t, std::int32_t) {});
  return run.decode_seconds / static_cast<double>(run.decode_steps);
}

double story::speed_ratio(std::string_view kv, std::int32_t block_size) {
  std::array<double, 31> ratios{};
  for (double& ratio : ratios) {
    const double before = decode_seconds("contiguous", block_size);
    const double paged = decode_seconds(kv, block_size);
    ratio = (before + decode_seconds("contiguous", block_size)) / 2 / paged;
  }
  std::sort(ratios.begin(), ratios.end());
  return ratios[ratios.size() / 2];
}

}  // namespace pagoda_bench
