// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <set>
#include <sstream>
#include <stdexcept>
#include <utility>

#include <nlohmann/json.hpp>

#include "roofline.hpp"

namespace {

using nlohmann::json;

template <class... Parts>
[[noreturn]] void refuse(const Parts&... parts) {
  std::ostringstream sentence;
  (sentence << ... << parts);
  throw std::runtime_error(sentence.str());
}

json parse(std::string_view text) {
  try {
    return json::parse(text);
  } catch (const json::parse_error& error) {
    refuse("the input is no JSON, see byte ", error.byte, ": pass what pagoda_bench --benchmark_format=json prints");
  }
}

/// A member that is a string; empty if there is none.
std::string text_of(const json& entry, const char* key) {
  const auto found = entry.find(key);
  return found != entry.end() && found->is_string() ? found->get<std::string>() : std::string();
}

/// "int8" of "kv:int8" in "decode/host/kv:int8/group:4/...".
std::string axis_of(const std::string& name, const std::string& key) {
  const std::size_t at = ("/" + name).find("/" + key + ":");
  if (at == std::string::npos) refuse("benchmark \"", name, "\" has no \"", key, ":\" in its name: match others");
  const std::size_t begin = at + key.size() + 1;
  return name.substr(begin, name.find('/', begin) - begin);
}

double counter_of(const json& entry, const std::string& name, const char* key) {
  const auto found = entry.find(key);
  if (found == entry.end()) {
    refuse("benchmark \"", name, "\" has no counter \"", key, "\": match benchmarks of decode attention");
  }
  if (!found->is_number() || !(found->get<double>() > 0) || !std::isfinite(found->get<double>())) {
    refuse("counter \"", key, "\" of benchmark \"", name, "\" is ", found->dump(), ", but must be a positive number");
  }
  return found->get<double>();
}

}  // namespace

std::vector<roofline_point> read_points(std::string_view text, std::string_view match) {
  const json document = parse(text);
  if (!document.is_object() || !document.contains("benchmarks") || !document["benchmarks"].is_array()) {
    refuse("the input has no list \"benchmarks\": pass what pagoda_bench --benchmark_format=json prints");
  }
  bool has_medians = false;
  for (const json& entry : document["benchmarks"]) {
    if (!entry.is_object()) refuse("an entry of \"benchmarks\" is ", entry.dump(), ", but must be an object");
    has_medians = has_medians || text_of(entry, "aggregate_name") == "median";
  }
  std::vector<roofline_point> points;
  std::set<std::pair<std::string, std::string>> seen;
  for (const json& entry : document["benchmarks"]) {
    const std::string name = text_of(entry, "run_name").empty() ? text_of(entry, "name") : text_of(entry, "run_name");
    if (name.find(match) == std::string::npos) continue;
    if (has_medians ? text_of(entry, "aggregate_name") != "median" : text_of(entry, "run_type") == "aggregate")
      continue;
    if (entry.value("error_occurred", false)) {
      refuse("benchmark \"", name, "\" failed: ", text_of(entry, "error_message"));
    }
    points.push_back({.kv = axis_of(name, "kv"),
                      .group = axis_of(name, "group"),
                      .flops = counter_of(entry, name, "flops"),
                      .bytes = counter_of(entry, name, "bytes_per_second"),
                      .read_probe = counter_of(entry, name, "read_probe"),
                      .fma_peak = counter_of(entry, name, "fma_peak")});
    if (!seen.emplace(points.back().kv, points.back().group).second) {
      refuse("two benchmarks are of kv ", points.back().kv, " and group ", points.back().group, ", the second is \"",
             name, "\": pass a longer --match, or run each benchmark once");
    }
  }
  if (points.empty()) refuse("no benchmark has \"", match, "\" in its name: pass another --match");
  return points;
}
