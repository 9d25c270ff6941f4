// SPDX-License-Identifier: Apache-2.0
/// @file A small paged decode over the execution context: what the context costs is measured on it. See twin.cu.
#pragma once

#include <cstdint>

#include <pagoda/dtype.hpp>
#include <pagoda/simt/execution_context.hpp>

namespace pagoda_gates {

/// What both twins are launched with. Shapes: queries and output [sequences, kv_heads, group, head_dim]; keys and
/// values [blocks, kv_heads, block_size, head_dim]; tables [sequences, table_stride].
struct twin_arguments {
  const pagoda::half* queries;
  const pagoda::half* keys;
  const pagoda::half* values;
  const std::int32_t* tables;
  const std::int32_t* lengths;
  float* output;
  std::int32_t table_stride;
  std::int32_t kv_heads;
  float scale_log2;
};

/// One block for each sequence and kv head. A row is read by 16 lanes, 16 bytes each, so that a warp reads two rows at
/// a time; the warps take turns over the rows and meet in shared memory at the end.
template <int Group>
struct twin_decode {
  using arguments = twin_arguments;
  static constexpr int head_dim = 128;
  static constexpr int block_size = 16;
  static constexpr int warps = 4;
  static constexpr int threads = 32 * warps;
  static constexpr int row_lanes = head_dim / 8;
  static constexpr int rows = 32 / row_lanes;
  static constexpr int shared_bytes = warps * Group * (2 + head_dim) * 4;

  template <pagoda::simt::execution_context Context>
  PAGODA_HOST_DEVICE static void run(Context& ctx, const arguments& args) {
    const int lane = ctx.lane();
    const int warp = ctx.warp();
    const int column = lane % row_lanes * 8;
    const auto sequence = static_cast<std::int64_t>(ctx.block_index().x);
    const auto head = static_cast<std::int64_t>(ctx.block_index().y);
    const std::int32_t length = ctx.ldg(args.lengths + sequence);
    const std::int32_t* table = args.tables + sequence * args.table_stride;
    const std::int64_t first_query = (sequence * args.kv_heads + head) * Group * head_dim;

    float query[Group][8];
    float sum[Group][8];
    float largest[Group];
    float weight[Group];
    PAGODA_KERNEL_UNROLL
    for (int g = 0; g < Group; ++g) {
      unpack(ctx.ldg(reinterpret_cast<const pagoda::simt::words4*>(args.queries + first_query + g * head_dim + column)),
             query[g]);
      PAGODA_KERNEL_UNROLL
      for (int i = 0; i < 8; ++i) {
        query[g][i] *= args.scale_log2;
        sum[g][i] = 0;
      }
      largest[g] = -1e30f;
      weight[g] = 0;
    }
    for (std::int32_t first = warp * rows; first < length; first += warps * rows) {
      const std::int32_t token = first + lane / row_lanes;
      const bool is_valid = token < length;
      const std::int32_t read = is_valid ? token : length - 1;
      const std::int64_t block = ctx.ldg(table + read / block_size);
      const std::int64_t row = ((block * args.kv_heads + head) * block_size + read % block_size) * head_dim + column;
      float key[8];
      float value[8];
      unpack(ctx.ldg(reinterpret_cast<const pagoda::simt::words4*>(args.keys + row)), key);
      unpack(ctx.ldg(reinterpret_cast<const pagoda::simt::words4*>(args.values + row)), value);
      PAGODA_KERNEL_UNROLL
      for (int g = 0; g < Group; ++g) {
        float score = 0;
        PAGODA_KERNEL_UNROLL
        for (int i = 0; i < 8; ++i) score += query[g][i] * key[i];
        PAGODA_KERNEL_UNROLL
        for (int lanes = row_lanes / 2; lanes > 0; lanes /= 2) score += ctx.shfl_xor(score, lanes);
        score = is_valid ? score : -1e30f;
        const float next = score > largest[g] ? score : largest[g];
        const float old = ctx.exp2(largest[g] - next);
        const float fresh = is_valid ? ctx.exp2(score - next) : 0.0f;
        largest[g] = next;
        weight[g] = weight[g] * old + fresh;
        PAGODA_KERNEL_UNROLL
        for (int i = 0; i < 8; ++i) sum[g][i] = sum[g][i] * old + fresh * value[i];
      }
    }

    auto sums = pagoda::simt::shared<float>(ctx, warps * Group * head_dim);
    auto all_largest = pagoda::simt::shared<float>(ctx, warps * Group);
    auto weights = pagoda::simt::shared<float>(ctx, warps * Group);
    PAGODA_KERNEL_UNROLL
    for (int g = 0; g < Group; ++g) {
      const float other = ctx.shfl_xor(largest[g], row_lanes);
      const float next = other > largest[g] ? other : largest[g];
      const float mine = ctx.exp2(largest[g] - next);
      const float theirs = ctx.exp2(other - next);
      weight[g] = weight[g] * mine + ctx.shfl_xor(weight[g], row_lanes) * theirs;
      PAGODA_KERNEL_UNROLL
      for (int i = 0; i < 8; ++i) sum[g][i] = sum[g][i] * mine + ctx.shfl_xor(sum[g][i], row_lanes) * theirs;
      if (lane < row_lanes) {
        PAGODA_KERNEL_UNROLL
        for (int i = 0; i < 8; ++i) sums[(warp * Group + g) * head_dim + column + i] = sum[g][i];
        if (lane == 0) {
          all_largest[warp * Group + g] = next;
          weights[warp * Group + g] = weight[g];
        }
      }
    }
    ctx.sync();
    for (int i = ctx.thread_index(); i < Group * head_dim; i += threads) {
      const int g = i / head_dim;
      float next = -1e30f;
      PAGODA_KERNEL_UNROLL
      for (int w = 0; w < warps; ++w) {
        const float other = all_largest[w * Group + g];
        next = other > next ? other : next;
      }
      float total = 0;
      float result = 0;
      PAGODA_KERNEL_UNROLL
      for (int w = 0; w < warps; ++w) {
        const float share = ctx.exp2(all_largest[w * Group + g] - next);
        total += weights[w * Group + g] * share;
        result += sums[(w * Group + g) * head_dim + i % head_dim] * share;
      }
      ctx.store(args.output + first_query + i, total > 0 ? result / total : 0.0f);
    }
  }

 private:
  PAGODA_KERNEL_FUNCTION static void unpack(const pagoda::simt::words4& words, float (&to)[8]) {
    PAGODA_KERNEL_UNROLL
    for (int i = 0; i < 4; ++i) {
      to[2 * i] = pagoda::to_float(pagoda::half{static_cast<std::uint16_t>(words.w[i] & 0xffffu)});
      to[2 * i + 1] = pagoda::to_float(pagoda::half{static_cast<std::uint16_t>(words.w[i] >> 16)});
    }
  }
};

}  // namespace pagoda_gates
