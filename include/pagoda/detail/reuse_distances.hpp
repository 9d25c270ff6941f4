// SPDX-License-Identifier: Apache-2.0
/// @file reuse_distances: how many other things were used between two uses of one.
#pragma once

#include <cstdint>
#include <vector>

#include <pagoda/statistics.hpp>

namespace pagoda::detail {

/// Each thing that was used has a place in a line, in the order of the last uses; how many stand behind it is the
/// number of different things used since. A cache that evicts the least recently used one and has more room than that
/// would hit.
/// Complexity: O(log count) amortised for each call.
/// Source:     stack distances: Mattson et al. 1970; counted with a Fenwick tree, as Bennett and Kruskal 1975 do.
class reuse_distances {
 public:
  explicit reuse_distances(std::int32_t count) : place_of_(static_cast<std::size_t>(count), nowhere) {
    who_.assign(place_of_.size() * 2, nowhere);
    marks_.assign(who_.size() + 1, 0);
  }

  void use(std::int32_t who, log2_histogram& distances) noexcept {
    const std::int32_t place = place_of_[static_cast<std::size_t>(who)];
    if (place != nowhere) {
      distances.add(static_cast<std::uint64_t>(marked_ - marks_up_to(place)));
      forget(who);
    }
    if (next_ == who_.size()) close_ranks();
    enter(who);
  }

  void forget(std::int32_t who) noexcept {
    std::int32_t& place = place_of_[static_cast<std::size_t>(who)];
    if (place == nowhere) return;
    who_[static_cast<std::size_t>(place)] = nowhere;
    mark(place, -1);
    place = nowhere;
  }

 private:
  static constexpr std::int32_t nowhere = -1;

  void enter(std::int32_t who) noexcept {
    place_of_[static_cast<std::size_t>(who)] = static_cast<std::int32_t>(next_);
    who_[next_] = who;
    mark(static_cast<std::int32_t>(next_++), 1);
  }

  void mark(std::int32_t place, std::int32_t change) noexcept {
    marked_ += change;
    for (std::size_t i = static_cast<std::size_t>(place) + 1; i < marks_.size(); i += i & (~i + 1)) marks_[i] += change;
  }

  std::int32_t marks_up_to(std::int32_t place) const noexcept {
    std::int32_t sum = 0;
    for (std::size_t i = static_cast<std::size_t>(place) + 1; i > 0; i &= i - 1) sum += marks_[i];
    return sum;
  }

  /// Half of the places at least are empty, since there are two for each thing.
  void close_ranks() noexcept {
    next_ = 0;
    marked_ = 0;
    for (std::int32_t& count : marks_) count = 0;
    for (std::size_t i = 0; i < who_.size(); ++i) {
      const std::int32_t who = who_[i];
      who_[i] = nowhere;
      if (who != nowhere) enter(who);
    }
  }

  std::vector<std::int32_t> place_of_;
  std::vector<std::int32_t> who_;    // by place
  std::vector<std::int32_t> marks_;  // a Fenwick tree over the places: 1 where somebody stands
  std::size_t next_ = 0;
  std::int32_t marked_ = 0;
};

}  // namespace pagoda::detail
