// SPDX-License-Identifier: Apache-2.0
#include "report.hpp"

#include <iomanip>
#include <sstream>

#include <nlohmann/json.hpp>

namespace pagoda_replay {

namespace {

using nlohmann::ordered_json;

template <class T>
ordered_json or_null(const std::optional<T>& value) {
  return value ? ordered_json(*value) : ordered_json(nullptr);
}

ordered_json json_of(const std::string& path, const trace& trace) {
  return {{"trace", path},
          {"format", name_of(trace.format)},
          {"requests", trace.requests.size()},
          {"skipped_lines", trace.malformed.size()}};
}

ordered_json json_of(const replay_result& result) {
  return {{"policy", result.settings.policy},
          {"capacity_blocks", or_null(result.settings.capacity_blocks)},
          {"block_tokens", result.settings.block_tokens},
          {"lookups", result.lookups},
          {"hits", result.hits},
          {"hit_rate", or_null(result.hit_rate())},
          {"evictions", result.evictions},
          {"not_cached", result.not_cached},
          {"blocks", result.blocks},
          {"utilisation", result.utilisation},
          {"mean_running", or_null(result.mean_running)},
          {"ops_per_second", result.operations_per_second()},
          {"manager_seconds", result.manager_seconds}};
}

/// A path may hold bytes that are no text.
std::string written(const ordered_json& json) {
  return json.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

std::string fixed(double value, int digits) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(digits) << value;
  return text.str();
}

std::string capacity_text(const replay_result& result) {
  return result.settings.capacity_blocks ? std::to_string(*result.settings.capacity_blocks) : "unlimited";
}

}  // namespace

std::string report_table(const std::string& path, const trace& trace, const replay_result& result) {
  std::ostringstream table;
  const auto row = [&](const char* name, const auto& value) {
    table << std::left << std::setw(24) << name << value << '\n';
  };
  row("trace", path);
  row("format", name_of(trace.format));
  row("requests", result.requests);
  row("skipped lines", trace.malformed.size());
  row("capacity in blocks", capacity_text(result));
  row("tokens of a block", result.settings.block_tokens);
  if (trace.format == trace_format::mooncake) {
    row("policy", result.settings.policy);
    row("lookups", result.lookups);
    row("hits", result.hits);
    row("hit rate", fixed(result.hit_rate().value_or(0), 4));
    row("evictions", result.evictions);
    row("not cached", result.not_cached);
  } else if (result.mean_running) {
    row("mean running requests", fixed(*result.mean_running, 1));
  }
  row("blocks", result.blocks);
  row("utilisation", fixed(result.utilisation, 6));
  row("operations a second", fixed(result.operations_per_second(), 0));
  row("manager time", fixed(1e3 * result.manager_seconds, 2) + " ms");
  return table.str();
}

std::string report_json(const std::string& path, const trace& trace, const replay_result& result) {
  ordered_json json = json_of(path, trace);
  json.update(json_of(result));
  return written(json);
}

std::string sweep_table(const std::vector<replay_result>& runs) {
  std::ostringstream table;
  table << "| capacity in blocks |";
  std::string rule = "|---|";
  for (const std::string_view name : policy_names()) {
    table << ' ' << name << " |";
    rule += "---|";
  }
  table << '\n' << rule;
  std::string row;
  for (const replay_result& run : runs) {
    if (capacity_text(run) != row) table << "\n| " << (row = capacity_text(run)) << " |";
    table << ' ' << fixed(run.hit_rate().value_or(0), 4) << " |";
  }
  table << '\n';
  return table.str();
}

std::string sweep_json(const std::string& path, const trace& trace, const std::vector<replay_result>& runs) {
  ordered_json json = json_of(path, trace);
  json["runs"] = ordered_json::array();
  for (const replay_result& run : runs) json["runs"].push_back(json_of(run));
  return written(json);
}

}  // namespace pagoda_replay
