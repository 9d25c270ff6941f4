// SPDX-License-Identifier: Apache-2.0
// Decode allocates nothing in its steady state, on one thread or many; an allocation that fails is thrown and mends.
#include <cstdint>
#include <new>
#include <vector>

#include <doctest/doctest.h>
#include <pagoda/cache.hpp>
#include <pagoda/host/append.hpp>
#include <pagoda/host/execute.hpp>

#define PAGODA_TEST_NEW_IS_REPLACED_ELSEWHERE
#include "attention_case.hpp"
#include "counting_new.hpp"

namespace {

using pagoda::rows_view;
using pagoda_test::allocation_scope;
using pagoda_test::any_executor;
using pagoda_test::attention_case;
using pagoda_test::attention_result;
using pagoda_test::int8;

/// A cache whose sequences decode one token a step, as an engine's loop does.
class decode_loop {
 public:
  static constexpr std::int32_t batch = 3;

  decode_loop() : cache_({.layers = 2, .kv_heads = 2, .head_dim = 32}, pagoda::num_blocks{300}) {
    for (int i = 0; i < batch; ++i) sequences_.push_back(cache_.make_sequence());
    for (const pagoda::sequence& sequence : sequences_) growths_.push_back({sequence, 700});
    rows_.resize(700 * batch * 64, 0.25f);
    queries_.resize(batch * 8 * 32, 0.5f);
    output_.resize(queries_.size());
    lse_.resize(batch * 8);
    pagoda::step step = cache_.plan(growths_);
    append(cache_.view(0, step));
    append(cache_.view(1, step));
    step.commit();
    for (pagoda::growth& growth : growths_) growth.new_tokens = 1;
  }

  void decode(any_executor& run) {
    pagoda::step step = cache_.plan(growths_);
    pagoda::host::execute(cache_, step.take_copies());
    for (std::int32_t layer = 0; layer < 2; ++layer) {
      const auto view = cache_.view(layer, step);
      append(view);
      attention(view, run, output_);
    }
    step.commit();
  }

  /// Every thread attends once by itself, so that its working memory has its size.
  void warm_up(pagoda_test::pooled_items& pool) {
    pagoda::step step = cache_.plan(growths_);
    const auto view = cache_.view(0, step);
    append(view);
    pool.on_every_thread([&] {
      std::vector<float> output(output_.size());
      pagoda_test::serial_items serial;
      attention(view, serial, output);
    });
  }

 private:
  template <class View>
  void append(const View& view) {
    const rows_view<const float> rows(rows_, {view.batch.total_new_tokens(), 2, 32});
    pagoda::host::append(view, rows, rows);
  }
  template <class View>
  void attention(const View& view, any_executor& run, std::vector<float>& output) {
    pagoda::attention_options options;
    if (&output == &output_) options.lse = lse_;
    pagoda_test::attend(view, rows_view<const float>(queries_, {batch, 8, 32}),
                        rows_view<float>(output, {batch, 8, 32}), options, run);
  }

  pagoda::cache<int8, pagoda::block_size<16>> cache_;
  std::vector<pagoda::sequence> sequences_;
  std::vector<pagoda::growth> growths_;
  std::vector<float> rows_;
  std::vector<float> queries_;
  std::vector<float> output_;
  std::vector<float> lse_;
};

std::int64_t allocations_of(decode_loop& loop, any_executor& run) {
  const allocation_scope counting;
  for (int step = 0; step < 40; ++step) loop.decode(run);
  return counting.allocated();
}

TEST_CASE("decode on one thread allocates nothing after its first step") {
  decode_loop loop;
  pagoda_test::serial_items serial;
  loop.decode(serial);
  CHECK(allocations_of(loop, serial) == 0);
}

TEST_CASE("decode that is cut into parts, on a thread pool, allocates nothing after its first step") {
  decode_loop loop;
  pagoda_test::pooled_items pool(3);
  loop.warm_up(pool);
  loop.decode(pool);
  CHECK(allocations_of(loop, pool) == 0);
}

TEST_CASE("a call that is larger than any before does allocate: the count can fail") {
  const attention_case<int8> batch({.batch = {{100, 100, 50, 1}}});
  std::int64_t first = 0;
  std::int64_t second = 0;
  pagoda_test::on_fresh_thread([&] {
    std::vector<float> output(batch.output_size());
    const rows_view<float> rows(output, batch.output_shape());
    pagoda_test::serial_items serial;
    for (std::int64_t* count : {&first, &second}) {
      const allocation_scope counting;
      pagoda_test::attend(batch.view, batch.query_rows(), rows, {}, serial);
      *count = counting.allocated();
    }
  });
  CHECK(first > 0);
  CHECK(second == 0);
}

TEST_CASE("working memory that cannot grow is std::bad_alloc, and the next call is right") {
  const attention_case<int8> batch({.batch = {{1100, 1, -1, 1}, {600, 20, -1, 2}}});
  const attention_result expected = batch.run();
  int failures = 0;
  for (bool failed = true; failed;) {
    failed = false;
    std::vector<float> output(batch.output_size());
    pagoda_test::on_fresh_thread([&] {  // allocation number `failures` fails
      pagoda_test::split_items split;
      const rows_view<float> rows(output, batch.output_shape());
      const auto call = [&] { pagoda_test::attend(batch.view, batch.query_rows(), rows, {}, split); };
      try {
        const allocation_scope limited(failures);
        call();
      } catch (const std::bad_alloc&) {
        failed = true;
        call();
      }
    });
    failures += failed;
    CHECK(output == expected.output);
  }
  CHECK(failures > 2);
}

}  // namespace
