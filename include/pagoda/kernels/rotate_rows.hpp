// SPDX-License-Identifier: Apache-2.0
/// @file rotate_rows: a step's rows times a Hadamard matrix or its transpose, on the device.
#pragma once

#include <cstdint>

#include <pagoda/detail/hadamard.hpp>
#include <pagoda/kernels/attention_arguments.hpp>
#include <pagoda/kernels/grid_walk.hpp>
#include <pagoda/simt/execution_context.hpp>

namespace pagoda::kernels {

/// Rotates the rows of a batch's queries or new tokens, with the bits of pagoda::detail::rotate. Rows behind those of
/// the batch are neither read nor written.
///
/// A warp takes one row at a time, in shared memory: it multiplies the small matrix out, then applies the butterflies.
///
/// Shapes:     from and to [at least the batch's rows, heads, how.dim], any element types.
/// Requires:   to does not overlap from.
/// Complexity: O(rows * heads * dim * (how.base + log(dim))).
struct rotate_rows {
  static constexpr int threads = 128;
  static constexpr int warps = threads / simt::warp_size;
  static constexpr int max_dim = 576;
  static constexpr int shared_bytes = warps * 2 * max_dim * static_cast<int>(sizeof(float));

  struct arguments {
    erased_rows from{};
    erased_rows to{};
    const std::int32_t* num_sequences = nullptr;
    const std::int32_t* offsets = nullptr;  ///< [sequences + 1]: the batch's rows end at the last
    std::int32_t heads = 1;
    pagoda::detail::rotation how{};
  };

  /// Units that have work if every row of the arguments is the batch's; the grid may be smaller.
  static std::int64_t max_units(const arguments& args) noexcept { return args.from.tokens * units_of_token(args); }

  template <simt::execution_context Context>
  PAGODA_HOST_DEVICE static void run(Context& ctx, const arguments& args) {
    auto floats = simt::shared<float>(ctx, warps * 2 * max_dim);
    const std::int64_t batch_rows = ctx.ldg(args.offsets + ctx.ldg(args.num_sequences));
    const std::int64_t tokens = batch_rows < args.from.tokens ? batch_rows : args.from.tokens;
    for (grid_walk unit(ctx, units_of_token(args)); unit.outer() < tokens; unit.next()) {
      const std::int32_t head = unit.inner() * warps + ctx.warp();
      if (head < args.heads) rotate(ctx, args, floats, unit.outer(), head);
    }
  }

 private:
  PAGODA_HOST_DEVICE static std::int32_t units_of_token(const arguments& args) noexcept {
    return (args.heads + warps - 1) / warps;
  }

  /// Every lane of the warp takes part.
  template <class Context>
  PAGODA_KERNEL_FUNCTION static void rotate(Context& ctx, const arguments& args,
                                            simt::shared_array_t<Context, float>& floats, std::int64_t token,
                                            std::int32_t head) {
    const std::int32_t dim = args.how.dim;
    const std::int32_t base = args.how.base;
    const int given = ctx.warp() * 2 * max_dim;
    const int made = given + max_dim;
    for (std::int32_t d = 8 * ctx.lane(); d < dim; d += 8 * simt::warp_size) {
      float values[8];
      load_eight(ctx, args.from.type, args.from.at(token, head, d), values);
      PAGODA_KERNEL_UNROLL
      for (int i = 0; i < 8; ++i) floats[given + d + i] = values[i];
    }
    ctx.sync_warp();
    for (std::int32_t d = ctx.lane(); d < dim; d += simt::warp_size) {
      const std::int32_t first = d / base * base;
      const std::uint64_t negative = args.how.negative[d - first];
      float sum = 0.0f;
      for (int j = 0; j < base; ++j) {
        const float x = floats[given + first + j];
        sum += (negative >> j & 1u) != 0 ? -x : x;
      }
      floats[made + d] = sum;
    }
    ctx.sync_warp();
    for (std::int32_t distance = base; distance < dim; distance *= 2) {
      for (std::int32_t pair = ctx.lane(); pair < dim / 2; pair += simt::warp_size) {
        const int low = made + pair + pair / distance * distance;
        const float a = floats[low];
        const float b = floats[low + distance];
        floats[low] = a + b;
        floats[low + distance] = a - b;
      }
      ctx.sync_warp();
    }
    for (std::int32_t d = 8 * ctx.lane(); d < dim; d += 8 * simt::warp_size) {
      float values[8];
      PAGODA_KERNEL_UNROLL
      for (int i = 0; i < 8; ++i) values[i] = floats[made + d + i] * args.how.factor;
      store_eight(ctx, args.to.type, args.to.at(token, head, d), values);
    }
  }
};

}  // namespace pagoda::kernels
