// SPDX-License-Identifier: Apache-2.0
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

/// The library's sentence without the name of its exception.
std::string_view reason_of(const json::exception& error) {
  const std::string_view text = error.what();
  const std::size_t end = text.find("] ");
  return end == std::string_view::npos ? text : text.substr(end + 2);
}

json parse(std::string_view text) {
  std::string benchmark;  // a benchmark begins with its name
  bool is_name = false;
  const auto note = [&](int, json::parse_event_t event, const json& parsed) {
    if (event == json::parse_event_t::value && is_name && parsed.is_string()) benchmark = parsed.get<std::string>();
    is_name = event == json::parse_event_t::key && parsed == "name";
    return true;
  };
  try {
    return json::parse(text, note);
  } catch (const json::parse_error& error) {
    refuse("the input is no JSON, see byte ", error.byte, ": pass what pagoda_bench --benchmark_format=json prints");
  } catch (const json::exception& error) {
    refuse(benchmark.empty() ? "the input" : "benchmark \"" + benchmark + "\"", ": ", reason_of(error),
           ": run it again, or mend the number");
  }
}

/// A member that is a string; empty if there is none.
std::string text_of(const json& entry, const char* key) {
  const auto found = entry.find(key);
  return found != entry.end() && found->is_string() ? found->get<std::string>() : std::string();
}

/// A value as a message shows it: lists and objects may be long, and nested deeper than the stack is.
std::string shown(const json& value) {
  return value.is_array() ? "a list" : value.is_object() ? "an object" : value.dump();
}

/// "int8" of "kv:int8" in "decode/host/kv:int8/group:4/...".
std::string axis_of(const std::string& name, const std::string& key) {
  const std::size_t at = ("/" + name).find("/" + key + ":");
  if (at == std::string::npos) refuse("benchmark \"", name, "\" has no \"", key, ":\" in its name: match others");
  const std::size_t begin = at + key.size() + 1;
  return name.substr(begin, name.find('/', begin) - begin);
}

constexpr double least_counter = 1;
constexpr double most_counter = 1e18;
constexpr double least_intensity = 1e-6;
constexpr double most_intensity = 1e6;

double counter_of(const json& entry, const std::string& name, const char* key) {
  const auto found = entry.find(key);
  if (found == entry.end()) {
    refuse("benchmark \"", name, "\" has no counter \"", key, "\": match benchmarks of decode attention");
  }
  if (!found->is_number() || !(found->get<double>() >= least_counter && found->get<double>() <= most_counter)) {
    refuse("counter \"", key, "\" of benchmark \"", name, "\" is ", shown(*found), ", but must be a number from ",
           least_counter, " to ", most_counter, ": run it again, or leave it out with another --match");
  }
  return found->get<double>();
}

/// Where on the picture's axis something lies. Throws: std::runtime_error if no machine has it.
void check_intensity(const std::string& name, const char* flops_key, double flops, const char* bytes_key,
                     double bytes) {
  if (const double intensity = flops / bytes; !(intensity >= least_intensity && intensity <= most_intensity)) {
    refuse("benchmark \"", name, "\" has \"", flops_key, "\" ", flops, " and \"", bytes_key, "\" ", bytes,
           ", which is ", intensity, " flop per byte, but it must lie between ", least_intensity, " and ",
           most_intensity, ": run it again, or leave it out with another --match");
  }
}

void check_succeeded(const json& entry, const std::string& name) {
  const auto failed = entry.find("error_occurred");
  if (failed == entry.end()) return;
  if (!failed->is_boolean()) {
    refuse("\"error_occurred\" of benchmark \"", name, "\" is ", shown(*failed),
           ", but must be true or false: run it again, or mend it");
  }
  if (failed->get<bool>()) {
    refuse("benchmark \"", name, "\" failed: ", text_of(entry, "error_message"),
           ": run it again, or leave it out with another --match");
  }
}

roofline_point point_of(const json& entry, const std::string& name) {
  check_succeeded(entry, name);
  const roofline_point point{.kv = axis_of(name, "kv"),
                             .group = axis_of(name, "group"),
                             .flops = counter_of(entry, name, "flops"),
                             .bytes = counter_of(entry, name, "bytes_per_second"),
                             .read_probe = counter_of(entry, name, "read_probe"),
                             .fma_peak = counter_of(entry, name, "fma_peak")};
  check_intensity(name, "flops", point.flops, "bytes_per_second", point.bytes);
  check_intensity(name, "fma_peak", point.fma_peak, "read_probe", point.read_probe);
  return point;
}

}  // namespace

std::vector<roofline_point> read_points(std::string_view text, std::string_view match) {
  const json document = parse(text);
  if (!document.is_object() || !document.contains("benchmarks") || !document["benchmarks"].is_array()) {
    refuse("the input has no list \"benchmarks\": pass what pagoda_bench --benchmark_format=json prints");
  }
  bool has_medians = false;
  for (const json& entry : document["benchmarks"]) {
    if (!entry.is_object()) {
      refuse("an entry of \"benchmarks\" is ", shown(entry),
             ", but must be an object: pass what pagoda_bench --benchmark_format=json prints");
    }
    has_medians = has_medians || text_of(entry, "aggregate_name") == "median";
  }
  std::vector<roofline_point> points;
  std::set<std::pair<std::string, std::string>> seen;
  for (const json& entry : document["benchmarks"]) {
    const std::string name = text_of(entry, "run_name").empty() ? text_of(entry, "name") : text_of(entry, "run_name");
    if (name.find(match) == std::string::npos) continue;
    if (has_medians ? text_of(entry, "aggregate_name") != "median" : text_of(entry, "run_type") == "aggregate")
      continue;
    points.push_back(point_of(entry, name));
    if (!seen.emplace(points.back().kv, points.back().group).second) {
      refuse("two benchmarks are of kv ", points.back().kv, " and group ", points.back().group, ", the second is \"",
             name, "\": pass a longer --match, or run each benchmark once");
    }
  }
  if (points.empty()) refuse("no benchmark has \"", match, "\" in its name: pass another --match");
  return points;
}
