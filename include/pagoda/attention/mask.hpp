// SPDX-License-Identifier: Apache-2.0
/// @file Which keys a query sees.
#pragma once

#include <cstdint>
#include <span>

#include <pagoda/retention.hpp>

namespace pagoda {

/// Who sees whom among a step's own tokens, for speculation with token trees: bit t of query row r says whether that
/// query sees new token t of its own sequence. Tokens from before the step are seen by all.
/// Shapes: words[queries, words_per_query]; bit t lies in word t / 32 at place t % 32.
struct tree_mask {
  std::span<const std::uint32_t> words{};
  std::int32_t words_per_query = 0;

  bool empty() const noexcept { return words.empty() && words_per_query == 0; }
  bool sees(std::int64_t query_row, std::int64_t new_token) const noexcept {
    const std::int64_t word = query_row * words_per_query + new_token / 32;
    return ((words[static_cast<std::size_t>(word)] >> (new_token % 32)) & 1u) != 0;
  }
};

/// The keys of one query, before any tree mask: [0, sinks_end) and [begin, end).
struct visible_keys {
  std::int64_t sinks_end = 0;  ///< at most begin
  std::int64_t begin = 0;
  std::int64_t end = 0;

  PAGODA_HOST_DEVICE constexpr bool sees(std::int64_t key) const noexcept {
    return key < sinks_end || (key >= begin && key < end);
  }
  PAGODA_HOST_DEVICE constexpr bool covers(std::int64_t first, std::int64_t last) const noexcept {
    return (first >= begin && last <= end) || last <= sinks_end || (sinks_end == begin && last <= end);
  }
};

/// Causal or not, with or without a sliding window and sinks.
struct attention_mask {
  bool causal = true;
  std::int64_t sinks = 0;
  std::int64_t window = unlimited;

  /// What the query at `position` of a context of `context` tokens sees.
  PAGODA_HOST_DEVICE constexpr visible_keys visible(std::int64_t position, std::int64_t context) const noexcept {
    if (!causal) return {.sinks_end = 0, .begin = 0, .end = context};
    const std::int64_t end = position + 1 < context ? position + 1 : context;
    const std::int64_t begin = retention{0, window}.window_begin(position);
    return {.sinks_end = sinks < begin ? sinks : begin, .begin = begin, .end = end};
  }
};

}  // namespace pagoda
