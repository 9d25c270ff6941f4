// SPDX-License-Identifier: Apache-2.0
/// @file One line of a trace. What throws a std::runtime_error says in it what is wrong with the line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "trace.hpp"

namespace pagoda_replay {

/// Appends a token for each of the hash_ids of a line. Returns how many.
/// Throws: std::runtime_error for a line that is no such object; some of its tokens may then have been appended.
std::int32_t append_hash_ids(std::string_view line, std::vector<std::int32_t>& tokens);

/// Which columns of a CSV file hold the lengths of its requests.
class length_columns {
 public:
  /// Throws: std::runtime_error if the header lacks one of the format's columns.
  length_columns(std::string_view header, trace_format format);

  /// The tokens of a request at its final length: those that it came with and those that were generated.
  /// Throws: std::runtime_error for a line with more or fewer fields than the header, a field that is no length, a
  ///         request without a token, and one whose total, where the file has it, is not the sum.
  std::int32_t final_length(std::string_view line) const;

 private:
  std::size_t fields_ = 0;
  std::size_t prompt_ = 0;
  std::size_t generated_ = 0;
  std::optional<std::size_t> total_{};
};

}  // namespace pagoda_replay
