// SPDX-License-Identifier: Apache-2.0
/// @file Checks that PTX which breaks a rule is found, and that its twin which keeps the rule runs.
#pragma once

#include <doctest/doctest.h>

#include "snippet.hpp"

namespace pagoda_test {

/// The body must end in a fault at `instruction`, a part of its line, whose message contains `why`.
inline void check_fault(std::string_view body, std::string_view why, std::string_view instruction,
                        snippet_run how = {}) {
  CAPTURE(body);
  const std::optional<ptx::fault> fault = how.fault_of(body);
  REQUIRE(fault.has_value());
  const std::string message = fault->what();
  CAPTURE(message);
  CHECK(message.find(why) != std::string::npos);
  CHECK(fault->kernel() == "snippet");
  CHECK(fault->text().find(instruction) != std::string::npos);
  CHECK(message.find(fault->text()) != std::string::npos);
  CHECK(message.find("thread " + std::to_string(fault->thread())) != std::string::npos);
  CHECK(message.find("block (0, 0, 0)") != std::string::npos);
  CHECK(fault->line() >= first_body_line);
}

inline void check_clean(std::string_view body, snippet_run how = {}) {
  CAPTURE(body);
  const std::optional<ptx::fault> fault = how.fault_of(body);
  const std::string message = fault ? fault->what() : "";
  CHECK(message == "");
}

}  // namespace pagoda_test
