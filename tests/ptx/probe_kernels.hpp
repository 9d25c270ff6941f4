// SPDX-License-Identifier: Apache-2.0
/// @file Small kernels that together use every member of the execution context.
#pragma once

#include <cstddef>
#include <cstdint>

#include <pagoda/simt/execution_context.hpp>

namespace pagoda_test {

using pagoda::simt::execution_context;
using pagoda::simt::in_flight;
using pagoda::simt::shared;
using pagoda::simt::words4;

/// Nine numbers a thread: who it is.
struct probe_indices {
  static constexpr int threads = 64;
  static constexpr int shared_bytes = 0;
  static constexpr int results = 9;
  struct arguments {
    std::uint32_t* to;
  };

  template <execution_context Context>
  PAGODA_HOST_DEVICE static void run(Context& ctx, const arguments& args) {
    const pagoda::simt::index3 block = ctx.block_index();
    const pagoda::simt::index3 grid = ctx.grid_dim();
    const std::uint32_t linear = (block.z * grid.y + block.y) * grid.x + block.x;
    std::uint32_t* to = args.to + (linear * threads + static_cast<std::uint32_t>(ctx.thread_index())) * results;
    const std::uint32_t values[results] = {static_cast<std::uint32_t>(ctx.thread_index()),
                                           static_cast<std::uint32_t>(ctx.lane()),
                                           static_cast<std::uint32_t>(ctx.warp()),
                                           block.x,
                                           block.y,
                                           block.z,
                                           grid.x,
                                           grid.y,
                                           grid.z};
    for (int i = 0; i < results; ++i) ctx.store(to + i, values[i]);
  }
};

/// Shuffles of floats and integers, with whole and half masks; ballots. Twelve numbers a thread.
struct probe_warp {
  static constexpr int threads = 64;
  static constexpr int shared_bytes = 0;
  static constexpr int results = 12;
  struct arguments {
    const float* floats;
    const std::uint32_t* numbers;
    std::uint32_t* to;
  };

  template <execution_context Context>
  PAGODA_HOST_DEVICE static void run(Context& ctx, const arguments& args) {
    const int thread = ctx.thread_index();
    const int lane = ctx.lane();
    const float x = ctx.ldg(args.floats + thread);
    const std::uint32_t n = ctx.ldg(args.numbers + thread);
    const std::uint32_t half_mask = lane < 16 ? 0x0000ffffu : 0xffff0000u;
    std::uint32_t* to = args.to + thread * results;
    ctx.store(to + 0, pagoda::detail::float_bits(ctx.shfl(x, (lane * 7 + 3) % 32)));
    ctx.store(to + 1, pagoda::detail::float_bits(ctx.shfl_xor(x, 5)));
    ctx.store(to + 2, pagoda::detail::float_bits(ctx.shfl_up(x, 3)));
    ctx.store(to + 3, pagoda::detail::float_bits(ctx.shfl_down(x, 9)));
    ctx.store(to + 4, ctx.shfl(n, 31 - lane));
    ctx.store(to + 5, ctx.shfl_xor(n, 16));
    ctx.store(to + 6, ctx.shfl_up(n, 1));
    ctx.store(to + 7, ctx.shfl_down(n, 31));
    ctx.store(to + 8, ctx.ballot((n & 1u) != 0));
    // The two halves of the warp part, and each has a mask of its own.
    if (lane < 16) {
      ctx.store(to + 9, ctx.shfl_xor(n, 1, half_mask));
      ctx.store(to + 10, ctx.ballot(n > 100, half_mask));
    } else {
      ctx.store(to + 9, ctx.shfl_xor(n, 2, half_mask));
      ctx.store(to + 10, ctx.ballot(n > 1000, half_mask));
    }
    // Lanes leave a loop one after another and meet again.
    std::uint32_t steps = 0;
    for (std::uint32_t v = n; v > 1; ++steps) v = v % 2 == 0 ? v / 2 : 3 * v + 1;
    ctx.store(to + 11, steps + (ctx.ballot(steps % 2 == 1) << 16));
  }
};

/// Loads and stores of 1 to 16 bytes, and a counter that all threads raise.
struct probe_global {
  static constexpr int threads = 64;
  static constexpr int shared_bytes = 0;
  struct arguments {
    const std::uint8_t* from1;
    const std::uint16_t* from2;
    const std::uint32_t* from4;
    const std::uint64_t* from8;
    const words4* from16;
    std::uint8_t* to1;
    std::uint16_t* to2;
    std::uint32_t* to4;
    std::uint64_t* to8;
    words4* to16;
    std::uint32_t* counter;
    int count;
  };

