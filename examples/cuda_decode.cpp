// SPDX-License-Identifier: Apache-2.0
// The quickstart's batch on CUDA: composes five caches in device memory, appends the prompts and decodes one token of
// each sequence. Without a device the same calls run the same kernels on this CPU, in the host context.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

#include <pagoda/attention/reference.hpp>
#include <pagoda/cuda/append.hpp>
#include <pagoda/cuda/attention.hpp>
#include <pagoda/cuda/host_backend.hpp>
#include <pagoda/cuda/step_tables.hpp>
#include <pagoda/pagoda.hpp>

/// The host context compiles kernels for this head_dim, as cuda_decode_kernels.cu does for CUDA.
template <class Quantizer>
struct pagoda::cuda::head_dims_of<pagoda::cuda::host_backend, Quantizer, Quantizer> : head_dim_list<128> {};

namespace {
using pagoda::rows_view;
constexpr std::int32_t query_heads = 32, kv_heads = 8, head_dim = 128;  // Llama-3-8B
constexpr pagoda::storage_shape shape{.layers = 1, .kv_heads = kv_heads, .head_dim = head_dim};
const std::vector<std::int32_t> prompts{1500, 37, 640, 1, 1023, 300};

/// Normally distributed rows, on the host and in device memory.
template <class Backend>
struct random_rows {
  random_rows(std::int64_t tokens, std::int64_t heads, unsigned seed)
      : rows{tokens, heads, head_dim}, host(static_cast<std::size_t>(tokens * heads * head_dim)) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    for (float& x : host) x = normal(random);
    Backend::copy(memory.data(), host.data(), memory.size_bytes(), {});
  }
  rows_view<float> view() const { return {{reinterpret_cast<float*>(memory.data()), host.size()}, rows}; }

  pagoda::rows_shape rows;
  std::vector<float> host;
  pagoda::cuda::basic_device_memory<Backend> memory{static_cast<std::int64_t>(host.size() * sizeof(float))};
};

template <class Backend, class Quantizer>
void show(bool is_timed) {
  namespace cuda = pagoda::cuda;
  const auto batch = static_cast<std::int32_t>(prompts.size());
  std::int32_t blocks = 0, tokens = 0;
  for (const std::int32_t prompt : prompts) blocks += prompt / 16 + 1, tokens += prompt;
  pagoda::cache<Quantizer, cuda::basic_device_memory<Backend>> cache(shape, pagoda::num_blocks{blocks});
  // All memory of the tables is taken here; every step within the limits is one upload to the same addresses.
  cuda::step_limits limits{.sequences = batch, .queries = batch, .new_tokens = tokens, .blocks = blocks};
  limits.query_heads = query_heads;
  limits.value_head_dim = head_dim;
  cuda::basic_step_tables<Backend> tables(cache.manager(), limits);
  const auto view = cache.storage().view(0, tables);
  std::vector<pagoda::sequence> sequences;
  std::vector<pagoda::growth> prefill, decode;
  for (const std::int32_t prompt : prompts) {
    sequences.push_back(cache.make_sequence());
    prefill.push_back({sequences.back(), prompt, 0});
    decode.push_back({sequences.back(), 1});
  }
  const random_rows<Backend> keys(tokens, kv_heads, 1), values(tokens, kv_heads, 2);
  auto step = cache.plan(prefill);
  tables.upload(step);
  cuda::append<Backend>(view, keys.view(), values.view());
  step.commit();
  // One decode step: a new token of each sequence.
  const random_rows<Backend> new_rows(batch, kv_heads, 3), queries(batch, query_heads, 4);
  random_rows<Backend> output(batch, query_heads, 5);
  step = cache.plan(decode);
  tables.upload(step);
  cuda::append<Backend>(view, new_rows.view(), new_rows.view());
  cuda::attention<Backend>(view, queries.view(), output.view());
  // The reference reads the bytes that the kernels stored.
  const pagoda::block_storage<Quantizer> stored(shape, cache.block_size, pagoda::num_blocks{blocks});
  Backend::copy(stored.layer_view(0).keys.base, view.keys.base, stored.size_bytes(), {});
  Backend::copy(output.host.data(), output.memory.data(), output.memory.size_bytes(), {});
  Backend::synchronize({});
  std::vector<double> exact(output.host.size());
  pagoda::reference_attention(stored.view(0, step), rows_view(queries.host, queries.rows),
                              rows_view(exact, queries.rows), {});
  double error = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) error = std::max(error, std::fabs(output.host[i] - exact[i]));
  std::printf("%-10s %11ld %7d %14.1e", Quantizer::name.data(), long{cache.bytes_per_token(shape)}, blocks, error);
  const auto start = std::chrono::steady_clock::now();
  constexpr int calls = 200;
  for (int i = 0; i < calls && is_timed; ++i) cuda::attention<Backend>(view, queries.view(), output.view());
  Backend::synchronize({});
  const std::chrono::duration<double, std::micro> elapsed = std::chrono::steady_clock::now() - start;
  is_timed ? std::printf("%14.1f\n", elapsed.count() / calls) : std::printf("\n");
}

template <class Backend>
void show_all(bool is_timed) {
  std::printf("kv         bytes/token  blocks  largest error%s\n", is_timed ? "  microseconds" : "");
  show<Backend, pagoda::identity<pagoda::half>>(is_timed);
  show<Backend, pagoda::identity<pagoda::bfloat16>>(is_timed);
  show<Backend, pagoda::fp8_e4m3>(is_timed);
  show<Backend, pagoda::int8_per_token>(is_timed);
  show<Backend, pagoda::int4_per_token>(is_timed);
  std::printf("\nerror: against attention in double over the stored values\n");
}
}  // namespace

int main() {
  std::printf("Llama-3-8B attention, %zu sequences, one layer of one decode step\n", prompts.size());
  try {
    const pagoda::cuda::device_properties device = pagoda::cuda::device_backend::properties();
    std::printf("CUDA device %d, %d multiprocessors\n\n", device.device, device.multiprocessors);
  } catch (const pagoda::cuda::cuda_error& error) {
    std::printf("%s\nno CUDA device: running the same kernels in the host context\n\n", error.what());
    show_all<pagoda::cuda::host_backend>(false);
    return 0;
  }
  show_all<pagoda::cuda::device_backend>(true);
}
