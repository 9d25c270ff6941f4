// SPDX-License-Identifier: Apache-2.0
/// @file What unused memory may hold, filled in on purpose: results must not depend on any of it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include <pagoda/batch_view.hpp>

namespace pagoda_test {

/// Bytes that, read as numbers of any width, are zeros, NaN, +infinity, the largest finite number, or all ones.
enum class poison : std::uint32_t {
  zeros = 0u,
  quiet_nan = 0x7fff7fffu,  // as float, half and bfloat16
  half_infinity = 0x7c007c00u,
  bfloat16_infinity = 0x7f807f80u,
  float_infinity = 0x7f800000u,
  largest_float = 0x7f7fffffu,
  largest_half = 0x7bff7bffu,
  ones = 0xffffffffu,
};

inline constexpr std::array poisons{
    poison::zeros,          poison::quiet_nan,     poison::half_infinity, poison::bfloat16_infinity,
    poison::float_infinity, poison::largest_float, poison::largest_half,  poison::ones};

inline void fill(std::span<std::byte> bytes, poison kind) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::byte>(static_cast<std::uint32_t>(kind) >> (8 * (i % 4)));
  }
}

/// Every byte of a storage: rows, scales and padding.
template <class Storage>
std::span<std::byte> bytes_of(const Storage& storage) {
  std::byte* first = storage.block_bytes(pagoda::block_id{0}, 0).data();
  return {first, static_cast<std::size_t>(storage.size_bytes())};
}

/// A batch's tables, copied entry by entry, so that each sequence's table ends in entries that name no block.
class tables_with_tails {
 public:
  tables_with_tails(const pagoda::batch_view& from, std::int32_t tail) : view_(from) {
    for (std::int32_t i = 0; i < from.sequences(); ++i) {
      const std::int64_t blocks = (from.context_length(i) + from.block_size - 1) / from.block_size;
      append_tail(tail);
      offsets_.push_back(static_cast<std::int64_t>(table_.size()));
      for (std::int64_t b = 0; b < blocks - from.skipped_blocks[i]; ++b) {
        table_.push_back(from.block_table[from.table_offsets[i] + b]);
      }
      append_tail(tail);
    }
    view_.table_offsets = offsets_.data();
    view_.block_table = table_.data();
  }
  tables_with_tails(const tables_with_tails&) = delete;
  tables_with_tails& operator=(const tables_with_tails&) = delete;

  const pagoda::batch_view& batch() const noexcept { return view_; }

 private:
  void append_tail(std::int32_t tail) { table_.insert(table_.end(), 5, pagoda::block_id{tail}); }

  pagoda::batch_view view_;
  std::vector<std::int64_t> offsets_;
  std::vector<pagoda::block_id> table_;
};

}  // namespace pagoda_test
