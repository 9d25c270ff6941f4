// SPDX-License-Identifier: Apache-2.0
/// @file The shared memory of a block of the generic attention kernel.
#pragma once

#include <cstddef>
#include <cstdint>

#include <pagoda/simt/execution_context.hpp>

namespace pagoda::kernels {

inline constexpr int generic_warps = 4;
inline constexpr int generic_threads = generic_warps * simt::warp_size;

/// The bytes of generic_memory.
constexpr int generic_shared_bytes(int rows, int max_dim) {
  return generic_warps * rows * (max_dim + 2 + simt::warp_size) * static_cast<int>(sizeof(float));
}

/// What the warps of a block leave for each other, and the lanes of a warp: all of it floats. A warp takes up to Rows
/// rows of queries, numbered from 0 in each warp.
template <class Context, int Rows>
class generic_memory {
  static constexpr int float_bytes = static_cast<int>(sizeof(float));

 public:
  PAGODA_KERNEL_FUNCTION generic_memory(Context& ctx, int max_dim)
      : sums(simt::shared<std::byte>(ctx, generic_warps * Rows * max_dim * float_bytes)),
        states(simt::shared<float>(ctx, generic_warps * Rows * 2)),
        weights(simt::shared<std::byte>(ctx, generic_warps * Rows * simt::warp_size * float_bytes)) {}

  /// Of 8 * unit in a row's sum of weighted values. Units: bytes.
  PAGODA_KERNEL_FUNCTION static int sum_place(int warp, int row, std::int32_t unit, std::int32_t value_dim) {
    return ((warp * Rows + row) * value_dim + 8 * unit) * float_bytes;
  }
  /// Of a row's largest score; the sum of its weights is next.
  PAGODA_KERNEL_FUNCTION static int state_place(int warp, int row) { return 2 * (warp * Rows + row); }
  /// Of the weights that a warp's rows give to the key of a lane. Units: bytes.
  PAGODA_KERNEL_FUNCTION static int weight_place(int warp, int lane) {
    return (warp * simt::warp_size + lane) * Rows * float_bytes;
  }

  simt::shared_array_t<Context, std::byte> sums;     // [warps, rows, value_dim]
  simt::shared_array_t<Context, float> states;       // [warps, rows, 2]
  simt::shared_array_t<Context, std::byte> weights;  // [warps, keys of a tile, rows]
};

}  // namespace pagoda::kernels
