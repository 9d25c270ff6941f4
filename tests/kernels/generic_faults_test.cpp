// SPDX-License-Identifier: Apache-2.0
// The generic kernel at the borders of what it is given: numbers that are not finite, tables that name no block,
// tensors that are larger than the batch, slices, narrow types, and misaligned pointers.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "generic_kernel.hpp"

namespace {

using pagoda::attention_options;
using pagoda::block_id;
using pagoda::rows_view;
using pagoda_test::attention_case;
using pagoda_test::attention_launch;
using pagoda_test::attention_result;
using pagoda_test::case_config;
using pagoda_test::f16;
using pagoda_test::f32;
using pagoda_test::generic_kernel;
using pagoda_test::int8;
using pagoda_test::run_generic;

constexpr float quiet_nan = std::numeric_limits<float>::quiet_NaN();
constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr std::int64_t group = 3;
constexpr std::int64_t heads = 2 * group;
constexpr std::int64_t dim = 32;

/// Prefill of 12 queries and decode of 5.
const case_config config{
    .shape = {.kv_heads = 2, .head_dim = dim}, .query_group = group, .batch = {{50, 50, 12, 1}, {30, 5, -1, 2}}};

#define SOME_QUANTIZERS f32, pagoda_test::bf16, int8, pagoda_test::user_int4, pagoda_test::user_int8_grouped

bool row_is_finite(const attention_result& result, std::int64_t row) {
  for (std::int64_t d = row * dim; d < (row + 1) * dim; ++d) {
    if (!std::isfinite(result.output[static_cast<std::size_t>(d)])) return false;
  }
  return true;
}

bool row_is_same(const attention_result& a, const attention_result& b, std::int64_t row) {
  for (std::int64_t d = row * dim; d < (row + 1) * dim; ++d) {
    if (a.output[static_cast<std::size_t>(d)] != b.output[static_cast<std::size_t>(d)]) return false;
  }
  return a.lse[static_cast<std::size_t>(row)] == b.lse[static_cast<std::size_t>(row)];
}

TEST_CASE_TEMPLATE("a NaN in a query stays in that query's head", Q, SOME_QUANTIZERS) {
  attention_case<Q> batch(config);
  pagoda::simt::host_machine machine;
  const std::vector<float> slopes(heads, 0.01f);
  for (const attention_options& options :
       {attention_options{}, attention_options{.soft_cap = 5.0f, .alibi_slopes = slopes}}) {
    const attention_result clean = run_generic(batch, options, machine);
    for (const std::int64_t row : {0, 46, 71, 74, 101}) {
      float& element = batch.queries[static_cast<std::size_t>(row * dim + 9)];
      const float before = std::exchange(element, quiet_nan);
      const attention_result got = run_generic(batch, options, machine);
      element = before;
      for (std::int64_t other = 0; other < 17 * heads; ++other) {
        if (other != row) {
          CHECK(row_is_same(got, clean, other));
          continue;
        }
        CHECK(std::isnan(got.lse[static_cast<std::size_t>(row)]));
        for (std::int64_t d = row * dim; d < (row + 1) * dim; ++d) {
          CHECK(std::isnan(got.output[static_cast<std::size_t>(d)]));
        }
      }
    }
  }
}

/// Appends the batch's own new rows again, but with one element of a sequence's key or value `token` replaced.
template <class Q>
void write_poisoned(const attention_case<Q>& batch, bool in_key, std::int32_t sequence, std::int64_t token,
                    std::int64_t kv_head, float bad) {
  std::vector<float> rows[2];
  for (std::int32_t i = 0; i < 2; ++i) {
    const std::int64_t end = batch.view.batch.context_length(i);
    for (std::int64_t t = end - batch.view.batch.new_tokens(i); t < end; ++t) {
      for (std::int64_t h = 0; h < 2; ++h) {
        for (std::int64_t d = 0; d < dim; ++d) {
          const bool here = i == sequence && t == token && h == kv_head && d == 17;
          const auto seed = static_cast<std::uint64_t>(i) + 1;
          rows[0].push_back(here && in_key ? bad : pagoda_test::noise(seed, 1, t, h, d));
          rows[1].push_back(here && !in_key ? bad : pagoda_test::noise(seed, 2, t, h, d));
        }
      }
    }
  }
  const pagoda::rows_shape shape{batch.view.batch.total_new_tokens(), 2, dim};
  pagoda::host::append(batch.view, rows_view(rows[0], shape), rows_view(rows[1], shape));
}

struct place {
  std::int32_t sequence;
  std::int64_t token;
};

TEST_CASE_TEMPLATE("a NaN or infinity in a key or value row reaches only what attends to it", Q, SOME_QUANTIZERS) {
  const attention_case<Q> clean_batch(config);
  const attention_case<Q> batch(config);
  pagoda::simt::host_machine machine;
  std::vector<std::uint32_t> tree(17 * 2);
  for (std::size_t q = 0; q < 17; ++q) {
    for (std::size_t t = 0; t <= (q < 12 ? 38 + q : q - 12); ++t) {
      if (t % 5 != 4) tree[q * 2 + t / 32] |= 1u << (t % 32);
    }
  }
  const std::vector<attention_options> sets{
      {}, {.causal = false}, {.window = 7, .sinks = 2}, {.soft_cap = 5.0f}, {.tree = {tree, 2}}};
  std::vector<attention_result> clean;
  for (const attention_options& options : sets) clean.push_back(run_generic(clean_batch, options, machine));
  for (const bool in_key : {true, false}) {
    for (const float bad : {quiet_nan, infinity, -infinity}) {
      for (const place& at : {place{0, 0}, place{0, 31}, place{0, 42}, place{0, 49}, place{1, 27}}) {
        const std::int32_t sequence = at.sequence;
        const std::int64_t token = at.token;
        const std::int64_t kv_head = token % 2;
        write_poisoned(batch, in_key, sequence, token, kv_head, bad);
        for (std::size_t o = 0; o < sets.size(); ++o) {
          const attention_options& options = sets[o];
          CAPTURE(in_key);
          CAPTURE(bad);
          CAPTURE(token);
          CAPTURE(o);
          const attention_result got = run_generic(batch, options, machine);
          int leaks = 0;
          int misses = 0;
          for (std::int64_t q = 0; q < 17; ++q) {
            const std::int64_t position = q < 12 ? 38 + q : 25 + q - 12;
            const std::int64_t first_new = q < 12 ? 0 : 25;
            const bool causal = token <= position &&
                                (options.window == 0 || token > position - options.window || token < options.sinks);
            const bool is_own = (q < 12) == (sequence == 0);
            const bool sees = is_own && (!options.causal        ? true
                                         : options.tree.empty() ? causal
                                                                : options.tree.sees(q, token - first_new));
            for (std::int64_t h = 0; h < heads; ++h) {
              const bool affected = h / group == kv_head && sees;
              const std::int64_t row = q * heads + h;
              if (!affected && !row_is_same(got, clean[o], row)) ++leaks;
              // A soft cap turns an infinite score into a finite one; an infinite key may score -infinity.
              const bool must_show = std::isnan(bad) || !in_key;
              if (affected && must_show && row_is_finite(got, row)) ++misses;
            }
          }
          CHECK(leaks == 0);
          CHECK(misses == 0);
        }
        write_poisoned(batch, in_key, sequence, -1, 0, bad);  // as it was
      }
    }
  }
}

/// A view whose block table a test may spoil.
struct spoiled_tables {
  explicit spoiled_tables(const attention_case<int8>& batch) : view(batch.view) {
    const pagoda::batch_view& tables = batch.view.batch;
    std::int64_t end = 0;
    for (std::int32_t i = 0; i < tables.sequences(); ++i) {
      const std::int64_t blocks = pagoda::divide_up(tables.context_length(i), tables.block_size);
      end = std::max(end, tables.table_offsets[i] + blocks);
    }
    entries.assign(tables.block_table, tables.block_table + end);
    view.batch.block_table = entries.data();
  }
  spoiled_tables(const spoiled_tables&) = delete;
  spoiled_tables& operator=(const spoiled_tables&) = delete;

