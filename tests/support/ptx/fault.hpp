// SPDX-License-Identifier: Apache-2.0
/// @file What the PTX interpreter throws: load_error before anything runs, fault for what a kernel did wrong.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

#include <pagoda/simt/execution_context.hpp>

namespace pagoda_test::ptx {

/// PTX that cannot be loaded: an unknown opcode or modifier, an undeclared name, text that is not PTX.
class load_error : public std::runtime_error {
 public:
  load_error(const std::string& file, int line, const std::string& why)
      : std::runtime_error(file + ":" + std::to_string(line) + ": " + why), line_(line) {}
  int line() const { return line_; }

 private:
  int line_;
};

/// Where a fault happened.
struct fault_place {
  std::string kernel;
  pagoda::simt::index3 block;
  int thread = 0;
  int line = 0;      ///< of the PTX file
  std::string text;  ///< of that line
};

/// A rule of the machine that a kernel broke. The message names kernel, block, thread, PTX line and instruction.
class fault : public std::runtime_error {
 public:
  fault(fault_place place, const std::string& why)
      : std::runtime_error(message(place, why)), place_(std::move(place)) {}
  const std::string& kernel() const { return place_.kernel; }
  pagoda::simt::index3 block() const { return place_.block; }
  int thread() const { return place_.thread; }
  int line() const { return place_.line; }
  const std::string& text() const { return place_.text; }

 private:
  static std::string message(const fault_place& place, const std::string& why) {
    return why + "\n  kernel " + place.kernel + ", block (" + std::to_string(place.block.x) + ", " +
           std::to_string(place.block.y) + ", " + std::to_string(place.block.z) + "), thread " +
           std::to_string(place.thread) + "\n  PTX line " + std::to_string(place.line) + ": " + place.text;
  }

  fault_place place_;
};

}  // namespace pagoda_test::ptx
