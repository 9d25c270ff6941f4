// SPDX-License-Identifier: Apache-2.0
/// @file The name of a kernel, for messages.
#pragma once

#include <cstddef>
#include <string_view>

namespace pagoda::simt {

namespace detail {

template <class T>
constexpr const char* text_of_type() {
  return __PRETTY_FUNCTION__;
}

}  // namespace detail

/// K::name, or what the compiler calls the type.
template <class K>
constexpr std::string_view kernel_name() {
  if constexpr (requires { std::string_view(K::name); }) {
    return K::name;
  } else {
    const std::string_view text = detail::text_of_type<K>();
    std::size_t begin = text.find("T = ");  // nvcc's front end writes "T="
    begin = begin == std::string_view::npos ? text.find("T=") + 2 : begin + 4;
    return text.substr(begin, text.rfind(']') - begin);
  }
}

}  // namespace pagoda::simt
