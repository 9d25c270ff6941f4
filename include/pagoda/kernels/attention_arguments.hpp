// SPDX-License-Identifier: Apache-2.0
/// @file What an attention kernel is launched with, and the pieces that all of them share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <pagoda/attention/mask.hpp>
#include <pagoda/attention/work_plan.hpp>
#include <pagoda/cache_view.hpp>
#include <pagoda/dtype.hpp>
#include <pagoda/simt/execution_context.hpp>

/// Whether kernels check every block that a table names before they read it. On unless NDEBUG is defined.
#if !defined(PAGODA_CHECK_TABLES)
#if defined(NDEBUG)
#define PAGODA_CHECK_TABLES 0
#else
#define PAGODA_CHECK_TABLES 1
#endif
#endif

namespace pagoda::kernels {

/// The element type of rows that a kernel reads or writes. A run-time value: it matters at the ends of a kernel only,
/// and would otherwise multiply the instantiations.
enum class element_type : std::int32_t { float32, half, bfloat16 };

template <floating_element T>
inline constexpr element_type element_type_v = std::is_same_v<std::remove_cv_t<T>, float>  ? element_type::float32
                                               : std::is_same_v<std::remove_cv_t<T>, half> ? element_type::half
                                                                                           : element_type::bfloat16;

PAGODA_HOST_DEVICE constexpr std::int32_t element_bytes(element_type type) noexcept {
  return type == element_type::float32 ? 4 : 2;
}

/// A rows_view without its element type. Units: strides in elements.
/// Requires: data and strides are multiples of 16 bytes, so that eight elements move in one or two transactions.
struct erased_rows {
  std::byte* data = nullptr;
  std::int64_t token_stride = 0;
  std::int64_t head_stride = 0;
  std::int64_t tokens = 0;
  element_type type = element_type::float32;

