// SPDX-License-Identifier: Apache-2.0
// The thread pool, and append and attention on it: what the thread sanitizer looks at.
#include <atomic>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <pagoda/host/thread_pool.hpp>
#include <pagoda/pagoda.hpp>

namespace {

using pagoda::rows_view;
using pagoda::host::thread_pool;

std::vector<float> some_rows(std::int64_t count) {
  std::vector<float> rows(static_cast<std::size_t>(count));
  std::uint32_t state = 1;
  for (float& x : rows) {
    state = state * 1664525u + 1013904223u;
    x = static_cast<float>(static_cast<std::int32_t>(state)) * 0x1p-31f;
  }
  return rows;
}

/// Prefills two sequences and decodes one token more, all on the given executor.
template <class Cache, class Executor>
std::vector<float> outputs_of(Executor&& run) {
  constexpr std::int64_t kv_heads = 2, query_heads = 6, dim = 32;
  Cache cache({.layers = 1, .kv_heads = kv_heads, .head_dim = dim}, pagoda::num_blocks{160});
  const pagoda::sequence a = cache.make_sequence();
  const pagoda::sequence b = cache.make_sequence();
  std::vector<float> all;
  for (const auto& growths : {std::vector<pagoda::growth>{{a, 1700}, {b, 90}}, {{a, 1}, {b, 1}}}) {
    pagoda::step step = cache.plan(growths);
    const auto view = cache.view(0, step);
    const std::int64_t tokens = view.batch.total_new_tokens();
    const std::vector<float> kv = some_rows(tokens * kv_heads * dim);
    const std::vector<float> queries = some_rows(tokens * query_heads * dim);
    std::vector<float> output(queries.size());
    pagoda::host::append(view, rows_view(kv, {tokens, kv_heads, dim}), rows_view(kv, {tokens, kv_heads, dim}), run);
    pagoda::host::attention(view, rows_view(queries, {tokens, query_heads, dim}),
                            rows_view(output, {tokens, query_heads, dim}), {}, run);
    step.commit();
    all.insert(all.end(), output.begin(), output.end());
  }
  return all;
}

}  // namespace

TEST_CASE("parallel_for calls the function once for every index, again and again") {
  for (const std::int32_t threads : {1, 2, 4}) {
    thread_pool pool(threads);
    CHECK(pool.concurrency() == threads);
    for (const std::int64_t count : {0, 1, 2, 3, 1000}) {
      std::vector<std::atomic<int>> calls(static_cast<std::size_t>(count));
      pool.parallel_for(count, [&](std::int64_t i) { ++calls[static_cast<std::size_t>(i)]; });
      for (const std::atomic<int>& called : calls) CHECK(called == 1);
    }
  }
}

TEST_CASE("several threads take items at the same time") {
  thread_pool pool(2);
  std::atomic<int> arrived{0};
  pool.parallel_for(2, [&](std::int64_t) {
    ++arrived;
    while (arrived < 2) std::this_thread::yield();  // only another thread can end this
  });
  CHECK(arrived == 2);
}

TEST_CASE("an exception comes out of parallel_for after all items have ended, and the pool goes on") {
  thread_pool pool(3);
  std::atomic<int> ended{0};
  CHECK_THROWS_WITH_AS(pool.parallel_for(100,
                                         [&](std::int64_t i) {
                                           ++ended;
                                           if (i == 7) throw std::runtime_error("item 7");
                                         }),
                       "item 7", std::runtime_error);
  CHECK(ended == 100);
  pool.parallel_for(100, [&](std::int64_t) { ++ended; });
  CHECK(ended == 200);
}

TEST_CASE("a pool needs a number of threads that can be") {
  for (const std::int32_t threads : {0, -1, 5000}) {
    const std::string why = "thread_pool of " + std::to_string(threads) +
                            " threads: the number must lie between 1 and 4096; pass 1 for the calling thread alone";
    CHECK_THROWS_WITH_AS(thread_pool{threads}, doctest::Contains(why.c_str()), pagoda::invalid_argument);
  }
}

TEST_CASE_TEMPLATE("append and attention on threads give the bits of one thread", Quantizer, pagoda::identity<float>,
                   pagoda::identity<pagoda::half>, pagoda::int8_per_token) {
  using cache_type = pagoda::cache<Quantizer>;
  const std::vector<float> serial = outputs_of<cache_type>(pagoda::host::serial_executor{});
  thread_pool two(2);
  CHECK(outputs_of<cache_type>(two) == serial);
  thread_pool four(4);
  CHECK(outputs_of<cache_type>(four) == serial);
}

TEST_CASE("caches of their own may be used by threads of their own") {
  const std::vector<float> expected = outputs_of<pagoda::cache<>>(pagoda::host::serial_executor{});
  std::vector<std::vector<float>> got(3);
  std::vector<std::thread> threads;
  for (std::vector<float>& output : got) {
    threads.emplace_back([&output] { output = outputs_of<pagoda::cache<>>(pagoda::host::serial_executor{}); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::vector<float>& output : got) CHECK(output == expected);
}
