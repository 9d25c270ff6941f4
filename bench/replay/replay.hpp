// SPDX-License-Identifier: Apache-2.0
/// @file A trace, given to a block manager.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "progress.hpp"
#include "trace.hpp"

namespace pagoda_replay {

struct replay_settings {
  std::string policy = "lru";
  std::optional<std::int32_t> capacity_blocks{};  ///< none: as many as all requests together ask for
  std::int32_t block_tokens = 16;                 ///< azure and lengths; a block of mooncake is a hash_id
};

/// What a replay gave.
/// Units: blocks, but where it says otherwise.
struct replay_result {
  replay_settings settings{};
  std::int64_t requests = 0;
  std::int64_t lookups = 0;  ///< asked for by match
  std::int64_t hits = 0;     ///< found by match
  std::int64_t evictions = 0;
  std::int64_t not_cached = 0;  ///< of prompts, for which the policy made no room
  std::int64_t blocks = 0;      ///< that hold tokens at the end
  double utilisation = 0;       ///< share of those blocks' slots that hold a token
  /// Requests that held blocks when one came, itself among them: azure and lengths with a limit.
  std::optional<double> mean_running{};
  std::int64_t operations = 0;  ///< lookups, or with azure and lengths requests
  double manager_seconds = 0;   ///< in the manager's calls, its construction left out

  /// No number where nothing was looked up.
  std::optional<double> hit_rate() const;
  double operations_per_second() const;
};

/// The names of the eviction policies.
std::vector<std::string_view> policy_names();

/// Gives all requests, in the order of the file, to a new manager.
///
/// mooncake: each prompt in full is matched, the rest of it planned, committed and published, and the sequence released
/// before the next prompt comes; a token stands for a hash_id, a block for a token. Where the policy makes less room
/// than a prompt needs, as `never` does, the part of it that fits is cached. azure and lengths: each request takes
/// blocks of its own for its final length, all at once, and runs until blocks run short: then those that have run
/// longest end, one after the other, until the new one fits. Without a limit none ends.
///
/// Requires: trace.requests is not empty.
/// Throws:   std::runtime_error if the longest request does not fit the capacity, with the line where it stands, and if
///           all blocks together are more than a manager can have; pagoda::invalid_argument for an unknown policy and
///           for block_tokens that are no power of two.
replay_result replay_trace(const trace& trace, const replay_settings& settings, progress& bar);

}  // namespace pagoda_replay
