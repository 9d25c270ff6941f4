// SPDX-License-Identifier: Apache-2.0
/// @file What a replay gave, as a table for people and as JSON.
#pragma once

#include <string>
#include <vector>

#include "replay.hpp"
#include "trace.hpp"

namespace pagoda_replay {

/// One run, a figure a line.
std::string report_table(const std::string& path, const trace& trace, const replay_result& result);

/// One run, as a JSON object. hit_rate is null where nothing was looked up, capacity_blocks and mean_running without
/// a limit, mean_running for mooncake, too.
std::string report_json(const std::string& path, const trace& trace, const replay_result& result);

/// Hit rates of several runs, as a table in Markdown: a row for each capacity, a column for each policy.
std::string sweep_table(const std::vector<replay_result>& runs);

/// Several runs, as a JSON object with a list `runs` of objects as in report_json.
std::string sweep_json(const std::string& path, const trace& trace, const std::vector<replay_result>& runs);

}  // namespace pagoda_replay
