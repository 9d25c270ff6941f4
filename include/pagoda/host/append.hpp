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

inline constexpr std::int64_t max_dim = 576;

template <class Quantizer>
struct identity_element {
  using type = void;
};
template <class T>
struct identity_element<identity<T>> {
  using type = T;
};

/// Codes one row into contiguous bytes.
template <class Quantizer, class T>
void encode_row(const T* row, std::int64_t dim, std::byte* codes, std::byte* scales) noexcept {
  using stored = typename identity_element<Quantizer>::type;
  if constexpr (std::is_same_v<T, stored>) {
    std::memcpy(codes, row, static_cast<std::size_t>(code_bytes<Quantizer>(dim)));
  } else {
    alignas(64) float values[max_dim];
    std::int64_t d = 0;
    do {  // at least once, so that `values` is seen to be written
      vec<float, 8> lanes;
      load_float<8>(row + d, lanes);
      if constexpr (std::is_void_v<stored>) {
        store_float<8>(lanes, values + d);
      } else {
        store_float<8>(lanes, reinterpret_cast<stored*>(codes) + d);
      }
    } while ((d += 8) < dim);
    if constexpr (std::is_void_v<stored>) row_codec<Quantizer>::encode(values, dim, codes, scales);
  }
}

/// Codes one row into its place in a block, chunk by chunk where the layout spreads it.
template <class Quantizer, class T>
void store_row(const T* row, std::int64_t dim, const plane_view& plane, const plane_view& scales, block_id block,
               std::int64_t head, std::int64_t slot) noexcept {
  std::byte* to = plane.row(block, head, slot);
  std::byte* scale = has_scale_v<typename Quantizer::scale_type> ? scales.row(block, head, slot) : nullptr;
  if (plane.chunk_stride == 16) {
    encode_row<Quantizer>(row, dim, to, scale);
    return;
  }
  alignas(64) std::byte codes[max_dim * 4];
  encode_row<Quantizer>(row, dim, codes, scale);
  const std::int64_t bytes = code_bytes<Quantizer>(dim);
  for (std::int64_t begin = 0; begin < bytes; begin += 16) {
    std::memcpy(to + begin / 16 * plane.chunk_stride, codes + begin,
                static_cast<std::size_t>(std::min<std::int64_t>(16, bytes - begin)));
  }
}

/// Writes tokens token_begin to token_end - 1 of the step, all heads. No values where they lie in the keys.
template <class KeyQuantizer, class ValueQuantizer, class K, class V>
void append_tokens(const cache_view<KeyQuantizer, ValueQuantizer>& view, const rows_view<K>& keys,
                   const rows_view<V>* values, std::int64_t token_begin, std::int64_t token_end) noexcept {
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
      store_row<KeyQuantizer>(keys.row(token, head), view.key_dim, view.keys, view.key_scales, block, head, slot);
      if (values == nullptr) continue;
      store_row<ValueQuantizer>(values->row(token, head), view.value_dim, view.values, view.value_scales, block, head,
                                slot);
    }
  }
}

template <class T>
void check_rows(const char* name, const rows_view<T>& rows, std::int64_t tokens, std::int64_t heads, std::int64_t dim) {
  if (rows.tokens() != tokens || rows.heads() != heads || rows.dim() != dim) {
    pagoda::detail::fail("append: ", name, " are [", rows.tokens(), ", ", rows.heads(), ", ", rows.dim(),
                         "], but the step and its cache need [", tokens, ", ", heads, ", ", dim, "]");
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
