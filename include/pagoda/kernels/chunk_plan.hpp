// SPDX-License-Identifier: Apache-2.0
/// @file The chunks of a batch: which parts of which sequences the decode kernels take, on the host and on the device.
#pragma once

#include <cstdint>
#include <limits>
#include <span>

#include <pagoda/batch_view.hpp>
#include <pagoda/kernels/attention_arguments.hpp>

namespace pagoda::kernels {

/// The chunks of one sequence that hold a key which its layer group keeps: the sinks' chunks, then the window's.
struct sequence_chunks {
  std::int32_t sinks;         ///< chunks 0 to sinks - 1
  std::int32_t window_begin;  ///< then those from here on
  std::int32_t count;

  PAGODA_HOST_DEVICE std::int32_t chunk(std::int32_t n) const noexcept {
    return n < sinks ? n : window_begin + n - sinks;
  }
};

/// Chunks follow from the retention of the group, not from one call's mask: one plan serves every call of a step, and a
/// call with a narrower mask finds some of its chunks empty.
PAGODA_HOST_DEVICE constexpr sequence_chunks chunks_of(const retention& keep, std::int64_t context,
                                                       std::int64_t queries) noexcept {
  if (queries <= 0 || queries > max_decode_queries) return {0, 0, 0};
  const std::int64_t first = context - queries;
  const std::int64_t begin = keep.window_begin(first > 0 ? first : 0);
  const std::int64_t sinks_end = keep.sinks < begin ? keep.sinks : begin;
  const std::int64_t sinks = (sinks_end + chunk_tokens - 1) / chunk_tokens;
  const std::int64_t window = begin / chunk_tokens > sinks ? begin / chunk_tokens : sinks;
  const std::int64_t end = (context + chunk_tokens - 1) / chunk_tokens;
  return {static_cast<std::int32_t>(sinks), static_cast<std::int32_t>(window),
          static_cast<std::int32_t>(sinks + (end > window ? end - window : 0))};
}

/// Items that a sequence takes: one even if it sees no key, so that its output is written.
PAGODA_HOST_DEVICE constexpr std::int32_t items_of(const sequence_chunks& chunks, std::int64_t queries) noexcept {
  if (queries <= 0 || queries > max_decode_queries) return 0;
  return chunks.count > 0 ? chunks.count : 1;
}

/// The most items of any batch within those limits. Units: blocks of block_size tokens, over all sequences.
constexpr std::int64_t max_items(std::int64_t sequences, std::int64_t blocks, std::int64_t block_size) noexcept {
  // Every chunk but a sequence's sinks and ends is full of blocks that the table holds.
  return blocks * block_size / chunk_tokens + 3 * sequences;
}

/// Writes the plan of a batch whose tables lie in host memory: what plan_chunks writes on the device.
/// Shapes:  offsets[sequences + 1]; items[max_items(...)] always suffices.
/// Returns: the number of items.
/// Throws:  invalid_argument if a span is too short, size_overflow for more items than 32 bits count.
inline std::int32_t build_chunk_plan(const batch_view& batch, std::span<chunk_item> items,
                                     std::span<std::int32_t> offsets) {
  const std::int32_t sequences = batch.sequences();
  const auto chunks = [&](std::int32_t i) { return chunks_of(batch.keep, batch.context_length(i), batch.queries(i)); };
  std::int64_t needed = 0;
  for (std::int32_t i = 0; i < sequences; ++i) needed += items_of(chunks(i), batch.queries(i));
  if (needed > std::numeric_limits<std::int32_t>::max()) {
    detail::fail<size_overflow>("the chunk plan has ", needed, " items, but they are counted with 32 bits: split the ",
                                "batch");
  }
  if (static_cast<std::int64_t>(offsets.size()) <= sequences) {
    detail::fail("the chunk plan has room for ", offsets.size(), " offsets, but ", sequences, " sequences need ",
                 std::int64_t{sequences} + 1, ": pass a longer span");
  }
  if (static_cast<std::int64_t>(items.size()) < needed) {
    detail::fail("the chunk plan has room for ", items.size(), " items, but the ", sequences, " sequences need ",
                 needed, ": pass a longer span; kernels::max_items() says what limits need");
  }
  std::int32_t next = 0;
  for (std::int32_t i = 0; i < sequences; ++i) {
    offsets[static_cast<std::size_t>(i)] = next;
    const sequence_chunks mine = chunks(i);
    const std::int32_t count = items_of(mine, batch.queries(i));
    for (std::int32_t n = 0; n < count; ++n) {
      items[static_cast<std::size_t>(next++)] = {i, mine.count > 0 ? mine.chunk(n) : -1};
    }
  }
  offsets[static_cast<std::size_t>(sequences)] = next;
  return next;
}

}  // namespace pagoda::kernels
