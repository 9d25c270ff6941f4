// SPDX-License-Identifier: Apache-2.0
/// @file Compiles the append kernel of a pair of quantizers.
#pragma once

#include <pagoda/cuda/launch_append.hpp>
#include <pagoda/cuda/runtime.cuh>

namespace pagoda::cuda {

template <class Backend, class KeyQuantizer, class ValueQuantizer>
void append_launcher<Backend, KeyQuantizer, ValueQuantizer>::launch(
    const cache_view<KeyQuantizer, ValueQuantizer>& view, const kernels::erased_rows& keys,
    const kernels::erased_rows& values, const device_properties& device, stream_ref stream) {
  detail::launch_append<Backend>(view, keys, values, device, stream);
}

}  // namespace pagoda::cuda

/// Compiles append for a pair of quantizers: once in a program, in a .cu file, outside every namespace.
#define PAGODA_INSTANTIATE_CUDA_APPEND(KeyQuantizer, ValueQuantizer) \
  template struct pagoda::cuda::append_launcher<pagoda::cuda::device_backend, KeyQuantizer, ValueQuantizer>

/// For .cu files that include this header and call append, but leave the kernel to another file.
#define PAGODA_EXTERN_CUDA_APPEND(KeyQuantizer, ValueQuantizer) \
  extern template struct pagoda::cuda::append_launcher<pagoda::cuda::device_backend, KeyQuantizer, ValueQuantizer>
