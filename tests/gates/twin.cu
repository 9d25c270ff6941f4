// SPDX-License-Identifier: Apache-2.0
// Kernels through the execution context, and once more as one writes them in plain CUDA: the decode of twin_kernel.hpp,
// and copy_blocks, which ships. Both of a pair must become the same machine code: the context then costs nothing. (nvcc
// optimises a function before it inlines it, so small things count: with threadIdx.x % 32 written out where it is used,
// a few moves come in another order.)
#include <cuda_fp16.h>

#include <pagoda/kernels/copy.hpp>
#include <pagoda/simt/device_context.cuh>

#include "twin_kernel.hpp"

namespace pagoda_gates {

struct plain_arguments {
  const __half* queries;
  const __half* keys;
  const __half* values;
  const int* tables;
  const int* lengths;
  float* output;
  int table_stride;
  int kv_heads;
  float scale_log2;
};

__device__ __forceinline__ int lane_id() {
  return static_cast<int>(threadIdx.x % 32);
}
__device__ __forceinline__ int warp_id() {
  return static_cast<int>(threadIdx.x / 32);
}

__device__ __forceinline__ float fast_exp2(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

__device__ __forceinline__ void unpack(const uint4 words, float (&to)[8]) {
  const unsigned w[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    to[2 * i] = __half2float(__ushort_as_half(static_cast<unsigned short>(w[i] & 0xffff)));
    to[2 * i + 1] = __half2float(__ushort_as_half(static_cast<unsigned short>(w[i] >> 16)));
  }
}

template <int Group>
__global__ void __launch_bounds__(128, 1) plain_decode(const __grid_constant__ plain_arguments args) {
  constexpr int head_dim = 128;
  constexpr int block_size = 16;
  constexpr int warps = 4;
  constexpr int row_lanes = head_dim / 8;
  constexpr int rows = 32 / row_lanes;

  const int lane = lane_id();
  const int warp = warp_id();
  const int column = lane % row_lanes * 8;
  const long long sequence = blockIdx.x;
  const long long head = blockIdx.y;
  const int length = __ldg(args.lengths + sequence);
  const int* table = args.tables + sequence * args.table_stride;
  const long long first_query = (sequence * args.kv_heads + head) * Group * head_dim;

  float query[Group][8];
  float sum[Group][8];
  float largest[Group];
  float weight[Group];
#pragma unroll
  for (int g = 0; g < Group; ++g) {
    unpack(__ldg(reinterpret_cast<const uint4*>(args.queries + first_query + g * head_dim + column)), query[g]);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      query[g][i] *= args.scale_log2;
      sum[g][i] = 0;
    }
    largest[g] = -1e30f;
    weight[g] = 0;
  }
  for (int first = warp * rows; first < length; first += warps * rows) {
    const int token = first + lane / row_lanes;
    const bool is_valid = token < length;
    const int read = is_valid ? token : length - 1;
    const long long block = __ldg(table + read / block_size);
    const long long row = ((block * args.kv_heads + head) * block_size + read % block_size) * head_dim + column;
    float key[8];
    float value[8];
    unpack(__ldg(reinterpret_cast<const uint4*>(args.keys + row)), key);
    unpack(__ldg(reinterpret_cast<const uint4*>(args.values + row)), value);
#pragma unroll
    for (int g = 0; g < Group; ++g) {
      float score = 0;
#pragma unroll
      for (int i = 0; i < 8; ++i) score += query[g][i] * key[i];
#pragma unroll
      for (int lanes = row_lanes / 2; lanes > 0; lanes /= 2) score += __shfl_xor_sync(0xffffffffu, score, lanes);
      score = is_valid ? score : -1e30f;
      const float next = score > largest[g] ? score : largest[g];
      const float old = fast_exp2(largest[g] - next);
      const float fresh = is_valid ? fast_exp2(score - next) : 0.0f;
      largest[g] = next;
      weight[g] = weight[g] * old + fresh;
#pragma unroll
      for (int i = 0; i < 8; ++i) sum[g][i] = sum[g][i] * old + fresh * value[i];
    }
  }

  extern __shared__ __align__(16) unsigned char memory[];
  float* sums = reinterpret_cast<float*>(memory);
  float* all_largest = sums + warps * Group * head_dim;
  float* weights = all_largest + warps * Group;
#pragma unroll
  for (int g = 0; g < Group; ++g) {
    const float other = __shfl_xor_sync(0xffffffffu, largest[g], row_lanes);
    const float next = other > largest[g] ? other : largest[g];
    const float mine = fast_exp2(largest[g] - next);
    const float theirs = fast_exp2(other - next);
    weight[g] = weight[g] * mine + __shfl_xor_sync(0xffffffffu, weight[g], row_lanes) * theirs;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      sum[g][i] = sum[g][i] * mine + __shfl_xor_sync(0xffffffffu, sum[g][i], row_lanes) * theirs;
    }
    if (lane < row_lanes) {
#pragma unroll
      for (int i = 0; i < 8; ++i) sums[(warp * Group + g) * head_dim + column + i] = sum[g][i];
      if (lane == 0) {
        all_largest[warp * Group + g] = next;
        weights[warp * Group + g] = weight[g];
      }
    }
  }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < Group * head_dim; i += 128) {
    const int g = i / head_dim;
    float next = -1e30f;
#pragma unroll
    for (int w = 0; w < warps; ++w) {
      const float other = all_largest[w * Group + g];
      next = other > next ? other : next;
    }
    float total = 0;
    float result = 0;
#pragma unroll
    for (int w = 0; w < warps; ++w) {
      const float share = fast_exp2(all_largest[w * Group + g] - next);
      total += weights[w * Group + g] * share;
      result += sums[(w * Group + g) * head_dim + i % head_dim] * share;
    }
    args.output[first_query + i] = total > 0 ? result / total : 0.0f;
  }
}

