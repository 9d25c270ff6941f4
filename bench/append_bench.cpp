// SPDX-License-Identifier: Apache-2.0
// Append of one layer on the host: new keys and values, warm as a projection leaves them, into cold blocks.
//
//   bytes_per_second  input read and blocks written
//   memcpy_ratio      the time that memcpy takes to copy the input, over the time of the append: at 0.5 an append has
//                     half the speed of memcpy. Both write cold memory; memcpy is timed just before and just after.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
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

/// Seconds that memcpy takes for warm input of that size to cold memory: the median of five. What the arena held is
/// lost.
double memcpy_seconds(std::size_t bytes) {
  const std::vector<std::byte> input(bytes, std::byte{1});
  const auto pool = arena::shared().bytes();
  const std::size_t copies = std::max<std::size_t>(1, std::min(pool.size() / 5, std::size_t{32} << 20) / bytes);
  std::array<double, 5> seconds{};
  static std::size_t at = 0;
  for (double& one : seconds) {
    const stopwatch watch;
    for (std::size_t i = 0; i < copies; ++i, at += bytes) {
      if (at + bytes > pool.size()) at = 0;
      std::memcpy(pool.data() + at, input.data(), bytes);
      benchmark::ClobberMemory();
    }
    one = watch.seconds() / static_cast<double>(copies);
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2];
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
  arena::shared().forget();  // nothing here reads what is stored
  const double before = memcpy_seconds(input_bytes);
  const stopwatch watch;
  for (auto _ : state) {
    pagoda::host::append(pool.next_to_write(), pagoda::rows_view(keys, rows), pagoda::rows_view(values, rows));
    benchmark::ClobberMemory();
  }
  const double seconds = watch.seconds();
  const std::int64_t bytes =
      state.iterations() * (static_cast<std::int64_t>(input_bytes) + tokens * pool.bytes_per_token());
  state.SetBytesProcessed(bytes);
  state.SetItemsProcessed(state.iterations() * tokens);
  state.counters["kv_bytes_per_token"] = static_cast<double>(pool.bytes_per_token());
  const double copying = (before + memcpy_seconds(input_bytes)) / 2;
  state.counters["memcpy_ratio"] = copying * static_cast<double>(state.iterations()) / seconds;
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