  block_id& entry(std::int32_t sequence, std::int64_t logical) {
    return entries[static_cast<std::size_t>(view.batch.table_offsets[sequence] + logical)];
  }

  std::vector<block_id> entries;
  pagoda::cache_view<int8, int8> view;
};

TEST_CASE("a table entry outside the pool is reported once, and nothing is read through it") {
  const attention_case<int8> batch(
      {.shape = {.kv_heads = 2, .head_dim = dim}, .query_group = group, .batch = {{530, 1}, {40, 40, 12, 2}, {20, 1}}});
  pagoda::simt::host_machine machine;
  attention_result clean = run_generic(batch, {}, machine);
  for (const std::int32_t bad : {-1, batch.view.num_blocks, INT32_MAX, INT32_MIN}) {
    for (const std::int32_t sequence : {0, 1}) {
      CAPTURE(bad);
      CAPTURE(sequence);
      spoiled_tables tables(batch);
      std::vector<float> output(batch.output_size(), -3.0f);
      attention_launch<int8, int8> call(tables.view, batch.query_rows(), rows_view<float>(output, batch.output_shape()),
                                        {});
      tables.entry(sequence, 2) = block_id{bad};
      call.run<generic_kernel<int8, int8>>(machine);
      CHECK(call.report.fault == 1);
      CHECK(call.report.sequence == sequence);
      CHECK(call.report.logical_block == 2);
      CHECK(call.report.block == bad);
      // Others are as they were, and the sequence itself has finite numbers of its other blocks.
      for (std::size_t d = 0; d < output.size(); ++d) {
        const std::size_t query = d / static_cast<std::size_t>(heads * dim);
        const bool is_own = query == 0 ? sequence == 0 : query <= 12 && sequence == 1;
        if (is_own) {
          CHECK(std::isfinite(output[d]));
        } else {
          CHECK(output[d] == clean.output[d]);
        }
      }
    }
  }
}

TEST_CASE("a bad entry of a block that no query sees is not looked at") {
  const attention_case<int8> batch(
      {.shape = {.kv_heads = 2, .head_dim = dim}, .query_group = group, .batch = {{530, 1}, {40, 40, 12, 2}}});
  spoiled_tables tables(batch);
  pagoda::simt::host_machine machine;
  const attention_options options{.window = 100, .sinks = 20};
  const attention_result clean = run_generic(batch, options, machine);
  std::vector<float> output(batch.output_size());
  attention_launch<int8, int8> call(tables.view, batch.query_rows(), rows_view<float>(output, batch.output_shape()),
                                    options);
  for (std::int64_t b = 2; b < 26; ++b) tables.entry(0, b) = block_id{-1};  // tokens 32 to 415 of 430 that are hidden
  call.run<generic_kernel<int8, int8>>(machine);
  CHECK(call.report.fault == 0);
  CHECK(output == clean.output);
}

TEST_CASE("rows behind the batch's last query are neither read nor written, whatever the tensors' size") {
  const attention_case<f32> batch(config);
  pagoda::simt::host_machine machine;
  const attention_result expected = run_generic(batch, {}, machine);
  // Queries and output of 17 rows lie at the beginning of tensors of 23; the grid is made for 40.
  std::vector<float> queries(23 * heads * dim, quiet_nan);
  std::copy(batch.queries.begin(), batch.queries.end(), queries.begin());
  std::vector<float> output(23 * heads * dim, -3.0f);
  std::vector<float> lse(23 * heads, -3.0f);
  const auto rows = [](auto& data) { return std::span(data).first(17 * heads * dim); };
  attention_launch<f32, f32> call(batch.view, rows_view<const float>(rows(queries), {17, heads, dim}),
                                  rows_view<float>(rows(output), {17, heads, dim}),
                                  {.lse = std::span(lse).first(17 * heads)});
  call.args.queries.tokens = call.args.output.tokens = 23;
  const std::int64_t units = generic_kernel<f32, f32>::max_units(call.args, 9, 40, 12);
  machine.launch<generic_kernel<f32, f32>>({static_cast<std::uint32_t>(units), 1, 1}, call.args);
  for (std::size_t i = 0; i < output.size(); ++i)
    CHECK(output[i] == (i < 17 * heads * dim ? expected.output[i] : -3.0f));
  for (std::size_t i = 0; i < lse.size(); ++i) CHECK(lse[i] == (i < 17 * heads ? expected.lse[i] : -3.0f));
}

TEST_CASE("max_units covers every batch of that many sequences, queries and items") {
  // One block for each unit: with fewer, blocks stride; with more, the others find nothing. Both give the same.
  pagoda::simt::host_machine machine;
  const attention_case<f32> batch(
      {.shape = {.kv_heads = 1, .head_dim = 8},
       .query_group = 5,
       .batch = {{20, 9, -1, 1}, {20, 8, -1, 2}, {20, 17, -1, 3}, {3, 3, 1, 4}, {700, 13, -1, 5}}});
  CHECK(run_generic(batch, {}, machine, 1) == run_generic(batch, {}, machine, 100000));
}

template <class T>
std::vector<T> narrowed(const std::vector<float>& from) {
  std::vector<T> result;
  for (const float x : from) result.push_back(pagoda::from_float<T>(x));
  return result;
}

TEST_CASE_TEMPLATE("queries and outputs may be narrow: the output is the float result, rounded once", T, pagoda::half,
                   pagoda::bfloat16) {
  attention_case<int8, f16> batch(
      {.query_group = 2, .batch = {{40, 5, -1, 1}, {9, 1, -1, 2}, {20, 9, -1, 3}, {520, 1, -1, 4}}});
  pagoda::simt::host_machine machine;
  const std::vector<T> narrow = narrowed<T>(batch.queries);
  for (std::size_t i = 0; i < narrow.size(); ++i) batch.queries[i] = pagoda::to_float(narrow[i]);
  const std::vector<float> expected = run_generic(batch, {}, machine).output;
  std::vector<T> output(expected.size());
  attention_launch<int8, f16> call(batch.view, rows_view<const T>(narrow, batch.query_rows().shape()),
                                   rows_view<T>(output, batch.output_shape()), {});
  call.run<generic_kernel<int8, f16>>(machine);
  CHECK(output == narrowed<T>(expected));
}

TEST_CASE("queries and outputs may be slices of larger tensors, and nothing beside them is written") {
  const attention_case<int8, f16> batch(
      {.shape = {.kv_heads = 2, .head_dim = 32, .value_head_dim = 16}, .query_group = 3, .batch = {{40, 9, -1, 1}}});
  pagoda::simt::host_machine machine;
  const std::vector<float> expected = run_generic(batch, {}, machine).output;
  constexpr std::size_t token = 1000;
  constexpr std::size_t query_head = 40;
  std::vector<float> fused(9 * token, quiet_nan);
  for (std::size_t t = 0; t < 9; ++t) {
    for (std::size_t h = 0; h < 6; ++h) {
      for (std::size_t d = 0; d < 32; ++d) fused[t * token + h * query_head + d] = batch.queries[(t * 6 + h) * 32 + d];
    }
  }
  // Head outside, token inside: [heads, tokens, dim] seen as [tokens, heads, dim].
  std::vector<float> output(6 * 9 * 24, -3.0f);
  attention_launch<int8, f16> call(batch.view, rows_view<const float>(fused, {9, 6, 32}, {token, query_head}),
                                   rows_view<float>(output, {9, 6, 16}, {24, 9 * 24}), {});
  call.run<generic_kernel<int8, f16>>(machine);
  for (std::size_t h = 0; h < 6; ++h) {
    for (std::size_t t = 0; t < 9; ++t) {
      const float* row = output.data() + (h * 9 + t) * 24;
      for (std::size_t d = 0; d < 24; ++d) CHECK(row[d] == (d < 16 ? expected[(t * 6 + h) * 16 + d] : -3.0f));
    }
  }
}

TEST_CASE("every load of keys and values is 16 bytes wide, and a misaligned tensor is a fault that says so") {
  const attention_case<f32> batch(config);
  pagoda::simt::host_machine machine;
  std::vector<float> queries(batch.queries.size() + 1);
  std::vector<float> output(batch.output_size());
  attention_launch<f32, f32> call(batch.view,
                                  rows_view<const float>(std::span(queries).subspan(1), batch.query_rows().shape()),
                                  rows_view<float>(output, batch.output_shape()), {});
  CHECK_THROWS_WITH_AS((call.run<generic_kernel<f32, f32>>(machine)),
                       doctest::Contains("misaligned global access: address"), pagoda::simt::fault);
  CHECK_NOTHROW(run_generic(batch, {}, machine));  // the machine goes on
}

}  // namespace
