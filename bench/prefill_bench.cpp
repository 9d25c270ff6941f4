// SPDX-License-Identifier: Apache-2.0
// Prefill attention of one layer on the host: the last queries of a long context, causal.
//
//   flops      useful floating-point operations per second: four for each element of a query row and visible key
//   fma_ratio  that, over what fused multiply-adds in registers reach with as many threads, just before and just after
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>
#include <pagoda/host/thread_pool.hpp>
#include <pagoda/pagoda.hpp>

#include "support/cold_pool.hpp"
#include "support/fma_peak.hpp"
#include "support/shapes.hpp"
#include "support/stopwatch.hpp"

namespace {

using namespace pagoda_bench;

struct prefill_case {
  std::string name;
  model_shape model;
  std::int32_t queries;
  std::int32_t context;
  std::int32_t threads;

  /// Four for each element of a query row and a key that it sees.
  double flops() const {
    const double first = context - queries + 1;
    const double pairs = (first + context) / 2 * queries;
    return 4.0 * pairs * model.query_heads * model.head_dim;
  }
};

template <class Quantizer>
void run_prefill(benchmark::State& state, const prefill_case& what) {
  auto& pool = latest<cold_pool<Quantizer>>(what.name, [&] {
    return std::make_unique<cold_pool<Quantizer>>(
        what.model, step_shape{.contexts = {what.context}, .queries = what.queries, .order = block_order::scattered});
  });
  const pagoda::rows_shape rows{what.queries, what.model.query_heads, what.model.head_dim};
  const std::vector<float> queries = random_elements<float>(rows.tokens * rows.heads * rows.dim, 6);
  std::vector<float> output(queries.size());
  pagoda::host::thread_pool threads(what.threads);
  pool.fill();
  const double peak_before = fma_peak(threads);
  const stopwatch watch;
  for (auto _ : state) {
    pagoda::host::attention(pool.next(), pagoda::rows_view(queries, rows), pagoda::rows_view(output, rows),
                            {.causal = true}, threads);
    benchmark::DoNotOptimize(output.data());
    benchmark::ClobberMemory();
  }
  const double seconds = watch.seconds();
  const double flops = what.flops() * static_cast<double>(state.iterations()) / seconds;
  state.SetItemsProcessed(state.iterations() * what.queries);
  state.counters["flops"] = flops;
  const double peak = (peak_before + fma_peak(threads)) / 2;
  state.counters["fma_peak"] = peak;
  state.counters["fma_ratio"] = flops / peak;
}

[[maybe_unused]] const bool registered = [] {
  for_each_type(prefill_quantizers{}, []<class Quantizer>(pagoda::type_tag<Quantizer>) {
    for (const std::int32_t queries : prefill_queries) {
      for (const std::int32_t threads : thread_counts) {
        const std::string name = "prefill/host/" + axis("kv", Quantizer::name) + "/" + axis("queries", queries) + "/" +
                                 axis("context", prefill_context) + "/" + axis("group", llama_3_8b.group()) + "/" +
                                 axis("threads", threads);
        const prefill_case what{name, llama_3_8b, queries, prefill_context, threads};
        benchmark::RegisterBenchmark(name.c_str(), [what](benchmark::State& state) {
          run_prefill<Quantizer>(state, what);
        })->UseRealTime();
      }
    }
  });
  return true;
}();

}  // namespace
