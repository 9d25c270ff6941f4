// SPDX-License-Identifier: Apache-2.0
/// @file append: writes the new tokens of a step into one layer of the cache, on the device.
#pragma once

#include <cstddef>
#include <cstdint>

#include <pagoda/cache_view.hpp>
#include <pagoda/kernels/attention_arguments.hpp>
#include <pagoda/kernels/row_encoder.hpp>
#include <pagoda/kernels/row_statistics.hpp>
#include <pagoda/quantizer.hpp>
#include <pagoda/simt/execution_context.hpp>

namespace pagoda::kernels {

/// Codes the step's key and value rows into their blocks, with the bytes of host::append; only which NaN stands in a
/// NaN's place may differ. A row's padding to 16 bytes is written with zeros; nothing else of a block is touched.
///
/// A row lies over a power of two of lanes, so that short rows share a warp. Counts are read on the device: rows behind
/// the batch's new tokens and rows of cancelled sequences are inert, and so is a row whose table entry lies outside the
/// pool, which goes to the report if tables are checked. A view whose values lie in its keys takes the keys only.
///
/// Shapes:     keys [at least the batch's new tokens, kv_heads, key_dim]; values [same, kv_heads, value_dim].
/// Requires:   the head dims are multiples of 8 up to 576; rows as erased_rows says; the view's scales are aligned to
///             scale_alignment_v; no other kernel writes the layer at the same time.
/// Complexity: O(tokens * kv_heads * dim). Rows with scales are read twice, the second time from the nearest cache. A
///             lane walks its whole row, element by element, if the smallest or largest is 0, and its whole group if
///             that is no power of two of pieces or longer than 128 elements: right, but slow.
template <quantizer KeyQuantizer, quantizer ValueQuantizer>
struct append {
  static constexpr int threads = 256;
  static constexpr int shared_bytes = 0;

  struct arguments {
    cache_view<KeyQuantizer, ValueQuantizer> view{};
    erased_rows keys{};
    erased_rows values{};            ///< not read if the view's values lie in its keys
    table_report* report = nullptr;  ///< null: tables are not checked
  };

  /// Blocks that have work if every row of the arguments is a new token; the grid may be smaller.
  /// Throws: invalid_argument for more than 2^30 rows.
  static std::int64_t max_units(const arguments& args) {
    const std::int64_t key_units = count_units<KeyQuantizer>(host_rows(args, args.keys));
    return args.view.values_lie_in_keys() ? key_units
                                          : key_units + count_units<ValueQuantizer>(host_rows(args, args.values));
  }

  template <simt::execution_context Context>
  PAGODA_HOST_DEVICE static void run(Context& ctx, const arguments& args) {
    const cache_view<KeyQuantizer, ValueQuantizer>& view = args.view;
    const std::int32_t sequences = ctx.ldg(view.batch.num_sequences);
    const std::int32_t tokens = ctx.ldg(view.batch.token_offsets + sequences);
    const std::uint32_t key_rows = device_rows(args, args.keys, tokens);
    const std::uint32_t value_rows = view.values_lie_in_keys() ? 0 : device_rows(args, args.values, tokens);
    const auto key_units = static_cast<std::uint32_t>(count_units<KeyQuantizer>(key_rows));
    const auto value_units = static_cast<std::uint32_t>(count_units<ValueQuantizer>(value_rows));
    for (std::uint32_t unit = ctx.block_index().x; unit < key_units + value_units; unit += ctx.grid_dim().x) {
      if (unit < key_units) {
        write_rows<KeyQuantizer>(ctx, args, {args.keys, view.keys, view.key_scales, view.key_dim}, sequences, unit,
                                 key_rows);
      } else {
        write_rows<ValueQuantizer>(ctx, args, {args.values, view.values, view.value_scales, view.value_dim}, sequences,
                                   unit - key_units, value_rows);
      }
    }
  }

 private:
  static constexpr std::int64_t scale_alignment = scale_alignment_v<KeyQuantizer, ValueQuantizer>;

