// SPDX-License-Identifier: Apache-2.0
/// @file The FMA probe: the most floating-point operations per second of this build, as the yardstick of prefill.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>

#include <benchmark/benchmark.h>
#include <pagoda/detail/vector.hpp>
#include <pagoda/host/thread_pool.hpp>

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

/// FLOP/s of `threads` threads, two for each multiply-add: the median of five runs of some 20 ms.
inline double fma_peak(std::int32_t threads) {
  static std::map<std::int32_t, double> measured;
  if (const auto found = measured.find(threads); found != measured.end()) return found->second;
  constexpr std::int64_t rounds = 4'000'000;
  pagoda::host::thread_pool pool(threads);
  std::array<double, 5> rates{};
  for (double& rate : rates) {
    const auto begin = std::chrono::steady_clock::now();
    pool.parallel_for(threads, [&](std::int64_t) { benchmark::DoNotOptimize(detail::run_fma_chains(rounds)); });
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    rate = 2.0 * detail::probe_width * detail::probe_chains * static_cast<double>(rounds) * threads / seconds.count();
  }
  std::sort(rates.begin(), rates.end());
  return measured.emplace(threads, rates[rates.size() / 2]).first->second;
}

}  // namespace pagoda_bench

#pragma GCC diagnostic pop
