// SPDX-License-Identifier: Apache-2.0
/// @file The read probe: how fast this machine reads memory, as the yardstick of decode attention.
///
/// 1 GiB, vector loads into eight accumulators, the better of one and two streams per thread, pages of the same kind as
/// a pool's, the median of five, in the process of the benchmark itself.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>

#include <benchmark/benchmark.h>
#include <pagoda/host/thread_pool.hpp>
#include <pagoda/memory/host.hpp>

namespace pagoda_bench {

namespace detail {

typedef std::uint64_t probe_lanes __attribute__((vector_size(32)));

/// Reads bytes from `Streams` places at once; bytes is a multiple of 512.
template <int Streams>
std::uint64_t read_bytes(const std::byte* data, std::int64_t bytes) {
  constexpr int accumulators = 8;
  constexpr int each = accumulators / Streams;
  const std::int64_t stream_bytes = bytes / Streams;
  std::array<probe_lanes, accumulators> sums{};
  for (std::int64_t at = 0; at < stream_bytes; at += each * 32) {
#pragma GCC unroll 8
    for (int i = 0; i < accumulators; ++i) {
      probe_lanes lanes;
      std::memcpy(&lanes, data + i / each * stream_bytes + at + i % each * 32, sizeof(lanes));
      sums[static_cast<std::size_t>(i)] += lanes;
    }
  }
  for (int i = 1; i < accumulators; ++i) sums[0] += sums[static_cast<std::size_t>(i)];
  return sums[0][0] + sums[0][1] + sums[0][2] + sums[0][3];
}

template <int Streams>
double read_once(pagoda::host::thread_pool& pool, const pagoda::host_memory& memory) {
  const std::int64_t part = memory.size_bytes() / pool.concurrency() / 512 * 512;
  const auto begin = std::chrono::steady_clock::now();
  pool.parallel_for(pool.concurrency(), [&](std::int64_t i) {
    benchmark::DoNotOptimize(read_bytes<Streams>(memory.data() + i * part, part));
  });
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  return static_cast<double>(part * pool.concurrency()) / seconds.count();
}

template <int Streams>
double read_median(pagoda::host::thread_pool& pool, const pagoda::host_memory& memory) {
  std::array<double, 5> rates{};
  for (double& rate : rates) rate = read_once<Streams>(pool, memory);
  std::sort(rates.begin(), rates.end());
  return rates[rates.size() / 2];
}

}  // namespace detail

/// Bytes per second that `threads` threads read from memory. Measured at the first call for each number of threads.
inline double read_probe(std::int32_t threads) {
  static std::map<std::int32_t, double> measured;
  if (const auto found = measured.find(threads); found != measured.end()) return found->second;
  const pagoda::host_memory memory(std::int64_t{1} << 30);
  std::memset(memory.data(), 1, static_cast<std::size_t>(memory.size_bytes()));  // untouched pages are not read
  pagoda::host::thread_pool pool(threads);
  const double rate = std::max(detail::read_median<1>(pool, memory), detail::read_median<2>(pool, memory));
  return measured.emplace(threads, rate).first->second;
}

}  // namespace pagoda_bench
