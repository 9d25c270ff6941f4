// SPDX-License-Identifier: Apache-2.0
// What the tests of both file formats ask of a refusal.
#pragma once

#include <cstring>
#include <exception>
#include <string>

#include <doctest/doctest.h>

/// The message with which `read` refuses its file; empty if it does not. A message says more than a word or two.
template <class Read>
std::string refusal_of(Read&& read) {
  try {
    read();
    return {};
  } catch (const std::exception& error) {
    REQUIRE(std::strlen(error.what()) > 20);
    return error.what();
  }
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}
