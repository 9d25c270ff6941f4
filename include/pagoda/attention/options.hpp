// SPDX-License-Identifier: Apache-2.0
/// @file The options of an attention call, and the checks that every back end makes before it begins.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <span>

#include <pagoda/attention/mask.hpp>
#include <pagoda/cache_view.hpp>
#include <pagoda/shape.hpp>

namespace pagoda {

/// What attention computes, for a query q at position i and every key k_j that it may see:
///
///     s_j = scale * (q . k_j)
///     s_j = soft_cap * tanh(s_j / soft_cap)                   if soft_cap > 0
///     s_j = s_j + alibi_slopes[head] * (j - i)                if alibi_slopes are given
///     output = sum_j exp(s_j) v_j / (sum_j exp(s_j) + exp(sink_logits[head]) if given)
///     lse    = log of that denominator, in natural log
///
/// A query that sees no key gives output 0 and, with no sink logit, lse -infinity.
struct attention_options {
  float scale = 0.0f;                    ///< 0: 1 / sqrt(key_dim)
  bool causal = true;                    ///< false: every query sees the whole context
  std::int64_t window = 0;               ///< the last keys seen, the query's own among them; 0: window and sinks as the
                                         ///< group retains, whatever `sinks` says
  std::int64_t sinks = 0;                ///< the first tokens, visible beside an explicit window; 0: none beside it
  std::span<const float> sink_logits{};  ///< [query_heads]; -infinity adds nothing
  float soft_cap = 0.0f;                 ///< 0: none
  std::span<const float> alibi_slopes{};  ///< [query_heads], finite
  tree_mask tree{};                       ///< who sees whom among the step's own tokens; replaces causal there
  std::span<float> lse{};                 ///< [queries, query_heads], written if given
};

/// attention_options with every default filled in, checked against a view.
struct resolved_options {
  float scale;
  float soft_cap;
  attention_mask mask;
  tree_mask tree;
  const float* sink_logits;   // null: none
  const float* alibi_slopes;  // null: none
};

namespace detail {

inline attention_mask resolve_mask(const batch_view& batch, const attention_options& options) {
  const retention& keep = batch.keep;
  check_range("attention window", options.window, 0, unlimited);
  check_range("attention sinks", options.sinks, 0, unlimited);
  attention_mask mask{.causal = options.causal, .sinks = options.sinks, .window = options.window};
  if (options.window == 0) {
    mask.window = keep.window;
    mask.sinks = keep.keeps_all() ? 0 : options.sinks > keep.sinks ? options.sinks : keep.sinks;
  }
  if (options.sinks > 0 && mask.window == unlimited) {
    fail("attention sinks are ", options.sinks,
         ", but there is no window for them to stay beside: pass a window, or 0 ", "sinks to see all tokens");
  }
  if (!options.causal && options.window != 0 && options.window != unlimited) {
    fail("attention window ", options.window, " with causal = false: a window is defined for causal attention only; ",
         "pass window 0, or causal = true");
  }
  if (!keep.keeps_all()) {
    if (!options.causal) {
      fail("attention with causal = false over a layer group that keeps a window of ", keep.window,
           " tokens: it would read dropped tokens; use a group that retains all");
    }
    if (mask.window > keep.window) {
      fail("attention window ", mask.window, " is wider than the ", keep.window,
           " tokens that the layer group keeps: pass at most that, or 0 to follow the group");
    }
    if (mask.sinks > keep.sinks) {
      fail("attention sinks ", mask.sinks, " are more than the ", keep.sinks,
           " that the layer group keeps: pass at most that, or window 0 and sinks 0 to follow the group");
    }
  }
  return mask;
}

inline void check_per_head(std::string_view name, std::span<const float> given, std::int64_t query_heads) {
  if (!given.empty() && static_cast<std::int64_t>(given.size()) != query_heads) {
    fail(name, " has ", given.size(), " numbers, but there are ", query_heads, " query heads: pass one for each");
  }
}

/// `least`: -infinity where it has a meaning, as of a sink logit that adds nothing.
inline void check_numbers(std::string_view name, std::span<const float> given, float least) {
  for (const float number : given) {
    if (!(number >= least && number < std::numeric_limits<float>::infinity())) {
      fail(name, " holds ", double{number}, ", but each must be a ",
           std::isinf(least) ? "number below infinity" : "finite number", ": leave ", name, " empty to do without");
    }
  }
}

inline void check_tree(const attention_options& options, const attention_mask& mask, std::int64_t queries) {
  if (options.tree.empty()) return;
  if (!options.causal || mask.window != unlimited || !options.alibi_slopes.empty()) {
    fail("a tree mask with ",
         !options.causal            ? "causal = false"
         : mask.window != unlimited ? "a window"
                                    : "ALiBi slopes",
         " is not supported: a token's place in the tree is not its position; ",
         !options.causal            ? "pass causal = true"
         : mask.window != unlimited ? "pass window 0 over a layer group that keeps all tokens"
                                    : "leave alibi_slopes empty");
  }
  check_range("words_per_query of the tree mask", options.tree.words_per_query, 0, INT32_MAX,
              "pass 1 for each 32 new tokens, rounded up");
  const std::int64_t words = checked_multiply(queries, options.tree.words_per_query, "tree mask words");
  if (static_cast<std::int64_t>(options.tree.words.size()) < words) {
    fail("the tree mask has ", options.tree.words.size(), " words, but ", queries, " queries of ",
         options.tree.words_per_query, " words need ", words, ": pass a longer span");
  }
}

/// What of an entry of the batch has to fit the tree mask.
inline void check_tree_entry(const tree_mask& tree, std::int32_t entry, std::int32_t queries, std::int32_t new_tokens) {
  if (new_tokens > std::int64_t{32} * tree.words_per_query) {
    fail("the tree mask has ", std::int64_t{32} * tree.words_per_query, " bits a query, but batch entry ", entry,
         " has ", new_tokens, " new tokens: raise words_per_query");
  }
  if (queries > new_tokens) {
    fail("batch entry ", entry, " has ", queries, " queries, but a tree mask covers its ", new_tokens,
         " new tokens only: ask for at most that many, or attend without the tree");
  }
}

/// Causal queries are the context's last tokens, and read no dropped one.
inline void check_causal_entry(const batch_view& batch, std::int32_t block_size, const attention_mask& mask,
                               std::int32_t i) {
  const std::int32_t context = batch.context_length(i);
  if (context != 0 && batch.queries(i) > context) {
    fail("batch entry ", i, " has ", batch.queries(i), " queries, but a context of ", context,
         " tokens: causal queries are the last tokens of the context; pass causal = false for cross-attention");
  }
  const std::int64_t dropped = batch.skipped_blocks[i];
  const std::int64_t first_kept = dropped == 0 ? 0 : (batch.sink_blocks + dropped) * block_size;
  if (context != 0 && mask.visible(context - batch.queries(i), context).begin < first_kept) {
    fail("batch entry ", i, " has ", batch.queries(i), " queries, the first of which would read dropped tokens: the ",
         "layer group holds those from ", first_kept, " on; ask for fewer queries or a smaller window");
  }
}

}  // namespace detail

/// Checks the shapes and options of an attention call and fills in the defaults, without a look at the batch's tables
/// or at what the options' spans hold: they may lie in device memory. Throws: invalid_argument, naming what does not
/// fit.
template <class KeyQuantizer, class ValueQuantizer, class Query, class Output>
resolved_options resolve_shapes(const cache_view<KeyQuantizer, ValueQuantizer>& view, const rows_view<Query>& queries,
                                const rows_view<Output>& output, const attention_options& options) {
  using detail::fail;
  check_view(view);
  check_range("query heads", queries.heads(), 1, 1 << 20);
  if (queries.heads() % view.kv_heads != 0) {
    fail("there are ", queries.heads(), " query heads, but they must be a multiple of the ", view.kv_heads,
         " kv heads: pass as many query heads for each kv head");
  }
  if (queries.dim() != view.key_dim) {
    fail("query rows have ", queries.dim(), " elements, but the keys have ", view.key_dim,
         ": pass rows of the storage's head_dim");
  }
  if (output.tokens() != queries.tokens() || output.heads() != queries.heads() || output.dim() != view.value_dim) {
    fail("the output is [", output.tokens(), ", ", output.heads(), ", ", output.dim(), "], but must be [",
         queries.tokens(), ", ", queries.heads(), ", ", view.value_dim,
         "]: pass as many rows and heads as there are queries, of the values' dim");
  }
  if (output.rows_overlap()) {
    fail("rows of the output overlap: strides (", output.strides().token, ", ", output.strides().head,
         ") are too small for ", output.heads(), " heads of ", output.dim(), " elements: pass larger ones");
  }
  const std::int64_t rows = checked_multiply(queries.tokens(), queries.heads(), "LSE elements");
  if (!options.lse.empty() && static_cast<std::int64_t>(options.lse.size()) != rows) {
    fail("lse has ", options.lse.size(), " elements, but there are ", queries.tokens(), " queries of ", queries.heads(),
         " heads: pass ", rows);
  }
  if (!std::isfinite(options.scale)) {
    fail("attention scale is ", double{options.scale}, ", but must be finite: pass 0 for 1 / sqrt(key_dim)");
  }
  if (!std::isfinite(options.soft_cap) || options.soft_cap < 0) {
    fail("soft_cap is ", double{options.soft_cap}, ", but must be finite and not below 0: pass 0 for none");
  }
  detail::check_per_head("sink_logits", options.sink_logits, queries.heads());
  detail::check_per_head("alibi_slopes", options.alibi_slopes, queries.heads());
  attention_mask mask = detail::resolve_mask(view.batch, options);
  detail::check_tree(options, mask, queries.tokens());
  if (!options.tree.empty()) mask.causal = false;  // the tree alone masks new tokens; older ones are seen by all
  return {.scale = options.scale != 0 ? options.scale : 1.0f / std::sqrt(static_cast<float>(view.key_dim)),
          .soft_cap = options.soft_cap,
          .mask = mask,
          .tree = options.tree,
          .sink_logits = options.sink_logits.empty() ? nullptr : options.sink_logits.data(),
          .alibi_slopes = options.alibi_slopes.empty() ? nullptr : options.alibi_slopes.data()};
}

/// The same, with tables and spans that lie in host memory: these are checked, too.
/// Throws: also out_of_range for a block table that leaves the pool.
template <class KeyQuantizer, class ValueQuantizer, class Query, class Output>
resolved_options resolve_attention(const cache_view<KeyQuantizer, ValueQuantizer>& view,
                                   const rows_view<Query>& queries, const rows_view<Output>& output,
                                   const attention_options& options) {
  validate(view);
  const batch_view& batch = view.batch;
  if (queries.tokens() != batch.total_queries()) {
    detail::fail("there are ", queries.tokens(), " query rows, but the step has ", batch.total_queries(),
                 " queries: pass the rows of all its sequences");
  }
  const resolved_options how = resolve_shapes(view, queries, output, options);
  detail::check_numbers("sink_logits", options.sink_logits, -std::numeric_limits<float>::infinity());
  detail::check_numbers("alibi_slopes", options.alibi_slopes, std::numeric_limits<float>::lowest());
  for (std::int32_t i = 0; i < batch.sequences(); ++i) {
    if (!options.tree.empty()) detail::check_tree_entry(options.tree, i, batch.queries(i), batch.new_tokens(i));
    if (options.causal) detail::check_causal_entry(batch, view.block_size(), how.mask, i);
  }
  return how;
}

}  // namespace pagoda
