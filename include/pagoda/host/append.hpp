// SPDX-License-Identifier: Apache-2.0
/// @file append: writes the new tokens of a step into the cache, on the host.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include <pagoda/cache_view.hpp>
#include <pagoda/dtype.hpp>
#include <pagoda/host/executor.hpp>
#include <pagoda/quantizer/identity.hpp>
#include <pagoda/quantizer/row_codec.hpp>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"  // clang++ without AVX, at calls that are inlined

namespace pagoda::host {

namespace detail {
inline namespace PAGODA_ISA {

using pagoda::detail::load_float;
using pagoda::detail::store_float;

template <class Quantizer>
struct identity_element {
  using type = void;
};
template <class T>
struct identity_element<identity<T>> {
  using type = T;
};

/// Writes rows of T into their places in blocks, coded by Quantizer; finish() writes the last of them.
///
/// A row waits until the scales of the next have been found: dividing by a scale and finding one then run at once in an
/// out-of-order core, and the destination has been on its way from memory meanwhile.
template <class Quantizer, class T>
class row_writer {
 public:
  row_writer(const plane_view& plane, const plane_view& scales, std::int64_t dim) noexcept
      : plane_(plane), scales_(scales), dim_(dim), is_contiguous_(plane.chunk_stride == 16) {}

  void write(const T* row, block_id block, std::int64_t head, std::int64_t slot) noexcept {
    std::byte* to = plane_.row(block, head, slot);
    if constexpr (is_identity) {
      if (is_contiguous_) {
        convert(row, reinterpret_cast<stored*>(to));
      } else {
        convert(row, reinterpret_cast<stored*>(codes_));
        spread(to);
      }
    } else {
      for (std::int64_t at = 0; at < code_bytes<Quantizer>(dim_); at += 64) {
        __builtin_prefetch(to + at / 16 * plane_.chunk_stride, 1);
      }
      pending& mine = rows_[next_];
      mine.codes = to;
      mine.scales = has_scale_v<typename Quantizer::scale_type> ? scales_.row(block, head, slot) : nullptr;
      row_codec<Quantizer>::fit(row, dim_, mine.values, mine.scales);
      finish();
      next_ = 1 - next_;
      has_pending_ = true;
    }
  }

  void finish() noexcept {
    if constexpr (!is_identity) {
      if (!has_pending_) return;
      has_pending_ = false;
      const pending& row = rows_[1 - next_];
      std::byte* to = is_contiguous_ ? row.codes : codes_;
      row_codec<Quantizer>::encode_fitted(row.values, dim_, row.scales, to);
      if (!is_contiguous_) spread(row.codes);
    }
  }

 private:
  using stored = typename identity_element<Quantizer>::type;
  static constexpr bool is_identity = !std::is_void_v<stored>;

  struct pending {
    std::byte* codes;
    std::byte* scales;
    alignas(64) float values[max_head_dim];
  };

  template <class To>
  void convert(const T* row, To* to) const noexcept {
    if constexpr (std::is_same_v<T, To>) {
      std::memcpy(to, row, static_cast<std::size_t>(dim_) * sizeof(T));
    } else {
      for (std::int64_t d = 0; d < dim_; d += 8) {
        vec<float, 8> lanes;
        load_float<8>(row + d, lanes);
        store_float<8>(lanes, to + d);
      }
    }
  }

  /// Copies codes_ to a row that a layout spreads, chunk by chunk.
  void spread(std::byte* to) const noexcept {
    const std::int64_t bytes = code_bytes<Quantizer>(dim_);
    for (std::int64_t begin = 0; begin < bytes; begin += 16) {
      std::memcpy(to + begin / 16 * plane_.chunk_stride, codes_ + begin,
                  static_cast<std::size_t>(std::min<std::int64_t>(16, bytes - begin)));
    }
  }

  plane_view plane_;
  plane_view scales_;
  std::int64_t dim_;
  bool is_contiguous_;
  bool has_pending_ = false;
  int next_ = 0;  // where the next row goes; the other one is pending
  pending rows_[2];
  alignas(64) std::byte codes_[max_head_dim * 4];
};

/// Writes tokens token_begin to token_end - 1 of the step, all heads. No values where they lie in the keys.
template <class KeyQuantizer, class ValueQuantizer, class K, class V>
void append_tokens(const cache_view<KeyQuantizer, ValueQuantizer>& view, const rows_view<K>& keys,
                   const rows_view<V>* values, std::int64_t token_begin, std::int64_t token_end) noexcept {
  row_writer<KeyQuantizer, std::remove_const_t<K>> key_rows(view.keys, view.key_scales, view.key_dim);
  row_writer<ValueQuantizer, std::remove_const_t<V>> value_rows(view.values, view.value_scales, view.value_dim);
  const batch_view& batch = view.batch;
  const std::int32_t* offsets = batch.token_offsets;
  auto i =
      static_cast<std::int32_t>(std::upper_bound(offsets, offsets + batch.sequences() + 1, token_begin) - offsets) - 1;
  for (std::int64_t token = token_begin; token < token_end; ++token) {
    while (offsets[i + 1] <= token) ++i;
    const std::int64_t context = batch.context_length(i);
    if (context == 0) continue;  // cancelled
    const std::int64_t position = context - offsets[i + 1] + token;
    const block_id block = batch.block(i, position >> view.block_shift);
    const std::int64_t slot = position & (view.block_size() - 1);
    for (std::int64_t head = 0; head < view.kv_heads; ++head) {
      key_rows.write(keys.row(token, head), block, head, slot);
    }
    for (std::int64_t head = 0; values != nullptr && head < view.kv_heads; ++head) {
      value_rows.write(values->row(token, head), block, head, slot);
    }
  }
  key_rows.finish();
  value_rows.finish();
}

template <class T>
void check_rows(const char* name, const rows_view<T>& rows, std::int64_t tokens, std::int64_t heads, std::int64_t dim) {
  if (rows.tokens() != tokens || rows.heads() != heads || rows.dim() != dim) {
    pagoda::detail::fail("append: ", name, " are [", rows.tokens(), ", ", rows.heads(), ", ", rows.dim(),
                         "], but the step and its cache need [", tokens, ", ", heads, ", ", dim,
                         "]: pass a row for each new token and kv head");
  }
}

/// Checks the rows of an append and writes them.
template <class KeyQuantizer, class ValueQuantizer, class K, class V, class Executor>
void append_step(const cache_view<KeyQuantizer, ValueQuantizer>& view, const rows_view<K>& keys,
                 const rows_view<V>* values, Executor& run) {
  validate(view);
  if (values != nullptr && view.values_lie_in_keys()) {
    pagoda::detail::fail("append: the values of this view are the first ", view.value_dim,
                         " elements of its keys: pass the keys alone, append(view, keys)");
  }
  if (values == nullptr && !view.values_lie_in_keys()) {
    pagoda::detail::fail("append: this view keeps values of its own: pass them, too, append(view, keys, values); only ",
                         "a storage with values_in_keys<N> takes keys alone");
  }
  const std::int64_t tokens = view.batch.total_new_tokens();
  check_rows("keys", keys, tokens, view.kv_heads, view.key_dim);
  if (values != nullptr) check_rows("values", *values, tokens, view.kv_heads, view.value_dim);
  constexpr std::int64_t tokens_of_item = 16;
  run.parallel_for(divide_up(tokens, tokens_of_item), [&](std::int64_t item) {
    const std::int64_t begin = item * tokens_of_item;
    append_tokens(view, keys, values, begin, std::min(begin + tokens_of_item, tokens));
  });
}

}  // namespace PAGODA_ISA
}  // namespace detail

inline namespace PAGODA_ISA {

/// Writes the keys and values of a step's new tokens into one layer, coded as the view's quantizers say.
///
/// Shapes:     keys [new tokens of the batch, kv_heads, key_dim]; values [same, kv_heads, value_dim]; float, half or
///             bfloat16, strided. Rows of a cancelled sequence are skipped.
/// Requires:   the step's copies have been executed; no other call writes the same layer at the same time.
/// Throws:     invalid_argument for rows of another shape, and for a view whose values lie in its keys; out_of_range
///             for a block table that leaves the pool.
/// Complexity: O(tokens * kv_heads * dim); allocates nothing.
template <class KeyQuantizer, class ValueQuantizer, floating_element K, floating_element V,
          executor Executor = const serial_executor>
void append(const cache_view<KeyQuantizer, ValueQuantizer>& view, const rows_view<K>& keys, const rows_view<V>& values,
            Executor&& run = serial_executor{}) {
  const rows_view<const std::remove_const_t<K>> from_keys = keys;
  const rows_view<const std::remove_const_t<V>> from_values = values;
  detail::append_step(view, from_keys, &from_values, run);
}

/// The same for a storage with values_in_keys<N>: the keys alone.
/// Throws: also invalid_argument for a view with values of its own.
template <class KeyQuantizer, class ValueQuantizer, floating_element K, executor Executor = const serial_executor>
void append(const cache_view<KeyQuantizer, ValueQuantizer>& view, const rows_view<K>& keys,
            Executor&& run = serial_executor{}) {
  const rows_view<const std::remove_const_t<K>> from_keys = keys;
  detail::append_step<KeyQuantizer, ValueQuantizer, const std::remove_const_t<K>, const std::remove_const_t<K>>(
      view, from_keys, nullptr, run);
}

}  // namespace PAGODA_ISA
}  // namespace pagoda::host

#pragma GCC diagnostic pop
