// SPDX-License-Identifier: Apache-2.0
/// @file Control flow of a kernel's code: which instructions can run again, and its loops.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "sass.hpp"

namespace cubin {

/// A loop as it lies in memory: from the target of a backward branch to that branch, both included. Units: indices of
/// instructions.
struct loop {
  std::size_t first = 0;
  std::size_t last = 0;

  std::size_t size() const noexcept { return last - first + 1; }
  bool contains(const loop& other) const noexcept {
    return first <= other.first && other.last <= last && size() > other.size();
  }
};

/// The graph of one kernel. A call is taken to come back, so what it calls is another graph's matter.
class control_flow {
 public:
  explicit control_flow(const std::vector<instruction>& code) : successors_(code.size()) {
    for (std::size_t i = 0; i < code.size(); ++i) {
      if (!code[i].ends_flow() && i + 1 < code.size()) successors_[i].push_back(i + 1);
      if (code[i].jumps_far()) is_complete_ = false;
      if (!code[i].is(operation::bra)) continue;
      const std::int64_t to = *code[i].target();
      if (to < 0 || to % instruction::bytes != 0 || to / instruction::bytes >= static_cast<std::int64_t>(code.size())) {
        is_complete_ = false;
      } else {
        successors_[i].push_back(static_cast<std::size_t>(to / instruction::bytes));
      }
    }
    find_cycles();
    find_loops();
  }

  /// Whether every branch could be followed.
  bool is_complete() const noexcept { return is_complete_; }

  /// Whether the kernel can reach the instruction, and can come to it again afterwards. Code that lies outside a loop
  /// and jumps back into it counts.
  bool repeats(std::size_t i) const { return repeats_.at(i); }

  /// In order of their first instruction.
  const std::vector<loop>& loops() const noexcept { return loops_; }

 private:
  /// Tarjan's strongly connected components from the first instruction, without recursion.
  void find_cycles() {
    const std::size_t n = successors_.size();
    constexpr std::size_t none = static_cast<std::size_t>(-1);
    repeats_.assign(n, false);
    std::vector<std::size_t> order(n, none);
    std::vector<std::size_t> lowest(n, 0);
    std::vector<std::size_t> open;
    std::vector<std::uint8_t> is_open(n, 0);
    std::vector<std::pair<std::size_t, std::size_t>> path;  // instruction, next successor to visit
    std::size_t count = 0;
    const auto enter = [&](std::size_t v) {
      order[v] = lowest[v] = count++;
      open.push_back(v);
      is_open[v] = 1;
      path.emplace_back(v, 0);
    };
    if (n > 0) enter(0);
    while (!path.empty()) {
      const std::size_t v = path.back().first;
      if (path.back().second < successors_[v].size()) {
        const std::size_t next = successors_[v][path.back().second++];
        if (order[next] == none) {
          enter(next);
        } else if (is_open[next] != 0) {
          lowest[v] = std::min(lowest[v], order[next]);
        }
        continue;
      }
      path.pop_back();
      if (!path.empty()) lowest[path.back().first] = std::min(lowest[path.back().first], lowest[v]);
      if (lowest[v] != order[v]) continue;
      const bool is_cycle = open.back() != v || std::count(successors_[v].begin(), successors_[v].end(), v) > 0;
      for (bool is_last = false; !is_last;) {
        const std::size_t member = open.back();
        open.pop_back();
        is_open[member] = 0;
        repeats_[member] = is_cycle;
        is_last = member == v;
      }
    }
  }

  /// A backward branch closes a loop if it can be reached from its target without leaving what lies between them. Code
  /// that the compiler has moved behind the loop jumps back too, and closes none.
  void find_loops() {
    for (std::size_t last = 0; last < successors_.size(); ++last) {
      if (!repeats_[last]) continue;
      for (const std::size_t first : successors_[last]) {
        if (first <= last && reaches(first, last)) loops_.push_back({first, last});
      }
    }
    std::sort(loops_.begin(), loops_.end(),
              [](const loop& a, const loop& b) { return a.first != b.first ? a.first < b.first : a.last > b.last; });
  }

  bool reaches(std::size_t first, std::size_t last) const {
    std::vector<std::uint8_t> is_seen(last - first + 1, 0);
    std::vector<std::size_t> open{first};
    is_seen[0] = 1;
    while (!open.empty()) {
      const std::size_t v = open.back();
      open.pop_back();
      if (v == last) return true;
      for (const std::size_t next : successors_[v]) {
        if (next < first || next > last || is_seen[next - first] != 0) continue;
        is_seen[next - first] = 1;
        open.push_back(next);
      }
    }
    return false;
  }

  std::vector<std::vector<std::size_t>> successors_;
  std::vector<bool> repeats_;
  std::vector<loop> loops_;
  bool is_complete_ = true;
};

/// How many instructions of a loop are of one operation; with a width, of that width.
inline std::size_t count(const std::vector<instruction>& code, const loop& range, operation op, int width = 0) {
  std::size_t found = 0;
  for (std::size_t i = range.first; i <= range.last; ++i) {
    found += code[i].is(op) && (width == 0 || code[i].width() == width);
  }
  return found;
}

/// The loops for which a predicate holds, less those that contain another one of them.
template <class Predicate>
std::vector<loop> innermost_loops(const control_flow& flow, Predicate holds) {
  std::vector<loop> loops;
  for (const loop& range : flow.loops()) {
    if (holds(range)) loops.push_back(range);
  }
  std::vector<loop> innermost;
  for (const loop& range : loops) {
    const bool is_outer =
        std::any_of(loops.begin(), loops.end(), [&](const loop& other) { return range.contains(other); });
    if (!is_outer) innermost.push_back(range);
  }
  return innermost;
}

}  // namespace cubin
