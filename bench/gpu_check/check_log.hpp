// SPDX-License-Identifier: Apache-2.0
/// @file The lines of the correctness phase: one for each check, printed as soon as it is known.
#pragma once

#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pagoda_check {

struct check_result {
  std::string what;
  bool passed = false;
  std::string detail;  // the error figure and its bound, or what went wrong
};

class check_log {
 public:
  /// What the following checks are about: "half, head_dim 128".
  void begin(std::string subject) { subject_ = std::move(subject); }

  void result(std::string_view what, bool passed, std::string detail) {
    results_.push_back({subject_ + ": " + std::string(what), passed, std::move(detail)});
    failures_ += passed ? 0 : 1;
    std::printf("%s  %-76s %s\n", passed ? "PASS" : "FAIL", results_.back().what.c_str(),
                results_.back().detail.c_str());
    std::fflush(stdout);
  }

  /// An error must stay below its bound; NaN does not.
  void bounded(std::string_view what, double error, double bound) {
    char text[64];
    std::snprintf(text, sizeof(text), "error %.1e, bound %.1e", error, bound);
    result(what, error < bound, text);
  }

  void same(std::string_view what, bool equal) { result(what, equal, equal ? "bytes equal" : "bytes differ"); }

  /// Runs a check; an exception is a failure, and the next check runs.
  template <class Function>
  void run(std::string_view what, Function&& function) {
    try {
      function();
    } catch (const std::exception& error) {
      result(what, false, error.what());
    }
  }

  const std::vector<check_result>& results() const { return results_; }
  int failures() const { return failures_; }

 private:
  std::string subject_;
  std::vector<check_result> results_;
  int failures_ = 0;
};

}  // namespace pagoda_check
