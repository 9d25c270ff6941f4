// SPDX-License-Identifier: Apache-2.0
/// @file The asynchronous copies that a thread has under way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include <pagoda/simt/execution_context.hpp>

namespace pagoda::simt::detail {

/// One cp.async. The source is read when the copy is issued, the destination written when it lands.
struct async_copy {
  std::uint32_t offset = 0;  ///< in the block's shared memory
  std::uint32_t bytes = 0;
  std::uint32_t line = 0;
  words4 data{};
};

/// Copies in the order of their groups; the last, open group is not committed yet.
class async_copies {
 public:
  void reset() {
    copies_.clear();
    group_ends_.clear();
  }
  void issue(const async_copy& copy) { copies_.push_back(copy); }
  void commit() { group_ends_.push_back(copies_.size()); }

  /// Lands all committed groups but the last `in_flight`, by calling land(copy) for each of their copies.
  template <class Land>
  void wait(std::size_t in_flight, Land&& land) {
    if (group_ends_.size() <= in_flight) return;
    const std::size_t groups = group_ends_.size() - in_flight;
    const std::size_t landed = group_ends_[groups - 1];
    for (std::size_t i = 0; i < landed; ++i) land(copies_[i]);
    copies_.erase(copies_.begin(), copies_.begin() + static_cast<std::ptrdiff_t>(landed));
    group_ends_.erase(group_ends_.begin(), group_ends_.begin() + static_cast<std::ptrdiff_t>(groups));
    for (std::size_t& end : group_ends_) end -= landed;
  }

 private:
  std::vector<async_copy> copies_;
  std::vector<std::size_t> group_ends_;
};

}  // namespace pagoda::simt::detail
