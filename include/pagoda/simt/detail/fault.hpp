// SPDX-License-Identifier: Apache-2.0
/// @file What a kernel did wrong, and where: the exception of the host context.
#pragma once

#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>

#include <pagoda/error.hpp>
#include <pagoda/simt/execution_context.hpp>

namespace pagoda::simt {

/// The line of a kernel that called a member of the context. Members take it as their last argument, which nobody
/// writes: its default is the caller's line.
struct source_position {
  const char* file = "";
  int line = 0;

  static constexpr source_position current(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
  /// The same line of the same file.
  friend bool operator==(const source_position& a, const source_position& b) {
    return a.line == b.line && (a.file == b.file || std::strcmp(a.file, b.file) == 0);
  }
};

/// A kernel broke a rule of the machine. what() names the kernel, the block, the thread, the source line and the rule.
class fault : public std::runtime_error {
 public:
  fault(const std::string& message, std::string_view kernel, index3 block, int thread, source_position at)
      : std::runtime_error(message), kernel_(kernel), block_(block), thread_(thread), file_(at.file), line_(at.line) {}

  const std::string& kernel() const noexcept { return kernel_; }
  index3 block() const noexcept { return block_; }
  int thread() const noexcept { return thread_; }  ///< its index in the block
  const std::string& file() const noexcept { return file_; }
  int line() const noexcept { return line_; }

 private:
  std::string kernel_;
  index3 block_;
  int thread_;
  std::string file_;
  int line_;
};

namespace detail {

using pagoda::detail::message_part;

template <class... Parts>
std::string joined(const Parts&... parts) {
  std::string text;
  ((text += message_part(parts).text()), ...);
  return text;
}

/// "kernel.hpp:48".
inline std::string place(source_position at) {
  const std::string_view path = at.file;
  return joined(path.substr(path.rfind('/') + 1), ":", at.line);  // npos + 1 is 0
}

/// What runs where: the part of a fault that does not depend on the rule.
struct launch_place {
  std::string_view kernel;
  index3 block;

  template <class... Parts>
  PAGODA_COLD void fail(int thread, source_position at, const Parts&... parts) const {
    const std::string message = joined("pagoda: kernel ", kernel, ", block (", block.x, ", ", block.y, ", ", block.z,
                                       "), thread ", thread, ", ", place(at), ": ", parts...);
    throw fault(message, kernel, block, thread, at);
  }
};

}  // namespace detail
}  // namespace pagoda::simt
