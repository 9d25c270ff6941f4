// SPDX-License-Identifier: Apache-2.0
// Append of one layer on the host: new keys and values, warm as a projection leaves them, into cold blocks.
//
//   bytes_per_second  input read and blocks written
//   memcpy_ratio      that, over the bytes that memcpy of the input into the same pool reads and writes, in this
//   process
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>
#include <pagoda/pagoda.hpp>

#include "support/cold_pool.hpp"
#include "support/shapes.hpp"
#include "support/stopwatch.hpp"

namespace {

using namespace pagoda_bench;

/// Bytes read and written per second by memcpy of warm input of that size to cold memory: the median of five. What the
/// pool held is lost. Requires: the pool has been filled, so that its pages are there.
double memcpy_rate(std::size_t bytes) {
  static std::map<std::size_t, double> measured;
  if (const auto found = measured.find(bytes); found != measured.end()) return found->second;
  const std::vector<std::byte> input(bytes, std::byte{1});
  arena::shared().forget();
  const auto pool = arena::shared().bytes();
  const std::size_t copies = std::min(pool.size() / 5, std::size_t{128} << 20) / bytes;
  std::array<double, 5> rates{};
  std::size_t at = 0;
  for (double& one : rates) {
    const stopwatch watch;
    for (std::size_t i = 0; i < copies; ++i, at += bytes) {
      std::memcpy(pool.data() + at, input.data(), bytes);
      benchmark::ClobberMemory();
    }
    one = 2.0 * static_cast<double>(bytes * copies) / watch.seconds();
  }
  std::sort(rates.begin(), rates.end());
  return measured.emplace(bytes, rates[rates.size() / 2]).first->second;
}

template <class Quantizer, class Input>
void run_append(benchmark::State& state, const std::string& name, const model_shape& model, std::int32_t tokens) {
  auto& pool = latest<cold_pool<Quantizer>>(name, [&] {
    return std::make_unique<cold_pool<Quantizer>>(
        model, step_shape{.contexts = {std::max(tokens, 512)}, .new_tokens = tokens, .order = block_order::scattered});
  });
  const pagoda::rows_shape rows{tokens, model.kv_heads, model.head_dim};
  const std::vector<Input> keys = random_elements<Input>(rows.tokens * rows.heads * rows.dim, 8);
  const std::vector<Input> values = random_elements<Input>(rows.tokens * rows.heads * rows.dim, 9);
  const std::size_t input_bytes = 2 * keys.size() * sizeof(Input);
  pool.fill();
  const double memcpy_bytes_per_second = memcpy_rate(input_bytes);
  pool.fill();  // again, if memcpy has just been measured
  const stopwatch watch;
  for (auto _ : state) {
    pagoda::host::append(pool.next(), pagoda::rows_view(keys, rows), pagoda::rows_view(values, rows));
    benchmark::ClobberMemory();
  }
  const double seconds = watch.seconds();
  const std::int64_t bytes =
      state.iterations() * (static_cast<std::int64_t>(input_bytes) + tokens * pool.bytes_per_token());
  state.SetBytesProcessed(bytes);
  state.SetItemsProcessed(state.iterations() * tokens);
  state.counters["kv_bytes_per_token"] = static_cast<double>(pool.bytes_per_token());
  state.counters["memcpy"] = memcpy_bytes_per_second;
  state.counters["memcpy_ratio"] = static_cast<double>(bytes) / seconds / memcpy_bytes_per_second;
}

template <class Quantizer, class Input>
void add_append(std::int32_t tokens) {
  const std::string name = "append/host/" + axis("from", pagoda::dtype_name<Input>) + "/" +
                           axis("kv", Quantizer::name) + "/" + axis("tokens", tokens);
  benchmark::RegisterBenchmark(name.c_str(), [name, tokens](benchmark::State& state) {
    run_append<Quantizer, Input>(state, name, llama_3_8b, tokens);
  })->UseRealTime();
}

[[maybe_unused]] const bool registered = [] {
  for_each_type(append_quantizers{}, []<class Quantizer>(pagoda::type_tag<Quantizer>) {
    for (const std::int32_t tokens : append_tokens) {
      add_append<Quantizer, float>(tokens);
      add_append<Quantizer, pagoda::half>(tokens);
    }
  });
  return true;
}();

}  // namespace
