// SPDX-License-Identifier: Apache-2.0
// A memory of one's own: one that asks Linux for huge pages, with which attention spends less time on page tables. It
// is checked, put into a cache, and compared with the built-in host_memory.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include <sys/mman.h>
#include <pagoda/conformance/memory.hpp>
#include <pagoda/pagoda.hpp>

// host_memory is aligned to huge pages already; advice is all that it lacks. Where there is none, nothing changes.
struct huge_page_memory : pagoda::host_memory {
  explicit huge_page_memory(std::int64_t size_bytes) : host_memory(size_bytes) {
#ifdef MADV_HUGEPAGE
    madvise(data(), static_cast<std::size_t>(size_bytes), MADV_HUGEPAGE);
#endif
  }
};
static_assert(pagoda::allocating_memory<huge_page_memory>);

namespace {

constexpr pagoda::storage_shape shape{.layers = 1, .kv_heads = 8, .head_dim = 128};
constexpr int sequences = 16, tokens = 4096, query_heads = 32;

// Milliseconds of one layer's decode attention for a batch of 16 times 4096 tokens: the median of nine.
template <class Memory>
double decode_ms() {
  pagoda::cache<pagoda::identity<pagoda::half>, Memory> cache(shape, pagoda::num_blocks{sequences * tokens / 16});
  std::vector<pagoda::sequence> batch;
  std::vector<pagoda::growth> last_token;
  const std::vector<float> row(tokens * 8 * 128, 0.5f);
  const pagoda::rows_view rows(row, {tokens, 8, 128});
  for (int i = 0; i < sequences; ++i) {
    batch.push_back(cache.make_sequence());
    auto prompt = cache.plan({{batch.back(), tokens}});
    pagoda::host::append(cache.view(0, prompt), rows, rows);
    prompt.commit();
    last_token.push_back({batch.back(), 0, 1});
  }
  const auto step = cache.plan(last_token);
  const std::vector<float> query(sequences * query_heads * 128, 0.1f);
  std::vector<float> output(query.size());
  std::vector<double> times;
  for (int run = 0; run < 9; ++run) {
    const auto begin = std::chrono::steady_clock::now();
    pagoda::host::attention(cache.view(0, step), pagoda::rows_view(query, {sequences, query_heads, 128}),
                            pagoda::rows_view(output, {sequences, query_heads, 128}));
    times.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count());
  }
  std::sort(times.begin(), times.end());
  return times[4];
}

}  // namespace

int main() {
  huge_page_memory memory(std::int64_t{8} << 20);
  const auto report = pagoda::conformance::check_memory(memory);
  std::printf("huge_page_memory: %d checks, %zu faults\n", report.checks, report.faults.size());
  for (const std::string& fault : report.faults) std::printf("  %s\n", fault.c_str());

  std::printf("decode of 16 sequences of 4096 tokens, one layer: host_memory %.1f ms, huge_page_memory %.1f ms\n",
              decode_ms<pagoda::host_memory>(), decode_ms<huge_page_memory>());
  return report.ok() ? 0 : 1;
}
