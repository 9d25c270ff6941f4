// SPDX-License-Identifier: Apache-2.0
/// @file cache_view: the only thing that an attention function or a kernel sees of a cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <pagoda/batch_view.hpp>
#include <pagoda/fwd.hpp>
#include <pagoda/quantizer.hpp>

namespace pagoda {

/// Where one kind of row lies in the pool. Units: bytes.
struct plane_view {
  std::byte* base = nullptr;
  std::int64_t block_stride = 0;
  std::int64_t head_stride = 0;
  std::int64_t slot_stride = 0;
  std::int64_t chunk_stride = 0;  ///< between the 16-byte chunks of a row; 16 where a row is contiguous

  /// The first byte of the row of (block, head, slot). 64-bit throughout: pools are larger than 4 GiB.
  PAGODA_HOST_DEVICE std::byte* row(block_id block, std::int64_t head, std::int64_t slot) const noexcept {
    return base + static_cast<std::int64_t>(block) * block_stride + head * head_stride + slot * slot_stride;
  }
};

/// One layer of a cache, as the sequences of one step see it. Trivially copyable and non-owning; valid while the step
/// is open. Everything but the quantizers is a run-time value.
template <class KeyQuantizer, class ValueQuantizer>
struct cache_view {
  using key_quantizer = KeyQuantizer;
  using value_quantizer = ValueQuantizer;

  plane_view keys{};
  plane_view values{};
  plane_view key_scales{};
  plane_view value_scales{};
  batch_view batch{};
  std::int32_t kv_heads = 0;
  std::int32_t key_dim = 0;
  std::int32_t value_dim = 0;
  std::int32_t block_shift = 0;  ///< log2 of the block size
  std::int32_t num_blocks = 0;

  PAGODA_HOST_DEVICE std::int32_t block_size() const noexcept { return std::int32_t{1} << block_shift; }
};

static_assert(std::is_trivially_copyable_v<cache_view<struct any_quantizer, struct any_quantizer>>);
static_assert(sizeof(cache_view<struct any_quantizer, struct any_quantizer>) <= 512, "kernel arguments are limited");

/// Checks a view and the tables that it names: what attention and append would otherwise trust. They call it
/// themselves. Throws:     invalid_argument for a view without a batch, sizes that no storage has, offsets that do not
/// begin at 0 or
///             that fall, and a context shorter than its new tokens; out_of_range for a table entry outside the pool.
/// Complexity: O(sequences + table entries).
template <class KeyQuantizer, class ValueQuantizer>
void validate(const cache_view<KeyQuantizer, ValueQuantizer>& view) {
  using detail::fail;
  const batch_view& batch = view.batch;
  if (batch.num_sequences == nullptr || batch.context_lengths == nullptr || batch.query_offsets == nullptr ||
      batch.token_offsets == nullptr || batch.table_offsets == nullptr || batch.skipped_blocks == nullptr ||
      batch.block_table == nullptr) {
    fail("the view has no batch, or one without all of its tables: make it with view(layer, step)");
  }
  check_shape({.kv_heads = view.kv_heads, .head_dim = view.key_dim, .value_head_dim = view.value_dim});
  check_range("block_shift of the view", view.block_shift, 0, 16);
  check_range("sink_blocks of the view", batch.sink_blocks, 0, INT32_MAX);
  check_retention(batch.keep);
  const std::int32_t sequences = batch.sequences();
  check_range("sequences of the view", sequences, 0, INT32_MAX);
  if (batch.query_offsets[0] != 0 || batch.token_offsets[0] != 0) {
    fail("the offsets of the view begin at ", batch.query_offsets[0], " (queries) and ", batch.token_offsets[0],
         " (new tokens), but must begin at 0");
  }
  for (std::int32_t i = 0; i < sequences; ++i) {
    const std::int32_t context = batch.context_length(i);
    if (batch.query_offsets[i + 1] < batch.query_offsets[i] || batch.token_offsets[i + 1] < batch.token_offsets[i]) {
      fail("the offsets of batch entry ", i, " fall: queries from ", batch.query_offsets[i], " to ",
           batch.query_offsets[i + 1], ", new tokens from ", batch.token_offsets[i], " to ", batch.token_offsets[i + 1],
           "; offsets must never decrease");
    }
    const std::int64_t skipped = batch.skipped_blocks[i];
    if (context < 0 || (context != 0 && context < batch.new_tokens(i)) || skipped < 0) {
      fail("batch entry ", i, " has context length ", context, ", ", batch.new_tokens(i), " new tokens and ", skipped,
           " skipped blocks: the context includes the new tokens, and none is negative");
    }
    const std::int64_t blocks = divide_up(context, view.block_size());
    for (std::int64_t b = 0; b < blocks; ++b) {
      if (b >= batch.sink_blocks && b < batch.sink_blocks + skipped) continue;
      const auto block = static_cast<std::int32_t>(batch.block(i, b));
      if (block < 0 || block >= view.num_blocks) {
        fail<out_of_range>("batch entry ", i, " names block ", block, " for its tokens from ", b << view.block_shift,
                           ", but the storage has blocks 0 to ", view.num_blocks - 1, ": mend the block table");
      }
    }
  }
}

}  // namespace pagoda
