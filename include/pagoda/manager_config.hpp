// SPDX-License-Identifier: Apache-2.0
/// @file What a block manager is built from: layer groups and capacities.
#pragma once

#include <cstdint>
#include <vector>

#include <pagoda/retention.hpp>

namespace pagoda {

/// Layers that share one block table: the same retention, one pool of blocks.
struct layer_group {
  std::int32_t num_blocks = 0;
  retention keep{};
  std::vector<std::int32_t> layers{};  ///< the model's layer numbers; may stay empty in a manager of one group
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
};

/// One sequence's part of a step.
struct growth {
  sequence_id sequence{};
  std::int32_t new_tokens = 0;
  std::int32_t queries = -1;  ///< query rows of the step; -1: one for each new token
};

/// Counts of one layer group. Units: blocks, but for tokens.
struct block_stats {
  std::int64_t total = 0;
  std::int64_t free = 0;
  std::int64_t used = 0;
  std::int64_t retiring = 0;
  std::int64_t tokens = 0;  ///< committed and resident, summed over sequences: a shared token counts for each

  friend constexpr bool operator==(const block_stats&, const block_stats&) = default;
};

/// Where a layer of the model lives.
struct layer_location {
  std::int32_t group = 0;
  std::int32_t index = 0;  ///< among the group's layers: the `layer` of the group's storage
};

}  // namespace pagoda
