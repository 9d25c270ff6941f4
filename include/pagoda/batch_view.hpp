// SPDX-License-Identifier: Apache-2.0
/// @file batch_view: what one step looks like to one layer group.
#pragma once

#include <cstdint>
#include <type_traits>

#include <pagoda/fwd.hpp>
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
  /// [sequences]: where each sequence's table ends in block_table, for kernels that check lengths; null: not known.
  const std::int64_t* table_ends = nullptr;
  std::int32_t sink_blocks = 0;
  std::int32_t block_size = 0;  ///< tokens of a block
  std::int32_t num_blocks = 0;  ///< every table entry lies below it
  retention keep{};
  const cuda::device_work* work = nullptr;  ///< of cuda::step_tables; null: the tables lie in host memory

  std::int32_t sequences() const noexcept { return *num_sequences; }
  std::int32_t context_length(std::int32_t i) const noexcept { return context_lengths[i]; }
  std::int32_t queries(std::int32_t i) const noexcept { return query_offsets[i + 1] - query_offsets[i]; }
  std::int32_t new_tokens(std::int32_t i) const noexcept { return token_offsets[i + 1] - token_offsets[i]; }
  std::int32_t total_queries() const noexcept { return query_offsets[sequences()]; }
  std::int32_t total_new_tokens() const noexcept { return token_offsets[sequences()]; }

  /// Blocks of a sequence that have an entry in the table; negative where the view is broken.
  std::int64_t entries(std::int32_t i) const noexcept {
    return context_lengths[i] == 0 ? 0 : divide_up(context_lengths[i], block_size) - skipped_blocks[i];
  }

  /// The block of a logical block index. Requires: retention has not dropped it.
  PAGODA_HOST_DEVICE block_id block(std::int32_t i, std::int64_t logical) const noexcept {
    return block_table[table_offsets[i] + (logical < sink_blocks ? logical : logical - skipped_blocks[i])];
  }

  /// The same tables, not tables that say the same.
  friend bool operator==(const batch_view&, const batch_view&) = default;
};

static_assert(std::is_trivially_copyable_v<batch_view>);

/// Checks the tables of a batch, for a storage of num_blocks blocks.
/// Throws:     invalid_argument for missing tables, tables in device memory, offsets that do not begin at 0 or that
///             fall, and a context shorter than its new tokens; out_of_range for an entry outside the storage.
/// Complexity: O(sequences + table entries).
inline void validate(const batch_view& batch, std::int32_t block_size, std::int32_t num_blocks) {
  using detail::fail;
  if (batch.num_sequences == nullptr || batch.context_lengths == nullptr || batch.query_offsets == nullptr ||
      batch.token_offsets == nullptr || batch.table_offsets == nullptr || batch.skipped_blocks == nullptr ||
      batch.block_table == nullptr) {
    fail("the view has no batch, or one without all of its tables: make it with view(layer, step)");
  }
  if (batch.work != nullptr) {
    fail("the view's tables are those of a cuda::step_tables, which the host does not read: make the view with ",
         "view(layer, step), or call the function of pagoda::cuda");
  }
  check_range("sink_blocks of the view", batch.sink_blocks, 0, INT32_MAX);
  check_retention(batch.keep);
  const std::int32_t sequences = batch.sequences();
  check_range("sequences of the view", sequences, 0, INT32_MAX);
  if (batch.query_offsets[0] != 0 || batch.token_offsets[0] != 0) {
    fail("the offsets of the view begin at ", batch.query_offsets[0], " (queries) and ", batch.token_offsets[0],
         " (new tokens), but must begin at 0: mend the offsets");
  }
  for (std::int32_t i = 0; i < sequences; ++i) {
    const std::int32_t context = batch.context_length(i);
    if (batch.query_offsets[i + 1] < batch.query_offsets[i] || batch.token_offsets[i + 1] < batch.token_offsets[i]) {
      fail("the offsets of batch entry ", i, " fall: queries from ", batch.query_offsets[i], " to ",
           batch.query_offsets[i + 1], ", new tokens from ", batch.token_offsets[i], " to ", batch.token_offsets[i + 1],
           "; offsets must never decrease: mend them");
    }
    const std::int64_t skipped = batch.skipped_blocks[i];
    if (context < 0 || (context != 0 && context < batch.new_tokens(i)) || skipped < 0) {
      fail("batch entry ", i, " has context length ", context, ", ", batch.new_tokens(i), " new tokens and ", skipped,
           " skipped blocks: the context includes the new tokens, and none is negative; mend the tables");
    }
    const std::int64_t blocks = divide_up(context, block_size);
    for (std::int64_t b = 0; b < blocks; ++b) {
      if (b >= batch.sink_blocks && b < batch.sink_blocks + skipped) continue;
      const auto block = static_cast<std::int32_t>(batch.block(i, b));
      if (block < 0 || block >= num_blocks) {
        fail<out_of_range>("batch entry ", i, " names block ", block, " for its tokens from ", b * block_size,
                           ", but the storage has blocks 0 to ", num_blocks - 1, ": mend the block table");
      }
    }
  }
}

}  // namespace pagoda
