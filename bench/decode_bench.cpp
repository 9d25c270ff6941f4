// SPDX-License-Identifier: Apache-2.0
// Decode attention of one layer on the host: one query token of each sequence over a cold cache.
//
//   bytes_per_second   keys, values and scales, each byte once: what a perfect kernel would still have to read
//   read_ratio         that, over what the read probe reaches with as many threads in this process
//   error              relative L2 against reference_attention over the stored values; error_to_float: over the values
//                      before the quantizer rounded them
//
// decode/naive is what one writes without a library: contiguous float arrays, one query head after the other.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>
#include <pagoda/host/thread_pool.hpp>
#include <pagoda/pagoda.hpp>

#include "support/accuracy.hpp"
#include "support/cold_pool.hpp"
#include "support/read_probe.hpp"
#include "support/shapes.hpp"
#include "support/stopwatch.hpp"

namespace {

using namespace pagoda_bench;

struct decode_case {
  std::string name;
  model_shape model;
  std::vector<std::int32_t> contexts;  // of the batch
  std::int32_t threads;
  block_order order;
};

void report_speed(benchmark::State& state, double seconds, std::int64_t bytes_of_step, std::int64_t tokens_of_step,
                  std::int32_t threads) {
  const double probe = read_probe(threads);
  const std::int64_t bytes = state.iterations() * bytes_of_step;
  state.SetBytesProcessed(bytes);
  state.SetItemsProcessed(state.iterations() * tokens_of_step);
  state.counters["read_probe"] = probe;
  state.counters["read_ratio"] = static_cast<double>(bytes) / seconds / probe;
}

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
    return std::make_unique<cold_pool<Quantizer>>(what.model,
                                                  step_shape{.contexts = what.contexts, .order = what.order});
  });
  const auto batch = static_cast<std::int64_t>(what.contexts.size());
  const pagoda::rows_shape rows{batch, what.model.query_heads, what.model.head_dim};
  const std::vector<float> queries = random_elements<float>(batch * rows.heads * rows.dim, 6);
  std::vector<float> output(queries.size());
  const pagoda::rows_view query_rows(queries, rows);
  const pagoda::rows_view output_rows(output, rows);
  pagoda::host::thread_pool threads(what.threads);
  pool.fill();
  pagoda::host::attention(pool.next(), query_rows, output_rows, {}, threads);  // takes working memory
  const stopwatch watch;
  for (auto _ : state) {
    pagoda::host::attention(pool.next(), query_rows, output_rows, {}, threads);
    benchmark::DoNotOptimize(output.data());
    benchmark::ClobberMemory();
  }
  const double seconds = watch.seconds();
  std::int64_t tokens = 0;
  for (const std::int32_t context : what.contexts) tokens += context;
  report_speed(state, seconds, tokens * pool.bytes_per_token(), batch, what.threads);
  const accuracy exact = known_accuracy<Quantizer>(what.model);
  state.counters["kv_bytes_per_token"] = static_cast<double>(pool.bytes_per_token());
  state.counters["vectorized"] = pagoda::is_vectorized_v<Quantizer> ? 1 : 0;  // codes are read straight into vectors
  state.counters["error"] = exact.against_stored;
  state.counters["error_to_float"] = exact.against_float;
}

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
  const stopwatch watch;
  for (auto _ : state) {
    next = next + 2 * plane <= count - 2 * plane ? next + 2 * plane : 0;
    const float* keys = elements + next;
    naive_decode(keys, keys + plane, queries.data(), output.data(), model, context, weights);
    benchmark::DoNotOptimize(output.data());
    benchmark::ClobberMemory();
  }
  const double seconds = watch.seconds();
  report_speed(state, seconds, 2 * plane * static_cast<std::int64_t>(sizeof(float)), 1, 1);
}

/// Uneven contexts with the given mean.
std::vector<std::int32_t> ragged_contexts(std::int32_t batch, std::int32_t mean) {
  std::vector<std::int32_t> contexts;
  for (std::int32_t i = 0; i < batch; ++i) contexts.push_back(mean / 4 + mean * 3 / 2 * i / (batch - 1) + i % 5 - 2);
  return contexts;
}

template <class Quantizer>
void add_decode(decode_case what) {
  what.name = "decode/host/" + axis("kv", Quantizer::name) + "/" + axis("group", what.model.group()) + "/" + what.name +
              "/" + axis("threads", what.threads);
  if (what.order == block_order::scattered) what.name += "/blocks:scattered";
  benchmark::RegisterBenchmark(what.name.c_str(), [what](benchmark::State& state) {
    run_decode<Quantizer>(state, what);
  })->UseRealTime();
}

[[maybe_unused]] const bool registered = [] {
  for_each_type(decode_quantizers{}, []<class Quantizer>(pagoda::type_tag<Quantizer>) {
    for (const model_shape& model : decode_models) {
      for (const std::int32_t context : decode_contexts) {
        for (const std::int32_t threads : thread_counts) {
          for (const block_order order : {block_order::sequential, block_order::scattered}) {
            add_decode<Quantizer>({axis("context", context), model, {context}, threads, order});
          }
        }
      }
      for (const std::int32_t threads : thread_counts) {
        add_decode<Quantizer>({axis("batch", ragged_batch) + "/" + axis("mean_context", ragged_context), model,
                               ragged_contexts(ragged_batch, ragged_context), threads, block_order::scattered});
      }
    }
  });
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
