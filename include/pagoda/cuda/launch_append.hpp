// SPDX-License-Identifier: Apache-2.0
/// @file The launch of append. Included where kernels are compiled: by append.cuh and host_backend.hpp.
#pragma once

#include <pagoda/cuda/append.hpp>
#include <pagoda/kernels/append.hpp>

namespace pagoda::cuda::detail {

template <class Backend, class KeyQuantizer, class ValueQuantizer>
void launch_append(const cache_view<KeyQuantizer, ValueQuantizer>& view, const kernels::erased_rows& keys,
                   const kernels::erased_rows& values, const device_properties& device, stream_ref stream) {
  using kernel = kernels::append<KeyQuantizer, ValueQuantizer>;
  const typename kernel::arguments arguments{
      .view = view, .keys = keys, .values = values, .report = view.batch.work->report};
  launch_units<kernel, Backend>(device, arguments, kernel::max_units(arguments), stream);
}

}  // namespace pagoda::cuda::detail
