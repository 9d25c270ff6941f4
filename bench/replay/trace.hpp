// SPDX-License-Identifier: Apache-2.0
/// @file A trace of requests, as a file of a public data set lists them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace pagoda_replay {

enum class trace_format {
  mooncake,  ///< a JSON object a line, whose hash_ids name the blocks of the prompt and all that stands before them
  azure,     ///< CSV with the columns ContextTokens and GeneratedTokens
  lengths,   ///< CSV with the columns num_prefill_tokens and num_decode_tokens
};

struct request {
  std::int64_t line = 0;    ///< of the file, from 1
  std::int64_t begin = 0;   ///< its first token among those of the trace; mooncake only
  std::int32_t tokens = 0;  ///< mooncake: one for each hash_id; else at its final length
};

/// A line that is no request, and why.
struct malformed_line {
  std::int64_t line = 0;
  std::string fault{};
};

struct trace {
  trace_format format = trace_format::mooncake;
  std::vector<request> requests{};
  std::vector<std::int32_t> tokens{};       ///< of the requests, in their order; mooncake only
  std::vector<malformed_line> malformed{};  ///< in the order of the file; not among the requests

  std::span<const std::int32_t> tokens_of(const request& request) const {
    return std::span(tokens).subspan(static_cast<std::size_t>(request.begin), static_cast<std::size_t>(request.tokens));
  }
  /// Tokens of the longest request; 0 if there is none.
  std::int32_t longest() const;
};

std::string_view name_of(trace_format format);

/// Throws: std::runtime_error, with the names that there are, for any other.
trace_format format_named(std::string_view name);

/// The requests of a file's text. Malformed lines are set aside.
/// Throws: std::runtime_error if the first line is not the header of the format.
trace read_trace(std::string_view text, trace_format format);

/// The text of a file. Throws: std::runtime_error if it cannot be read, with a word about where such files are found.
std::string read_trace_file(const std::string& path, trace_format format);

/// What is wrong with each of the malformed lines, a sentence a line. Requires: there is one.
std::string describe_malformed(const trace& trace);

}  // namespace pagoda_replay
