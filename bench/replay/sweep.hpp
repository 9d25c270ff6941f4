// SPDX-License-Identifier: Apache-2.0
/// @file A Mooncake trace with every policy at several capacities.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "replay.hpp"

namespace pagoda_replay {

/// Runs of all policies at one capacity after the other, the last of them without a limit. No capacities: 1, 2, 3 and 5
/// times each power of ten, from what the longest request needs to less than what all of them need.
/// Requires: the trace has the format mooncake and requests; the capacities rise.
/// Throws:   std::runtime_error for a capacity that the longest request does not fit.
std::vector<replay_result> sweep(const trace& trace, std::vector<std::int32_t> capacities);

/// An SVG document: the hit rate over the capacity, which is logarithmic, a line for each policy.
/// Requires: runs as sweep returns them.
std::string draw_sweep(const std::vector<replay_result>& runs);

}  // namespace pagoda_replay
