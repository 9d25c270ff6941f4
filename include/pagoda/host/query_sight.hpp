// SPDX-License-Identifier: Apache-2.0
/// @file query_sight: which tokens of a tile each query of an item sees.
#pragma once

#include <cstdint>

#include <pagoda/attention/options.hpp>
#include <pagoda/attention/work_plan.hpp>
#include <pagoda/batch_view.hpp>
#include <pagoda/detail/scratch.hpp>
#include <pagoda/host/tile_kernels.hpp>

namespace pagoda::host::detail {
inline namespace PAGODA_ISA {

/// Neighbouring tokens of a tile, begin to end - 1.
struct token_run {
  std::int32_t begin;
  std::int32_t end;
};

/// What one query sees of a tile.
struct tile_sight {
  const std::int32_t* mask = nullptr;  ///< [tile_tokens], all ones where it sees the token; null: it sees all
  const token_run* runs = nullptr;     ///< the same as runs, in order
  std::int32_t count = 0;              ///< of the runs
};

/// Memory for one tile_sight.
class sight_buffer {
 public:
  static std::int64_t scratch_bytes() noexcept {
    using pagoda::detail::scratch;
    return scratch::size_of<std::int32_t>(tile_tokens) + scratch::size_of<token_run>(max_runs);
  }
  void take(pagoda::detail::scratch& memory) noexcept {
    mask_ = memory.take<std::int32_t>(tile_tokens);
    runs_ = memory.take<token_run>(max_runs);
  }

  tile_sight everything(std::int64_t count) noexcept {
    runs_[0] = {0, static_cast<std::int32_t>(count)};
    return {nullptr, runs_, 1};
  }

  /// What `sees(token of the tile)` says of each.
  template <class Sees>
  tile_sight look(std::int64_t count, Sees&& sees) noexcept {
    std::int32_t runs = 0;
    bool open = false;
    for (std::int64_t t = 0; t < count; ++t) {
      const bool seen = sees(t);
      mask_[t] = seen ? -1 : 0;
      const auto at = static_cast<std::int32_t>(t);
      if (seen && !open) runs_[runs] = {at, at};
      if (!seen && open) runs_[runs++].end = at;
      open = seen;
    }
    if (open) runs_[runs++].end = static_cast<std::int32_t>(count);
    for (std::int64_t t = count; t % 16 != 0; ++t) mask_[t] = 0;
    if (runs == 1 && runs_[0].begin == 0 && runs_[0].end == count) return {nullptr, runs_, 1};
    return {mask_, runs_, runs};
  }

 private:
  static constexpr std::int64_t max_runs = tile_tokens / 2 + 1;

  std::int32_t* mask_ = nullptr;
  token_run* runs_ = nullptr;
};

/// The queries of one item before the tiles of a gather.
class query_sight {
 public:
  query_sight(const batch_view& batch, const resolved_options& how, const work_item& item)
      : how_(how),
        context_(batch.context_length(item.sequence)),
        first_new_(context_ - batch.new_tokens(item.sequence)),
        first_position_(context_ - batch.queries(item.sequence) + item.query_begin),
        first_query_row_(batch.query_offsets[item.sequence] + item.query_begin),
        queries_(item.query_end - item.query_begin) {}

  static std::int64_t scratch_bytes() noexcept { return sight_buffer::scratch_bytes(); }
  void take(pagoda::detail::scratch& memory) noexcept { buffer_.take(memory); }

  std::int64_t position(std::int64_t query) const noexcept { return first_position_ + query; }

  tile_sight everything(std::int64_t count) noexcept { return buffer_.everything(count); }

  /// What a query sees of the tile. Valid until the next call.
  template <class Gather>
  tile_sight look(const Gather& tile, std::int64_t query) noexcept {
    const visible_keys visible = how_.mask.visible(position(query), context_);
    if (!in_tree(tile) && tile.contiguous() && visible.covers(tile.begin(), tile.end())) {
      return buffer_.everything(tile.count());
    }
    return buffer_.look(tile.count(), [&](std::int64_t t) {
      const std::int64_t key = tile.position(t);
      if (how_.tree.empty() || key < first_new_) return visible.sees(key);
      return how_.tree.sees(first_query_row_ + query, key - first_new_);
    });
  }

  /// Whether several queries all see the whole tile, and need the same numbers.
  template <class Gather>
  bool alike(const Gather& tile) const noexcept {
    if (queries_ == 1 || how_.alibi_slopes != nullptr || !tile.contiguous() || in_tree(tile)) return false;
    return how_.mask.visible(position(0), context_).covers(tile.begin(), tile.end()) &&
           how_.mask.visible(position(queries_ - 1), context_).covers(tile.begin(), tile.end());
  }

 private:
  template <class Gather>
  bool in_tree(const Gather& tile) const noexcept {
    return !how_.tree.empty() && tile.end() > first_new_;
  }

  const resolved_options& how_;
  std::int64_t context_;
  std::int64_t first_new_;
  std::int64_t first_position_;
  std::int64_t first_query_row_;
  std::int64_t queries_;
  sight_buffer buffer_;
};

}  // namespace PAGODA_ISA
}  // namespace pagoda::host::detail
