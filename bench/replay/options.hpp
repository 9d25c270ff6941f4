// SPDX-License-Identifier: Apache-2.0
/// @file The command line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trace.hpp"

namespace pagoda_replay {

struct options {
  std::string trace;
  trace_format format = trace_format::mooncake;
  std::vector<std::int32_t> capacities;  ///< one at most without sweep; rising; none: without a limit
  std::string policy = "lru";
  std::int32_t block_tokens = 16;
  std::string svg;  ///< file for the picture of a sweep; empty: none
  bool sweep = false;
  bool json = false;
  bool skip_malformed = false;
};

/// Fills in `result`. Returns the exit code if the program is to end here: after --help, or a command line that cannot
/// be read, about which it has told standard error. Throws: std::exception for a value outside its limits and for flags
/// that do not go together.
std::optional<int> parse_options(int argc, const char* const* argv, options& result);

}  // namespace pagoda_replay