  /// Keys or values: where they come from and where they go.
  struct side {
    const erased_rows& from;
    const plane_view& codes;
    const plane_view& scales;
    std::int32_t dim;
  };

  /// Where a row goes, in bytes from the bases of its planes, so that compilers see global memory; -1: nowhere.
  struct target {
    std::int64_t codes = -1;
    std::int64_t scales = -1;
  };

  static std::int64_t host_rows(const arguments& args, const erased_rows& rows) {
    const std::int64_t count = checked_multiply(rows.tokens, args.view.kv_heads, "rows to append");
    check_range("rows to append, tokens * kv_heads,", count, 0, std::int64_t{1} << 30, "append in several calls");
    return count;
  }
  PAGODA_KERNEL_FUNCTION static std::uint32_t device_rows(const arguments& args, const erased_rows& rows,
                                                          std::int32_t tokens) {
    const auto count = static_cast<std::uint32_t>(tokens < rows.tokens ? tokens : rows.tokens);
    return count * static_cast<std::uint32_t>(args.view.kv_heads);
  }

  /// Units of a block each.
  template <class Q>
  PAGODA_HOST_DEVICE static constexpr std::int64_t count_units(std::int64_t rows) noexcept {
    constexpr int rows_of_unit = threads / row_piece<Q>::lanes;
    return (rows + rows_of_unit - 1) / rows_of_unit;
  }

  template <class Context>
  PAGODA_KERNEL_FUNCTION static target find_target(Context& ctx, const arguments& args, const side& rows,
                                                   std::int32_t sequences, std::int32_t token, std::int32_t head) {
    const batch_view& batch = args.view.batch;
    std::int32_t sequence = 0;  // the last one whose offset is not above the token
    for (std::int32_t end = sequences; end - sequence > 1;) {
      const std::int32_t middle = (sequence + end) / 2;
      if (ctx.ldg(batch.token_offsets + middle) <= token) {
        sequence = middle;
      } else {
        end = middle;
      }
    }
    const std::int32_t context = ctx.ldg(batch.context_lengths + sequence);
    const std::int32_t position = context - ctx.ldg(batch.token_offsets + sequence + 1) + token;
    if (position < 0) return {};  // a cancelled sequence: its context is 0
    const block_id block{load_block(ctx, args, sequence, position >> args.view.block_shift)};
    if (block == block_id::none) return {};
    const std::int32_t slot = position & (args.view.block_size() - 1);
    return {rows.codes.row(block, head, slot) - rows.codes.base, rows.scales.row(block, head, slot) - rows.scales.base};
  }

  /// One row, as one of its lanes sees it.
  template <class Q>
  struct lane_row {
    const std::byte* from;
    element_type type;
    std::int32_t dim;  // 0: no row
    int lane;

    PAGODA_KERNEL_FUNCTION const std::byte* element(std::int32_t d) const {
      return from + std::int64_t{d} * element_bytes(type);
    }
    /// Eights from element d to the end; negative behind it.
    PAGODA_KERNEL_FUNCTION int eights(std::int32_t d) const { return (dim - d) / 8; }
  };

  /// The statistics of a row that its lanes read together.
  template <class Q, class Context>
  PAGODA_KERNEL_FUNCTION static row_stats find_row_stats(Context& ctx, const lane_row<Q>& row) {
    using piece = row_piece<Q>;
    lane_stats seen;
    for (std::int32_t d = row.lane * piece::elements; d < row.dim; d += piece::lanes * piece::elements) {
      seen.template add_eights<piece::eights>(ctx, row.type, row.element(d), row.eights(d));
    }
    return join_stats<piece::lanes>(ctx, seen, row.type, row.from, row.dim);
  }

