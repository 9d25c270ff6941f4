// SPDX-License-Identifier: Apache-2.0
/// @file generic_attention: attention on CUDA cores, for every quantizer, head dim, block size and layout.
#pragma once

#include <cstddef>
#include <cstdint>

#include <pagoda/kernels/generic_pass.hpp>
#include <pagoda/kernels/generic_work.hpp>

namespace pagoda::kernels {

/// Decode and prefill in float, for any policy that has the required members of a quantizer: key and value dims that
/// are multiples of 8, any group size, any power of two as block size, and every option. Its results lie as close to
/// the reference as host attention's: 2e-5 relative to the L2 norm of a row.
///
/// Sequences of at most max_decode_queries queries take the items of args.plan: a sequence with one item is written at
/// once, of others the partial results, for merge_chunks. Longer sequences walk all their keys for each tile of rows.
/// The grid may have any size: blocks stride over the units.
///
/// A key whose block lies outside the pool is reported, if args.report is given and tables are checked, and left out.
///
/// Requires: key_dim and value_dim are at most MaxDim. With 256, a warp holds four query rows in registers, with 576
/// two, and reads keys and values again for others: launch 256 wherever it serves.
template <class KeyQuantizer, class ValueQuantizer, int MaxDim = 576>
struct generic_attention {
  static_assert(MaxDim == 256 || MaxDim == 576, "pagoda: generic_attention is for dims of up to 256 or up to 576");

  using arguments = attention_arguments<KeyQuantizer, ValueQuantizer>;
  static constexpr int rows_of_warp = MaxDim == 256 ? 4 : 2;
  static constexpr int units_of_lane = MaxDim == 256 ? 1 : 3;  // of a row, 8 elements each
  static constexpr int threads = generic_threads;
  static constexpr int shared_bytes = generic_shared_bytes(rows_of_warp, MaxDim);
  static constexpr int resident_blocks = MaxDim == 256 && KeyQuantizer::group + ValueQuantizer::group == 0 ? 3 : 2;

  /// Units of a batch within those limits: a larger grid has idle blocks.
  static std::int64_t max_units(const arguments& args, std::int64_t sequences, std::int64_t queries,
                                std::int64_t items) noexcept {
    return generic_units<arguments>::max_units(args, sequences, queries, items);
  }

  template <simt::execution_context Context>
  PAGODA_HOST_DEVICE static void run(Context& ctx, const arguments& args) {
    using pass_type = generic_pass<Context, arguments, static_cast<std::size_t>(rows_of_warp),
                                   static_cast<std::size_t>(units_of_lane)>;
    constexpr std::int32_t rows_at_once = rows_of_warp * generic_warps;
    generic_memory<Context, rows_of_warp> memory(ctx, MaxDim);
    generic_units<arguments> units(ctx, args);
    generic_unit unit;
    while (units.next(ctx, unit)) {
      for (std::int32_t first = 0; first < unit.rows; first += rows_at_once) {
        const std::int32_t left = unit.rows - first;
        pass_type pass(ctx, args, memory, unit, unit.first_row + first, left < rows_at_once ? left : rows_at_once);
        pass.walk_keys();
        pass.finish();
      }
    }
  }
};

}  // namespace pagoda::kernels
