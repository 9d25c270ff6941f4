// SPDX-License-Identifier: Apache-2.0
/// @file Compiles the copy kernels of a pair of quantizers.
#pragma once

#include <pagoda/cuda/launch_execute.hpp>
#include <pagoda/cuda/runtime.cuh>

namespace pagoda::cuda {

template <class Backend, class KeyQuantizer, class ValueQuantizer>
void execute_launcher<Backend, KeyQuantizer, ValueQuantizer>::launch(
    const execute_call<KeyQuantizer, ValueQuantizer>& call, const device_properties& device, stream_ref stream) {
  detail::launch_execute<Backend>(call, device, stream);
}

}  // namespace pagoda::cuda

/// Compiles the copy kernels for a pair of quantizers: once in a program, in a .cu file, outside every namespace.
#define PAGODA_INSTANTIATE_CUDA_EXECUTE(KeyQuantizer, ValueQuantizer) \
  template struct pagoda::cuda::execute_launcher<pagoda::cuda::device_backend, KeyQuantizer, ValueQuantizer>

/// For .cu files that include this header and call execute, but leave the kernels to another file.
#define PAGODA_EXTERN_CUDA_EXECUTE(KeyQuantizer, ValueQuantizer) \
  extern template struct pagoda::cuda::execute_launcher<pagoda::cuda::device_backend, KeyQuantizer, ValueQuantizer>
