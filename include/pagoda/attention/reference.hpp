// SPDX-License-Identifier: Apache-2.0
/// @file Attention in double, slow and obvious: the definition that every back end is compared with.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include <pagoda/attention/options.hpp>
#include <pagoda/detail/hadamard.hpp>
#include <pagoda/dtype.hpp>
#include <pagoda/quantizer/row_codec.hpp>

namespace pagoda {

namespace detail {

/// The stored row of (block, head, slot), decoded in double.
template <class Quantizer>
void reference_row(const plane_view& plane, const plane_view& scales, block_id block, std::int64_t head,
                   std::int64_t slot, std::vector<double>& row) {
  using codec = row_codec<Quantizer>;
  const auto dim = static_cast<std::int64_t>(row.size());
  std::vector<std::byte> codes(static_cast<std::size_t>(row_bytes<Quantizer>(dim)));
  const std::byte* stored = plane.row(block, head, slot);
  for (std::size_t i = 0; i < codes.size(); ++i) {
    codes[i] = stored[static_cast<std::int64_t>(i / 16) * plane.chunk_stride + static_cast<std::int64_t>(i % 16)];
  }
  for (std::int64_t d = 0; d < dim; ++d) {
    const auto scale = codec::load_scale(scales.row(block, head, slot), d / codec::group_size(dim));
    row[static_cast<std::size_t>(d)] =
        double{scale_of(scale)} * double{Quantizer::codeword(codec::load_code(codes.data(), d))} +
        double{offset_of(scale)};
  }
  if constexpr (is_rotated_v<Quantizer>) rotate_back(row.data(), dim);
}

}  // namespace detail

/// Attention over the values that the cache holds, by the formulas of attention_options.
///
/// Shapes:     queries [queries, query_heads, key_dim]; output [queries, query_heads, value_dim];
///             lse [queries, query_heads] or empty (options.lse is not written).
/// Throws:     as resolve_attention.
/// Complexity: O(queries * query_heads * context * dim), with no reuse of anything.
template <class KeyQuantizer, class ValueQuantizer, class Query>
void reference_attention(const cache_view<KeyQuantizer, ValueQuantizer>& view, const rows_view<Query>& queries,
                         const rows_view<double>& output, const attention_options& options = {},
                         std::span<double> lse = {}) {
  const resolved_options how = resolve_attention(view, queries, output, options);
  if (!lse.empty() && static_cast<std::int64_t>(lse.size()) != queries.tokens() * queries.heads()) {
    detail::fail("lse has ", lse.size(), " elements, but there are ", queries.tokens(), " queries of ", queries.heads(),
                 " heads: pass ", queries.tokens() * queries.heads());
  }
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const batch_view& batch = view.batch;
  const std::int64_t group = queries.heads() / view.kv_heads;
  for (std::int32_t i = 0; i < batch.sequences(); ++i) {
    const std::int64_t context = batch.context_length(i);
    for (std::int64_t q = 0; q < batch.queries(i); ++q) {
      const std::int64_t query_row = batch.query_offsets[i] + q;
      const std::int64_t position = context - batch.queries(i) + q;
      for (std::int64_t head = 0; head < queries.heads(); ++head) {
        std::vector<double> scores;
        std::vector<std::vector<double>> seen_values;
        for (std::int64_t key = 0; key < context; ++key) {
          const std::int64_t new_token = key - (context - batch.new_tokens(i));
          const bool in_tree = !how.tree.empty() && new_token >= 0;
          if (in_tree ? !how.tree.sees(query_row, new_token) : !how.mask.visible(position, context).sees(key)) continue;
          const block_id block = batch.block(i, key / view.block_size());
          const std::int64_t slot = key % view.block_size();
          std::vector<double> k(static_cast<std::size_t>(view.key_dim));
          std::vector<double> v(static_cast<std::size_t>(view.value_dim));
          detail::reference_row<KeyQuantizer>(view.keys, view.key_scales, block, head / group, slot, k);
          detail::reference_row<ValueQuantizer>(view.values, view.value_scales, block, head / group, slot, v);
          double score = 0;
          for (std::size_t d = 0; d < k.size(); ++d) score += double{to_float(queries.row(query_row, head)[d])} * k[d];
          score *= double{how.scale};
          if (how.soft_cap > 0) score = double{how.soft_cap} * std::tanh(score / double{how.soft_cap});
          if (how.alibi_slopes != nullptr)
            score += double{how.alibi_slopes[head]} * static_cast<double>(key - position);
          scores.push_back(score);
          seen_values.push_back(std::move(v));
        }
        if (how.sink_logits != nullptr) scores.push_back(double{how.sink_logits[head]});
        double max = -infinity;
        for (const double score : scores) max = score > max || score != score ? score : max;
        double sum = 0;
        std::vector<double> result(static_cast<std::size_t>(view.value_dim), 0.0);
        if (max != -infinity) {
          for (std::size_t j = 0; j < scores.size(); ++j) {
            const double weight = std::exp(scores[j] - max);
            sum += weight;
            if (j >= seen_values.size()) continue;
            for (std::size_t d = 0; d < result.size(); ++d) result[d] += weight * seen_values[j][d];
          }
        }
        for (std::size_t d = 0; d < result.size(); ++d) {
          output.row(query_row, head)[d] = sum == 0 ? 0 : result[d] / sum;
        }
        if (!lse.empty()) {
          lse[static_cast<std::size_t>(query_row * queries.heads() + head)] =
              sum == 0 ? -infinity : max + std::log(sum);
        }
      }
    }
  }
}

}  // namespace pagoda
