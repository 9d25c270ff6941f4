// SPDX-License-Identifier: Apache-2.0
/// @file How the program refuses an input: one sentence with the value, the limit and the remedy.
#pragma once

#include <sstream>
#include <stdexcept>

/// Throws std::runtime_error with the parts joined.
template <class... Parts>
[[noreturn]] void refuse(const Parts&... parts) {
  std::ostringstream sentence;
  (sentence << ... << parts);
  throw std::runtime_error(sentence.str());
}
