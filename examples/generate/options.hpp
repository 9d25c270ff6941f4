// SPDX-License-Identifier: Apache-2.0
/// @file The command line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

struct options {
  std::string model;
  std::string tokenizer;
  std::string prompt;
  std::optional<std::int32_t> steps;  ///< default: the model's context length
  std::string kv = "half";            ///< of keys and values
  std::string keys;                   ///< of the keys, where it is not kv
  std::string values;                 ///< of the values, likewise
  std::string layout = "heads_tokens_dim";
  std::int32_t block_size = 16;
  std::int32_t prompt_chunk = 64;
  std::int32_t threads = 1;
  std::optional<std::int32_t> window;  ///< default: all tokens
  std::int32_t sinks = 0;
  bool compare_float = false;
};

/// Fills in `result`. Returns the exit code if the program is to end here: after --help, or a command line that cannot
/// be read, about which it has told standard error. Throws: std::exception for a value outside its limits.
std::optional<int> parse_options(int argc, const char* const* argv, options& result);
