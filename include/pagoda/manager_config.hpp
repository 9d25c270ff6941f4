// SPDX-License-Identifier: Apache-2.0
/// @file What a block manager is built from: layer groups and capacities.
#pragma once

#include <cstdint>
#include <vector>

#include <pagoda/eviction.hpp>
#include <pagoda/retention.hpp>

namespace pagoda {

/// Layers that share one block table: the same retention, one pool of blocks.
struct layer_group {
  std::int32_t num_blocks = 0;
  retention keep{};
  std::vector<std::int32_t> layers{};  ///< the model's layer numbers; may stay empty in a manager of one group
  std::int64_t block_bytes = 0;        ///< of a block in all layers of the group: statistics count bytes with it
};

/// Which released blocks may be given out again.
enum class reuse_rule {
  stream_ordered,  ///< at once: all work runs in the order of the calls (the host; one CUDA stream)
  on_completion,   ///< after complete() of the latest ticket issued before the release
};

/// Capacities are fixed at construction, so that the steady state allocates nothing.
struct manager_config {
  std::vector<layer_group> groups{};
  std::int32_t block_size = 16;          ///< tokens of a block: a power of two
  std::int32_t max_sequences = 256;      ///< alive at once
  std::int32_t max_batch = 0;            ///< sequences in one step; 0: max_sequences
  std::int32_t max_open_steps = 1;       ///< planned and neither committed nor destroyed
  std::int64_t max_resident_tokens = 0;  ///< of one sequence in one group; sizes the block tables; 0: the whole pool
  reuse_rule reuse = reuse_rule::stream_ordered;
  std::uint64_t prefix_seed = 0;       ///< of the hashes that find prefixes; no result depends on it
  std::int32_t prefix_hash_bits = 64;  ///< fewer make collisions, for tests
  std::int32_t max_events = 0;         ///< prefix events kept until they are taken
  bool track_reuse = false;            ///< fill manager_stats::reuse_distances; costs O(log blocks) for each block used
};

/// What a cached block is worth, to policies that ask for it; pins hold under every policy.
struct block_advice {
  std::int32_t priority = default_priority;  ///< 0 (goes first) to highest_priority
  std::int64_t expires = never_expires;      ///< logical time from which it counts as priority 0
  bool pinned = false;                       ///< never evicted

  friend constexpr bool operator==(const block_advice&, const block_advice&) = default;
};

/// One sequence's part of a step.
struct growth {
  sequence_id sequence{};
  std::int32_t new_tokens = 0;
  std::int32_t queries = -1;  ///< query rows of the step; -1: one for each new token
};

/// Where a layer of the model lives.
struct layer_location {
  std::int32_t group = 0;
  std::int32_t index = 0;  ///< among the group's layers: the `layer` of the group's storage
};

}  // namespace pagoda