  PAGODA_HOST_DEVICE std::byte* at(std::int64_t token, std::int64_t head, std::int64_t d) const noexcept {
    return data + (token * token_stride + head * head_stride + d) * element_bytes(type);
  }
};

template <class T>
erased_rows erase(const rows_view<T>& rows) noexcept {
  using element = std::remove_const_t<T>;
  return {reinterpret_cast<std::byte*>(const_cast<element*>(rows.data())), rows.strides().token, rows.strides().head,
          rows.tokens(), element_type_v<element>};
}

/// Reads eight consecutive elements at p, which is aligned to 16 bytes.
template <class Context>
PAGODA_KERNEL_FUNCTION void load_eight(Context& ctx, element_type type, const std::byte* p, float (&values)[8]) {
  if (type == element_type::float32) {
    const auto* from = reinterpret_cast<const simt::words4*>(p);
    const simt::words4 low = ctx.ldg(from);
    const simt::words4 high = ctx.ldg(from + 1);
    PAGODA_KERNEL_UNROLL
    for (int i = 0; i < 4; ++i) {
      values[i] = __builtin_bit_cast(float, low.w[i]);
      values[i + 4] = __builtin_bit_cast(float, high.w[i]);
    }
    return;
  }
  const simt::words4 words = ctx.ldg(reinterpret_cast<const simt::words4*>(p));
  PAGODA_KERNEL_UNROLL
  for (int i = 0; i < 4; ++i) {
    const auto low = static_cast<std::uint16_t>(words.w[i]);
    const auto high = static_cast<std::uint16_t>(words.w[i] >> 16);
    values[2 * i] = type == element_type::half ? to_float(half{low}) : to_float(bfloat16{low});
    values[2 * i + 1] = type == element_type::half ? to_float(half{high}) : to_float(bfloat16{high});
  }
}

/// Writes one element, rounded to the rows' type.
template <class Context>
PAGODA_KERNEL_FUNCTION void store_element(Context& ctx, element_type type, std::byte* p, float value) {
  if (type == element_type::float32) {
    ctx.store(reinterpret_cast<float*>(p), value);
  } else if (type == element_type::half) {
    ctx.store(reinterpret_cast<half*>(p), from_float<half>(value));
  } else {
    ctx.store(reinterpret_cast<bfloat16*>(p), from_float<bfloat16>(value));
  }
}

/// Writes eight consecutive elements at p, which is aligned to 16 bytes, rounded to the rows' type.
template <class Context>
PAGODA_KERNEL_FUNCTION void store_eight(Context& ctx, element_type type, std::byte* p, const float (&values)[8]) {
  auto* to = reinterpret_cast<simt::words4*>(p);
  simt::words4 words;
  if (type == element_type::float32) {
    simt::words4 high;
    PAGODA_KERNEL_UNROLL
    for (int i = 0; i < 4; ++i) {
      words.w[i] = __builtin_bit_cast(std::uint32_t, values[i]);
      high.w[i] = __builtin_bit_cast(std::uint32_t, values[i + 4]);
    }
    ctx.store(to, words);
    ctx.store(to + 1, high);
    return;
  }
  PAGODA_KERNEL_UNROLL
  for (int i = 0; i < 4; ++i) {
    const bool as_half = type == element_type::half;
    const std::uint32_t low = as_half ? from_float<half>(values[2 * i]).bits : from_float<bfloat16>(values[2 * i]).bits;
    const std::uint32_t high =
        as_half ? from_float<half>(values[2 * i + 1]).bits : from_float<bfloat16>(values[2 * i + 1]).bits;
    words.w[i] = low | high << 16;
  }
  ctx.store(to, words);
}

/// What a kernel found wrong with a batch's tables; the first fault stays. All zero: nothing. One in device memory.
struct table_report {
  std::uint32_t fault = 0;  ///< 1: a block outside the pool; 2: a length beyond the sequence's table
  std::int32_t sequence = 0;
  std::int32_t logical_block = 0;
  std::int32_t block = 0;
};

/// One chunk of one sequence's keys.
struct alignas(8) chunk_item {
  std::int32_t sequence;
  std::int32_t chunk;  ///< chunk_tokens tokens from chunk * chunk_tokens on; -1: the sequence sees no key
};

/// Sequences with at most so many queries are cut into chunks that run side by side; longer ones walk all their keys
/// for each tile of queries.
inline constexpr std::int32_t max_decode_queries = 8;

/// How the decode kernels find their work. Made on the host or by plan_chunks on the device.
struct chunk_plan {
  chunk_item* items = nullptr;
  std::int32_t* offsets = nullptr;  ///< [sequences + 1]: sequence i has the items offsets[i] to offsets[i + 1] - 1
};

/// The numbers of one attention call. Trivially copyable; pointers are to device memory.
///
/// Rows: the query rows that share a kv head are numbered r = query * group + head within the group, query by query.
template <class KeyQuantizer, class ValueQuantizer>
struct attention_arguments {
  using key_quantizer = KeyQuantizer;
  using value_quantizer = ValueQuantizer;

  cache_view<KeyQuantizer, ValueQuantizer> view{};
  erased_rows queries{};
  erased_rows output{};
  float* lse = nullptr;                       ///< [queries, query_heads]; null: not wanted
  const float* sink_logits = nullptr;         ///< [query_heads]; null: none
  const float* alibi_slopes = nullptr;        ///< [query_heads]; null: none
  const std::uint32_t* tree_words = nullptr;  ///< null: no tree mask
  std::int32_t tree_words_per_query = 0;
  std::int32_t group = 1;           ///< query heads of a kv head
  std::int32_t decode_queries = 1;  ///< the most queries of any sequence, but at most max_decode_queries
  float scale = 1.0f;
  float soft_cap = 0.0f;
  attention_mask mask{};
  chunk_plan plan{};
  float* partial_output = nullptr;  ///< [items, kv_heads, decode_queries * group, value_dim], not normalised
  float* partial_state = nullptr;   ///< [items, kv_heads, decode_queries * group, 2]: largest score in log2 units, sum
  table_report* report = nullptr;   ///< null: tables are not checked

