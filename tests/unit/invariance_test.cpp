// SPDX-License-Identifier: Apache-2.0
// A result depends on tokens and queries alone: to the bit the same wherever blocks lie, however the work is cut,
// whoever else is in the batch, and whatever unused memory holds.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <pagoda/host/thread_pool.hpp>

#include "attention_case.hpp"

namespace {

using pagoda::attention_options;
using pagoda_test::attention_case;
using pagoda_test::attention_result;
using pagoda_test::batch_entry;
using pagoda_test::case_config;

/// Ragged on purpose; the fifth entry is asked about by cross-attention.
const std::vector<batch_entry> ragged{{541, 1, -1, 1}, {77, 77, 20, 2}, {1100, 3, -1, 3},
                                      {1, 1, -1, 4},   {90, 0, 5, 5},   {130, 40, -1, 6}};

case_config config_of(std::vector<batch_entry> batch = ragged) {
  return {.shape = {.kv_heads = 2, .head_dim = 32, .value_head_dim = 48}, .query_group = 3, .batch = std::move(batch)};
}

/// Option sets that reach every path: whole tiles, causal edges, windows with a gap, per-token distances.
std::vector<attention_options> option_sets() {
  static const std::vector<float> slopes{0.01f, 0.02f, 0.03f, 0.04f, 0.05f, 0.06f};
  static const std::vector<float> logits{0.5f, -1.0f, 2.0f, 0.0f, 1.0f, 3.0f};
  return {{},
          {.causal = false},
          {.window = 70, .sinks = 5},
          {.scale = 0.3f, .window = 600, .sinks = 20, .sink_logits = logits, .soft_cap = 6.0f, .alibi_slopes = slopes}};
}

bool same_bits(const attention_result& a, const attention_result& b) {
  return a.output.size() == b.output.size() && a.lse.size() == b.lse.size() &&
         std::memcmp(a.output.data(), b.output.data(), 4 * a.output.size()) == 0 &&
         std::memcmp(a.lse.data(), b.lse.data(), 4 * a.lse.size()) == 0;
}

template <class Case>
std::vector<attention_result> results(const Case& batch) {
  std::vector<attention_result> all;
  for (const attention_options& options : option_sets()) all.push_back(batch.run(options));
  return all;
}

void check_same(const std::vector<attention_result>& a, const std::vector<attention_result>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    CAPTURE(i);
    CHECK(same_bits(a[i], b[i]));
  }
}

#define EVERY_QUANTIZER                                                                                          \
  pagoda_test::f32, pagoda_test::f16, pagoda_test::bf16, pagoda_test::int8, pagoda_test::int4, pagoda_test::fp8, \
      pagoda_test::user_int8, pagoda_test::user_int4, pagoda_test::user_int8_grouped

TEST_CASE_TEMPLATE("results do not depend on which blocks hold a sequence", Q, EVERY_QUANTIZER) {
  case_config config = config_of();
  config.scatter = 0;
  const std::vector<attention_result> expected = results(attention_case<Q>(config));
  for (config.scatter = 1; config.scatter < 4; ++config.scatter)
    check_same(results(attention_case<Q>(config)), expected);
}

TEST_CASE_TEMPLATE("results do not depend on layout, pool order, number of layers, or block size", Q, EVERY_QUANTIZER) {
  case_config config = config_of();
  const std::vector<attention_result> expected = results(attention_case<Q>(config));
  check_same(results(attention_case<Q, Q, pagoda::tokens_heads_dim>(config)), expected);
  check_same(results(attention_case<Q, Q, pagoda_test::user_chunked>(config)), expected);
  config.order = pagoda::pool_order::by_block;
  check_same(results(attention_case<Q>(config)), expected);
  config.shape.layers = 3;
  check_same(results(attention_case<Q>(config)), expected);
  for (const std::int32_t block_size : {1, 2, 64, 128, 1024}) {
    config.block_size = block_size;
    check_same(results(attention_case<Q>(config)), expected);
    check_same(results(attention_case<Q, Q, pagoda_test::user_chunked>(config)), expected);
  }
}

TEST_CASE_TEMPLATE("results do not depend on threads, or on the order of items", Q, EVERY_QUANTIZER) {
  const attention_case<Q> batch(config_of());
  pagoda_test::pooled_items one(1);
  pagoda_test::pooled_items two(2);
  pagoda_test::pooled_items three(3);
  pagoda_test::split_items split;
  for (const attention_options& options : option_sets()) {
    const attention_result expected = batch.run(options);
    for (int repeat = 0; repeat < 3; ++repeat) {
      CHECK(same_bits(batch.run(options, one), expected));
      CHECK(same_bits(batch.run(options, two), expected));
      CHECK(same_bits(batch.run(options, three), expected));
    }
    CHECK(same_bits(batch.run(options, split), expected));
  }
}

/// Has no concurrency(), and runs its items backwards.
struct backwards {
  template <class Function>
  void parallel_for(std::int64_t count, Function&& function) {
    for (std::int64_t i = count - 1; i >= 0; --i) function(i);
  }
};

TEST_CASE("an executor without concurrency() that runs backwards gives the same bits; so does no executor at all") {
  CHECK(pagoda::host::concurrency_of(backwards{}) > 1);
  const attention_case<pagoda_test::int8> batch(config_of());
  for (const attention_options& options : option_sets()) {
    const attention_result expected = batch.run(options);
    attention_result got{std::vector<float>(expected.output.size()), std::vector<float>(expected.lse.size())};
    attention_options with_lse = options;
    with_lse.lse = got.lse;
    const pagoda::rows_view<float> output(got.output, batch.output_shape());
    pagoda::host::attention(batch.view, batch.query_rows(), output, with_lse, backwards{});
    CHECK(same_bits(got, expected));
    got = {std::vector<float>(expected.output.size()), std::vector<float>(expected.lse.size())};
    with_lse.lse = got.lse;
    pagoda::host::attention(batch.view, batch.query_rows(), pagoda::rows_view<float>(got.output, batch.output_shape()),
                            with_lse);
    CHECK(same_bits(got, expected));
  }
}

