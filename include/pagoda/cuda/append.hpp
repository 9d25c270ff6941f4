// SPDX-License-Identifier: Apache-2.0
/// @file append: writes the new tokens of a step into the cache, on CUDA.
#pragma once

#include <cstdint>
#include <string_view>

#include <pagoda/cuda/device_work.hpp>
#include <pagoda/cuda/launch.hpp>
#include <pagoda/cuda/runtime.hpp>
#include <pagoda/dtype.hpp>
#include <pagoda/kernels/attention_arguments.hpp>

namespace pagoda::cuda {

/// The launch of append for one pair of quantizers. For CUDA, PAGODA_INSTANTIATE_CUDA_APPEND compiles it in one .cu
/// file of the program.
template <class Backend, class KeyQuantizer, class ValueQuantizer>
struct append_launcher {
  static void launch(const cache_view<KeyQuantizer, ValueQuantizer>& view, const kernels::erased_rows& keys,
                     const kernels::erased_rows& values, const device_properties& device, stream_ref stream);
};

namespace detail {

template <class T>
void check_new_rows(std::string_view name, const rows_view<T>& rows, const device_work& work, std::int64_t heads,
                    std::int64_t dim) {
  if (rows.heads() != heads || rows.dim() != dim) {
    fail("append: ", name, " are [", rows.tokens(), ", ", rows.heads(), ", ", rows.dim(), "], but the cache needs [",
         rows.tokens(), ", ", heads, ", ", dim, "]: pass a row for each new token and kv head");
  }
  if (rows.tokens() > work.limits.new_tokens) {
    fail("append: there are ", rows.tokens(), " rows of ", name, ", but the tables were made for ",
         work.limits.new_tokens, ": raise step_limits::new_tokens");
  }
  if (rows.tokens() < work.uploaded.new_tokens) {
    fail("append: there are ", rows.tokens(), " rows of ", name, ", but the step has ", work.uploaded.new_tokens,
         " new tokens: pass the rows of all its sequences; rows behind them are not read");
  }
  check_device_rows("append", name, rows);
}

}  // namespace detail

/// Writes the keys and values of a step's new tokens into one layer, coded as the view's quantizers say: the bytes that
/// host::append writes.
///
/// Shapes:     keys [at least the batch's new tokens, kv_heads, key_dim]; values [same, kv_heads, value_dim]; float,
///             half or bfloat16, strided. Rows behind the batch's new tokens, and those of a cancelled sequence, are
///             not read: a graph's tensors may be padded.
/// Requires:   rows lie in device memory; the step was uploaded and its copies executed on the same stream, or before
///             it by an event; no other work writes the same layer at the same time.
/// Throws:     before anything is launched, invalid_argument for what does not fit: shapes, alignment, the tables'
///             limits, the last upload, a device too old. cuda_error if there is no device or the launch fails.
/// Stream:     enqueues one kernel, and one more for keys or values that are rotated; never waits and takes no memory,
/// so that it can be captured. Complexity: O(tokens * kv_heads * dim).
template <class Backend = device_backend, class KeyQuantizer, class ValueQuantizer, floating_element K,
          floating_element V>
void append(const cache_view<KeyQuantizer, ValueQuantizer>& view, const rows_view<K>& keys, const rows_view<V>& values,
            stream_ref stream = {}) {
  static_assert(backend<Backend>);
  const device_work& work = detail::work_of<Backend>("append", view.batch);
  const device_properties device = detail::usable_device<Backend>("append", work);
  check_view(view);
  if (view.values_lie_in_keys()) {
    detail::fail("append: the view's values lie in its keys, so they have no rows of their own: call ",
                 "append(view, keys)");
  }
  detail::check_new_rows("keys", keys, work, view.kv_heads, view.key_dim);
  detail::check_new_rows("values", values, work, view.kv_heads, view.value_dim);
  detail::check_rotation<KeyQuantizer>("append", "head_dim", work, view.kv_heads, view.key_dim);
  detail::check_rotation<ValueQuantizer>("append", "value head_dim", work, view.kv_heads, view.value_dim);
  if (keys.tokens() != values.tokens()) {
    detail::fail("append: there are rows of ", keys.tokens(), " keys and ", values.tokens(),
                 " values, but each new token has one of both: pass as many");
  }
  if (keys.tokens() == 0) return;
  append_launcher<Backend, KeyQuantizer, ValueQuantizer>::launch(view, kernels::erase(keys), kernels::erase(values),
                                                                 device, stream);
}

/// The same for a view whose values are a prefix of its key rows.
template <class Backend = device_backend, class KeyQuantizer, class ValueQuantizer, floating_element K>
void append(const cache_view<KeyQuantizer, ValueQuantizer>& view, const rows_view<K>& keys, stream_ref stream = {}) {
  static_assert(backend<Backend>);
  const device_work& work = detail::work_of<Backend>("append", view.batch);
  const device_properties device = detail::usable_device<Backend>("append", work);
  check_view(view);
  if (!view.values_lie_in_keys()) {
    detail::fail("append: the view's values have rows of their own: call append(view, keys, values)");
  }
  detail::check_new_rows("keys", keys, work, view.kv_heads, view.key_dim);
  detail::check_rotation<KeyQuantizer>("append", "head_dim", work, view.kv_heads, view.key_dim);
  if (keys.tokens() == 0) return;
  append_launcher<Backend, KeyQuantizer, ValueQuantizer>::launch(view, kernels::erase(keys), {}, device, stream);
}

}  // namespace pagoda::cuda
