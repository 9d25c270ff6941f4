// SPDX-License-Identifier: Apache-2.0
/// @file The read probe: how fast this machine reads memory at the moment, as the yardstick of decode attention.
///
/// Vector loads into eight accumulators over 1 GiB of pages that were taken in turns with those of the pool. The speed
/// of memory drifts by a fifth within minutes: the probe is taken anew, for some 0.2 s, before and after a benchmark.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include <benchmark/benchmark.h>
#include <pagoda/host/thread_pool.hpp>

#include "memory.hpp"
#include "stopwatch.hpp"

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

/// Seconds for one pass of all threads over `bytes`.
template <int Streams>
double read_once(pagoda::host::thread_pool& pool, std::span<const std::byte> bytes) {
  const auto threads = static_cast<std::int64_t>(pool.concurrency());
  const std::int64_t part = static_cast<std::int64_t>(bytes.size()) / threads;
  const stopwatch watch;
  pool.parallel_for(
      threads, [&](std::int64_t i) { benchmark::DoNotOptimize(read_bytes<Streams>(bytes.data() + i * part, part)); });
  return watch.seconds();
}

}  // namespace detail

/// Bytes per second that the pool's threads read from memory: the better of one and two streams for each thread, each
/// the median of five passes over the next part of the probe's memory.
inline double read_probe(pagoda::host::thread_pool& pool) {
  // Memory of its own, so that nothing that a benchmark is about to read comes into a cache.
  const std::span<const std::byte> all = bench_memory::shared().probe();
  const auto threads = static_cast<std::size_t>(pool.concurrency());
  const std::size_t pass = (std::size_t{128} << 20) / (512 * threads) * (512 * threads);
  static std::size_t at = 0;
  const auto next = [&] {
    if (at + pass > all.size()) at = 0;
    at += pass;
    return all.subspan(at - pass, pass);
  };
  std::array<std::array<double, 5>, 2> seconds{};
  for (std::size_t i = 0; i < 5; ++i) {
    seconds[0][i] = detail::read_once<1>(pool, next());
    seconds[1][i] = detail::read_once<2>(pool, next());
  }
  for (std::array<double, 5>& one : seconds) std::sort(one.begin(), one.end());
  return static_cast<double>(pass) / std::min(seconds[0][2], seconds[1][2]);
}

}  // namespace pagoda_bench
