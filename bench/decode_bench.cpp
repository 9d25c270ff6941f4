// SPDX-License-Identifier: Apache-2.0
// Decode attention of one layer on the host: one query token of each sequence over a cold cache.
//
//   bytes_per_second   keys, values and scales, each byte once: what a perfect kernel would still have to read
//   read_ratio         that, over what the read probe reaches with as many threads, just before and just after
//   flops              useful floating-point operations per second: four for each element of a query head and token
//   fma_ratio          that, over what fused multiply-adds in registers reach, likewise
//   read_probe, fma_peak   what they reach
//   items_per_second   sequences, each by one token
//   kv_bytes_per_token of one layer; vectorized: 1 if codes are read straight into vectors
//   error              relative L2 against reference_attention over the stored values; error_to_float: over the values
//                      before the quantizer rounded them
//
// The quantizers' benchmarks, decode/host, are in decode_part*.cpp. decode/naive, here, is what one writes without a
// library: contiguous float arrays, one query head after the other.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>
#include <pagoda/host/thread_pool.hpp>

#include "support/cold_pool.hpp"
#include "support/shapes.hpp"
#include "support/speed_report.hpp"

namespace {

using namespace pagoda_bench;

/// Keys and values are [kv_heads, context, head_dim] each.
void naive_decode(const float* keys, const float* values, const float* queries, float* output, const model_shape& model,
                  std::int64_t context, std::vector<float>& weights) {
  const std::int64_t dim = model.head_dim;
  const float scale = 1.0f / std::sqrt(static_cast<float>(dim));
  for (std::int64_t head = 0; head < model.query_heads; ++head) {
    const float* query = queries + head * dim;
    const float* head_keys = keys + head / model.group() * context * dim;
    const float* head_values = values + head / model.group() * context * dim;
    float largest = -INFINITY;
    for (std::int64_t t = 0; t < context; ++t) {
      float score = 0;
      for (std::int64_t d = 0; d < dim; ++d) score += query[d] * head_keys[t * dim + d];
      weights[static_cast<std::size_t>(t)] = score * scale;
      largest = std::max(largest, score * scale);
    }
    float sum = 0;
    float* to = output + head * dim;
    std::fill(to, to + dim, 0.0f);
    for (std::int64_t t = 0; t < context; ++t) {
      const float weight = std::exp(weights[static_cast<std::size_t>(t)] - largest);
      sum += weight;
      for (std::int64_t d = 0; d < dim; ++d) to[d] += weight * head_values[t * dim + d];
    }
    for (std::int64_t d = 0; d < dim; ++d) to[d] /= sum;
  }
}

void run_naive(benchmark::State& state, const model_shape& model, std::int64_t context) {
  const std::int64_t plane = context * model.kv_heads * model.head_dim;  // elements of the keys, and of the values
  const std::span<std::byte> bytes = arena::shared().bytes();
  auto* const elements = reinterpret_cast<float*>(bytes.data());
  const auto count = static_cast<std::int64_t>(bytes.size() / sizeof(float));
  arena::shared().require("contiguous float", [&] {
    const std::vector<float> drawn = random_elements<float>(1 << 20, 7);
    for (std::int64_t i = 0; i < count; ++i) elements[i] = drawn[static_cast<std::size_t>(i) & ((1u << 20) - 1)];
  });
  const std::vector<float> queries = random_elements<float>(model.query_heads * model.head_dim, 6);
  std::vector<float> output(queries.size());
  std::vector<float> weights(static_cast<std::size_t>(context));
  static std::int64_t next = 0;
  pagoda::host::thread_pool threads(1);
  const step_work work{2 * plane * static_cast<std::int64_t>(sizeof(float)), context, 1};
  measure_decode(state, model, work, threads, [&] {
    next = next + 2 * plane <= count - 2 * plane ? next + 2 * plane : 0;
    const float* keys = elements + next;
    naive_decode(keys, keys + plane, queries.data(), output.data(), model, context, weights);
    benchmark::DoNotOptimize(output.data());
  });
}

[[maybe_unused]] const bool registered = [] {
  for (const model_shape& model : decode_models) {
    for (const std::int32_t context : decode_contexts) {
      const std::string name = "decode/naive/kv:float/" + axis("group", model.group()) + "/" + axis("context", context);
      benchmark::RegisterBenchmark((name + "/threads:1").c_str(), [model, context](benchmark::State& state) {
        run_naive(state, model, context);
      })->UseRealTime();
    }
  }
  return true;
}();

}  // namespace
