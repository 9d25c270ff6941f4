// SPDX-License-Identifier: Apache-2.0
// The kernels of mutation_case.hpp, for the PTX interpreter.
#include <pagoda/kernels/append.hpp>
#include <pagoda/kernels/merge.hpp>
#include <pagoda/kernels/plan_chunks.hpp>
#include <pagoda/kernels/tensor_decode.hpp>
#include <pagoda/kernels/tensor_prefill.hpp>
#include <pagoda/quantizer/identity.hpp>
#include <pagoda/quantizer/int8_per_token.hpp>
#include <pagoda/simt/device_context.cuh>

namespace {
using f16 = pagoda::identity<pagoda::half>;
using pagoda::int8_per_token;
}  // namespace

#define ENTRY(...)                                                            \
  template __global__ void pagoda::simt::entry<pagoda::kernels::__VA_ARGS__>( \
      const __grid_constant__ typename pagoda::kernels::__VA_ARGS__::arguments);

ENTRY(append<f16, f16>)
ENTRY(append<int8_per_token, int8_per_token>)
ENTRY(plan_chunks)
ENTRY(tensor_decode<f16, f16, 64, false>)
ENTRY(tensor_decode<int8_per_token, int8_per_token, 64, false>)
ENTRY(tensor_prefill<f16, f16, 64, false>)
ENTRY(tensor_prefill<int8_per_token, int8_per_token, 64, false>)
ENTRY(merge_chunks<f16, f16>)
ENTRY(merge_chunks<int8_per_token, int8_per_token>)
