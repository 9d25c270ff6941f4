// SPDX-License-Identifier: Apache-2.0
/// @file Which kernels an attention call launches. Included where kernels are compiled: by attention.cuh for CUDA, by
/// host_backend.hpp for the host context.
#pragma once

#include <cstdint>
#include <string>

#include <pagoda/cuda/attention.hpp>
#include <pagoda/cuda/launch_rotation.hpp>
#include <pagoda/kernels/generic_attention.hpp>
#include <pagoda/kernels/merge.hpp>
#include <pagoda/kernels/tensor_decode.hpp>
#include <pagoda/kernels/tensor_prefill.hpp>

namespace pagoda::cuda {

/// Head dims that the tensor-core kernels are compiled for.
template <int... Dims>
struct head_dim_list {};

/// The list of a pair: a struct that derives from it.
template <class Backend, class KeyQuantizer, class ValueQuantizer>
struct head_dims_of;

namespace detail {

/// Refuses a head_dim that the tensor-core kernels were not compiled for.
template <class KeyQuantizer, class ValueQuantizer, int... Dims>
void check_compiled(const cache_view<KeyQuantizer, ValueQuantizer>& view, head_dim_list<Dims...>) {
  if (attention_path(view) != compute_path::tensor_cores || ((view.key_dim == Dims) || ...)) return;
  std::string compiled;
  ((compiled += (compiled.empty() ? "" : ", ") + std::to_string(Dims)), ...);
  fail("attention: head_dim ", view.key_dim, " of ", std::string_view(KeyQuantizer::name), " keys and ",
       std::string_view(ValueQuantizer::name), " values was not compiled; ",
       compiled.empty() ? "no head_dim was" : "these were: " + compiled,
       ". Add it to the head dims of PAGODA_INSTANTIATE_CUDA (or ..._ATTENTION) for this pair; for the host backend, ",
       "to the pair's head_dims_of");
}

/// One attention call over rows as they are stored, its kernels still to be chosen.
template <class Backend, class KeyQuantizer, class ValueQuantizer>
class attention_launch {
 public:
  using arguments_type = kernels::attention_arguments<KeyQuantizer, ValueQuantizer>;

  attention_launch(const arguments_type& arguments, const device_properties& device, stream_ref stream)
      : arguments_(arguments), work_(*arguments.view.batch.work), device_(device), stream_(stream) {}

  template <int... Dims>
  void run(head_dim_list<Dims...>) const {
    if constexpr (has_tensor_path_v<KeyQuantizer, ValueQuantizer>) {
      if (attention_path(arguments_.view) == compute_path::tensor_cores) {
        static_cast<void>(((arguments_.view.key_dim == Dims && run_tensor<Dims>()) || ...));
        merge();
        return;
      }
    }
    if (arguments_.view.key_dim <= 256 && arguments_.view.value_dim <= 256) {
      launch<kernels::generic_attention<KeyQuantizer, ValueQuantizer, 256>>();
    } else {
      launch<kernels::generic_attention<KeyQuantizer, ValueQuantizer, 576>>();
    }
    merge();
  }

 private:
  template <int Dim>
  bool run_tensor() const {
    if (arguments_.has_extras()) {
      run_tensor<Dim, true>();
    } else {
      run_tensor<Dim, false>();
    }
    return true;
  }

  template <int Dim, bool Extras>
  void run_tensor() const {
    launch<kernels::tensor_decode<KeyQuantizer, ValueQuantizer, Dim, Extras>>();
    if (work_.limits.queries_per_sequence > kernels::max_decode_queries) {
      launch<kernels::tensor_prefill<KeyQuantizer, ValueQuantizer, Dim, Extras>>();
    }
  }

  void merge() const {
    if (!work_.one_item_each) launch<kernels::merge_chunks<KeyQuantizer, ValueQuantizer>>();
  }

  template <class Kernel>
  void launch() const {
    const step_limits& limits = work_.limits;
    launch_units<Kernel, Backend>(
        device_, arguments_, Kernel::max_units(arguments_, limits.sequences, limits.queries, work_.max_items), stream_);
  }

  const arguments_type& arguments_;
  const device_work& work_;
  const device_properties& device_;
  stream_ref stream_;
};

/// Launches one attention call. Queries are rotated before it and outputs after it where the quantizers rotate.
template <class Backend, class KeyQuantizer, class ValueQuantizer, int... Dims>
void launch_attention(const kernels::attention_arguments<KeyQuantizer, ValueQuantizer>& arguments,
                      const device_properties& device, stream_ref stream, head_dim_list<Dims...> dims) {
  check_compiled(arguments.view, dims);
  if constexpr (rotates_v<KeyQuantizer, ValueQuantizer>) {
    static_assert((pagoda::detail::can_rotate(Dims) && ...),
                  "pagoda: one of these head dims is not 1, 3, 5, 7 or 9 times a power of two, and hadamard<Q> rotates "
                  "no others");
    const batch_view& batch = arguments.view.batch;
    const std::int64_t heads = std::int64_t{arguments.view.kv_heads} * arguments.group;
    auto plain = unrotated(arguments);
    if constexpr (is_rotated_v<KeyQuantizer>) {
      const std::int64_t dim = arguments.view.key_dim;
      plain.queries = work_rows(batch.work->rotated_inputs, arguments.queries.tokens, heads, dim);
      launch_rotation<Backend>(arguments.queries, plain.queries, batch, batch.query_offsets, heads, dim, false, device,
                               stream);
    }
    if constexpr (is_rotated_v<ValueQuantizer>) {
      plain.output = work_rows(batch.work->rotated_outputs, arguments.output.tokens, heads, arguments.view.value_dim);
    }
    attention_launch<Backend, unrotated_t<KeyQuantizer>, unrotated_t<ValueQuantizer>>(plain, device, stream).run(dims);
    if constexpr (is_rotated_v<ValueQuantizer>) {
      launch_rotation<Backend>(plain.output, arguments.output, batch, batch.query_offsets, heads,
                               arguments.view.value_dim, true, device, stream);
    }
  } else {
    attention_launch<Backend, KeyQuantizer, ValueQuantizer>(arguments, device, stream).run(dims);
  }
}

}  // namespace detail
}  // namespace pagoda::cuda
