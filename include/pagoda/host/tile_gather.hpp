// SPDX-License-Identifier: Apache-2.0
/// @file tile_gather: from block tables to tiles of keys and values.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <pagoda/attention/mask.hpp>
#include <pagoda/host/tile_plane.hpp>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"  // clang++ without AVX, at calls that are inlined

namespace pagoda::host::detail {
inline namespace PAGODA_ISA {

/// The keys and values of one sequence, tile by tile: tiles begin at multiples of tile_tokens and hold the tokens that
/// any query of the item sees.
template <class KeyQuantizer, class ValueQuantizer>
class tile_gather {
 public:
  using key_plane = tile_plane<KeyQuantizer>;
  using value_plane = tile_plane<ValueQuantizer>;

  tile_gather(const cache_view<KeyQuantizer, ValueQuantizer>& view, std::int32_t sequence, const visible_keys& keys,
              bool many_query_rows)
      : view_(view),
        sequence_(sequence),
        visible_(keys),
        keys_(view.keys, view.key_scales, view.key_dim, many_query_rows),
        values_(view.values, view.value_scales, view.value_dim, many_query_rows) {}

  std::int64_t scratch_bytes() const noexcept {
    using pagoda::detail::scratch;
    return keys_.scratch_bytes() + values_.scratch_bytes() + 2 * scratch::size_of<std::int64_t>(tile_tokens) +
           scratch::size_of<float>(tile_tokens);
  }
  void take(pagoda::detail::scratch& memory) noexcept {
    keys_.take(memory);
    values_.take(memory);
    positions_ = memory.take<std::int64_t>(tile_tokens);
    next_positions_ = memory.take<std::int64_t>(tile_tokens);
    distance_ = memory.take<float>(tile_tokens);
  }

  /// Finds the first tile of tokens begin to end - 1. No token that no query sees is ever touched.
  void start(std::int64_t begin, std::int64_t end) noexcept {
    end_ = std::min(end, visible_.end);
    collect_from(begin / tile_tokens * tile_tokens);
  }

  /// Goes on to the next tile. Returns false if there is none.
  bool advance() noexcept {
    if (next_count_ == 0) return false;
    keys_.advance();
    values_.advance();
    std::swap(positions_, next_positions_);
    count_ = next_count_;
    collect_from(positions_[0] / tile_tokens * tile_tokens + tile_tokens);
    return true;
  }

  void select_head(std::int64_t head) noexcept {
    keys_.select_head(head, count_);
    values_.select_head(head, count_);
  }

  std::int64_t count() const noexcept { return count_; }
  std::int64_t position(std::int64_t t) const noexcept { return positions_[t]; }
  std::int64_t begin() const noexcept { return positions_[0]; }
  std::int64_t end() const noexcept { return positions_[count_ - 1] + 1; }
  bool contiguous() const noexcept { return end() - begin() == count_; }
  /// Tokens of the tile that comes next; 0 if none does.
  std::int64_t next_count() const noexcept { return next_count_; }
  const key_plane& keys() const noexcept { return keys_; }
  const value_plane& values() const noexcept { return values_; }

  softmax_input softmax_numbers() const noexcept {
    softmax_input in;
    in.key_scales = keys_.scales();
    in.key_offsets = keys_.offsets();
    in.value_scales = values_.scales();
    in.value_offsets = values_.offsets();
    return in;
  }

  /// Key position minus query position for each token, padded.
  const float* distances_from(std::int64_t position) noexcept {
    std::int64_t t = 0;
    for (; t < count_; ++t) distance_[t] = static_cast<float>(positions_[t] - position);
    for (; t % 16 != 0; ++t) distance_[t] = 0;
    return distance_;
  }

 private:
  /// Finds the next tile that holds a visible token, from `begin` on.
  void collect_from(std::int64_t begin) noexcept {
    next_count_ = 0;
    if (begin >= visible_.sinks_end) begin = std::max(begin, visible_.begin / tile_tokens * tile_tokens);
    if (begin >= end_) return;
    const std::int64_t end = std::min(begin + tile_tokens, end_);
    for (std::int64_t token = begin; token < end; ++token) {
      if (!visible_.sees(token)) continue;
      const block_id block = view_.batch.block(sequence_, token >> view_.block_shift);
      const std::int64_t slot = token & (view_.block_size() - 1);
      keys_.locate(next_count_, block, slot);
      values_.locate(next_count_, block, slot);
      next_positions_[next_count_++] = token;
    }
  }

  const cache_view<KeyQuantizer, ValueQuantizer>& view_;
  std::int32_t sequence_;
  visible_keys visible_;
  key_plane keys_;
  value_plane values_;
  std::int64_t* positions_ = nullptr;
  std::int64_t* next_positions_ = nullptr;
  float* distance_ = nullptr;
  std::int64_t end_ = 0;
  std::int64_t count_ = 0;
  std::int64_t next_count_ = 0;
};

}  // namespace PAGODA_ISA
}  // namespace pagoda::host::detail

#pragma GCC diagnostic pop
