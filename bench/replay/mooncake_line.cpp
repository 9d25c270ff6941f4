// SPDX-License-Identifier: Apache-2.0
#include <limits>
#include <string>

#include <nlohmann/json.hpp>

#include "error.hpp"
#include "trace_lines.hpp"

namespace pagoda_replay {

namespace {

using nlohmann::json;

constexpr std::int32_t largest_id = std::numeric_limits<std::int32_t>::max();

json parse(std::string_view line) {
  try {
    return json::parse(line);
  } catch (const json::parse_error& error) {
    refuse("no JSON from byte ", error.byte, " on: ", quoted(line));
  } catch (const json::out_of_range&) {
    refuse("a number is too large for JSON: ", quoted(line));
  }
}

/// A value as a message shows it: lists and objects may be nested deeper than the stack is.
std::string shown(const json& value) {
  if (value.is_structured()) return value.is_array() ? "a list" : "an object";
  return pagoda_replay::quoted(value.dump(-1, ' ', false, json::error_handler_t::replace));
}

std::int32_t token_of(const json& id) {
  if (!id.is_number_unsigned() || id.get<std::uint64_t>() > std::uint64_t{largest_id}) {
    refuse("a hash_id is ", shown(id), ", but must be a whole number from 0 to ", largest_id);
  }
  return id.get<std::int32_t>();
}

}  // namespace

std::int32_t append_hash_ids(std::string_view line, std::vector<std::int32_t>& tokens) {
  const json object = parse(line);
  const auto ids = object.find("hash_ids");  // of anything but an object, the end
  if (ids == object.end() || !ids->is_array()) refuse("no object with a list \"hash_ids\": ", quoted(line));
  if (ids->empty()) refuse("\"hash_ids\" is empty, but a prompt has a block at least");
  for (const json& id : *ids) tokens.push_back(token_of(id));
  return static_cast<std::int32_t>(ids->size());
}

}  // namespace pagoda_replay
