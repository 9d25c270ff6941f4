// SPDX-License-Identifier: Apache-2.0
/// @file A bar on the terminal that says how much of the work is done.
#pragma once

#include <cstdint>
#include <cstdio>

#include <unistd.h>

namespace pagoda_replay {

/// Draws on standard error where that is a terminal, and nowhere else; its death wipes the bar away.
class progress {
 public:
  /// Units: whatever advance() counts in.
  explicit progress(std::int64_t total) : total_(total), visible_(isatty(STDERR_FILENO) == 1 && total > 0) { draw(); }
  progress(const progress&) = delete;
  progress& operator=(const progress&) = delete;
  ~progress() {
    if (visible_) std::fprintf(stderr, "\r\033[K");
  }

  void advance(std::int64_t done) {
    done_ += done;
    draw();
  }

 private:
  void draw() {
    if (!visible_) return;
    const auto percent = static_cast<int>(100 * done_ / total_);
    if (percent == drawn_) return;
    drawn_ = percent;
    constexpr int width = 40;
    char bar[width + 1] = {};
    for (int i = 0; i < width; ++i) bar[i] = i * 100 < percent * width ? '#' : '.';
    std::fprintf(stderr, "\rreplay [%s] %3d %%", bar, percent);
    std::fflush(stderr);
  }

  std::int64_t total_;
  bool visible_;
  std::int64_t done_ = 0;
  int drawn_ = -1;
};

}  // namespace pagoda_replay
