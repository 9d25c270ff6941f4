// SPDX-License-Identifier: Apache-2.0
/// @file How exact a decode step is, to be printed beside its speed.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <pagoda/attention/reference.hpp>
#include <pagoda/pagoda.hpp>

#include "random_rows.hpp"
#include "shapes.hpp"

namespace pagoda_bench {

/// Relative L2 errors of host::attention.
struct accuracy {
  double against_stored;  ///< reference attention over the values as they are stored: the arithmetic alone
  double against_float;   ///< reference attention over the values before they were stored: the quantizer, too
};

namespace detail {

inline double relative_l2(const std::vector<float>& result, const std::vector<double>& expected) {
  double difference = 0;
  double norm = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    difference += (double{result[i]} - expected[i]) * (double{result[i]} - expected[i]);
    norm += expected[i] * expected[i];
  }
  return std::sqrt(difference / norm);
}

}  // namespace detail

/// One decode step of a small case: 200 tokens, normally distributed keys, values and queries.
template <class Quantizer>
accuracy measure_accuracy(const model_shape& model) {
  constexpr std::int32_t tokens = 200;
  const std::int64_t heads = model.query_heads;
  const std::int64_t dim = model.head_dim;
  const std::vector<float> queries = random_elements<float>(heads * dim, 3);
  const std::vector<float> keys = random_elements<float>(tokens * model.kv_heads * dim, 4);
  const std::vector<float> values = random_elements<float>(tokens * model.kv_heads * dim, 5);
  std::vector<float> output(queries.size());

  const auto reference = [&]<class Stored>(pagoda::type_tag<Stored>, bool run_host) {
    pagoda::cache<Stored, pagoda::block_size<block_size>> cache(
        {.layers = 1, .kv_heads = model.kv_heads, .head_dim = model.head_dim},
        pagoda::num_blocks{tokens / block_size + 1});
    const pagoda::sequence sequence = cache.make_sequence();
    const pagoda::step step = cache.plan({{sequence, tokens, 1}});
    const auto view = cache.view(0, step);
    pagoda::host::append(view, pagoda::rows_view(keys, {tokens, model.kv_heads, dim}),
                         pagoda::rows_view(values, {tokens, model.kv_heads, dim}));
    const pagoda::rows_view query_rows(queries, {1, heads, dim});
    if (run_host) pagoda::host::attention(view, query_rows, pagoda::rows_view(output, {1, heads, dim}));
    std::vector<double> expected(output.size());
    pagoda::reference_attention(view, query_rows, pagoda::rows_view(expected, {1, heads, dim}),
                                pagoda::attention_options{});
    return expected;
  };
  const std::vector<double> stored = reference(pagoda::type_tag<Quantizer>{}, true);
  const std::vector<double> exact = reference(pagoda::type_tag<pagoda::identity<float>>{}, false);
  return {detail::relative_l2(output, stored), detail::relative_l2(output, exact)};
}

}  // namespace pagoda_bench
