// SPDX-License-Identifier: Apache-2.0
#include "trace.hpp"

#include <algorithm>
#include <exception>
#include <fstream>
#include <iterator>
#include <optional>

#include "error.hpp"
#include "trace_lines.hpp"

namespace pagoda_replay {

namespace {

/// Takes the first line off a text, without what ends it.
std::string_view take_line(std::string_view& text) {
  const std::size_t end = text.find('\n');
  std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

std::string_view source_of(trace_format format) {
  switch (format) {
    case trace_format::mooncake:
      return "conversation_trace.jsonl is found in kvcache-ai/Mooncake on GitHub";
    case trace_format::azure:
      return "AzureLLMInferenceTrace_*.csv are found in Azure/AzurePublicDataset on GitHub";
    case trace_format::lengths:
      break;
  }
  return "sharegpt_8k_filtered_stats_llama2_tokenizer.csv is found in microsoft/sarathi-serve on GitHub";
}

}  // namespace

std::int32_t trace::longest() const {
  std::int32_t longest = 0;
  for (const request& request : requests) longest = std::max(longest, request.tokens);
  return longest;
}

std::string_view name_of(trace_format format) {
  switch (format) {
    case trace_format::mooncake:
      return "mooncake";
    case trace_format::azure:
      return "azure";
    case trace_format::lengths:
      break;
  }
  return "lengths";
}

trace_format format_named(std::string_view name) {
  for (const trace_format format : {trace_format::mooncake, trace_format::azure, trace_format::lengths}) {
    if (name == name_of(format)) return format;
  }
  refuse("--format is \"", name, "\", but must be mooncake, azure or lengths");
}

trace read_trace(std::string_view text, trace_format format) {
  trace result{.format = format};
  std::int64_t number = 0;
  std::optional<length_columns> columns;
  if (format != trace_format::mooncake) {
    columns.emplace(take_line(text), format);
    ++number;
  }
  while (!text.empty()) {
    const std::string_view line = take_line(text);
    request request{.line = ++number, .begin = static_cast<std::int64_t>(result.tokens.size())};
    try {
      if (line.empty()) refuse("the line is empty");
      request.tokens = columns ? columns->final_length(line) : append_hash_ids(line, result.tokens);
    } catch (const std::runtime_error& fault) {
      result.malformed.push_back({request.line, fault.what()});
      continue;
    }
    result.requests.push_back(request);
  }
  return result;
}

std::string read_trace_file(const std::string& path, trace_format format) {
  std::ifstream file(path, std::ios::binary);
  try {
    if (file) return {std::istreambuf_iterator<char>(file), {}};
  } catch (const std::ios_base::failure&) {  // a directory
  }
  refuse("--trace is ", path, ", which cannot be read: pass a file of requests; ", source_of(format));
}

std::string describe_malformed(const trace& trace) {
  constexpr std::size_t most_in_full = 20;
  const std::vector<malformed_line>& lines = trace.malformed;
  std::ostringstream text;
  for (std::size_t i = 0; i < std::min(lines.size(), most_in_full); ++i) {
    text << "line " << lines[i].line << " is malformed: " << lines[i].fault << '\n';
  }
  if (lines.size() <= most_in_full) return text.str();
  // A file of another format is malformed throughout. Neighbours are named together, so that no number is lost.
  text << "likewise malformed: ";
  for (std::size_t first = most_in_full, end = first; first < lines.size(); first = end) {
    for (end = first + 1; end < lines.size() && lines[end].line == lines[end - 1].line + 1;) ++end;
    text << (first == most_in_full ? "" : ", ") << (end - first > 1 ? "lines " : "line ") << lines[first].line;
    if (end - first > 1) text << " to " << lines[end - 1].line;
  }
  text << '\n';
  return text.str();
}

}  // namespace pagoda_replay
