// SPDX-License-Identifier: Apache-2.0
/// @file What runs the items of a host call: any parallel_for.
#pragma once

#include <algorithm>
#include <cstdint>

#include <pagoda/config.hpp>

namespace pagoda::host {

/// Anything with `parallel_for(count, function)` that calls function(i) once for every i below count, on any threads,
/// and returns when all are done. An optional `concurrency()` tells how many run at once; without it a call is cut as
/// if for many. Results never depend on either.
template <class E>
concept executor = requires(E& executor, std::int64_t count, void (*function)(std::int64_t)) {
  executor.parallel_for(count, function);
};

/// Runs everything on the calling thread. The default.
struct serial_executor {
  template <class Function>
  void parallel_for(std::int64_t count, Function&& function) const {
    for (std::int64_t i = 0; i < count; ++i) function(i);
  }
  static constexpr std::int64_t concurrency() noexcept { return 1; }
};

static_assert(executor<serial_executor> && executor<const serial_executor>);

/// How many items an executor runs at once, as far as it tells.
template <executor E>
std::int64_t concurrency_of(const E& executor) noexcept {
  if constexpr (requires { executor.concurrency(); }) {
    return std::clamp<std::int64_t>(static_cast<std::int64_t>(executor.concurrency()), 1, 4096);
  } else {
    return 64;
  }
}

}  // namespace pagoda::host
