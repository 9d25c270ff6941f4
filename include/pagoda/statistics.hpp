// SPDX-License-Identifier: Apache-2.0
/// @file What a block manager counts, and the events by which others learn what it holds.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include <pagoda/shape.hpp>

namespace pagoda {

/// Counts of one layer group; free + cached + used + retiring == total.
/// Units: blocks, but for tokens and slack.
struct block_stats {
  std::int64_t total = 0;
  std::int64_t free = 0;
  std::int64_t cached = 0;  ///< nobody holds them, but the prefix index knows them
  std::int64_t pinned = 0;  ///< of the cached ones, those that are not evicted
  std::int64_t used = 0;
  std::int64_t retiring = 0;
  std::int64_t shared = 0;  ///< of the used ones, those that two sequences or more hold
  std::int64_t tokens = 0;  ///< committed and resident, summed over sequences: a shared token counts for each
  std::int64_t slack = 0;   ///< slots in the tables of sequences without a committed token, summed likewise

  friend constexpr bool operator==(const block_stats&, const block_stats&) = default;
};

/// How often a number fell between two powers of two: counts[0] counts zeros, counts[i] those from 2^(i-1) to 2^i - 1.
struct log2_histogram {
  std::array<std::int64_t, 65> counts{};

  void add(std::uint64_t value) noexcept { ++counts[static_cast<std::size_t>(std::bit_width(value))]; }
  friend bool operator==(const log2_histogram&, const log2_histogram&) = default;
};

/// Everything that a block manager counts, at one moment. Counters begin at 0 with the manager and never fall.
struct manager_stats {
  std::vector<block_stats> groups{};
  std::int64_t sequences = 0;   ///< alive, matches and sequences that an open step keeps included
  std::int64_t open_steps = 0;  ///< planned and neither committed nor destroyed

  std::int64_t plans = 0;         ///< granted
  std::int64_t failed_plans = 0;  ///< for want of blocks; transfers to here included
  std::int64_t rollbacks = 0;     ///< steps destroyed without a commit

  std::int64_t matches = 0;       ///< calls of match
  std::int64_t asked_tokens = 0;  ///< by them
  std::int64_t hit_tokens = 0;    ///< that they found
  std::int64_t lookups = 0;       ///< the blocks of the asked tokens
  std::int64_t hits = 0;          ///< those of the found ones

  std::int64_t stored = 0;           ///< blocks entered in the prefix index
  std::int64_t evictions = 0;        ///< blocks taken out of it to be reused
  log2_histogram eviction_ages{};    ///< of evicted blocks, in lookups since the last use
  log2_histogram reuse_distances{};  ///< different blocks used since the block's last use; with track_reuse only

  std::int64_t copied_blocks = 0;  ///< asked for in copy lists: copy-on-write and transfers from here
  std::int64_t copied_rows = 0;    ///< likewise: accepted paths of token trees
  std::int64_t copied_bytes = 0;   ///< of both, where layer_group::block_bytes says what a block is
};

/// A change of the prefix index. The hashes are those of prefix_hashes, with the manager's prefix_seed.
struct prefix_event {
  enum class kind : std::int32_t {
    stored,   ///< a block of a group holds this content now
    removed,  ///< it does no more
    cleared,  ///< no block holds any content
    lost,     ///< events before this one were lost, since nobody took them in time: forget all, or ask anew
  };

  kind what = kind::stored;
  std::int32_t group = 0;
  block_id block = block_id::none;
  std::int32_t depth = 0;         ///< blocks before it in its prefix
  std::uint64_t hash = 0;         ///< of the content up to and with this block
  std::uint64_t parent_hash = 0;  ///< of the content before it; the seed, if it is the first

  friend bool operator==(const prefix_event&, const prefix_event&) = default;
};

}  // namespace pagoda