  /// Whether scores need more than scale and mask.
  PAGODA_HOST_DEVICE bool has_extras() const noexcept {
    return soft_cap > 0 || alibi_slopes != nullptr || tree_words != nullptr;
  }
  /// Query rows of one kv head in a partial result.
  PAGODA_HOST_DEVICE std::int32_t partial_rows() const noexcept { return decode_queries * group; }
  PAGODA_HOST_DEVICE std::int64_t partial_index(std::int64_t item, std::int64_t kv_head,
                                                std::int64_t row) const noexcept {
    return (item * view.kv_heads + kv_head) * partial_rows() + row;
  }
};

/// Where the keys of one sequence lie, and which of them its queries see.
struct sequence_keys {
  std::int32_t sequence;
  std::int32_t context;      ///< tokens, those of the step included
  std::int32_t first_query;  ///< row of the query tensor
  std::int32_t queries;
  std::int32_t new_tokens;

  PAGODA_HOST_DEVICE std::int32_t position(std::int32_t query) const noexcept { return context - queries + query; }
};

template <class Context, class Arguments>
PAGODA_KERNEL_FUNCTION sequence_keys load_sequence(Context& ctx, const Arguments& args, std::int32_t sequence) {
  const batch_view& batch = args.view.batch;
  sequence_keys keys;
  keys.sequence = sequence;
  keys.context = ctx.ldg(batch.context_lengths + sequence);
  keys.first_query = ctx.ldg(batch.query_offsets + sequence);
  keys.queries = ctx.ldg(batch.query_offsets + sequence + 1) - keys.first_query;
  keys.new_tokens = ctx.ldg(batch.token_offsets + sequence + 1) - ctx.ldg(batch.token_offsets + sequence);
  return keys;
}

/// The block of a sequence's logical block; -1, and a report, for one outside the pool if tables are checked.
template <class Context, class Arguments>
PAGODA_KERNEL_FUNCTION std::int32_t load_block(Context& ctx, const Arguments& args, std::int32_t sequence,
                                               std::int32_t logical) {
  const batch_view& batch = args.view.batch;
  const std::int64_t entry =
      ctx.ldg(batch.table_offsets + sequence) +
      (logical < batch.sink_blocks ? logical : logical - ctx.ldg(batch.skipped_blocks + sequence));
#if PAGODA_CHECK_TABLES
  const bool beyond =
      args.report != nullptr && batch.table_ends != nullptr && entry >= ctx.ldg(batch.table_ends + sequence);
  const std::int32_t block = beyond ? -1 : static_cast<std::int32_t>(ctx.ldg(batch.block_table + entry));
  if (args.report != nullptr && (block < 0 || block >= args.view.num_blocks)) {
    if (ctx.atomic_cas(&args.report->fault, 0u, beyond ? 2u : 1u) == 0u) {
      ctx.store(&args.report->sequence, sequence);
      ctx.store(&args.report->logical_block, logical);
      ctx.store(&args.report->block, block);
    }
    return -1;
  }
  return block;
#else
  return static_cast<std::int32_t>(ctx.ldg(batch.block_table + entry));
#endif
}

inline constexpr float log2_e = 1.4426950408889634f;
inline constexpr float ln_2 = 0.6931471805599453f;
inline constexpr float lowest_score = -0x1.fffffep127f;  // where a running maximum starts: below every finite score
inline constexpr float minus_infinity = -__builtin_huge_valf();

/// A finished row's softmax, sink logit joined: what outputs are multiplied with, and the LSE in natural log.
struct row_scale {
  float factor;
  float lse;
};

/// Source: the sink logit joins the sum, not the output: gpt-oss, as attention_options says.
template <class Context, class Arguments>
PAGODA_KERNEL_FUNCTION row_scale finish_row(Context& ctx, const Arguments& args, std::int32_t query_head, float max,
                                            float sum) {
  float factor = 1.0f;
  if (args.sink_logits != nullptr) {
    const float sink = ctx.ldg(args.sink_logits + query_head) * log2_e;
    if (sink > max) {
      factor = ctx.exp2(max - sink);
      sum = sum * factor + 1.0f;
      max = sink;
    } else {
      sum += ctx.exp2(sink - max);
    }
  }
  if (sum == 0.0f) return {0.0f, minus_infinity};
  return {factor / sum, (max + ctx.log2(sum)) * ln_2};
}

}  // namespace pagoda::kernels