  template <execution_context Context>
  PAGODA_HOST_DEVICE static void run(Context& ctx, const arguments& args) {
    const int i = static_cast<int>(ctx.block_index().x) * threads + ctx.thread_index();
    if (i >= args.count) return;
    const int j = args.count - 1 - i;
    const std::uint8_t one = static_cast<std::uint8_t>(ctx.ldg(args.from1 + i) + ctx.load(args.from1 + j));
    ctx.store(args.to1 + i, one);
    const std::uint16_t two = static_cast<std::uint16_t>(ctx.ldg(args.from2 + i) ^ ctx.load(args.from2 + j));
    ctx.store(args.to2 + i, two);
    ctx.store(args.to4 + i, ctx.ldg(args.from4 + i) * 3u + ctx.load(args.from4 + j));
    ctx.store(args.to8 + i, ctx.ldg(args.from8 + i) - 5u * ctx.load(args.from8 + j));
    const words4 a = ctx.ldg(args.from16 + i);
    const words4 b = ctx.load(args.from16 + j);
    ctx.store(args.to16 + i, words4{{a.w[3] + b.w[0], a.w[2] + b.w[1], a.w[1] + b.w[2], a.w[0] + b.w[3]}});
    std::uint32_t seen = ctx.load(args.counter);
    for (;;) {
      const std::uint32_t old = ctx.atomic_cas(args.counter, seen, seen + 1u + static_cast<std::uint32_t>(i));
      if (old == seen) break;
      seen = old;
    }
  }
};

/// Shared memory in all widths, across the block and across a warp.
struct probe_shared {
  static constexpr int threads = 64;
  static constexpr int shared_bytes = threads * (4 + 32 + 2);
  static constexpr int results = 8;
  struct arguments {
    std::uint32_t* to;
  };

  template <execution_context Context>
  PAGODA_HOST_DEVICE static void run(Context& ctx, const arguments& args) {
    const int thread = ctx.thread_index();
    const int other = threads - 1 - thread;
    const std::uint32_t seed = static_cast<std::uint32_t>(thread) * 0x01000193u + 0x811c9dc5u;
    auto floats = shared<float>(ctx, threads);
    auto bytes = shared<std::byte>(ctx, threads * 32);
    auto halves = shared<pagoda::half>(ctx, threads);
    floats[thread] = 0.5f * static_cast<float>(thread);
    ctx.sts(bytes, 32 * thread, words4{{seed, seed + 1, seed + 2, seed + 3}});
    ctx.sts(bytes, 32 * thread + 16, std::uint64_t{seed} << 20);
    ctx.sts(bytes, 32 * thread + 24, seed ^ 0xffu);
    ctx.sts(bytes, 32 * thread + 28, static_cast<std::uint16_t>(seed >> 3));
    ctx.sts(bytes, 32 * thread + 30, static_cast<std::uint8_t>(seed >> 5));
    halves[thread] = pagoda::from_float<pagoda::half>(static_cast<float>(thread) * 0.25f);
    ctx.sync();
    words4 sixteen = {};
    std::uint64_t eight = 0;
    std::uint32_t four = 0;
    std::uint16_t two = 0;
    std::uint8_t one = 0;
    ctx.lds(bytes, 32 * other, sixteen);
    ctx.lds(bytes, 32 * other + 16, eight);
    ctx.lds(bytes, 32 * other + 24, four);
    ctx.lds(bytes, 32 * other + 28, two);
    ctx.lds(bytes, 32 * other + 30, one);
    const float number = floats[other];
    const pagoda::half narrow = halves[other];
    ctx.sync();
    // Within a warp, sync_warp is enough.
    floats[thread] = number + 1.0f;
    ctx.sync_warp();
    const float neighbour = floats[thread ^ 1];
    std::uint32_t* to = args.to + thread * results;
    ctx.store(to + 0, sixteen.w[0] + 3 * sixteen.w[1] + 5 * sixteen.w[2] + 7 * sixteen.w[3]);
    ctx.store(to + 1, static_cast<std::uint32_t>(eight >> 20));
    ctx.store(to + 2, four);
    ctx.store(to + 3, std::uint32_t{two});
    ctx.store(to + 4, std::uint32_t{one});
    ctx.store(to + 5, pagoda::detail::float_bits(number));
    ctx.store(to + 6, pagoda::detail::float_bits(neighbour));
    ctx.store(to + 7, pagoda::detail::float_bits(pagoda::to_float(narrow)));
  }
};

/// Two groups of asynchronous copies, some of which fill with zeros.
struct probe_async {
  static constexpr int threads = 32;
  static constexpr int shared_bytes = threads * 32;
  struct arguments {
    const std::byte* from;  ///< 16 bytes a thread, then 4 bytes a thread
    std::uint32_t* to;      ///< 8 words a thread
  };

