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

/// Checks the tables that a view names: what attention and append would otherwise trust.
/// Throws:     out_of_range for a table entry outside the pool; invalid_argument for offsets that fall or a context
///             shorter than its new tokens.
/// Complexity: O(sequences + table entries).
template <class KeyQuantizer, class ValueQuantizer>
void validate(const cache_view<KeyQuantizer, ValueQuantizer>& view) {
  const batch_view& batch = view.batch;
  const std::int32_t sequences = batch.sequences();
  check_range("sequences of the view", sequences, 0, INT32_MAX);
  for (std::int32_t i = 0; i < sequences; ++i) {
    const std::int32_t context = batch.context_length(i);
    if (batch.queries(i) < 0 || batch.new_tokens(i) < 0) {
      detail::fail("the offsets of batch entry ", i, " fall: queries ", batch.queries(i), ", new tokens ",
                   batch.new_tokens(i), "; offsets must never decrease");
    }
    if (context < 0 || (context != 0 && context < batch.new_tokens(i))) {
      detail::fail("batch entry ", i, " has context length ", context, " and ", batch.new_tokens(i),
                   " new tokens: the context includes them");
    }
    const std::int64_t blocks = divide_up(context, view.block_size());
    for (std::int64_t b = 0; b < blocks; ++b) {
      if (b >= batch.sink_blocks && b < batch.sink_blocks + batch.skipped_blocks[i]) continue;
      const auto block = static_cast<std::int32_t>(batch.block(i, b));
      if (block < 0 || block >= view.num_blocks) {
        detail::fail<out_of_range>("batch entry ", i, " names block ", block, " for its tokens from ",
                                   b << view.block_shift, ", but the storage has blocks 0 to ", view.num_blocks - 1);
      }
    }
  }
}

}  // namespace pagoda
