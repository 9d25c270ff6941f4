// SPDX-License-Identifier: Apache-2.0
/// @file How one attention call is cut into items that run independently.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include <pagoda/attention/mask.hpp>
#include <pagoda/batch_view.hpp>

namespace pagoda {

/// Chunks are cut at fixed absolute positions, never by the batch or the machine, and merged in order: so a row's
/// result does not depend on its neighbours, on the number of threads, or on how many chunks an item takes.
inline constexpr std::int64_t chunk_tokens = 512;

/// Query rows of one sequence and some kv heads against the chunks from chunk_begin on.
struct work_item {
  std::int32_t sequence;
  std::int32_t query_begin;  ///< among the sequence's queries
  std::int32_t query_end;
  std::int32_t head_begin;  ///< kv heads
  std::int32_t head_end;
  std::int32_t chunk_begin;
  std::int32_t chunk_end;
  std::int64_t partial;  ///< where its partial result goes; -1: the item sees all keys and writes the output itself
};

/// Queries whose partial results have to be merged.
struct merge_item {
  std::int32_t sequence;
  std::int32_t query_begin;
  std::int32_t query_end;
  std::int64_t first_partial;  ///< one for each chunk, in the chunks' order
  std::int64_t partials;
};

/// The keys that queries query_begin to query_end - 1 of sequence i see together.
inline visible_keys visible_to_any(const batch_view& batch, const attention_mask& mask, std::int32_t i,
                                   std::int32_t query_begin, std::int32_t query_end) noexcept {
  const std::int64_t context = batch.context_length(i);
  const std::int64_t first = context - batch.queries(i) + query_begin;
  const visible_keys low = mask.visible(first, context);
  const visible_keys high = mask.visible(first + query_end - query_begin - 1, context);
  // A later query starts its window later and sees at least as many sinks.
  return {std::min(high.sinks_end, low.begin), low.begin, high.end};
}

/// The items of one call. Keep one and rebuild it: it allocates only while it grows.
class work_plan {
 public:
  /// Complexity: O(items).
  void build(const batch_view& batch, const attention_mask& mask, std::int32_t kv_heads, std::int64_t query_group,
             std::int64_t concurrency) {
    items_.clear();
    merges_.clear();
    partials_ = 0;
    const auto partial_tile = static_cast<std::int32_t>(max_partial_queries(query_group));
    const auto prefill_tile =
        static_cast<std::int32_t>(std::clamp<std::int64_t>(prefill_rows / query_group, 1, prefill_rows));
    std::int64_t chunks = 0;
    for (std::int32_t i = 0; i < batch.sequences(); ++i) {
      if (batch.queries(i) > 0) chunks += count_chunks(visible_to_any(batch, mask, i, 0, batch.queries(i)));
    }
    for (std::int32_t i = 0; i < batch.sequences(); ++i) {
      const std::int32_t queries = batch.queries(i);
      const std::int32_t tile = queries <= partial_tile ? partial_tile : prefill_tile;
      for (std::int32_t begin = 0; begin < queries; begin += tile) {
        const std::int32_t end = std::min(begin + tile, queries);
        const visible_keys keys = visible_to_any(batch, mask, i, begin, end);
        const std::int64_t mine = count_chunks(keys);
        // Only a sequence that is a large part of the whole is split: that bounds the memory for partial results.
        const bool split = queries <= partial_tile && concurrency > 1 && mine > 1 && mine * 4 * concurrency >= chunks;
        if (split) {
          split_chunks(i, begin, end, kv_heads, keys, mine);
        } else if (queries >= queries_per_head_item) {
          for (std::int32_t head = 0; head < kv_heads; ++head) add(i, begin, end, head, head + 1, keys);
        } else {
          add(i, begin, end, 0, kv_heads, keys);
        }
      }
    }
  }

  const std::vector<work_item>& items() const noexcept { return items_; }
  const std::vector<merge_item>& merges() const noexcept { return merges_; }

  /// Partial results to keep, each of all query heads of up to max_partial_queries() queries.
  std::int64_t partials() const noexcept { return partials_; }

  /// The most queries of one partial result, for a query group of that size.
  static constexpr std::int64_t max_partial_queries(std::int64_t query_group) noexcept {
    return std::clamp<std::int64_t>(tile_rows / query_group, 1, tile_rows);
  }

 private:
  static constexpr std::int64_t tile_rows = 64;             // query rows that share one walk over a kv head
  static constexpr std::int64_t prefill_rows = 128;         // the same for a longer chunk: keys are unpacked less often
  static constexpr std::int32_t queries_per_head_item = 8;  // from here on, one kv head's rows fill a cache

  static std::int64_t first_chunk_of_window(const visible_keys& keys) noexcept {
    return std::max(keys.begin / chunk_tokens, (keys.sinks_end + chunk_tokens - 1) / chunk_tokens);
  }
  static std::int64_t count_chunks(const visible_keys& keys) noexcept {
    const std::int64_t sinks = (keys.sinks_end + chunk_tokens - 1) / chunk_tokens;
    const std::int64_t end = (keys.end + chunk_tokens - 1) / chunk_tokens;
    return sinks + std::max<std::int64_t>(0, end - first_chunk_of_window(keys));
  }

  void add(std::int32_t i, std::int32_t begin, std::int32_t end, std::int32_t head_begin, std::int32_t head_end,
           const visible_keys& keys) {
    const auto chunk_end = static_cast<std::int32_t>((keys.end + chunk_tokens - 1) / chunk_tokens);
    items_.push_back({i, begin, end, head_begin, head_end, 0, chunk_end, -1});
  }

  void split_chunks(std::int32_t i, std::int32_t begin, std::int32_t end, std::int32_t kv_heads,
                    const visible_keys& keys, std::int64_t count) {
    merges_.push_back({i, begin, end, partials_, count});
    const std::int64_t sinks = (keys.sinks_end + chunk_tokens - 1) / chunk_tokens;
    const std::int64_t window = first_chunk_of_window(keys);
    for (std::int64_t n = 0; n < count; ++n) {
      const auto chunk = static_cast<std::int32_t>(n < sinks ? n : window + n - sinks);
      items_.push_back({i, begin, end, 0, kv_heads, chunk, chunk + 1, partials_++});
    }
  }

  std::vector<work_item> items_;
  std::vector<merge_item> merges_;
  std::int64_t partials_ = 0;
};

}  // namespace pagoda
