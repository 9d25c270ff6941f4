// SPDX-License-Identifier: Apache-2.0
#include "sweep.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace pagoda_replay {

namespace {

/// Blocks that a manager holds after all requests if it never has to take one back.
std::int64_t distinct_blocks(const trace& trace) {
  progress none(0);
  return replay_trace(trace, {}, none).blocks;
}

std::vector<std::int32_t> usual_capacities(const trace& trace) {
  const std::int64_t low = trace.longest();
  const std::int64_t high = distinct_blocks(trace);
  std::vector<std::int32_t> capacities;
  for (std::int64_t decade = 1; decade < high; decade *= 10) {
    for (const std::int64_t step : {1, 2, 3, 5}) {
      const std::int64_t capacity = step * decade;
      if (capacity >= low && capacity < high) capacities.push_back(static_cast<std::int32_t>(capacity));
    }
  }
  return capacities;
}

}  // namespace

std::vector<replay_result> sweep(const trace& trace, std::vector<std::int32_t> capacities) {
  if (capacities.empty()) capacities = usual_capacities(trace);
  std::vector<std::optional<std::int32_t>> limits(capacities.begin(), capacities.end());
  limits.emplace_back();
  const std::vector<std::string_view> policies = policy_names();
  progress bar(static_cast<std::int64_t>(limits.size() * policies.size() * trace.requests.size()));
  std::vector<replay_result> runs;
  for (const std::optional<std::int32_t>& limit : limits) {
    for (const std::string_view policy : policies) {
      runs.push_back(replay_trace(trace, {.policy = std::string(policy), .capacity_blocks = limit}, bar));
    }
  }
  return runs;
}

}  // namespace pagoda_replay
