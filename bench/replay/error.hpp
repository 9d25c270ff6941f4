// SPDX-License-Identifier: Apache-2.0
/// @file How the program refuses an input: one sentence with the value, the limit and the remedy.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>

namespace pagoda_replay {

/// Throws std::runtime_error with the parts joined.
template <class... Parts>
[[noreturn]] void refuse(const Parts&... parts) {
  std::ostringstream sentence;
  (sentence << ... << parts);
  throw std::runtime_error(sentence.str());
}

/// The beginning of a text from a file, in quotes, fit for a terminal.
inline std::string quoted(std::string_view text) {
  constexpr std::size_t longest = 60;
  std::string result = "\"";
  for (const char c : text.substr(0, longest)) result += static_cast<unsigned char>(c) < 32 || c == 127 ? '?' : c;
  return result + (text.size() > longest ? "...\"" : "\"");
}

}  // namespace pagoda_replay
