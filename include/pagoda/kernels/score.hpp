// SPDX-License-Identifier: Apache-2.0
/// @file What becomes of q . k before the softmax, as attention_options says: scale, soft cap, ALiBi; and tree masks.
#pragma once

#include <cstdint>

#include <pagoda/kernels/attention_arguments.hpp>

namespace pagoda::kernels {

/// cap * tanh(score / cap), to a few units in the last place of the result: small scores keep their relative accuracy.
/// Source: below 1, Lambert's continued fraction of tanh, cut after the fifth term: relative error 7e-8.
template <class Context>
PAGODA_KERNEL_FUNCTION float soft_capped(Context& ctx, float score, float cap) {
  const float x = score / cap;
  const float size = x < 0 ? -x : x;
  if (size < 1.0f) {
    const float square = x * x;
    return score * ((square + 105.0f) * square + 945.0f) / ((15.0f * square + 420.0f) * square + 945.0f);
  }
  const float result = cap - 2.0f * cap / (ctx.exp2(2.0f * log2_e * size) + 1.0f);
  return x < 0 ? -result : result;
}

/// The score of a key at `distance` tokens from the query (0 or below if causal), in log2 units.
/// Requires: score = scale * (q . k).
template <class Context, class Arguments>
PAGODA_KERNEL_FUNCTION float finish_score(Context& ctx, const Arguments& args, float score, std::int32_t query_head,
                                          std::int32_t distance) {
  if (args.soft_cap > 0) score = soft_capped(ctx, score, args.soft_cap);
  if (args.alibi_slopes != nullptr) score += ctx.ldg(args.alibi_slopes + query_head) * static_cast<float>(distance);
  return score * log2_e;
}

/// Whether a query row of the batch sees new token `new_token` of its sequence. Requires: there is a tree mask.
template <class Context, class Arguments>
PAGODA_KERNEL_FUNCTION bool tree_sees(Context& ctx, const Arguments& args, std::int64_t query_row,
                                      std::int32_t new_token) {
  const std::uint32_t word = ctx.ldg(args.tree_words + query_row * args.tree_words_per_query + new_token / 32);
  return ((word >> (new_token % 32)) & 1u) != 0;
}

}  // namespace pagoda::kernels
