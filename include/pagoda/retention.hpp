// SPDX-License-Identifier: Apache-2.0
/// @file Which tokens of a live sequence a layer group keeps.
#pragma once

#include <cstdint>
#include <limits>

#include <pagoda/shape.hpp>

namespace pagoda {

/// No limit on the window: every token stays.
inline constexpr std::int64_t unlimited = std::numeric_limits<std::int64_t>::max();

/// Which tokens a layer group keeps: all of them, the last `window`, or the first `sinks` and the last `window`.
/// Units:  tokens. The window of a query counts the query's own token.
/// Source: sinks beside a window: StreamingLLM (Xiao et al. 2023), section 3.2.
struct retention {
  std::int64_t sinks = 0;
  std::int64_t window = unlimited;

  PAGODA_HOST_DEVICE constexpr bool keeps_all() const noexcept { return window == unlimited; }

  /// The first token after the sinks that a query at `position` or later can still read.
  PAGODA_HOST_DEVICE constexpr std::int64_t window_begin(std::int64_t position) const noexcept {
    return keeps_all() || position < window ? 0 : position - window + 1;
  }

  /// Blocks that hold sinks and are never dropped.
  constexpr std::int64_t sink_blocks(std::int64_t block_size) const noexcept {
    return keeps_all() ? 0 : divide_up(sinks, block_size);
  }
  friend constexpr bool operator==(const retention&, const retention&) = default;
};

/// Throws invalid_argument unless the window holds at least the query's own token, the sinks are not negative, and
/// sinks come with a window.
constexpr void check_retention(const retention& keep) {
  check_range("retention window", keep.window, 1, unlimited);
  check_range("retention sinks", keep.sinks, 0, std::numeric_limits<std::int32_t>::max());
  if (keep.sinks > 0 && keep.keeps_all()) {
    detail::fail("retention sinks are ", keep.sinks,
                 ", but there is no window for them to stay beside: set a window, or ", "0 sinks to keep all tokens");
  }
}

}  // namespace pagoda
