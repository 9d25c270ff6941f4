// SPDX-License-Identifier: Apache-2.0
/// @file Where the arrays of cuda::step_tables lie in its memory, on the device and in each staging buffer alike.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <pagoda/cuda/device_work.hpp>
#include <pagoda/manager_config.hpp>

namespace pagoda::cuda::detail {

/// Byte offsets. The counts of the batch and each group's small arrays come first, then the block tables, then what is
/// never uploaded. So one copy brings all but the tables of the later groups, and only as much of a table as is used.
class table_places {
 public:
  struct group {
    std::int64_t plan_offsets = 0;    // [sequences + 1]
    std::int64_t plan_items = 0;      // [max_items]
    std::int64_t table_offsets = 0;   // [sequences + 1]: tables follow each other
    std::int64_t skipped_blocks = 0;  // [sequences]
    std::int64_t block_table = 0;     // [blocks]
    std::int64_t max_items = 0;
  };

  /// Throws: invalid_argument for limits that cannot be; size_overflow if the bytes do not fit 64 bits.
  table_places(const manager_config& config, const step_limits& limits) {
    check_limits(limits);
    const std::int64_t sequences = limits.sequences;
    num_sequences = take<std::int32_t>(1);
    context_lengths = take<std::int32_t>(sequences);
    query_offsets = take<std::int32_t>(sequences + 1);
    token_offsets = take<std::int32_t>(sequences + 1);
    groups.resize(config.groups.size());
    std::int64_t most_items = 0;
    for (group& g : groups) {
      g.max_items = kernels::max_items(sequences, limits.blocks, config.block_size);
      check_range("chunks of a step within step_limits", g.max_items, 0, INT32_MAX, "lower blocks or sequences");
      most_items = g.max_items > most_items ? g.max_items : most_items;
      g.plan_offsets = take<std::int32_t>(sequences + 1);
      g.plan_items = take<kernels::chunk_item>(g.max_items);
      g.table_offsets = take<std::int64_t>(sequences + 1);
      g.skipped_blocks = take<std::int32_t>(sequences);
    }
    for (group& g : groups) g.block_table = take<block_id>(limits.blocks);
    uploaded_bytes = bytes;
    report = take<kernels::table_report>(1);
    zeroed_bytes = bytes;
    const std::int64_t heads = checked_multiply(most_items, limits.query_heads, "partial results");
    const std::int64_t rows = checked_multiply(heads, decode_queries(limits), "partial results");
    partial_output = take<float>(checked_multiply(rows, limits.value_head_dim, "partial results"));
    partial_state = take<float>(checked_multiply(rows, 2, "partial results"));
    if (limits.rotated_head_dim == 0) return;
    const std::int64_t tokens = limits.queries > limits.new_tokens ? limits.queries : limits.new_tokens;
    const std::int64_t rotated = checked_multiply(checked_multiply(tokens, limits.query_heads, "rotated rows"),
                                                  limits.rotated_head_dim, "rotated rows");
    rotated_inputs = take<float>(rotated);
    rotated_outputs = take<float>(rotated);
  }

  std::int64_t num_sequences = 0;
  std::int64_t context_lengths = 0;  // [sequences]
  std::int64_t query_offsets = 0;    // [sequences + 1]
  std::int64_t token_offsets = 0;    // [sequences + 1]
  std::vector<group> groups{};
  std::int64_t report = 0;
  std::int64_t partial_output = 0;
  std::int64_t partial_state = 0;
  std::int64_t rotated_inputs = 0;  // [queries or new tokens, query_heads, rotated_head_dim], and the outputs
  std::int64_t rotated_outputs = 0;
  std::int64_t uploaded_bytes = 0;
  std::int64_t zeroed_bytes = 0;
  std::int64_t bytes = 0;

 private:
  template <class T>
  std::int64_t take(std::int64_t count) {
    const std::int64_t begin = bytes;
    const std::int64_t size = checked_multiply(count, sizeof(T), "bytes of step_tables");
    bytes = round_up(checked_add(begin, size, "bytes of step_tables"), 256, "bytes of step_tables");
    return begin;
  }
};

template <class T>
T* array_at(std::byte* memory, std::int64_t offset) noexcept {
  return reinterpret_cast<T*>(memory + offset);
}

/// The batch of one group, with tables in that memory.
inline batch_view view_at(std::byte* memory, const table_places& places, std::size_t group, batch_view shape) noexcept {
  const table_places::group& arrays = places.groups[group];
  shape.num_sequences = array_at<std::int32_t>(memory, places.num_sequences);
  shape.context_lengths = array_at<std::int32_t>(memory, places.context_lengths);
  shape.query_offsets = array_at<std::int32_t>(memory, places.query_offsets);
  shape.token_offsets = array_at<std::int32_t>(memory, places.token_offsets);
  shape.table_offsets = array_at<std::int64_t>(memory, arrays.table_offsets);
  shape.table_ends = shape.table_offsets + 1;
  shape.skipped_blocks = array_at<std::int32_t>(memory, arrays.skipped_blocks);
  shape.block_table = array_at<block_id>(memory, arrays.block_table);
  return shape;
}

}  // namespace pagoda::cuda::detail
