// SPDX-License-Identifier: Apache-2.0
/// @file How the generic attention kernel writes what the warps of a block found.
#pragma once

#include <cstddef>
#include <cstdint>

#include <pagoda/kernels/attention_arguments.hpp>
#include <pagoda/kernels/generic_memory.hpp>
#include <pagoda/kernels/generic_work.hpp>

namespace pagoda::kernels {

/// Writes rows of one unit from the sums in shared memory: the output, or a partial result.
template <class Context, class Arguments, int Rows>
class generic_writer {
 public:
  PAGODA_KERNEL_FUNCTION generic_writer(Context& ctx, const Arguments& args, generic_memory<Context, Rows>& memory,
                                        const generic_unit& unit)
      : ctx_(ctx), args_(args), memory_(memory), unit_(unit) {}

  /// Joins what the warps found for elements 8 * unit on of row first_row + row, and writes it. Row r lies with the
  /// warps r / Rows, + row_warps, + 2 * row_warps, ...
  PAGODA_KERNEL_FUNCTION void write_eight(std::int32_t first_row, std::int32_t row, std::int32_t unit, int row_warps) {
    const int first_warp = row / Rows;
    const int r = row % Rows;
    float max = lowest_score;
    for (int warp = first_warp; warp < generic_warps; warp += row_warps) {
      const float other = memory_.states[memory_.state_place(warp, r)];
      max = other > max ? other : max;
    }
    float sum = 0.0f;
    float values[8] = {};
    for (int warp = first_warp; warp < generic_warps; warp += row_warps) {
      const float largest = memory_.states[memory_.state_place(warp, r)];
      const float sum_of_warp = memory_.states[memory_.state_place(warp, r) + 1];
      const float weight = ctx_.exp2(largest - max);
      sum += sum_of_warp * weight;
      simt::words4 low;
      simt::words4 high;
      const int place = memory_.sum_place(warp, r, unit, args_.view.value_dim);
      ctx_.lds(memory_.sums, place, low);
      ctx_.lds(memory_.sums, place + 16, high);
      PAGODA_KERNEL_UNROLL
      for (int i = 0; i < 4; ++i) {
        values[i] += weight * __builtin_bit_cast(float, low.w[i]);
        values[i + 4] += weight * __builtin_bit_cast(float, high.w[i]);
      }
    }
    if (unit_.item >= 0) {
      write_partial(first_row + row, unit, values, max, sum);
    } else {
      write_output(first_row + row, unit, values, max, sum);
    }
  }

 private:
  PAGODA_KERNEL_FUNCTION void write_partial(std::int32_t row, std::int32_t unit, const float (&values)[8], float max,
                                            float sum) {
    const std::int64_t index = args_.partial_index(unit_.item, unit_.kv_head, row);
    float* to = args_.partial_output + index * args_.view.value_dim + 8 * unit;
    store_eight(ctx_, element_type::float32, reinterpret_cast<std::byte*>(to), values);
    if (unit == 0) {
      ctx_.store(args_.partial_state + 2 * index, max);
      ctx_.store(args_.partial_state + 2 * index + 1, sum);
    }
  }

  PAGODA_KERNEL_FUNCTION void write_output(std::int32_t row, std::int32_t unit, float (&values)[8], float max,
                                           float sum) {
    const std::int32_t query = row / args_.group;
    const std::int64_t query_row = std::int64_t{unit_.sequence.first_query} + query;
    const std::int32_t head = unit_.kv_head * args_.group + row - query * args_.group;
    const row_scale scale = finish_row(ctx_, args_, head, max, sum);
    PAGODA_KERNEL_UNROLL
    for (int i = 0; i < 8; ++i) values[i] *= scale.factor;
    store_eight(ctx_, args_.output.type, args_.output.at(query_row, head, std::int64_t{8} * unit), values);
    if (unit == 0 && args_.lse != nullptr) {
      ctx_.store(args_.lse + query_row * args_.view.kv_heads * args_.group + head, scale.lse);
    }
  }

  Context& ctx_;
  const Arguments& args_;
  generic_memory<Context, Rows>& memory_;
  const generic_unit& unit_;
};

}  // namespace pagoda::kernels
