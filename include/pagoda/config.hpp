// SPDX-License-Identifier: Apache-2.0
/// @file What the compiler must offer, and the few macros of the library. Every other header includes this one first.
#pragma once

#include <pagoda/version.hpp>

#if defined(__CUDACC__) && (__CUDACC_VER_MAJOR__ < 12)
#error "Pagoda needs CUDA 12 or newer for C++20 device code: use a newer nvcc."
#endif
#if __cplusplus < 202002L
#error "Pagoda needs C++20: compile with -std=c++20 (CMake: target_compile_features(... cxx_std_20))."
#endif
#if !defined(__GNUC__)
#error "Pagoda needs g++ 12, clang++ 14 or nvcc over one of them: it uses GCC's vector extensions."
#endif
#if defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__
#error "Pagoda masks with infinities and keeps NaNs: compile its files without -ffast-math or -ffinite-math-only."
#endif

/// Marks a function that kernels call too. Bodies are the same for host and device.
#if defined(__CUDACC__)
#define PAGODA_HOST_DEVICE __host__ __device__
#else
#define PAGODA_HOST_DEVICE
#endif

#define PAGODA_ALWAYS_INLINE inline __attribute__((always_inline))

/// Marks the cold end of a check: throwing stays out of the hot path's instructions.
#define PAGODA_COLD [[noreturn]] __attribute__((noinline, cold))

/// Unrolls the next loop, whose trip count is a template constant: its arrays of vectors then live in registers.
#if defined(__CUDACC__)
#define PAGODA_UNROLL  // nvcc's host pass knows no GCC pragma
#elif defined(__clang__)
#define PAGODA_UNROLL _Pragma("clang loop unroll(full)")
#else
#define PAGODA_UNROLL _Pragma("GCC unroll 16")
#endif

/// Names the inline namespace of bodies whose machine code depends on the target's vector unit, so that objects built
/// with different flags link into one program without mixing their bodies. The unit counts as a whole: AVX2 with FMA
/// and F16C, as every processor since 2013 has them, or nothing of it. VNNI, integer dot products, comes beside either.
#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__) && defined(__FMA__) && defined(__F16C__)
#define PAGODA_HAS_AVX2 1
#define PAGODA_HAS_AVX512 1
#if defined(__AVX512VNNI__)
#define PAGODA_ISA avx512_vnni
#define PAGODA_HAS_VNNI 1
#else
#define PAGODA_ISA avx512
#define PAGODA_HAS_VNNI 0
#endif
#elif defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#define PAGODA_HAS_AVX2 1
#define PAGODA_HAS_AVX512 0
#if defined(__AVXVNNI__)
#define PAGODA_ISA avx2_vnni
#define PAGODA_HAS_VNNI 1
#else
#define PAGODA_ISA avx2
#define PAGODA_HAS_VNNI 0
#endif
#else
#define PAGODA_ISA plain
#define PAGODA_HAS_AVX2 0
#define PAGODA_HAS_AVX512 0
#define PAGODA_HAS_VNNI 0
#endif
