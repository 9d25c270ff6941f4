// SPDX-License-Identifier: Apache-2.0
// Runs a kernel that must fault, or must not, in order and in three random schedules.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>

#include <doctest/doctest.h>
#include <pagoda/simt/host_context.hpp>

namespace simt_tests {

using pagoda::simt::fault;
using pagoda::simt::host_context;
using pagoda::simt::host_machine;
using pagoda::simt::host_options;

struct launch_of {
  int threads = 64;
  int shared_bytes = 1024;
  host_options options = {};
};

/// The fault of a launch of one block, if there is one.
template <class Kernel>
std::optional<fault> fault_of(const Kernel& kernel, const launch_of& launch = {}) {
  host_machine machine(launch.options);
  try {
    machine.launch("test_kernel", {1, 1, 1}, launch.threads, launch.shared_bytes, kernel);
  } catch (const fault& found) {
    return found;
  }
  return std::nullopt;
}

/// The kernel is right, whatever the schedule.
template <class Kernel>
void expect_clean(const Kernel& kernel, launch_of launch = {}) {
  for (std::uint32_t seed = 0; seed < 4; ++seed) {
    CAPTURE(seed);
    launch.options.schedule_seed = seed;
    const std::optional<fault> found = fault_of(kernel, launch);
    CHECK_MESSAGE(!found.has_value(), found->what());
  }
}

/// The kernel faults in every schedule, on this line, for this reason; in order, in this thread.
/// `line` is read after the launch, because kernels note it while they run.
template <class Kernel>
void expect_fault(const Kernel& kernel, const int& line, int thread, std::initializer_list<const char*> reasons,
                  launch_of launch = {}) {
  for (std::uint32_t seed = 0; seed < 4; ++seed) {
    CAPTURE(seed);
    launch.options.schedule_seed = seed;
    const std::optional<fault> found = fault_of(kernel, launch);
    REQUIRE(found.has_value());
    const std::string message = found->what();
    CAPTURE(message);
    CHECK(found->kernel() == "test_kernel");
    CHECK(found->block() == pagoda::simt::index3{0, 0, 0});
    CHECK(found->line() == line);
    CHECK(found->file().find("/simt/") != std::string::npos);
    for (const char* reason : reasons) CHECK(message.find(reason) != std::string::npos);
    if (seed == 0) CHECK(found->thread() == thread);
    const std::string place = "kernel test_kernel, block (0, 0, 0), thread " + std::to_string(found->thread()) + ", ";
    CHECK(message.find(place) != std::string::npos);
    CHECK(message.find(".cpp:" + std::to_string(line) + ": ") != std::string::npos);
  }
}

}  // namespace simt_tests

/// Notes the line it stands on, then does what it is given. To be kept on one line.
#define PAGODA_AT(line, ...) (line = __LINE__, __VA_ARGS__)
