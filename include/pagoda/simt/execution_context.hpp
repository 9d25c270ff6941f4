// SPDX-License-Identifier: Apache-2.0
/// @file The execution context: what a kernel sees of the machine that runs it.
///
/// A kernel is a struct that is written once, over a context:
// clang-format off
///
///     struct scale_by_two {
///       static constexpr int threads = 128;                       // of a block; one-dimensional
///       static constexpr int shared_bytes = 0;                    // dynamic shared memory of a block
///       struct arguments { const float* from; float* to; int count; };
///       template <pagoda::simt::execution_context Context>
///       PAGODA_HOST_DEVICE static void run(Context& ctx, const arguments& args) {
///         const int i = static_cast<int>(ctx.block_index().x) * threads + ctx.thread_index();
///         if (i < args.count) ctx.store(args.to + i, 2 * ctx.ldg(args.from + i));
///       }
///     };
///
// clang-format on
/// nvcc compiles it with device_context (device_context.cuh), any C++20 compiler with host_context (host_context.hpp),
/// where every CUDA thread is a fibre and every rule of the machine is checked. Members are named after CUDA's; those
/// of a warp are called by all 32 lanes unless a mask says otherwise.
#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>

#include <pagoda/dtype.hpp>

/// Unrolls the next loop of a kernel, so that its arrays live in registers; or keeps a loop whose body is large. The
/// host context leaves both to the compiler.
#if defined(__CUDA_ARCH__)
#define PAGODA_KERNEL_UNROLL _Pragma("unroll")
#define PAGODA_KERNEL_UNROLL_ONCE _Pragma("unroll 1")
#else
#define PAGODA_KERNEL_UNROLL
#define PAGODA_KERNEL_UNROLL_ONCE
#endif

/// A function of a kernel: inlined on the device, so that references to registers cost nothing.
#if defined(__CUDACC__)
#define PAGODA_KERNEL_FUNCTION __host__ __device__ __forceinline__
#else
#define PAGODA_KERNEL_FUNCTION inline
#endif

