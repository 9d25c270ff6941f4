// SPDX-License-Identifier: Apache-2.0
/// @file Compiles the attention kernels of a pair of quantizers.
#pragma once

#include <pagoda/cuda/launch_attention.hpp>
#include <pagoda/cuda/runtime.cuh>

namespace pagoda::cuda {

template <class Backend, class KeyQuantizer, class ValueQuantizer>
void attention_launcher<Backend, KeyQuantizer, ValueQuantizer>::launch(
    const kernels::attention_arguments<KeyQuantizer, ValueQuantizer>& arguments, const device_properties& device,
    stream_ref stream) {
  static_assert(
      requires { sizeof(head_dims_of<Backend, KeyQuantizer, ValueQuantizer>); },
      "pagoda: say PAGODA_INSTANTIATE_CUDA_ATTENTION for this pair of quantizers, or in a file that shall "
      "not compile its kernels PAGODA_EXTERN_CUDA_ATTENTION, before the first call");
  detail::launch_attention<Backend>(arguments, device, stream,
                                    head_dims_of<Backend, KeyQuantizer, ValueQuantizer>());
}

}  // namespace pagoda::cuda

/// Compiles attention for a pair of quantizers: once in a program, in a .cu file, outside every namespace. The head
/// dims are those of the tensor-core kernels; a pair without a tensor path takes none. A type with a comma needs an
/// alias.
#define PAGODA_INSTANTIATE_CUDA_ATTENTION(KeyQuantizer, ValueQuantizer, ...)                    \
  template <>                                                                                   \
  struct pagoda::cuda::head_dims_of<pagoda::cuda::device_backend, KeyQuantizer, ValueQuantizer> \
      : pagoda::cuda::head_dim_list<__VA_ARGS__> {};                                            \
  template struct pagoda::cuda::attention_launcher<pagoda::cuda::device_backend, KeyQuantizer, ValueQuantizer>

/// For .cu files that include this header and call attention, but leave the kernels to another file.
#define PAGODA_EXTERN_CUDA_ATTENTION(KeyQuantizer, ValueQuantizer) \
  extern template struct pagoda::cuda::attention_launcher<pagoda::cuda::device_backend, KeyQuantizer, ValueQuantizer>
