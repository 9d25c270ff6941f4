// SPDX-License-Identifier: Apache-2.0
/// @file The launch of plan_chunks. Included where kernels are compiled: by instantiate.cuh and host_backend.hpp.
#pragma once

#include <cstdint>

#include <pagoda/cuda/launch.hpp>
#include <pagoda/cuda/step_tables.hpp>
#include <pagoda/kernels/plan_chunks.hpp>

namespace pagoda::cuda::detail {

template <class Backend>
void launch_plan(const batch_view& batch, const kernels::chunk_plan& plan, std::int32_t max_items, stream_ref stream) {
  launch_units<kernels::plan_chunks, Backend>(usable_device<Backend>(),
                                              {.batch = batch, .plan = plan, .max_items = max_items}, 1, stream);
}

}  // namespace pagoda::cuda::detail
