// SPDX-License-Identifier: Apache-2.0
/// @file A name that is put together while compiling.
#pragma once

#include <cstddef>
#include <string_view>

#include <pagoda/config.hpp>

namespace pagoda::detail {

/// At most Capacity characters; more do not compile.
template <std::size_t Capacity>
struct static_name {
  char text[Capacity]{};
  std::size_t size = 0;

  constexpr static_name add(std::string_view more) const {
    static_name result = *this;
    for (const char c : more) result.text[result.size++] = c;
    return result;
  }
  constexpr static_name add(int number) const {
    const static_name front = number < 10 ? *this : add(number / 10);
    const char digit[] = {static_cast<char>('0' + number % 10)};
    return front.add(std::string_view(digit, 1));
  }
  constexpr std::string_view view() const noexcept { return {text, size}; }
};

}  // namespace pagoda::detail
