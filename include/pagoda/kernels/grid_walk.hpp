// SPDX-License-Identifier: Apache-2.0
/// @file How a grid of any size walks the units of its work.
#pragma once

#include <cstdint>

#include <pagoda/simt/execution_context.hpp>

namespace pagoda::kernels {

/// Units are numbered outer * count + inner, and block b of a grid takes b, b + grid, b + 2 * grid, ... The number
/// itself is never made: it may need more than 32 bits, and 64-bit divisions are slow.
class grid_walk {
 public:
  /// Requires: count > 0.
  template <class Context>
  PAGODA_KERNEL_FUNCTION grid_walk(const Context& ctx, std::int32_t count)
      : count_(count),
        inner_(static_cast<std::int32_t>(ctx.block_index().x % static_cast<std::uint32_t>(count))),
        inner_step_(static_cast<std::int32_t>(ctx.grid_dim().x % static_cast<std::uint32_t>(count))),
        outer_(ctx.block_index().x / static_cast<std::uint32_t>(count)),
        outer_step_(ctx.grid_dim().x / static_cast<std::uint32_t>(count)) {}

  PAGODA_KERNEL_FUNCTION std::int64_t outer() const { return outer_; }
  PAGODA_KERNEL_FUNCTION std::int32_t inner() const { return inner_; }

  PAGODA_KERNEL_FUNCTION void next() {
    outer_ += outer_step_;
    inner_ += inner_step_;
    if (inner_ >= count_) {
      inner_ -= count_;
      ++outer_;
    }
  }

 private:
  std::int32_t count_;
  std::int32_t inner_;
  std::int32_t inner_step_;
  std::int64_t outer_;
  std::int64_t outer_step_;
};

}  // namespace pagoda::kernels
