// SPDX-License-Identifier: Apache-2.0
/// @file The counters of a decode benchmark: how close it comes to what the machine's memory and its multipliers allow.
#pragma once

#include <cstdint>

#include <benchmark/benchmark.h>
#include <pagoda/host/thread_pool.hpp>

#include "fma_peak.hpp"
#include "read_probe.hpp"
#include "shapes.hpp"
#include "stopwatch.hpp"

namespace pagoda_bench {

/// What one decode step reads and computes at least.
struct step_work {
  std::int64_t bytes;   ///< keys, values and scales, each once
  std::int64_t tokens;  ///< that it attends to, of all sequences
  std::int64_t sequences;

  /// Useful floating-point operations: a multiply-add for each element of each query head's keys, and of its values.
  double flops(const model_shape& model) const {
    return 2.0 * 2.0 * model.query_heads * model.head_dim * static_cast<double>(tokens);
  }
};

/// Runs `step` for as long as Google Benchmark asks, between probes of the machine, and reports.
template <class Step>
void measure_decode(benchmark::State& state, const model_shape& model, const step_work& work,
                    pagoda::host::thread_pool& threads, Step&& step) {
  double read = read_probe(threads);
  double peak = fma_peak(threads);
  step();  // takes working memory
  const stopwatch watch;
  for (auto _ : state) {
    step();
    benchmark::ClobberMemory();
  }
  const double seconds = watch.seconds();
  read = (read + read_probe(threads)) / 2;
  peak = (peak + fma_peak(threads)) / 2;
  const auto steps = static_cast<double>(state.iterations());
  const double flops = work.flops(model) * steps / seconds;
  const double bytes = static_cast<double>(work.bytes) * steps / seconds;
  state.SetItemsProcessed(state.iterations() * work.sequences);
  state.counters["bytes_per_second"] = bytes;  // by the same watch as all others, so that their quotients are exact
  state.counters["read_probe"] = read;
  state.counters["read_ratio"] = bytes / read;
  state.counters["flops"] = flops;
  state.counters["fma_peak"] = peak;
  state.counters["fma_ratio"] = flops / peak;
}

}  // namespace pagoda_bench
