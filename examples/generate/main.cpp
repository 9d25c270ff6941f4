// SPDX-License-Identifier: Apache-2.0
// Continues a text with a small Llama model. The text goes to standard output, figures go to standard error.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <iostream>
#include <optional>
#include <string_view>
#include <vector>

#include "byte_reader.hpp"
#include "comparison.hpp"
#include "generation.hpp"
#include "options.hpp"
#include "tokenizer.hpp"

namespace {

std::vector<std::int32_t> tokens_of_prompt(const options& given, const tokenizer& words, std::int64_t steps) {
  std::vector<std::int32_t> prompt = {tokenizer::beginning};
  const std::vector<std::int32_t> text = words.encode(given.prompt);
  prompt.insert(prompt.end(), text.begin(), text.end());
  if (static_cast<std::int64_t>(prompt.size()) > steps) {
    refuse("the prompt has ", prompt.size(), " tokens with the beginning token, but ", steps,
           given.steps ? " steps are asked for: shorten it or raise --steps" : " fit the model's context: shorten it");
  }
  return prompt;
}

cache_settings settings_of(const options& given, std::int32_t steps) {
  cache_settings settings{.dtype = given.kv,
                          .keys = given.keys,
                          .values = given.values,
                          .layout = given.layout,
                          .block_size = given.block_size,
                          .max_tokens = steps,
                          .max_step_tokens = std::min(given.prompt_chunk, steps)};
  if (given.window) settings.keep = {.sinks = given.sinks, .window = *given.window};
  return settings;
}

void report(const generation& run, const kv_cache& cache) {
  std::cerr << "prompt: " << run.prompt_tokens << " tokens, "
            << static_cast<double>(run.prompt_tokens) / run.prefill_seconds << " tokens/s\n";
  std::cerr << "generated: " << static_cast<std::int64_t>(run.tokens.size()) - run.prompt_tokens << " tokens";
  if (run.decode_steps > 0) {
    std::cerr << ", " << static_cast<double>(run.decode_steps) / run.decode_seconds << " tokens/s";
  }
  std::cerr << "\ncache: " << cache.storage().bytes_per_token() << " bytes per token, at most " << cache.peak_blocks()
            << " of " << cache.total_blocks() << " blocks in use, " << cache.storage().size_bytes()
            << " bytes in all\n";
}

void report(const comparison& result) {
  std::cerr << "largest logit difference: " << result.largest_difference << '\n'
            << "mean logit difference: " << result.mean_difference << '\n'
            << "perplexity: " << result.perplexity << '\n'
            << "perplexity with float: " << result.other_perplexity << '\n'
            << "perplexity ratio: " << result.perplexity / result.other_perplexity << '\n';
}

void run(const options& given) {
  const model weights = parse_file(given.model, parse_model);
  const tokenizer words =
      parse_file(given.tokenizer, [&](const auto& bytes) { return tokenizer(bytes, weights.config.vocabulary); });
  const std::int32_t steps = given.steps.value_or(weights.config.context_length);
  if (steps > weights.config.context_length) {
    refuse("--steps is ", steps, ", but the model's context has ", weights.config.context_length,
           " tokens: pass at most that");
  }
  if (given.sinks > steps) refuse("--sinks is ", given.sinks, ", but there are ", steps, " steps: pass at most that");
  const std::vector<std::int32_t> prompt = tokens_of_prompt(given, words, steps);
  const cache_settings settings = settings_of(given, steps);

  pagoda::host::thread_pool pool(given.threads);
  transformer engine(weights, pool);
  kv_cache cache(weights.config.kv_shape(), settings);
  const auto print = [&](std::int32_t previous, std::int32_t token) {
    const std::string_view piece = words.decode(previous, token);
    std::fwrite(piece.data(), 1, piece.size(), stdout);
    std::fflush(stdout);
  };
  const generation result = generate(engine, cache, prompt, steps, given.prompt_chunk, print);
  if (std::ferror(stdout) != 0) refuse("the text could not be written: check where standard output goes");
  report(result, cache);

  if (given.compare_float && result.tokens.size() > 1) {
    kv_cache replay(weights.config.kv_shape(), settings);
    cache_settings exact = settings;
    exact.dtype = "float";
    exact.keys.clear();
    exact.values.clear();
    kv_cache reference(weights.config.kv_shape(), exact);
    report(compare(engine, replay, reference, result.tokens, given.prompt_chunk));
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    options given;
    if (const std::optional<int> exit_code = parse_options(argc, argv, given)) return *exit_code;
    run(given);
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "generate: " << error.what() << '\n';
    return 1;
  }
}
