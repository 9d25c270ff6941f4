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

  /// Whether the values are the beginning of the key rows, as values_in_keys<N> says: then nobody writes them.
  PAGODA_HOST_DEVICE bool values_lie_in_keys() const noexcept { return values.base == keys.base; }
};

static_assert(std::is_trivially_copyable_v<cache_view<struct any_quantizer, struct any_quantizer>>);
static_assert(sizeof(cache_view<struct any_quantizer, struct any_quantizer>) <= 512, "kernel arguments are limited");

/// Checks the sizes of a view, without a look at its tables.
/// Throws: invalid_argument for sizes that no storage has.
template <class KeyQuantizer, class ValueQuantizer>
void check_view(const cache_view<KeyQuantizer, ValueQuantizer>& view) {
  check_shape({.kv_heads = view.kv_heads, .head_dim = view.key_dim, .value_head_dim = view.value_dim});
  check_range("block_shift of the view", view.block_shift, 0, 16);
}

/// Checks a view and the tables that it names: what attention and append would otherwise trust. They call it
/// themselves.
/// Throws:     invalid_argument for sizes that no storage has; and as validate of a batch_view.
/// Complexity: O(sequences + table entries).
template <class KeyQuantizer, class ValueQuantizer>
void validate(const cache_view<KeyQuantizer, ValueQuantizer>& view) {
  check_view(view);
  validate(view.batch, view.block_size(), view.num_blocks);
}

}  // namespace pagoda
