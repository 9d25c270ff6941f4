// SPDX-License-Identifier: Apache-2.0
/// @file What a conformance check found.
#pragma once

#include <string>
#include <vector>

#include <pagoda/error.hpp>

namespace pagoda::conformance {

/// The result of checking a policy: no fault, or a sentence for each. Needs no test framework:
///
///     const auto report = pagoda::conformance::check_quantizer<my_quantizer>();
///     for (const std::string& fault : report.faults) std::puts(fault.c_str());
///     return report.ok() ? 0 : 1;
struct report {
  std::vector<std::string> faults{};
  int checks = 0;  ///< comparisons made

  bool ok() const noexcept { return faults.empty(); }

  /// Counts one comparison and, if it fails, keeps the message; the first 20 are enough to see the fault.
  template <class... Parts>
  void expect(bool holds, const Parts&... message) {
    ++checks;
    if (holds || faults.size() >= 20) return;
    std::string fault;
    ((fault += detail::message_part(message).text()), ...);
    faults.push_back(std::move(fault));
  }
};

}  // namespace pagoda::conformance
