// SPDX-License-Identifier: Apache-2.0
/// @file merge_chunks: the partial results of a sequence's chunks become its output.
#pragma once

#include <cstdint>

#include <pagoda/kernels/attention_arguments.hpp>
#include <pagoda/kernels/grid_walk.hpp>

namespace pagoda::kernels {

/// Joins the partial results of each sequence that has more than one item, in a fixed order; others are left alone.
///
/// A block takes one query row at a time; its warps take every fourth chunk each. A partial result of no keys, largest
/// score lowest_score and sum 0, adds nothing; a row of only those gives output 0 and, with no sink logit, LSE
/// -infinity. A NaN stays. Launch it behind the kernel that wrote the partial results, with any grid.
template <class KeyQuantizer, class ValueQuantizer>
struct merge_chunks {
  static constexpr int threads = 128;
  static constexpr int warps = threads / simt::warp_size;
  static constexpr int max_dim = 576;
  static constexpr int shared_bytes = warps * max_dim * static_cast<int>(sizeof(float));
  using arguments = attention_arguments<KeyQuantizer, ValueQuantizer>;

  /// Units of a batch within those limits: a larger grid has idle blocks.
  static std::int64_t max_units(const arguments& args, std::int64_t sequences, std::int64_t, std::int64_t) noexcept {
    return sequences * args.view.kv_heads * args.partial_rows();
  }

  template <simt::execution_context Context>
  PAGODA_HOST_DEVICE static void run(Context& ctx, const arguments& args) {
    auto sums = simt::shared<std::byte>(ctx, shared_bytes);
    const batch_view& batch = args.view.batch;
    const std::int32_t sequences = ctx.ldg(batch.num_sequences);
    const auto rows_of_head = static_cast<std::int32_t>(args.partial_rows());
    for (grid_walk unit(ctx, args.view.kv_heads * rows_of_head); unit.outer() < sequences; unit.next()) {
      const auto sequence = static_cast<std::int32_t>(unit.outer());
      const std::int32_t first = ctx.ldg(args.plan.offsets + sequence);
      const std::int32_t count = ctx.ldg(args.plan.offsets + sequence + 1) - first;
      if (count < 2) continue;
      const std::int32_t first_query = ctx.ldg(batch.query_offsets + sequence);
      const std::int32_t queries = ctx.ldg(batch.query_offsets + sequence + 1) - first_query;
      const std::int32_t kv_head = unit.inner() / rows_of_head;
      const std::int32_t row = unit.inner() - kv_head * rows_of_head;
      if (row >= queries * args.group) continue;
      const std::int32_t query = row / args.group;
      merge_row(ctx, args, sums, {first, count, kv_head, row}, first_query + query,
                kv_head * args.group + row - query * args.group);
    }
  }

 private:
  /// Where the partial results of one query row lie.
  struct row_parts {
    std::int32_t first;
    std::int32_t count;
    std::int32_t kv_head;
    std::int32_t row;

    PAGODA_KERNEL_FUNCTION std::int64_t index(const arguments& args, std::int32_t n) const {
      return args.partial_index(std::int64_t{first} + n, kv_head, row);
    }
  };

  struct alignas(8) part_state {
    float max;
    float sum;
  };

  template <class Context>
  PAGODA_KERNEL_FUNCTION static part_state load_state(Context& ctx, const arguments& args, std::int64_t index) {
    return ctx.ldg(reinterpret_cast<const part_state*>(args.partial_state + 2 * index));
  }

  template <class Context>
  PAGODA_KERNEL_FUNCTION static part_state join_states(Context& ctx, const arguments& args, const row_parts& parts) {
    part_state all{lowest_score, 0.0f};
    for (std::int32_t n = ctx.lane(); n < parts.count; n += simt::warp_size) {
      const float max = load_state(ctx, args, parts.index(args, n)).max;
      all.max = max > all.max ? max : all.max;
    }
    PAGODA_KERNEL_UNROLL
    for (int lanes = simt::warp_size / 2; lanes > 0; lanes /= 2) {
      const float other = ctx.shfl_xor(all.max, lanes);
      all.max = other > all.max ? other : all.max;
    }
    for (std::int32_t n = ctx.lane(); n < parts.count; n += simt::warp_size) {
      const part_state part = load_state(ctx, args, parts.index(args, n));
      all.sum += part.sum * ctx.exp2(part.max - all.max);
    }
    PAGODA_KERNEL_UNROLL
    for (int lanes = simt::warp_size / 2; lanes > 0; lanes /= 2) all.sum += ctx.shfl_xor(all.sum, lanes);
    return all;
  }

  template <class Context>
  PAGODA_KERNEL_FUNCTION static void merge_row(Context& ctx, const arguments& args,
                                               simt::shared_array_t<Context, std::byte>& sums, const row_parts& parts,
                                               std::int64_t query_row, std::int32_t query_head) {
    const std::int32_t dim = args.view.value_dim;
    const part_state all = join_states(ctx, args, parts);  // by every warp for itself
    for (std::int32_t d = 4 * ctx.lane(); d < dim; d += 4 * simt::warp_size) {
      float values[4] = {};
      for (std::int32_t n = ctx.warp(); n < parts.count; n += warps) {
        const std::int64_t index = parts.index(args, n);
        const float weight = ctx.exp2(load_state(ctx, args, index).max - all.max);
        const simt::words4 part = ctx.ldg(reinterpret_cast<const simt::words4*>(args.partial_output + index * dim + d));
        PAGODA_KERNEL_UNROLL
        for (int i = 0; i < 4; ++i) values[i] += weight * __builtin_bit_cast(float, part.w[i]);
      }
      simt::words4 words;
      PAGODA_KERNEL_UNROLL
      for (int i = 0; i < 4; ++i) words.w[i] = __builtin_bit_cast(std::uint32_t, values[i]);
      ctx.sts(sums, (ctx.warp() * dim + d) * static_cast<int>(sizeof(float)), words);
    }
    ctx.sync();
    const int d = 8 * ctx.thread_index();
    if (d < dim) {
      float values[8] = {};
      for (int w = 0; w < warps; ++w) {
        const int at = (w * dim + d) * static_cast<int>(sizeof(float));
        simt::words4 low;
        simt::words4 high;
        ctx.lds(sums, at, low);
        ctx.lds(sums, at + 16, high);
        PAGODA_KERNEL_UNROLL
        for (int i = 0; i < 4; ++i) {
          values[i] += __builtin_bit_cast(float, low.w[i]);
          values[i + 4] += __builtin_bit_cast(float, high.w[i]);
        }
      }
      const row_scale scale = finish_row(ctx, args, query_head, all.max, all.sum);
      PAGODA_KERNEL_UNROLL
      for (int i = 0; i < 8; ++i) values[i] *= scale.factor;
      store_eight(ctx, args.output.type, args.output.at(query_row, query_head, d), values);
      if (d == 0 && args.lse != nullptr) {
        const std::int64_t query_heads = std::int64_t{args.view.kv_heads} * args.group;
        ctx.store(args.lse + query_row * query_heads + query_head, scale.lse);
      }
    }
    ctx.sync();  // before the next row's sums
  }
};

}  // namespace pagoda::kernels
