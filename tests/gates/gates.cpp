// SPDX-License-Identifier: Apache-2.0
// Static gates: reads the machine code of kernels, prints what it costs, and fails where it breaks its budget.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

#include "budgets.hpp"
#include "check.hpp"
#include "cubin/resources.hpp"
#include "show.hpp"

namespace {

int check_files(const std::string& group, const std::vector<std::string>& files) {
  if (files.empty()) throw std::invalid_argument("--check needs a group and its cubins");
  std::vector<std::string> faults;
  pagoda_gates::print_head();
  for (const std::string& file : files) {
    const cubin::module_file module = cubin::module_file::load(file);
    for (const std::string& fault : pagoda_gates::check_group(group, pagoda_gates::budgets(), module)) {
      faults.push_back(fault);
    }
  }
  for (const std::string& fault : faults) std::printf("FAILED: %s\n", fault.c_str());
  return faults.empty() ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const std::string mode = arguments.empty() ? "" : arguments[0];
  try {
    if (mode == "--show") return pagoda_gates::show({arguments.begin() + 1, arguments.end()});
    if (mode == "--check" && arguments.size() > 1)
      return check_files(arguments[1], {arguments.begin() + 2, arguments.end()});
    throw std::invalid_argument("no such mode");
  } catch (const std::invalid_argument& error) {
    std::fprintf(stderr, "%s\n%s", error.what(), pagoda_gates::show_usage);
    std::fprintf(stderr, "pagoda_gates --check GROUP FILE.cubin...\n  compares a group's kernels with their budgets\n");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
  }
  return 2;
}