namespace pagoda::simt {

inline constexpr int warp_size = 32;
inline constexpr std::uint32_t full_mask = 0xffffffffu;

/// A place in a grid, or its size.
struct index3 {
  std::uint32_t x = 0;
  std::uint32_t y = 0;
  std::uint32_t z = 0;
  friend constexpr bool operator==(const index3&, const index3&) = default;
};

/// 16 bytes that move in one transaction.
struct alignas(16) words4 {
  std::uint32_t w[4];
  friend constexpr bool operator==(const words4&, const words4&) = default;
};

/// How many committed cp.async groups cp_async_wait_group may leave in flight: a number known when compiling.
template <int Groups>
inline constexpr std::integral_constant<int, Groups> in_flight{};

/// Names an array in shared memory; how it is reached is the context's business.
template <class Context, class T>
using shared_array_t = typename Context::template shared_array<T>;

/// Takes the next `count` elements of the block's dynamic shared memory, aligned to 16 bytes. Every thread of a block
/// calls it in the same order. Free, so that a kernel need not write `ctx.template shared<T>(count)`.
template <class T, class Context>
PAGODA_KERNEL_FUNCTION shared_array_t<Context, T> shared(Context& ctx, int count) {
  return ctx.template shared<T>(count);
}

/// The concept's parts; `context` stands for any one of them.

template <class C>
concept has_indices = requires(const C& ctx) {
  { ctx.thread_index() } -> std::same_as<int>;  ///< within the block
  { ctx.lane() } -> std::same_as<int>;          ///< within the warp
  { ctx.warp() } -> std::same_as<int>;          ///< within the block
  { ctx.block_index() } -> std::same_as<index3>;
  { ctx.grid_dim() } -> std::same_as<index3>;
};

template <class C>
concept has_barriers = requires(C& ctx) {
  ctx.sync();       ///< all threads of the block; orders shared and global memory
  ctx.sync_warp();  ///< all lanes of the warp; orders shared memory within it
};

/// Shuffles move a 4-byte value; they order no memory.
template <class C>
concept has_warp_collectives = requires(C& ctx, float value, std::uint32_t mask, int lane, bool predicate) {
  { ctx.shfl(value, lane, mask) } -> std::same_as<float>;
  { ctx.shfl_xor(value, lane, mask) } -> std::same_as<float>;
  { ctx.shfl_up(value, lane, mask) } -> std::same_as<float>;    ///< lanes below the distance keep their own value
  { ctx.shfl_down(value, lane, mask) } -> std::same_as<float>;  ///< lanes at the end keep their own value
  { ctx.shfl(mask, lane) } -> std::same_as<std::uint32_t>;      ///< the mask defaults to the whole warp
  { ctx.shfl_xor(mask, lane) } -> std::same_as<std::uint32_t>;
  { ctx.shfl_up(mask, lane) } -> std::same_as<std::uint32_t>;
  { ctx.shfl_down(mask, lane) } -> std::same_as<std::uint32_t>;
  { ctx.ballot(predicate, mask) } -> std::same_as<std::uint32_t>;
  { ctx.ballot(predicate) } -> std::same_as<std::uint32_t>;
};

/// ldg reads global memory that no thread of the grid writes; load and store are the ordinary accesses. Values of 1, 2,
/// 4, 8 or 16 bytes, aligned to their size.
template <class C>
concept has_global_memory = requires(C& ctx, const float* from, float* to, const words4* from16, words4* to16,
                                     words4 wide, std::uint32_t* counter, std::uint32_t number) {
  { ctx.ldg(from) } -> std::same_as<float>;
  { ctx.ldg(from16) } -> std::same_as<words4>;
  { ctx.load(from) } -> std::same_as<float>;
  { ctx.load(from16) } -> std::same_as<words4>;
  ctx.store(to, 1.0f);
  ctx.store(to16, wide);
  { ctx.atomic_cas(counter, number, number) } -> std::same_as<std::uint32_t>;  ///< returns the old value
};

/// Shared arrays: array[i] reads and writes an element; lds and sts move a value of 1, 2, 4, 8 or 16 bytes at a byte
/// offset, aligned to its size. Whole arrays are copied by value.
template <class C>
concept has_shared_memory = requires(C& ctx, shared_array_t<C, float>& floats, shared_array_t<C, std::byte>& bytes,
                                     words4& wide, float& value) {
  { ctx.template shared<float>(8) } -> std::same_as<shared_array_t<C, float>>;
  floats[0] = 1.0f;
  value = floats[0];
  ctx.lds(bytes, 0, wide);
  ctx.lds(bytes, 0, value);
  ctx.sts(bytes, 0, wide);
  ctx.sts(bytes, 0, value);
};

/// Asynchronous copies from global to shared memory. A copy that is not valid fills with zeros and reads nothing. Data
/// is there for the thread that copied it after a wait that covers its group, and for others after a barrier too.
template <class C>
concept has_async_copies = requires(C& ctx, shared_array_t<C, std::byte>& bytes, const void* from, bool valid) {
  ctx.cp_async16(bytes, 0, from, valid);  ///< 16 bytes to a byte offset; both aligned to 16
  ctx.cp_async4(bytes, 0, from, valid);   ///< 4 bytes; both aligned to 4
  ctx.cp_async_commit();
  ctx.cp_async_wait_group(in_flight<1>);
};

/// ldmatrix: lane 8 * i + r gives the byte offset of row r of matrix i, 16 bytes each. Lane l receives of each matrix
/// the two 16-bit elements 2 * (l % 4) and + 1 of row l / 4; the transposed forms, of column l / 4.
/// movmatrix_trans: the same register layout, transposed within the warp.
template <class C>
concept has_matrix_loads = requires(C& ctx, shared_array_t<C, std::byte>& bytes, std::uint32_t (&two)[2],
                                    std::uint32_t (&four)[4]) {
  ctx.ldmatrix_x2(two, bytes, 0);
  ctx.ldmatrix_x4(four, bytes, 0);
  ctx.ldmatrix_x2_trans(two, bytes, 0);
  ctx.ldmatrix_x4_trans(four, bytes, 0);
  { ctx.movmatrix_trans(two[0]) } -> std::same_as<std::uint32_t>;
};

/// d += a * b: a is 16 x 16 by rows, b is 16 x 8 by columns, d is 16 x 8 in float; the first argument names the
/// elements of a and b. With g = lane / 4 and q = lane % 4, and two consecutive elements in each register, the lower
/// first:
///   a[0] = (row g, k 2q), a[1] = (g + 8, 2q), a[2] = (g, 2q + 8), a[3] = (g + 8, 2q + 8)
///   b[0] = (k 2q, column g), b[1] = (2q + 8, g);   d[0], d[1] = (g, 2q), (g, 2q + 1), d[2], d[3] = (g + 8, ...)
/// Source: PTX ISA, "Matrix fragments for mma.m16n8k16 with floating point type".
template <class C>
concept has_mma = requires(C& ctx, float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
  ctx.mma_m16n8k16(half{}, d, a, b);
  ctx.mma_m16n8k16(bfloat16{}, d, a, b);
};

/// exp2 and log2 are the machine's approximations: 2 ulp, results below the normal floats are 0, exp2(-inf) is 0.
template <class C>
concept has_math = requires(const C& ctx, float value) {
  { ctx.exp2(value) } -> std::same_as<float>;
  { ctx.log2(value) } -> std::same_as<float>;
};

/// What kernels are written over.
template <class C>
concept execution_context = has_indices<C> && has_barriers<C> && has_warp_collectives<C> && has_global_memory<C> &&
    has_shared_memory<C> && has_async_copies<C> && has_matrix_loads<C> && has_mma<C> && has_math<C>;

/// A kernel's launch numbers, as the head of this file shows them.
template <class K>
concept kernel = requires {
  { K::threads } -> std::convertible_to<int>;
  { K::shared_bytes } -> std::convertible_to<int>;
  typename K::arguments;
}
&&K::threads % warp_size == 0 && K::threads > 0 && K::threads <= 1024;

/// Blocks of K that an SM should hold at once, as far as registers decide it: K::resident_blocks, or 1.
template <kernel K>
constexpr int resident_blocks_of() {
  if constexpr (requires { K::resident_blocks; }) {
    return K::resident_blocks;
  } else {
    return 1;
  }
}
template <kernel K>
inline constexpr int resident_blocks = resident_blocks_of<K>();

}  // namespace pagoda::simt
