// SPDX-License-Identifier: Apache-2.0
/// @file Rows for append as engines hold them, and what a storage must hold after kernels::append.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include <pagoda/cache_view.hpp>
#include <pagoda/dtype.hpp>
#include <pagoda/host/append.hpp>
#include <pagoda/kernels/append.hpp>
#include <pagoda/simt/host_context.hpp>

#include "poison.hpp"
#include "stored_rows.hpp"

namespace pagoda_test {

/// Head vectors with gaps: the heads of a token lie head_gap elements apart, the tokens token_gap more, and padding
/// tokens of NaN follow the real ones. Each buffer has exactly the size that it needs.
template <class T>
class spread_rows {
 public:
  static constexpr std::int64_t head_gap = 8;
  static constexpr std::int64_t token_gap = 24;

  /// value(token, head, d) gives the numbers, which are rounded to T.
  template <class Value>
  spread_rows(std::int64_t tokens, std::int64_t padding, std::int64_t heads, std::int64_t dim, Value&& value)
      : shape_{tokens, heads, dim}, padding_(padding), strides_{heads * (dim + head_gap) + token_gap, dim + head_gap} {
    const std::int64_t rows = tokens + padding;
    const std::int64_t size = rows == 0 ? 0 : (rows - 1) * strides_.token + (heads - 1) * strides_.head + dim;
    data_.assign(static_cast<std::size_t>(size), pagoda::from_float<T>(std::nanf("")));
    for (std::int64_t token = 0; token < tokens; ++token) {
      for (std::int64_t head = 0; head < heads; ++head) {
        for (std::int64_t d = 0; d < dim; ++d) {
          data_[static_cast<std::size_t>(token * strides_.token + head * strides_.head + d)] =
              pagoda::from_float<T>(value(token, head, d));
        }
      }
    }
  }

  /// The real tokens, for host::append.
  pagoda::rows_view<const T> rows() const { return {std::span<const T>(data_), shape_, strides_}; }

  /// All tokens, for the kernel.
  pagoda::kernels::erased_rows erased() const {
    return pagoda::kernels::erase(pagoda::rows_view<const T>(
        std::span<const T>(data_), {shape_.tokens + padding_, shape_.heads, shape_.dim}, strides_));
  }

 private:
  pagoda::rows_shape shape_;
  std::int64_t padding_;
  pagoda::rows_strides strides_;
  std::vector<T> data_;
};

/// Calls visit(block, slot) for every slot that the batch's new tokens take.
template <class Visit>
void visit_new_slots(const pagoda::batch_view& batch, Visit&& visit) {
  for (std::int32_t i = 0; i < batch.sequences(); ++i) {
    const std::int64_t context = batch.context_length(i);
    if (context == 0) continue;
    for (std::int64_t position = context - batch.new_tokens(i); position < context; ++position) {
      visit(batch.block(i, position / batch.block_size), position % batch.block_size);
    }
  }
}

/// Sets the padding of the new tokens' rows to 0, which host::append leaves alone and the kernel writes.
template <class KeyQuantizer, class ValueQuantizer>
void clear_row_padding(const pagoda::cache_view<KeyQuantizer, ValueQuantizer>& view) {
  const auto clear = [](const pagoda::plane_view& plane, std::byte* row, std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) row[i / 16 * plane.chunk_stride + i % 16] = std::byte{0};
  };
  visit_new_slots(view.batch, [&](pagoda::block_id block, std::int64_t slot) {
    for (std::int64_t head = 0; head < view.kv_heads; ++head) {
      clear(view.keys, view.keys.row(block, head, slot), pagoda::code_bytes<KeyQuantizer>(view.key_dim),
            pagoda::row_bytes<KeyQuantizer>(view.key_dim));
      clear(view.values, view.values.row(block, head, slot), pagoda::code_bytes<ValueQuantizer>(view.value_dim),
            pagoda::row_bytes<ValueQuantizer>(view.value_dim));
    }
  });
}

/// Runs kernels::append on a machine. A grid of 0 is as large as max_units says.
template <class View>
void append_on(pagoda::simt::host_machine& machine, const View& view, const pagoda::kernels::erased_rows& keys,
               const pagoda::kernels::erased_rows& values, pagoda::kernels::table_report* report = nullptr,
               std::uint32_t grid = 0) {
  using kernel = pagoda::kernels::append<typename View::key_quantizer, typename View::value_quantizer>;
  const typename kernel::arguments args{view, keys, values, report};
  const std::int64_t units = kernel::max_units(args);
  if (units > 0) machine.launch<kernel>({grid == 0 ? static_cast<std::uint32_t>(units) : grid, 1, 1}, args);
}

/// How many bytes of two ranges differ.
inline std::size_t count_differences(std::span<const std::byte> a, std::span<const std::byte> b) {
  if (a.size() != b.size()) return std::max(a.size(), b.size());
  std::size_t result = 0;
  for (std::size_t i = 0; i < a.size(); ++i) result += a[i] != b[i];
  return result;
}

}  // namespace pagoda_test
