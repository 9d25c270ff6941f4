// SPDX-License-Identifier: Apache-2.0
/// @file The host backend with launches that can be kept and run again, as a CUDA graph keeps them: with the grids and
/// arguments that they were made with.
#pragma once

#include <functional>
#include <vector>

#include <pagoda/cuda/host_backend.hpp>

namespace pagoda_check {

struct capturing_backend : pagoda::cuda::host_backend {
  using launches = std::vector<std::function<void()>>;

  /// Where launches of this thread go instead of being run; null: they run.
  static launches*& target() {
    static thread_local launches* to = nullptr;
    return to;
  }

  template <pagoda::simt::kernel K>
  static void launch(pagoda::simt::index3 grid, const typename K::arguments& arguments,
                     pagoda::cuda::stream_ref stream) {
    if (target() == nullptr) return pagoda::cuda::host_backend::launch<K>(grid, arguments, stream);
    target()->push_back([=] { pagoda::cuda::host_backend::launch<K>(grid, arguments, stream); });
  }
};

static_assert(pagoda::cuda::backend<capturing_backend>);

}  // namespace pagoda_check

namespace pagoda::cuda {

template <class KeyQuantizer, class ValueQuantizer>
struct head_dims_of<pagoda_check::capturing_backend, KeyQuantizer, ValueQuantizer> : head_dim_list<128> {};
template <>
struct head_dims_of<pagoda_check::capturing_backend, identity<half>, identity<half>> : head_dim_list<64, 128> {};

template <class KeyQuantizer, class ValueQuantizer>
struct attention_launcher<pagoda_check::capturing_backend, KeyQuantizer, ValueQuantizer> {
  static void launch(const kernels::attention_arguments<KeyQuantizer, ValueQuantizer>& arguments,
                     const device_properties& device, stream_ref stream) {
    using backend_type = pagoda_check::capturing_backend;
    detail::attention_launch<backend_type, KeyQuantizer, ValueQuantizer>(arguments, device, stream)
        .run(head_dims_of<backend_type, KeyQuantizer, ValueQuantizer>());
  }
};

template <class KeyQuantizer, class ValueQuantizer>
struct append_launcher<pagoda_check::capturing_backend, KeyQuantizer, ValueQuantizer> {
  static void launch(const cache_view<KeyQuantizer, ValueQuantizer>& view, const kernels::erased_rows& keys,
                     const kernels::erased_rows& values, const device_properties& device, stream_ref stream) {
    detail::launch_append<pagoda_check::capturing_backend>(view, keys, values, device, stream);
  }
};

template <class KeyQuantizer, class ValueQuantizer>
struct execute_launcher<pagoda_check::capturing_backend, KeyQuantizer, ValueQuantizer> {
  static void launch(const execute_call<KeyQuantizer, ValueQuantizer>& call, const device_properties& device,
                     stream_ref stream) {
    detail::launch_execute<pagoda_check::capturing_backend>(call, device, stream);
  }
};

namespace detail {

template <>
struct plan_launcher<pagoda_check::capturing_backend> {
  static void launch(const batch_view& batch, const kernels::chunk_plan& plan, std::int32_t max_items,
                     stream_ref stream) {
    launch_plan<pagoda_check::capturing_backend>(batch, plan, max_items, stream);
  }
};

}  // namespace detail
}  // namespace pagoda::cuda
