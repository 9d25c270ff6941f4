// SPDX-License-Identifier: Apache-2.0
/// @file The check's machine without a GPU: kernels run in the host context, and the clock is made up, so that every
/// line of the check but the device's own runs on a CPU.
#pragma once

#include <string>

#include "capturing_backend.hpp"
#include "machine_facts.hpp"

namespace pagoda_check {

class host_machine {
 public:
  using backend = capturing_backend;
  using graph = capturing_backend::launches;

  /// Why there is no such machine; empty where there is one.
  static std::string missing() { return {}; }

  machine_facts facts() const {
    return {.name = "host context",
            .compute_capability = backend::properties().compute_capability,
            .multiprocessors = backend::properties().multiprocessors,
            .l2_bytes = 1 << 14,
            .memory_bytes = std::int64_t{1} << 30};
  }
  pagoda::cuda::stream_ref stream() const { return {}; }

  /// Keeps what `enqueue` launches, without running it.
  template <class Enqueue>
  graph capture(Enqueue&& enqueue) {
    graph kept;
    backend::target() = &kept;
    try {
      enqueue(stream());
    } catch (...) {
      backend::target() = nullptr;
      throw;
    }
    backend::target() = nullptr;
    return kept;
  }
  void replay(const graph& kept) {
    for (const auto& launch : kept) launch();
    seconds_ += 1e-6 * microseconds_of(kept);
  }
  /// Microseconds of one replay: as if each launch took 10,000.
  double time(const graph& kept) {
    replay(kept);
    return microseconds_of(kept);
  }
  copy_rates measure_copy(std::int64_t) { return {.memcpy_rate = 0.5, .kernel_rate = 0.625}; }
  double seconds() const { return seconds_; }

 private:
  static double microseconds_of(const graph& kept) { return 1e4 * static_cast<double>(kept.size()); }
  double seconds_ = 0;
};

}  // namespace pagoda_check