struct block_pair {
  int from;
  int to;
};

struct plain_copy_arguments {
  unsigned char* base;
  long long block_stride;
  long long piece_stride;
  long long piece_bytes;
  int pieces;
  const block_pair* copies;
  int max_copies;
  const int* count;
};

__device__ __forceinline__ void copy_tile(const unsigned char* from, unsigned char* to, long long words) {
  uint4 values[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (i * 256 < words) values[i] = reinterpret_cast<const uint4*>(from)[i * 256];
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (i * 256 < words) reinterpret_cast<uint4*>(to)[i * 256] = values[i];
  }
}

__global__ void __launch_bounds__(256, 1) plain_copy_blocks(const __grid_constant__ plain_copy_arguments args) {
  constexpr long long tile_words = 256 * 4;
  const auto tiles = static_cast<unsigned>((args.piece_bytes / 16 + tile_words - 1) / tile_words);
  const auto pieces = static_cast<unsigned>(args.pieces);
  const int listed = args.count == nullptr ? args.max_copies : __ldg(args.count);
  const int kept = listed < args.max_copies ? listed : args.max_copies;
  const unsigned units = static_cast<unsigned>(kept < 0 ? 0 : kept) * pieces * tiles;
  for (unsigned unit = blockIdx.x; unit < units; unit += gridDim.x) {
    const unsigned tile = unit % tiles;
    const unsigned piece = unit / tiles % pieces;
    const block_pair* copy = args.copies + unit / tiles / pieces;
    const long long from = __ldg(&copy->from);
    const long long to = __ldg(&copy->to);
    const int thread = static_cast<int>(threadIdx.x);
    const long long begin = piece * args.piece_stride + (static_cast<long long>(tile) * tile_words + thread) * 16;
    copy_tile(args.base + from * args.block_stride + begin, args.base + to * args.block_stride + begin,
              args.piece_bytes / 16 - static_cast<long long>(tile) * tile_words - thread);
  }
}

template __global__ void plain_decode<1>(const __grid_constant__ plain_arguments);
template __global__ void plain_decode<4>(const __grid_constant__ plain_arguments);

}  // namespace pagoda_gates

template __global__ void pagoda::simt::entry<pagoda_gates::twin_decode<1>>(
    const __grid_constant__ pagoda_gates::twin_arguments);
template __global__ void pagoda::simt::entry<pagoda_gates::twin_decode<4>>(
    const __grid_constant__ pagoda_gates::twin_arguments);
template __global__ void pagoda::simt::entry<pagoda::kernels::copy_blocks>(
    const __grid_constant__ pagoda::kernels::copy_blocks::arguments);
