// SPDX-License-Identifier: Apache-2.0
/// @file One macro for all kernels of a pair of quantizers, and one for what every program needs once.
///
///     #include <pagoda/pagoda.cuh>
///     PAGODA_INSTANTIATE_CUDA_RUNTIME;                                        // in one .cu file of the program
///     PAGODA_INSTANTIATE_CUDA(pagoda::int8_per_token, pagoda::int8_per_token, 64, 128);
#pragma once

#include <pagoda/cuda/append.cuh>
#include <pagoda/cuda/attention.cuh>
#include <pagoda/cuda/execute.cuh>
#include <pagoda/cuda/launch_plan.hpp>
#include <pagoda/cuda/runtime.cuh>

namespace pagoda::cuda::detail {

template <class Backend>
void plan_launcher<Backend>::launch(const batch_view& batch, const kernels::chunk_plan& plan, std::int32_t max_items,
                                    stream_ref stream) {
  launch_plan<Backend>(batch, plan, max_items, stream);
}

}  // namespace pagoda::cuda::detail

/// Compiles the calls of the CUDA runtime and the kernel that plans chunks: once in a program, in a .cu file, outside
/// every namespace.
#define PAGODA_INSTANTIATE_CUDA_RUNTIME        \
  template struct pagoda::cuda::runtime_api<>; \
  template struct pagoda::cuda::detail::plan_launcher<pagoda::cuda::device_backend>

/// Compiles attention, append and execute for a pair of quantizers: once in a program, in a .cu file, outside every
/// namespace. The head dims are those of the tensor-core kernels; a pair without a tensor path takes none. A type with
/// a comma needs an alias.
#define PAGODA_INSTANTIATE_CUDA(KeyQuantizer, ValueQuantizer, ...)              \
  PAGODA_INSTANTIATE_CUDA_ATTENTION(KeyQuantizer, ValueQuantizer, __VA_ARGS__); \
  PAGODA_INSTANTIATE_CUDA_APPEND(KeyQuantizer, ValueQuantizer);                 \
  PAGODA_INSTANTIATE_CUDA_EXECUTE(KeyQuantizer, ValueQuantizer)

/// For .cu files that include this header and call the functions, but leave the kernels to another file. Files that
/// include the .hpp only need nothing.
#define PAGODA_EXTERN_CUDA(KeyQuantizer, ValueQuantizer)      \
  PAGODA_EXTERN_CUDA_ATTENTION(KeyQuantizer, ValueQuantizer); \
  PAGODA_EXTERN_CUDA_APPEND(KeyQuantizer, ValueQuantizer);    \
  PAGODA_EXTERN_CUDA_EXECUTE(KeyQuantizer, ValueQuantizer)
