// SPDX-License-Identifier: Apache-2.0
/// @file The FMA probe: the most floating-point operations per second of this build, the yardstick of arithmetic.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include <benchmark/benchmark.h>
#include <pagoda/detail/vector.hpp>
#include <pagoda/detail/vector_math.hpp>
#include <pagoda/host/thread_pool.hpp>

#include "stopwatch.hpp"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"

namespace pagoda_bench {

namespace detail {

inline constexpr int probe_width = PAGODA_HAS_AVX512 ? 16 : 8;
inline constexpr int probe_chains = 12;  // hides the latency of two units, and fits 16 registers

/// Twelve independent chains of fused multiply-adds in registers.
inline float run_fma_chains(std::int64_t rounds) {
  using lanes = pagoda::detail::vec<float, probe_width>;
  lanes sums[probe_chains];
  for (int i = 0; i < probe_chains; ++i) sums[i] = pagoda::detail::broadcast<probe_width>(static_cast<float>(i));
  lanes factor = pagoda::detail::broadcast<probe_width>(0.999f);
  lanes added = pagoda::detail::broadcast<probe_width>(0.001f);
  benchmark::DoNotOptimize(factor);
  benchmark::DoNotOptimize(added);
  for (std::int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
    for (int i = 0; i < probe_chains; ++i) sums[i] = pagoda::detail::fma(sums[i], factor, added);
  }
  float total = 0;
  for (int i = 0; i < probe_chains; ++i) total += sums[i][0];
  return total;
}

}  // namespace detail

/// FLOP/s of the pool's threads at the moment, two for each multiply-add: the median of five runs of some 5 ms.
inline double fma_peak(pagoda::host::thread_pool& pool) {
  constexpr std::int64_t rounds = 1'000'000;
  const auto threads = static_cast<std::int64_t>(pool.concurrency());
  std::array<double, 5> seconds{};
  for (double& one : seconds) {
    const stopwatch watch;
    pool.parallel_for(threads, [&](std::int64_t) { benchmark::DoNotOptimize(detail::run_fma_chains(rounds)); });
    one = watch.seconds();
  }
  std::sort(seconds.begin(), seconds.end());
  return 2.0 * detail::probe_width * detail::probe_chains * static_cast<double>(rounds * threads) / seconds[2];
}

}  // namespace pagoda_bench

#pragma GCC diagnostic pop
