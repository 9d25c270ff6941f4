// SPDX-License-Identifier: Apache-2.0
/// @file attention: the queries of a step against the cache, on CUDA.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

#include <pagoda/attention/options.hpp>
#include <pagoda/cuda/device_work.hpp>
#include <pagoda/cuda/launch.hpp>
#include <pagoda/cuda/runtime.hpp>
#include <pagoda/dtype.hpp>
#include <pagoda/kernels/attention_arguments.hpp>
#include <pagoda/quantizer.hpp>

namespace pagoda::cuda {

/// The kernels that serve a view.
enum class compute_path {
  tensor_cores,  ///< one instantiation for each head_dim
  cuda_cores,    ///< the generic kernel: any policy and shape, several times slower where tensor cores would do
};

/// Whether tensor cores can serve a pair of quantizers at all: both have the half2 hooks and at most one scale a row.
/// hadamard<Q> goes as Q does.
template <class KeyQuantizer, class ValueQuantizer>
inline constexpr bool has_tensor_path_v = is_tensor_core_v<KeyQuantizer>&& is_tensor_core_v<ValueQuantizer>;

/// Which kernels attention() launches for a view: tensor cores if the quantizers can (has_tensor_path_v), keys and
/// values have the same head_dim, a multiple of 16 up to 256, blocks have 16 tokens or more, and the rows of a tile lie
/// close enough for offsets of 32 bits within it (slots under 128 MiB and chunks under 64 MiB apart). It follows from
/// types and shapes alone, never from what happens to be compiled.
template <class KeyQuantizer, class ValueQuantizer>
compute_path attention_path(const cache_view<KeyQuantizer, ValueQuantizer>& view) noexcept {
  if constexpr (has_tensor_path_v<KeyQuantizer, ValueQuantizer>) {
    // 15 slots and 31 chunks stay below 4 GiB together.
    const auto near = [](const plane_view& plane) {
      return plane.slot_stride < std::int64_t{1} << 27 && plane.chunk_stride < std::int64_t{1} << 26;
    };
    if (view.key_dim == view.value_dim && view.key_dim % 16 == 0 && view.key_dim <= 256 && view.block_size() >= 16 &&
        near(view.keys) && near(view.values)) {
      return compute_path::tensor_cores;
    }
  }
  return compute_path::cuda_cores;
}

/// The launches of attention for one pair of quantizers. For CUDA, PAGODA_INSTANTIATE_CUDA_ATTENTION compiles it in one
/// .cu file of the program; a linker that misses it names the pair.
template <class Backend, class KeyQuantizer, class ValueQuantizer>
struct attention_launcher {
  static void launch(const kernels::attention_arguments<KeyQuantizer, ValueQuantizer>& arguments,
                     const device_properties& device, stream_ref stream);
};

namespace detail {

/// Refuses what does not fit the last upload. A graph that is replayed for a later step is not looked at.
inline void check_upload(const device_work& work, const attention_options& options, const attention_mask& mask,
                         std::int64_t query_rows) {
  const uploaded_step& step = work.uploaded;
  const step_limits& limits = work.limits;
  if (query_rows > limits.queries) {
    fail("attention: there are ", query_rows, " query rows, but the tables were made for ", limits.queries,
         ": raise step_limits::queries");
  }
  if (query_rows < step.queries) {
    fail("attention: there are ", query_rows, " query rows, but the step has ", step.queries,
         " queries: pass the rows of all its sequences; rows behind them are left alone");
  }
  if (!options.tree.empty()) {
    pagoda::detail::check_tree_entry(options.tree, step.most_new_tokens_at, 0, step.most_new_tokens);
    if (const too_many_queries& at = step.more_than_tokens; at.entry >= 0) {
      fail("attention: batch entry ", at.entry, " has ", at.queries, " queries, more than its ", at.limit,
           " new tokens, but a tree mask covers its new tokens only: ask for at most that many, or attend without the "
           "tree");
    }
  }
  if (!options.causal) return;
  if (const too_many_queries& at = step.more_than_context; at.entry >= 0) {
    fail("attention: batch entry ", at.entry, " has ", at.queries, " queries, more than the ", at.limit,
         " tokens of its context, but causal queries are the last of them: pass causal = false for cross-attention");
  }
  if (mask.window > step.widest_window) {
    fail("attention: the first query of batch entry ", step.widest_window_at,
         " would read dropped tokens: its layer group holds them for a window of ", step.widest_window,
         "; ask for fewer queries or pass at most that window");
  }
}

/// Device memory of an option: there if it is given, and aligned to its elements.
template <class T>
void check_span(std::string_view name, std::span<T> given) {
  if (given.empty()) return;
  if (given.data() == nullptr) fail("attention: ", name, " is a null pointer with a size: pass device memory, or {}");
  if (reinterpret_cast<std::uintptr_t>(given.data()) % sizeof(T) != 0) {
    fail("attention: ", name, " does not begin on a multiple of ", sizeof(T), " bytes: pass aligned device memory");
  }
}

/// Query heads and value dim are within the scratch memory.
inline void check_scratch(const device_work& work, std::int64_t query_heads, std::int64_t value_dim) {
  if (query_heads > work.limits.query_heads) {
    fail("attention: there are ", query_heads, " query heads, but the tables were made for ", work.limits.query_heads,
         ": raise step_limits::query_heads");
  }
  if (value_dim > work.limits.value_head_dim) {
    fail("attention: values have ", value_dim, " elements, but the tables were made for ", work.limits.value_head_dim,
         ": raise step_limits::value_head_dim");
  }
}

}  // namespace detail

/// Attention of a step's queries over one layer of the cache, as host::attention: decode, prefill, chunked prefill and
/// ragged batches are one call. See attention_options for what it computes; reference_attention defines it.
///
/// Shapes:     queries [at least the batch's queries, query_heads, key_dim]; output [same, query_heads, value_dim];
///             float, half or bfloat16, strided. Rows behind the batch's queries are neither read nor written, so a
///             graph's tensors may be padded. options.lse is [rows of queries, query_heads].
/// Requires:   rows, output and the options' spans lie in device memory; their contents are not looked at. The step was
///             uploaded and its new tokens appended on the same stream, or before it by an event.
/// Effects:    a result does not depend on where blocks lie, on the layout, on the grid or on the other sequences of
///             the batch, to the bit. attention_path says which kernels run. The generic kernel keeps the bound of
///             host::attention. Tensor cores round queries and weights to the KV's 16-bit type: against the reference
///             on the stored values a row's relative error (L2) stays below 4 * 2^-11 for half, fp8 and int8,
///             8 * 2^-11 for int4 and 4 * 2^-8 for bfloat16 as long as scores stay below about 5, and grows in
///             proportion to larger ones. Scales of value rows above 1023 (int8: elements above 130,000) overflow
///             there. With half and bfloat16, several queries of a sequence share tiles: an infinity or NaN among a
///             token's values then also reaches queries from which a mask hides the token, unless their tiles differ.
/// Throws:     before anything is launched, invalid_argument for what does not fit: shapes, options, alignment, the
///             tables' limits, the last upload, a head_dim that was not compiled, a device too old or with too little
///             shared memory. cuda_error if there is no device or a launch fails.
/// Stream:     enqueues one to three kernels, and two that rotate queries and outputs where quantizers rotate; the work
///             memory of those is the step_tables', one call's at a time; never waits and takes no memory, so that it
///             can be captured. Call it once before a capture, so that its kernels are loaded. A replay reads the
///             tables of its own time; checks against the last upload are made at the call only.
/// Complexity: O(queries * query_heads * visible keys * dim); each key and value row is read once for up to eight
///             query rows of a kv head.
template <class Backend = device_backend, class KeyQuantizer, class ValueQuantizer, floating_element Query,
          writable_element Output>
void attention(const cache_view<KeyQuantizer, ValueQuantizer>& view, const rows_view<Query>& queries,
               const rows_view<Output>& output, const attention_options& options = {}, stream_ref stream = {}) {
  static_assert(backend<Backend>);
  const device_work& work = detail::work_of<Backend>("attention", view.batch);
  const device_properties device = detail::usable_device<Backend>("attention", work);
  const resolved_options how = resolve_shapes(view, queries, output, options);
  detail::check_device_rows("attention", "queries", queries);
  detail::check_device_rows("attention", "output", output);
  detail::check_span("lse", options.lse);
  detail::check_span("sink_logits", options.sink_logits);
  detail::check_span("alibi_slopes", options.alibi_slopes);
  detail::check_span("tree.words", options.tree.words);
  detail::check_scratch(work, queries.heads(), view.value_dim);
  detail::check_rotation<KeyQuantizer>("attention", "head_dim", work, queries.heads(), view.key_dim);
  detail::check_rotation<ValueQuantizer>("attention", "value head_dim", work, queries.heads(), view.value_dim);
  detail::check_upload(work, options, how.mask, queries.tokens());
  if (queries.tokens() == 0) return;
  const kernels::attention_arguments<KeyQuantizer, ValueQuantizer> arguments{
      .view = view,
      .queries = kernels::erase(queries),
      .output = kernels::erase(output),
      .lse = options.lse.empty() ? nullptr : options.lse.data(),
      .sink_logits = how.sink_logits,
      .alibi_slopes = how.alibi_slopes,
      .tree_words = how.tree.empty() ? nullptr : how.tree.words.data(),
      .tree_words_per_query = how.tree.words_per_query,
      .group = static_cast<std::int32_t>(queries.heads() / view.kv_heads),
      .decode_queries = detail::decode_queries(work.limits),
      .scale = how.scale,
      .soft_cap = how.soft_cap,
      .mask = how.mask,
      .plan = work.plan,
      .partial_output = work.partial_output,
      .partial_state = work.partial_state,
      .report = work.report};
  attention_launcher<Backend, KeyQuantizer, ValueQuantizer>::launch(arguments, device, stream);
}

}  // namespace pagoda::cuda
