// SPDX-License-Identifier: Apache-2.0
/// @file Host attention and the reference as plain calls, compiled once for each pair of quantizers that tests use.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <thread>
#include <type_traits>
#include <vector>

#include <pagoda/attention/reference.hpp>
#include <pagoda/host/attention.hpp>
#include <pagoda/host/thread_pool.hpp>

#include "policy_products.hpp"

namespace pagoda_test {

/// Any executor behind one type, so that a pair of quantizers is compiled once.
class any_executor {
 public:
  any_executor() = default;
  any_executor(const any_executor&) = delete;
  any_executor& operator=(const any_executor&) = delete;
  virtual ~any_executor() = default;
  virtual std::int64_t concurrency() const noexcept = 0;

  template <class Function>
  void parallel_for(std::int64_t count, Function&& function) {
    run(
        count, [](void* f, std::int64_t i) { (*static_cast<std::remove_reference_t<Function>*>(f))(i); }, &function);
  }

 private:
  virtual void run(std::int64_t count, void (*call)(void*, std::int64_t), void* function) = 0;
};

class serial_items final : public any_executor {
 public:
  std::int64_t concurrency() const noexcept override { return 1; }

 private:
  void run(std::int64_t count, void (*call)(void*, std::int64_t), void* function) override {
    for (std::int64_t i = 0; i < count; ++i) call(function, i);
  }
};

class pooled_items final : public any_executor {
 public:
  explicit pooled_items(std::int32_t threads) : pool_(threads) {}
  std::int64_t concurrency() const noexcept override { return pool_.concurrency(); }

  /// Calls the function once on each thread: no call returns before all have begun.
  template <class Function>
  void on_every_thread(Function&& function) {
    std::atomic<std::int64_t> begun{0};
    pool_.parallel_for(concurrency(), [&](std::int64_t) {
      ++begun;
      while (begun.load() < concurrency()) std::this_thread::yield();
      function();
    });
  }

 private:
  void run(std::int64_t count, void (*call)(void*, std::int64_t), void* function) override {
    pool_.parallel_for(count, [&](std::int64_t i) { call(function, i); });
  }
  pagoda::host::thread_pool pool_;
};

/// On one thread, but cut as if for many.
class split_items final : public any_executor {
 public:
  std::int64_t concurrency() const noexcept override { return 64; }

 private:
  void run(std::int64_t count, void (*call)(void*, std::int64_t), void* function) override {
    for (std::int64_t i = count - 1; i >= 0; --i) call(function, i);
  }
};

/// Calls the function on a thread that has no working memory yet.
template <class Function>
void on_fresh_thread(Function&& function) {
  std::thread([&] { function(); }).join();
}

template <class KeyQuantizer, class ValueQuantizer>
void attend(const pagoda::cache_view<KeyQuantizer, ValueQuantizer>& view, const pagoda::rows_view<const float>& queries,
            const pagoda::rows_view<float>& output, const pagoda::attention_options& options, any_executor& run) {
  pagoda::host::attention(view, queries, output, options, run);
}

template <class KeyQuantizer, class ValueQuantizer>
void attend_reference(const pagoda::cache_view<KeyQuantizer, ValueQuantizer>& view,
                      const pagoda::rows_view<const float>& queries, const pagoda::rows_view<double>& output,
                      const pagoda::attention_options& options, std::span<double> lse) {
  pagoda::reference_attention(view, queries, output, options, lse);
}

/// Every quantizer, alone and with others.
#define PAGODA_TEST_FOR_SAME_QUANTIZERS(visit) \
  visit(f32, f32);                             \
  visit(f16, f16);                             \
  visit(bf16, bf16);                           \
  visit(int8, int8);                           \
  visit(int4, int4);                           \
  visit(fp8, fp8);                             \
  visit(user_int8, user_int8);                 \
  visit(user_int4, user_int4);                 \
  visit(user_int8_grouped, user_int8_grouped)
#define PAGODA_TEST_FOR_MIXED_QUANTIZERS(visit) \
  visit(int8, f16);                             \
  visit(f16, user_int4);                        \
  visit(fp8, int4);                             \
  visit(f32, int8);                             \
  visit(user_int8_grouped, int8);               \
  visit(user_int4, bf16)

#define PAGODA_TEST_ATTENTION(prefix, K, V)                                                                      \
  prefix template void attend(const pagoda::cache_view<K, V>&, const pagoda::rows_view<const float>&,            \
                              const pagoda::rows_view<float>&, const pagoda::attention_options&, any_executor&); \
  prefix template void attend_reference(const pagoda::cache_view<K, V>&, const pagoda::rows_view<const float>&,  \
                                        const pagoda::rows_view<double>&, const pagoda::attention_options&,      \
                                        std::span<double>)
#define PAGODA_TEST_DECLARE_ATTENTION(K, V) PAGODA_TEST_ATTENTION(extern, K, V)
#define PAGODA_TEST_DEFINE_ATTENTION(K, V) PAGODA_TEST_ATTENTION(, K, V)

PAGODA_TEST_FOR_SAME_QUANTIZERS(PAGODA_TEST_DECLARE_ATTENTION);   // defined in attention_test.cpp
PAGODA_TEST_FOR_MIXED_QUANTIZERS(PAGODA_TEST_DECLARE_ATTENTION);  // defined in attention_pairs_test.cpp

}  // namespace pagoda_test