  template <execution_context Context>
  PAGODA_HOST_DEVICE static void run(Context& ctx, const arguments& args) {
    const int thread = ctx.thread_index();
    auto bytes = shared<std::byte>(ctx, threads * 32);
    // What is not valid is not read: it may point nowhere.
    const bool valid16 = thread % 3 != 1;
    ctx.cp_async16(bytes, 32 * thread, valid16 ? args.from + 16 * thread : nullptr, valid16);
    ctx.cp_async_commit();
    const bool valid4 = thread % 5 != 2;
    ctx.cp_async4(bytes, 32 * thread + 16, valid4 ? args.from + 16 * threads + 4 * thread : nullptr, valid4);
    ctx.cp_async4(bytes, 32 * thread + 20, args.from + 16 * threads + 4 * (threads - 1 - thread), true);
    ctx.cp_async_commit();
    ctx.cp_async_wait_group(in_flight<1>);
    words4 own = {};
    ctx.lds(bytes, 32 * thread, own);  // of the first group, and its own
    ctx.cp_async_wait_group(in_flight<0>);
    ctx.sync_warp();
    std::uint32_t first = 0;
    std::uint32_t second = 0;
    ctx.lds(bytes, 32 * (thread ^ 3) + 16, first);
    ctx.lds(bytes, 32 * (thread ^ 3) + 20, second);
    words4 other = {};
    ctx.lds(bytes, 32 * (thread ^ 1), other);
    std::uint32_t* to = args.to + 8 * thread;
    for (int i = 0; i < 4; ++i) ctx.store(to + i, own.w[i]);
    ctx.store(to + 4, first);
    ctx.store(to + 5, second);
    ctx.store(to + 6, other.w[0]);
    ctx.store(to + 7, other.w[3]);
  }
};

/// Four 8 x 8 matrices of 16-bit elements, one after another, through every form of ldmatrix, and movmatrix.
struct probe_matrices {
  static constexpr int threads = 32;
  static constexpr int shared_bytes = 512;
  static constexpr int results = 13;
  struct arguments {
    const words4* from;  ///< 32 rows of 16 bytes
    std::uint32_t* to;
  };

  template <execution_context Context>
  PAGODA_HOST_DEVICE static void run(Context& ctx, const arguments& args) {
    const int lane = ctx.lane();
    auto bytes = shared<std::byte>(ctx, 512);
    ctx.sts(bytes, 16 * lane, ctx.ldg(args.from + lane));
    ctx.sync_warp();
    std::uint32_t two[2];
    std::uint32_t four[4];
    std::uint32_t* to = args.to + lane * results;
    ctx.ldmatrix_x2(two, bytes, 16 * (lane % 16));
    for (int i = 0; i < 2; ++i) ctx.store(to + i, two[i]);
    ctx.ldmatrix_x4(four, bytes, 16 * lane);
    for (int i = 0; i < 4; ++i) ctx.store(to + 2 + i, four[i]);
    ctx.store(to + 12, ctx.movmatrix_trans(four[3]));
    ctx.ldmatrix_x2_trans(two, bytes, 16 * (16 + lane % 16));
    for (int i = 0; i < 2; ++i) ctx.store(to + 6 + i, two[i]);
    ctx.ldmatrix_x4_trans(four, bytes, 16 * (lane ^ 8));  // matrices 1, 0, 3, 2
    for (int i = 0; i < 4; ++i) ctx.store(to + 8 + i, four[i]);
  }
};

/// d += a b for one tile; a is 16 x 16 by rows, b 8 columns of 16, d 16 x 8 by rows.
template <class Element>
struct probe_mma {
  static constexpr int threads = 32;
  static constexpr int shared_bytes = 0;
  struct arguments {
    const std::uint32_t* a;
    const std::uint32_t* b;
    float* d;
  };

  template <execution_context Context>
  PAGODA_HOST_DEVICE static void run(Context& ctx, const arguments& args) {
    const int g = ctx.lane() / 4;
    const int q = ctx.lane() % 4;
    const std::uint32_t a[4] = {ctx.ldg(args.a + g * 8 + q), ctx.ldg(args.a + (g + 8) * 8 + q),
                                ctx.ldg(args.a + g * 8 + q + 4), ctx.ldg(args.a + (g + 8) * 8 + q + 4)};
    const std::uint32_t b[2] = {ctx.ldg(args.b + g * 8 + q), ctx.ldg(args.b + g * 8 + q + 4)};
    float* upper = args.d + g * 8 + 2 * q;
    float* lower = upper + 64;
    float d[4] = {ctx.load(upper), ctx.load(upper + 1), ctx.load(lower), ctx.load(lower + 1)};
    ctx.mma_m16n8k16(Element{}, d, a, b);
    ctx.store(upper, d[0]);
    ctx.store(upper + 1, d[1]);
    ctx.store(lower, d[2]);
    ctx.store(lower + 1, d[3]);
  }
};

/// exp2 and log2, and the conversions of all element types: what a kernel does with one float.
struct probe_math {
  static constexpr int threads = 32;
  static constexpr int shared_bytes = 0;
  static constexpr int results = 10;
  struct arguments {
    const float* from;
    std::uint32_t* to;
    int count;
  };

