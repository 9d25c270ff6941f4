// SPDX-License-Identifier: Apache-2.0
/// @file module: a PTX file, loaded and decoded.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <typeinfo>
#include <vector>

#include "ptx/program.hpp"

namespace pagoda_test::ptx {

/// The C++ name behind a mangled one; other names as they are.
std::string readable_name(const std::string& mangled);

/// The entries of a PTX file. All of them are decoded when it is loaded.
class module {
 public:
  /// Reads a file. Throws: load_error, naming the line, if it is missing or holds what the interpreter does not know.
  static module load(const std::string& path);
  /// The same for text in memory; `name` stands in messages.
  static module parse(std::string_view text, const std::string& name);

  /// The entry whose mangled or readable name contains `part`, or equals it. Throws: std::invalid_argument, listing the
  /// names, if there is none or more than one.
  std::shared_ptr<const program> entry(std::string_view part) const;
  /// The entry pagoda::simt::entry<Kernel>, found by the full name of the type. Throws: as entry.
  template <class Kernel>
  std::shared_ptr<const program> entry_of() const {
    const std::string kernel = readable_name(typeid(Kernel).name());
    return entry("pagoda::simt::entry<" + kernel + (kernel.back() == '>' ? " >(" : ">("));
  }
  const std::vector<std::shared_ptr<const program>>& entries() const { return entries_; }

 private:
  std::vector<std::shared_ptr<const program>> entries_;
};

}  // namespace pagoda_test::ptx
