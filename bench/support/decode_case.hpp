// SPDX-License-Identifier: Apache-2.0
/// @file The decode benchmarks of the quantizers, for the files decode_part*.cpp.
///
/// decode/host/kv:int8/group:4/context:16384/threads:1 has blocks of 16 tokens scattered over memory, as in an engine
/// that has run for a while. With /blocks:sequential behind it they follow each other, and with /blocks:contiguous the
/// context is one huge block.
#pragma once

#include <bit>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>
#include <pagoda/host/thread_pool.hpp>
#include <pagoda/pagoda.hpp>

#include "accuracy.hpp"
#include "cold_pool.hpp"
#include "shapes.hpp"
#include "speed_report.hpp"

namespace pagoda_bench {

struct decode_case {
  std::string name;
  model_shape model;
  std::vector<std::int32_t> contexts;  // of the batch
  std::int32_t threads;
  block_order order = block_order::scattered;
  std::int32_t block_size = pagoda_bench::block_size;
};

template <class Quantizer>
accuracy known_accuracy(const model_shape& model) {
  static std::map<std::int32_t, accuracy> known;
  const auto found = known.find(model.kv_heads);
  if (found != known.end()) return found->second;
  return known.emplace(model.kv_heads, measure_accuracy<Quantizer>(model)).first->second;
}

template <class Quantizer>
void run_decode(benchmark::State& state, const decode_case& what) {
  auto& pool = latest<cold_pool<Quantizer>>(what.name, [&] {
    return std::make_unique<cold_pool<Quantizer>>(
        what.model, step_shape{.contexts = what.contexts, .order = what.order, .block_size = what.block_size});
  });
  const auto batch = static_cast<std::int64_t>(what.contexts.size());
  const pagoda::rows_shape rows{batch, what.model.query_heads, what.model.head_dim};
  const std::vector<float> queries = random_elements<float>(batch * rows.heads * rows.dim, 6);
  std::vector<float> output(queries.size());
  const pagoda::rows_view query_rows(queries, rows);
  const pagoda::rows_view output_rows(output, rows);
  pagoda::host::thread_pool threads(what.threads);
  pool.fill();
  std::int64_t tokens = 0;
  for (const std::int32_t context : what.contexts) tokens += context;
  measure_decode(state, what.model, {tokens * pool.bytes_per_token(), tokens, batch}, threads, [&] {
    pagoda::host::attention(pool.next(), query_rows, output_rows, {}, threads);
    benchmark::DoNotOptimize(output.data());
  });
  const accuracy exact = known_accuracy<Quantizer>(what.model);
  state.counters["kv_bytes_per_token"] = static_cast<double>(pool.bytes_per_token());
  state.counters["vectorized"] = pagoda::is_vectorized_v<Quantizer> ? 1 : 0;  // codes are read straight into vectors
  state.counters["error"] = exact.against_stored;
  state.counters["error_to_float"] = exact.against_float;
}

/// Uneven contexts with the given mean.
inline std::vector<std::int32_t> ragged_contexts(std::int32_t batch, std::int32_t mean) {
  std::vector<std::int32_t> contexts;
  for (std::int32_t i = 0; i < batch; ++i) contexts.push_back(mean / 4 + mean * 3 / 2 * i / (batch - 1) + i % 5 - 2);
  return contexts;
}

template <class Quantizer>
void add_decode(decode_case what, const std::string& variant = {}) {
  what.name = "decode/host/" + axis("kv", Quantizer::name) + "/" + axis("group", what.model.group()) + "/" + what.name +
              "/" + axis("threads", what.threads) + variant;
  benchmark::RegisterBenchmark(what.name.c_str(), [what](benchmark::State& state) {
    run_decode<Quantizer>(state, what);
  })->UseRealTime();
}

template <int Part>
bool add_decodes_of_part() {
  for_each_type_of_part<Part>(decode_quantizers{}, []<class Quantizer>(pagoda::type_tag<Quantizer>) {
    for (const model_shape& model : decode_models) {
      for (const std::int32_t context : decode_contexts) {
        for (const std::int32_t threads : thread_counts) {
          const decode_case scattered{axis("context", context), model, {context}, threads};
          add_decode<Quantizer>(scattered);
          decode_case other = scattered;
          other.order = block_order::sequential;
          add_decode<Quantizer>(other, "/blocks:sequential");
          other.block_size = static_cast<std::int32_t>(std::bit_ceil(static_cast<std::uint32_t>(context)));
          add_decode<Quantizer>(other, "/blocks:contiguous");
        }
      }
      for (const std::int32_t threads : thread_counts) {
        add_decode<Quantizer>({axis("batch", ragged_batch) + "/" + axis("mean_context", ragged_context), model,
                               ragged_contexts(ragged_batch, ragged_context), threads});
      }
    }
  });
  return true;
}

}  // namespace pagoda_bench
