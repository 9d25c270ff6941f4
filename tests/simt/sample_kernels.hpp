// SPDX-License-Identifier: Apache-2.0
// Kernels that several of these tests run.
#pragma once

#include <cstddef>
#include <vector>

#include <pagoda/simt/host_context.hpp>

namespace simt_tests {

struct scale_by_two {
  static constexpr int threads = 128;
  static constexpr int shared_bytes = 0;
  struct arguments {
    const float* from;
    float* to;
    int count;
  };
  template <pagoda::simt::execution_context Context>
  PAGODA_HOST_DEVICE static void run(Context& ctx, const arguments& args) {
    const int i = static_cast<int>(ctx.block_index().x) * threads + ctx.thread_index();
    if (i < args.count) args.to[i] = 2 * ctx.ldg(args.from + i);
  }
};

/// The sum of each block's 128 numbers, by shuffles and one exchange through shared memory.
struct block_sum {
  static constexpr int threads = 128;
  static constexpr int shared_bytes = 4 * 4;
  struct arguments {
    const float* from;
    float* to;
  };
  template <pagoda::simt::execution_context Context>
  PAGODA_HOST_DEVICE static void run(Context& ctx, const arguments& args) {
    auto parts = pagoda::simt::shared<float>(ctx, 4);
    float x = ctx.ldg(args.from + static_cast<int>(ctx.block_index().x) * threads + ctx.thread_index());
    for (int lanes = 16; lanes > 0; lanes /= 2) x += ctx.shfl_xor(x, lanes);
    if (ctx.lane() == 0) parts[ctx.warp()] = x;
    ctx.sync();
    if (ctx.warp() != 0) return;
    x = parts[ctx.lane() % 4];
    for (int lanes = 2; lanes > 0; lanes /= 2) x += ctx.shfl_xor(x, lanes);
    if (ctx.lane() == 0) ctx.store(args.to + ctx.block_index().x, x);
  }
};

inline std::vector<float> block_sums(pagoda::simt::host_machine& machine, std::uint32_t blocks) {
  std::vector<float> from(std::size_t{128} * blocks);
  std::uint32_t state = 1;
  for (float& x : from) {
    state = state * 1664525u + 1013904223u;
    x = static_cast<float>(state >> 8) * 0x1p-24f;
  }
  std::vector<float> to(blocks, -1.0f);
  machine.launch<block_sum>({blocks, 1, 1}, {from.data(), to.data()});
  return to;
}

}  // namespace simt_tests
