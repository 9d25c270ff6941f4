// SPDX-License-Identifier: Apache-2.0
// Composes six caches, decodes a ragged batch with Llama-3-8B's attention shape through each, and prints cost and
// error.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <random>
#include <vector>

#include <pagoda/attention/reference.hpp>
#include <pagoda/pagoda.hpp>

namespace {
using pagoda::rows_view;
constexpr int layers = 32, query_heads = 32, kv_heads = 8, head_dim = 128;  // Llama-3-8B
constexpr pagoda::storage_shape shape{.layers = layers, .kv_heads = kv_heads, .head_dim = head_dim};
constexpr int max_context = 2048;  // what a cache without paging would reserve for each sequence
const std::vector<int> prompts{1500, 37, 640, 1, 1023, 300};

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// GB/s of summing 1 GiB once: about the most that attention over cold memory can reach. Median of five.
double read_bandwidth() {
  std::vector<std::uint64_t> data(std::size_t{1} << 27, 1);
  std::vector<double> rates;
  for (int run = 0; run < 5; ++run) {
    const double start = now();
    std::uint64_t sums[32] = {};
    for (std::size_t i = 0; i < data.size(); i += 32) {
      for (std::size_t lane = 0; lane < 32; ++lane) sums[lane] += data[i + lane];
    }
    const std::uint64_t total = std::accumulate(sums, sums + 32, std::uint64_t{0});
    rates.push_back(total == data.size() ? 8e-9 * static_cast<double>(total) / (now() - start) : 0);
  }
  std::sort(rates.begin(), rates.end());
  return rates[2];
}

std::vector<float> random_rows(std::int64_t tokens, int heads) {
  static std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> rows(static_cast<std::size_t>(tokens * heads * head_dim));
  for (float& x : rows) x = normal(random);
  return rows;
}

template <class Cache>
void show(const char* name, double bandwidth) {
  std::int64_t blocks = 0;
  for (const int prompt : prompts) blocks += pagoda::divide_up(prompt + 1, Cache::block_size);
  Cache cache(shape, pagoda::num_blocks{static_cast<std::int32_t>(blocks)});
  std::vector<pagoda::sequence> sequences;
  std::vector<pagoda::growth> prefill, decode;
  for (const int prompt : prompts) {
    sequences.push_back(cache.make_sequence());
    prefill.push_back({sequences.back(), prompt, 0});
    decode.push_back({sequences.back(), 1});
  }
  // The prompts' keys and values, the same rows in every layer; a model would compute them.
  auto step = cache.plan(prefill);
  const std::int64_t tokens = step.batch().total_new_tokens();
  const auto keys = random_rows(tokens, kv_heads), values = random_rows(tokens, kv_heads);
  for (int layer = 0; layer < layers; ++layer) {
    pagoda::host::append(cache.view(layer, step), rows_view(keys, {tokens, kv_heads, head_dim}),
                         rows_view(values, {tokens, kv_heads, head_dim}));
  }
  step.commit();
  // One decode step: append a token to every sequence and attend, layer by layer.
  step = cache.plan(decode);
  const auto batch = static_cast<std::int64_t>(prompts.size());
  const auto new_rows = random_rows(batch, kv_heads), queries = random_rows(batch, query_heads);
  std::vector<float> output(queries.size());
  const auto rows = rows_view(new_rows, {batch, kv_heads, head_dim});
  const auto query_rows = rows_view(queries, {batch, query_heads, head_dim});
  for (int layer = 0; layer < layers; ++layer) pagoda::host::append(cache.view(layer, step), rows, rows);
  const double start = now();
  for (int layer = 0; layer < layers; ++layer) {
    pagoda::host::attention(cache.view(layer, step), query_rows, rows_view(output, {batch, query_heads, head_dim}));
  }
  const double seconds = now() - start;
  std::vector<double> exact(output.size());
  pagoda::reference_attention(cache.view(layers - 1, step), query_rows,
                              rows_view(exact, {batch, query_heads, head_dim}), {});
  double error = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) error = std::max(error, std::fabs(output[i] - exact[i]));
  step.commit();
  const auto bytes = static_cast<double>(cache.bytes_per_token(shape));
  const auto used = static_cast<double>(cache.stats().tokens);
  const auto held = static_cast<double>(cache.stats().used * Cache::block_size);
  const auto reserved = static_cast<double>(batch * max_context), rate = 1e-9 * bytes * used / seconds;
  std::printf("%-44s %7.0f %6ld %6.0f/%-6.0f %4.1f%% %4.1f%%  %.1e %6.1f %4.0f%%\n", name, bytes,
              long{cache.stats().used}, used, held, 100 * used / held, 100 * used / reserved, error, rate,
              100 * rate / bandwidth);
}
}  // namespace

int main() {
  using namespace pagoda;
  const double bandwidth = read_bandwidth();
  std::printf("Llama-3-8B attention, %zu sequences, one decode step, 1 thread; this machine reads %.1f GB/s\n\n",
              prompts.size(), bandwidth);
  constexpr const char* heads = "%-44s %7s %6s %13s %5s %5s  %7s %6s %5s\n";
  std::printf(heads, "cache", "bytes/", "blocks", "slots used", "full", "*", "largest", "GB/s", "of");
  std::printf(heads, "", "token", "used", "/held", "", "", "error", "", "read");
  show<cache<>>("cache<>", bandwidth);
  show<cache<identity<float>>>("cache<identity<float>>", bandwidth);
  show<cache<identity<bfloat16>, block_size<64>>>("cache<identity<bfloat16>, block_size<64>>", bandwidth);
  show<cache<int8_per_token>>("cache<int8_per_token>", bandwidth);
  show<cache<fp8_e4m3, tokens_heads_dim>>("cache<fp8_e4m3, tokens_heads_dim>", bandwidth);
  show<cache<keys<int8_per_token>, values<int4_per_token>>>("cache<keys<int8...>, values<int4...>>", bandwidth);
  std::printf(
      "\nfull: share of the held slots that hold a token.  *: the same if %d tokens were reserved a sequence.\n"
      "error: against attention in double over the stored values.  of read: share of the read bandwidth.\n",
      max_context);
}
