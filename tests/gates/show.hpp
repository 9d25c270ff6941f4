// SPDX-License-Identifier: Apache-2.0
/// @file pagoda_gates --show: looks at any cubin while one works on a kernel.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#include "report.hpp"

namespace pagoda_gates {

inline constexpr const char* show_usage =
    "pagoda_gates --show FILE.cubin... [--kernel PART] [--loop] [--code]\n"
    "             [--threads N] [--shared BYTES] [--tiles N] [--flight BYTES]\n"
    "  one row for each kernel (of those whose name contains PART); --loop: its loops, and the histogram and listing\n"
    "  of the main one; --code: all of its code. N threads and BYTES of dynamic shared memory for a block, tiles of\n"
    "  16 tokens for a pass through the main loop, bytes in flight for a block.\n";

/// Runs `pagoda_gates --show` with what follows it.
/// Throws: std::runtime_error for a file that is no cubin, std::invalid_argument for arguments it does not know.
inline int show(const std::vector<std::string>& arguments) {
  std::vector<std::string> files;
  std::string part;
  launch_numbers launch;
  bool with_loop = false;
  bool with_code = false;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& a = arguments[i];
    const auto value = [&]() -> const std::string& {
      if (i + 1 == arguments.size()) throw std::invalid_argument(a + " needs a value");
      return arguments[++i];
    };
    if (a == "--kernel")
      part = value();
    else if (a == "--loop")
      with_loop = true;
    else if (a == "--code")
      with_code = true;
    else if (a == "--threads")
      launch.threads = std::stoi(value());
    else if (a == "--shared")
      launch.shared_bytes = std::stoi(value());
    else if (a == "--tiles")
      launch.tiles_per_iteration = std::stoi(value());
    else if (a == "--flight")
      launch.bytes_in_flight = std::stoi(value());
    else if (a.compare(0, 2, "--") == 0)
      throw std::invalid_argument(a + " is not an option");
    else
      files.push_back(a);
  }
  if (files.empty()) throw std::invalid_argument("--show needs a file");
  std::size_t shown = 0;
  print_head();
  for (const std::string& file : files) {
    const cubin::module_file module = cubin::module_file::load(file);
    const auto is_meant = [&](const cubin::kernel& k) {
      return k.name.find(part) != std::string::npos || k.mangled_name.find(part) != std::string::npos;
    };
    for (const cubin::kernel& k : module.kernels()) {
      if (is_meant(k)) print_row(measure(k, launch)), ++shown;
    }
    for (const cubin::kernel& k : module.kernels()) {
      if (is_meant(k) && with_loop) print_loops(k);
      if (!is_meant(k) || !with_code) continue;
      std::printf("\n%s\n", k.name.c_str());
      for (const cubin::instruction& i : k.code) std::printf("%s\n", i.text().c_str());
    }
  }
  if (shown == 0) throw std::runtime_error("no kernel is named like " + part);
  return EXIT_SUCCESS;
}

}  // namespace pagoda_gates
