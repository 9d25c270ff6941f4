// SPDX-License-Identifier: Apache-2.0
/// @file The tokens of a PTX file.
#pragma once

#include <cctype>
#include <string>
#include <string_view>
#include <vector>

#include "ptx/fault.hpp"

namespace pagoda_test::ptx {

/// A word (a name, an opcode with its modifiers, a directive, a number), a string, or one character of punctuation.
struct token {
  std::string_view text;
  int line = 0;
  bool is(std::string_view other) const { return text == other; }
  bool is_word() const { return !text.empty() && is_word_character(text[0]); }
  static bool is_word_character(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == '$' || c == '%';
  }
};

/// Splits text into tokens without comments; the last one is empty.
inline std::vector<token> tokens_of(std::string_view text, const std::string& file) {
  std::vector<token> tokens;
  int line = 1;
  std::size_t at = 0;
  const auto look = [&](std::size_t i) { return i < text.size() ? text[i] : '\0'; };
  while (at < text.size()) {
    const char c = text[at];
    const std::size_t begin = at;
    if (c == '\n') {
      ++line;
      ++at;
    } else if (std::isspace(static_cast<unsigned char>(c)) != 0) {
      ++at;
    } else if (c == '/' && look(at + 1) == '/') {
      while (at < text.size() && text[at] != '\n') ++at;
    } else if (c == '/' && look(at + 1) == '*') {
      const std::size_t end = text.find("*/", at + 2);
      if (end == std::string_view::npos) throw load_error(file, line, "a comment does not end");
      for (; at < end + 2; ++at) line += text[at] == '\n' ? 1 : 0;
    } else if (c == '"') {
      const std::size_t end = text.find('"', at + 1);
      if (end == std::string_view::npos) throw load_error(file, line, "a string does not end");
      at = end + 1;
      tokens.push_back({text.substr(begin, at - begin), line});
    } else if (token::is_word_character(c)) {
      // "::" belongs to a modifier as L2::128B; a single ":" ends a label.
      while (token::is_word_character(look(at)) || (look(at) == ':' && look(at + 1) == ':')) {
        at += look(at) == ':' ? 2u : 1u;
      }
      tokens.push_back({text.substr(begin, at - begin), line});
    } else {
      ++at;
      tokens.push_back({text.substr(begin, 1), line});
    }
  }
  tokens.push_back({{}, line});
  return tokens;
}

}  // namespace pagoda_test::ptx
