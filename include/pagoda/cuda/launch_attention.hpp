// SPDX-License-Identifier: Apache-2.0
/// @file Which kernels an attention call launches. Included where kernels are compiled: by attention.cuh for CUDA, by
/// host_backend.hpp for the host context.
#pragma once

#include <cstdint>
#include <string>

#include <pagoda/cuda/attention.hpp>
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

/// One attention call, its kernels still to be chosen.
template <class Backend, class KeyQuantizer, class ValueQuantizer>
class attention_launch {
 public:
  using arguments_type = kernels::attention_arguments<KeyQuantizer, ValueQuantizer>;

  attention_launch(const arguments_type& arguments, const device_properties& device, stream_ref stream)
      : arguments_(arguments), work_(*arguments.view.batch.work), device_(device), stream_(stream) {}

  template <int... Dims>
  void run(head_dim_list<Dims...> dims) const {
    if constexpr (has_tensor_path_v<KeyQuantizer, ValueQuantizer>) {
      if (attention_path(arguments_.view) == compute_path::tensor_cores) {
        const bool found = ((arguments_.view.key_dim == Dims && run_tensor<Dims>()) || ...);
        if (!found) refuse(dims);
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

  template <int... Dims>
  PAGODA_COLD void refuse(head_dim_list<Dims...>) const {
    std::string compiled;
    ((compiled += (compiled.empty() ? "" : ", ") + std::to_string(Dims)), ...);
    fail(
        "attention: head_dim ", arguments_.view.key_dim, " of ", std::string_view(KeyQuantizer::name), " keys and ",
        std::string_view(ValueQuantizer::name), " values was not compiled; ",
        compiled.empty() ? "no head_dim was" : "these were: " + compiled,
        ". Add it to the head dims of PAGODA_INSTANTIATE_CUDA (or ..._ATTENTION) for this pair; for the host backend, ",
        "to the pair's head_dims_of");
  }

  const arguments_type& arguments_;
  const device_work& work_;
  const device_properties& device_;
  stream_ref stream_;
};

}  // namespace detail
}  // namespace pagoda::cuda