/// The rows of one batch entry.
attention_result rows_of(const attention_result& all, const pagoda::batch_view& batch, std::int32_t i,
                         std::size_t heads, std::size_t dim) {
  const auto begin = static_cast<std::size_t>(batch.query_offsets[i]) * heads;
  const auto end = static_cast<std::size_t>(batch.query_offsets[i + 1]) * heads;
  const auto at = [](std::size_t n) { return static_cast<std::ptrdiff_t>(n); };
  return {{all.output.begin() + at(begin * dim), all.output.begin() + at(end * dim)},
          {all.lse.begin() + at(begin), all.lse.begin() + at(end)}};
}

TEST_CASE_TEMPLATE("a sequence alone and in a batch gives the same bits", Q, EVERY_QUANTIZER) {
  const attention_case<Q> together(config_of());
  const std::vector<attention_result> all = results(together);
  for (std::size_t i = 0; i < ragged.size(); ++i) {
    const std::vector<attention_result> alone = results(attention_case<Q>(config_of({ragged[i]})));
    for (std::size_t o = 0; o < all.size(); ++o) {
      CAPTURE(i);
      CAPTURE(o);
      CHECK(same_bits(rows_of(all[o], together.view.batch, static_cast<std::int32_t>(i), 6, 48), alone[o]));
    }
  }
}

/// The largest relative L2 difference of two rows; infinite where one has a NaN.
double largest_row_difference(const float* a, const float* b, std::int64_t rows, std::int64_t dim) {
  double largest = 0;
  for (std::int64_t row = 0; row < rows; ++row) {
    double difference = 0;
    double norm = 0;
    for (std::int64_t d = row * dim; d < (row + 1) * dim; ++d) {
      difference += (double{a[d]} - double{b[d]}) * (double{a[d]} - double{b[d]});
      norm += double{b[d]} * double{b[d]};
    }
    if (!(difference <= largest * largest * norm)) largest = std::sqrt(difference / norm);
    if (std::isnan(largest)) return std::numeric_limits<double>::infinity();
  }
  return largest;
}

TEST_CASE_TEMPLATE("prefill in pieces, and token by token, differs from one prefill by rounding only", Q,
                   EVERY_QUANTIZER) {
  constexpr double bound = 2 * attention_case<Q>::bound;
  constexpr std::int32_t length = 75;
  const attention_case<Q> whole(config_of({{length, length, -1, 8}}));
  const std::vector<attention_result> expected = results(whole);
  for (const std::int32_t piece : {1, 7, 16, 64}) {
    for (std::int32_t begin = 0; begin < length; begin += piece) {
      const std::int32_t end = std::min(begin + piece, length);
      const std::vector<attention_result> part = results(attention_case<Q>(config_of({{end, end - begin, -1, 8}})));
      for (std::size_t o = 0; o < part.size(); ++o) {
        if (!option_sets()[o].causal) continue;  // it sees the whole context, which is shorter here
        CAPTURE(piece);
        CAPTURE(begin);
        CAPTURE(o);
        const auto at = [&](std::int32_t row, std::int32_t dim) { return static_cast<std::size_t>(row * 6 * dim); };
        const std::int64_t rows = (end - begin) * 6;
        CHECK(largest_row_difference(part[o].output.data(), expected[o].output.data() + at(begin, 48), rows, 48) <
              bound);
        for (std::int64_t row = 0; row < rows; ++row) {
          const float lse = expected[o].lse[at(begin, 1) + static_cast<std::size_t>(row)];
          CHECK(std::fabs(part[o].lse[static_cast<std::size_t>(row)] - lse) < bound * std::max(1.0f, std::fabs(lse)));
        }
      }
    }
  }
}

TEST_CASE_TEMPLATE("results do not depend on what unused slots, scales, padding and other layers hold", Q,
                   EVERY_QUANTIZER) {
  case_config config = config_of();
  config.shape.layers = 2;
  config.unused = pagoda_test::poison::zeros;
  const std::vector<attention_result> expected = results(attention_case<Q>(config));
  for (const pagoda_test::poison kind : pagoda_test::poisons) {
    CAPTURE(static_cast<std::uint32_t>(kind));
    config.unused = kind;
    check_same(results(attention_case<Q>(config)), expected);
    check_same(results(attention_case<Q, Q, pagoda_test::user_chunked>(config)), expected);
  }
}

TEST_CASE("results do not depend on table entries beyond those in use") {
  case_config config = config_of();
  for (const pagoda::retention& keep : {pagoda::retention{}, pagoda::retention{.sinks = 3, .window = 40}}) {
    config.keep = keep;
    attention_case<pagoda_test::int8> batch(config);
    const pagoda::batch_view before = batch.view.batch;
    const attention_options options{.window = 38, .sinks = keep.sinks};
    const attention_result expected = batch.run(options);
    for (const std::int32_t tail : {-1, INT32_MAX, INT32_MIN, batch.view.num_blocks}) {
      CAPTURE(tail);
      const pagoda_test::tables_with_tails tables(before, tail);
      batch.view.batch = tables.batch();
      CHECK(same_bits(batch.run(options), expected));
    }
  }
}

}  // namespace
