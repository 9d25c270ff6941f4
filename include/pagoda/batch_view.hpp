// SPDX-License-Identifier: Apache-2.0
/// @file batch_view: what one step looks like to one layer group.
#pragma once

#include <cstdint>
#include <type_traits>

#include <pagoda/retention.hpp>

namespace pagoda {

/// The sequences of a step, as pointers to tables that live as long as the step is open. Kernels read every count
/// through them, so that a captured graph serves later steps too.
///
/// Sequence i has context_lengths[i] tokens: the committed ones and, as the last of them, the step's
/// token_offsets[i + 1] - token_offsets[i] new ones. Its queries are rows query_offsets[i] to query_offsets[i + 1] - 1
/// of the step's query tensor and sit at its last positions. A cancelled sequence has context length 0.
///
/// Token t lies in logical block b = t / block_size, whose id is
/// block_table[table_offsets[i] + (b < sink_blocks ? b : b - skipped_blocks[i])]: the blocks that retention dropped,
/// between the sinks and the window, have no entry.
struct batch_view {
  const std::int32_t* num_sequences = nullptr;    ///< one number
  const std::int32_t* context_lengths = nullptr;  ///< [sequences]
  const std::int32_t* query_offsets = nullptr;    ///< [sequences + 1]
  const std::int32_t* token_offsets = nullptr;    ///< [sequences + 1]
  const std::int64_t* table_offsets = nullptr;    ///< [sequences]
  const std::int32_t* skipped_blocks = nullptr;   ///< [sequences]
  const block_id* block_table = nullptr;
  std::int32_t sink_blocks = 0;
  std::int32_t block_size = 0;  ///< tokens of a block
  std::int32_t num_blocks = 0;  ///< every table entry lies below it
  retention keep{};

  std::int32_t sequences() const noexcept { return *num_sequences; }
  std::int32_t context_length(std::int32_t i) const noexcept { return context_lengths[i]; }
  std::int32_t queries(std::int32_t i) const noexcept { return query_offsets[i + 1] - query_offsets[i]; }
  std::int32_t new_tokens(std::int32_t i) const noexcept { return token_offsets[i + 1] - token_offsets[i]; }
  std::int32_t total_queries() const noexcept { return query_offsets[sequences()]; }
  std::int32_t total_new_tokens() const noexcept { return token_offsets[sequences()]; }

  /// The block of a logical block index. Requires: retention has not dropped it.
  PAGODA_HOST_DEVICE block_id block(std::int32_t i, std::int64_t logical) const noexcept {
    return block_table[table_offsets[i] + (logical < sink_blocks ? logical : logical - skipped_blocks[i])];
  }
};

static_assert(std::is_trivially_copyable_v<batch_view>);

}  // namespace pagoda
