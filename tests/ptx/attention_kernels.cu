// SPDX-License-Identifier: Apache-2.0
#include <pagoda/kernels/generic_attention.hpp>
#include <pagoda/kernels/merge.hpp>
#include <pagoda/kernels/tensor_decode.hpp>
#include <pagoda/kernels/tensor_prefill.hpp>
#include <pagoda/quantizer/fp8_e4m3.hpp>
#include <pagoda/quantizer/identity.hpp>
#include <pagoda/quantizer/int4_per_token.hpp>
#include <pagoda/quantizer/int8_per_token.hpp>
#include <pagoda/simt/device_context.cuh>

namespace {
using f16 = pagoda::identity<pagoda::half>;
using bf16 = pagoda::identity<pagoda::bfloat16>;
using f32 = pagoda::identity<float>;
using pagoda::fp8_e4m3;
using pagoda::int4_per_token;
using pagoda::int8_per_token;
}  // namespace

#define ENTRY(...)                                                            \
  template __global__ void pagoda::simt::entry<pagoda::kernels::__VA_ARGS__>( \
      const __grid_constant__ typename pagoda::kernels::__VA_ARGS__::arguments);

ENTRY(tensor_decode<f16, f16, 64, false>)
ENTRY(tensor_decode<f16, f16, 64, true>)
ENTRY(tensor_decode<f16, f16, 128, false>)
ENTRY(tensor_decode<bf16, bf16, 64, false>)
ENTRY(tensor_decode<int8_per_token, int8_per_token, 64, false>)
ENTRY(tensor_decode<int8_per_token, int8_per_token, 80, false>)
ENTRY(tensor_decode<int4_per_token, int4_per_token, 64, false>)
ENTRY(tensor_decode<fp8_e4m3, fp8_e4m3, 64, false>)
ENTRY(tensor_prefill<f16, f16, 64, false>)
ENTRY(tensor_prefill<f16, f16, 64, true>)
ENTRY(tensor_prefill<f16, f16, 128, false>)
ENTRY(tensor_prefill<bf16, bf16, 64, false>)
ENTRY(tensor_prefill<int8_per_token, int8_per_token, 64, false>)
ENTRY(tensor_prefill<int8_per_token, int8_per_token, 80, false>)
ENTRY(tensor_prefill<int4_per_token, int4_per_token, 64, false>)
ENTRY(tensor_prefill<fp8_e4m3, fp8_e4m3, 64, false>)
ENTRY(generic_attention<f32, f32>)
ENTRY(generic_attention<int4_per_token, int4_per_token>)
ENTRY(merge_chunks<f16, f16>)
ENTRY(merge_chunks<bf16, bf16>)
ENTRY(merge_chunks<f32, f32>)
ENTRY(merge_chunks<int8_per_token, int8_per_token>)
ENTRY(merge_chunks<int4_per_token, int4_per_token>)
ENTRY(merge_chunks<fp8_e4m3, fp8_e4m3>)
