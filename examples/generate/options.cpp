// SPDX-License-Identifier: Apache-2.0
#include "options.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

#include <pagoda/shape.hpp>

#include "contiguous_storage.hpp"
#include "error.hpp"
#include "kv_storage.hpp"

namespace {

void check_at_least(const char* flag, std::int64_t value, std::int64_t limit) {
  if (value < limit) refuse(flag, " is ", value, ", but must be at least ", limit, ": pass a larger number");
}

/// "a, b or c"
std::string join(const std::vector<std::string_view>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    text += i == 0 ? "" : i + 1 < names.size() ? ", " : " or ";
    text += names[i];
  }
  return text;
}

void check_type(const char* flag, std::string_view name) {
  std::vector<std::string_view> names = kv_type_names();
  names.push_back(contiguous_storage::name);
  if (std::find(names.begin(), names.end(), name) == names.end()) {
    refuse(flag, " is \"", name, "\", but must be one of ", join(names), ": pass one of these names");
  }
}

void check_types(const options& given) {
  check_type("--kv", given.kv);
  if (!given.keys.empty()) check_type("--keys", given.keys);
  if (!given.values.empty()) check_type("--values", given.values);
  const std::string& keys = given.keys.empty() ? given.kv : given.keys;
  const std::string& values = given.values.empty() ? given.kv : given.values;
  if (keys != values && (keys == contiguous_storage::name || values == contiguous_storage::name)) {
    refuse("the keys are to be ", keys, " and the values ", values, ", but ", contiguous_storage::name,
           " stores both in one way: pass --kv ", contiguous_storage::name, " alone, or another type");
  }
}

void check(const options& given) {
  if (given.steps) check_at_least("--steps", *given.steps, 1);
  check_at_least("--prompt-chunk", given.prompt_chunk, 1);
  check_at_least("--threads", given.threads, 1);
  check_types(given);
  pagoda::check_block_size(given.block_size);
  if (given.window) check_at_least("--window", *given.window, 1);
  check_at_least("--sinks", given.sinks, 0);
  if (given.sinks > 0 && !given.window) {
    refuse("--sinks is ", given.sinks, ", but without a window all tokens are kept: pass --window, too");
  }
}

/// Empty if the text is a decimal number of 32 bits, else what is wrong.
std::string whole_number_fault(const std::string& text) {
  const std::size_t sign = text.starts_with('-') ? 1 : 0;
  const bool digits = text.size() > sign && text.find_first_not_of("0123456789", sign) == std::string::npos;
  const bool fits = digits && text.size() - sign <= 10 && std::abs(std::stoll(text)) <= INT32_MAX;
  const bool plain = digits && (text[sign] != '0' || text.size() == sign + 1);
  if (fits && plain) return {};
  return "\"" + text + "\" is no whole number: write decimal digits, at most " + std::to_string(INT32_MAX);
}

}  // namespace

std::optional<int> parse_options(int argc, const char* const* argv, options& result) {
  CLI::App app("Continues a text greedily with a Llama model in llama2.c's format, over a paged KV cache.");
  app.option_defaults()->always_capture_default();
  app.add_option("--model", result.model, "Model file of llama2.c, version 0")->required();
  app.add_option("--tokenizer", result.tokenizer, "Its tokenizer file")->required();
  app.add_option("--prompt", result.prompt, "Text to continue; write --prompt=TEXT for one that begins with a dash");
  app.add_option("--steps", result.steps, "Tokens that go through the model (default: the model's context length)");
  app.add_option("--kv", result.kv,
                 "How the cache stores keys and values: " + join(kv_type_names()) +
                     "; contiguous, for comparison: floats in one piece and plain loops");
  app.add_option("--keys", result.keys, "How it stores the keys, if not as --kv says");
  app.add_option("--values", result.values, "How it stores the values, if not as --kv says");
  app.add_option("--block-size", result.block_size, "Tokens of a block, a power of two");
  app.add_option("--layout", result.layout, "How a block is laid out: heads_tokens_dim or tokens_heads_dim");
  app.add_option("--prompt-chunk", result.prompt_chunk, "Tokens of a prefill step");
  app.add_option("--threads", result.threads, "Threads that share the work");
  app.add_option("--window", result.window, "Keep the last WINDOW tokens only (default: all)");
  app.add_option("--sinks", result.sinks, "Keep the first SINKS tokens beside the window");
  for (const char* name : {"--steps", "--block-size", "--prompt-chunk", "--threads", "--window", "--sinks"}) {
    app.get_option(name)->check(CLI::Validator([](std::string& text) { return whole_number_fault(text); }, ""));
  }
  app.add_flag("--compare-float", result.compare_float, "Compare logits and perplexity with those of a float cache");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  }
  check(result);
  return std::nullopt;
}
