// SPDX-License-Identifier: Apache-2.0
#include <charconv>
#include <limits>

#include "error.hpp"
#include "trace_lines.hpp"

namespace pagoda_replay {

namespace {

constexpr std::int64_t longest_request = std::numeric_limits<std::int32_t>::max();

std::vector<std::string_view> fields_of(std::string_view line) {
  std::vector<std::string_view> fields;
  for (;;) {
    const std::size_t comma = line.find(',');
    fields.push_back(line.substr(0, comma));
    if (comma == std::string_view::npos) return fields;
    line.remove_prefix(comma + 1);
  }
}

std::optional<std::size_t> column_of(const std::vector<std::string_view>& header, std::string_view name) {
  for (std::size_t i = 0; i < header.size(); ++i) {
    if (header[i] == name) return i;
  }
  return std::nullopt;
}

std::int64_t length_of(std::string_view field) {
  std::int64_t length = -1;
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), length);
  if (error != std::errc() || end != field.data() + field.size() || length < 0 || length > longest_request) {
    refuse(quoted(field), " is no number of tokens: it must be a whole number from 0 to ", longest_request);
  }
  return length;
}

}  // namespace

length_columns::length_columns(std::string_view header, trace_format format) {
  const bool azure = format == trace_format::azure;
  const std::string_view names[] = {azure ? "ContextTokens" : "num_prefill_tokens",
                                    azure ? "GeneratedTokens" : "num_decode_tokens"};
  const std::vector<std::string_view> fields = fields_of(header);
  const std::optional<std::size_t> columns[] = {column_of(fields, names[0]), column_of(fields, names[1])};
  if (!columns[0] || !columns[1]) {
    refuse("line 1 is ", quoted(header), ", but a trace of the format ", name_of(format), " begins with a header with ",
           names[0], " and ", names[1], ": pass such a file, or another --format");
  }
  fields_ = fields.size();
  prompt_ = *columns[0];
  generated_ = *columns[1];
  if (!azure) total_ = column_of(fields, "num_total_tokens");
}

std::int32_t length_columns::final_length(std::string_view line) const {
  const std::vector<std::string_view> fields = fields_of(line);
  if (fields.size() != fields_) {
    refuse(fields.size(), " fields, but the header has ", fields_, ": ", quoted(line));
  }
  const std::int64_t length = length_of(fields[prompt_]) + length_of(fields[generated_]);
  if (length < 1 || length > longest_request) {
    refuse("the request has ", length, " tokens, but must have from 1 to ", longest_request);
  }
  if (total_ && length_of(fields[*total_]) != length) {
    refuse("the total is ", fields[*total_], ", but ", fields[prompt_], " and ", fields[generated_], " make ", length);
  }
  return static_cast<std::int32_t>(length);
}

}  // namespace pagoda_replay
