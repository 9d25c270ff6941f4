// SPDX-License-Identifier: Apache-2.0
/// @file The launch of append. Included where kernels are compiled: by append.cuh and host_backend.hpp.
#pragma once

#include <cstdint>

#include <pagoda/cuda/append.hpp>
#include <pagoda/cuda/launch_rotation.hpp>
#include <pagoda/kernels/append.hpp>

namespace pagoda::cuda::detail {

template <class Backend, class KeyQuantizer, class ValueQuantizer>
void launch_append(const cache_view<KeyQuantizer, ValueQuantizer>& view, const kernels::erased_rows& keys,
                   const kernels::erased_rows& values, const device_properties& device, stream_ref stream) {
  if constexpr (rotates_v<KeyQuantizer, ValueQuantizer>) {
    const device_work& work = *view.batch.work;
    const auto rotated = [&](const kernels::erased_rows& rows, float* memory, std::int64_t dim) {
      const kernels::erased_rows to = work_rows(memory, rows.tokens, view.kv_heads, dim);
      launch_rotation<Backend>(rows, to, view.batch, view.batch.token_offsets, view.kv_heads, dim, false, device,
                               stream);
      return to;
    };
    launch_append<Backend>(
        unrotated(view), is_rotated_v<KeyQuantizer> ? rotated(keys, work.rotated_inputs, view.key_dim) : keys,
        is_rotated_v<ValueQuantizer> ? rotated(values, work.rotated_outputs, view.value_dim) : values, device, stream);
  } else {
    using kernel = kernels::append<KeyQuantizer, ValueQuantizer>;
    const typename kernel::arguments arguments{
        .view = view, .keys = keys, .values = values, .report = view.batch.work->report};
    launch_units<kernel, Backend>(device, arguments, kernel::max_units(arguments), stream);
  }
}

}  // namespace pagoda::cuda::detail