  /// The statistics of the group that element d lies in, of which the lane reads a part.
  template <class Q, class Context>
  PAGODA_KERNEL_FUNCTION static row_stats find_group_stats(Context& ctx, const lane_row<Q>& row, std::int32_t d) {
    using piece = row_piece<Q>;
    const std::byte* first = row.element(d / Q::group * Q::group);
    if constexpr (piece::joins_groups) {
      lane_stats seen;
      seen.template add_eights<piece::part_elements / 8>(ctx, row.type, row.element(d), row.eights(d));
      return join_stats<piece::group_parts>(ctx, seen, row.type, first, Q::group);
    } else {
      return d < row.dim ? read_stats(ctx, row.type, first, Q::group) : row_stats{};
    }
  }

  /// Codes the rows of one unit. Every lane of the warp takes part to the end.
  template <class Q, class Context>
  PAGODA_KERNEL_FUNCTION static void write_rows(Context& ctx, const arguments& args, const side& rows,
                                                std::int32_t sequences, std::uint32_t unit, std::uint32_t count) {
    using piece = row_piece<Q>;
    using scale_type = typename Q::scale_type;
    const std::uint32_t index =
        unit * (threads / piece::lanes) + static_cast<std::uint32_t>(ctx.thread_index() / piece::lanes);
    const auto heads = static_cast<std::uint32_t>(args.view.kv_heads);
    const auto token = static_cast<std::int32_t>(index / heads);
    const auto head = static_cast<std::int32_t>(index % heads);
    const lane_row<Q> row{rows.from.at(token, head, 0), rows.from.type, index < count ? rows.dim : 0,
                          ctx.lane() % piece::lanes};
    scale_type scale{};
    if constexpr (has_scale_v<scale_type> && Q::group == 0) {
      const row_stats stats = find_row_stats(ctx, row);
      if (row.dim > 0) scale = Q::fit(stats);
    }
    target to;
    for (std::int32_t begin = 0; begin < rows.dim; begin += piece::lanes * piece::elements) {
      const std::int32_t d = begin + row.lane * piece::elements;
      simt::words4 codes[piece::chunks];
      if constexpr (!has_scale_v<scale_type>) load_codes<Q>(ctx, row.type, row.element(d), row.eights(d), codes);
      // The tables are walked after the first read of the row, so that the two waits overlap.
      if (begin == 0 && row.dim > 0) {
        to = find_target(ctx, args, rows, sequences, token, head);
        if constexpr (has_scale_v<scale_type> && Q::group == 0) {
          if (row.lane == 0 && to.codes >= 0) store_scale<scale_alignment>(ctx, rows.scales.base + to.scales, scale);
        }
      }
      if constexpr (has_scale_v<scale_type>) {
        PAGODA_KERNEL_UNROLL
        for (int c = 0; c < piece::chunks; ++c) codes[c] = {};
        for (int part = piece::parts - 1; part >= 0; --part) {
          const std::int32_t from = d + part * piece::part_elements;
          if constexpr (Q::group > 0) {
            const row_stats stats = find_group_stats(ctx, row, from);
            if (from < row.dim) scale = Q::fit(stats);
            if (from < row.dim && from % Q::group == 0 && to.codes >= 0) {
              store_scale<scale_alignment>(
                  ctx, rows.scales.base + to.scales + from / Q::group * scale_bytes_v<scale_type>, scale);
            }
          }
          constexpr int most = piece::part_elements / 8;
          const int eights = row.eights(from) < most ? row.eights(from) : most;
          encode_eights<Q>(ctx, row.type, row.element(from), eights, scale, codes);
        }
      }
      if (d < row.dim && to.codes >= 0) {
        std::byte* first =
            rows.codes.base + to.codes + std::int64_t{d / piece::elements * piece::chunks} * rows.codes.chunk_stride;
        PAGODA_KERNEL_UNROLL
        for (int c = 0; c < piece::chunks; ++c) {
          ctx.store(reinterpret_cast<simt::words4*>(first + c * rows.codes.chunk_stride), codes[c]);
        }
      }
    }
  }
};

}  // namespace pagoda::kernels