  template <execution_context Context>
  PAGODA_HOST_DEVICE static void run(Context& ctx, const arguments& args) {
    const int i = static_cast<int>(ctx.block_index().x) * threads + ctx.thread_index();
    if (i >= args.count) return;
    const float x = ctx.ldg(args.from + i);
    std::uint32_t* to = args.to + i * results;
    const pagoda::half h = pagoda::from_float<pagoda::half>(x);
    const pagoda::bfloat16 b = pagoda::from_float<pagoda::bfloat16>(x);
    const pagoda::float8_e4m3 e4 = pagoda::from_float<pagoda::float8_e4m3>(x);
    const pagoda::float8_e5m2 e5 = pagoda::from_float<pagoda::float8_e5m2>(x);
    ctx.store(to + 0, pagoda::detail::float_bits(ctx.exp2(x)));
    ctx.store(to + 1, pagoda::detail::float_bits(ctx.log2(x)));
    ctx.store(to + 2, std::uint32_t{h.bits});
    ctx.store(to + 3, std::uint32_t{b.bits});
    ctx.store(to + 4, std::uint32_t{e4.bits});
    ctx.store(to + 5, std::uint32_t{e5.bits});
    ctx.store(to + 6, pagoda::detail::float_bits(pagoda::to_float(h)));
    ctx.store(to + 7, pagoda::detail::float_bits(pagoda::to_float(b)));
    ctx.store(to + 8, pagoda::detail::float_bits(pagoda::to_float(e4)));
    ctx.store(to + 9, pagoda::detail::float_bits(pagoda::to_float(e5)));
  }
};

/// C = A B^T for 64 x 64 halves: four warps, a ring of two stages of asynchronous copies, ldmatrix and mma.
struct probe_product {
  static constexpr int threads = 128;
  static constexpr int size = 64;
  static constexpr int stage_bytes = 2 * size * 32;  // 16 columns of A and of B
  static constexpr int shared_bytes = 2 * stage_bytes;
  struct arguments {
    const pagoda::half* a;
    const pagoda::half* b;
    float* c;
  };

  template <execution_context Context>
  PAGODA_HOST_DEVICE static void run(Context& ctx, const arguments& args) {
    const int lane = ctx.lane();
    auto ring = shared<std::byte>(ctx, shared_bytes);
    const auto issue = [&](int step) {
      if (step < size / 16) {
        const int row = ctx.thread_index() / 2;
        const int part = ctx.thread_index() % 2;
        const int to = step % 2 * stage_bytes + row * 32 + part * 16;
        ctx.cp_async16(ring, to, args.a + row * size + step * 16 + part * 8, true);
        ctx.cp_async16(ring, to + size * 32, args.b + row * size + step * 16 + part * 8, true);
      }
      ctx.cp_async_commit();
    };
    float sums[8][4] = {};
    issue(0);
    for (int step = 0; step < size / 16; ++step) {
      issue(step + 1);
      ctx.cp_async_wait_group(in_flight<1>);
      ctx.sync();
      const int stage = step % 2 * stage_bytes;
      std::uint32_t a[4];
      ctx.ldmatrix_x4(a, ring, stage + (16 * ctx.warp() + lane % 16) * 32 + lane / 16 * 16);
      PAGODA_KERNEL_UNROLL
      for (int n = 0; n < 8; ++n) {
        std::uint32_t b[2];
        ctx.ldmatrix_x2(b, ring, stage + size * 32 + (8 * n + lane % 8) * 32 + lane / 8 % 2 * 16);
        ctx.mma_m16n8k16(pagoda::half{}, sums[n], a, b);
      }
      ctx.sync();
    }
    PAGODA_KERNEL_UNROLL
    for (int n = 0; n < 8; ++n) {
      PAGODA_KERNEL_UNROLL
      for (int e = 0; e < 4; ++e) {
        const int row = 16 * ctx.warp() + lane / 4 + 8 * (e / 2);
        ctx.store(args.c + row * size + 8 * n + 2 * (lane % 4) + e % 2, sums[n][e]);
      }
    }
  }
};

}  // namespace pagoda_test
