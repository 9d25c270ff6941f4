// SPDX-License-Identifier: Apache-2.0
// Machines on OS threads of their own: what the thread sanitizer looks at.
#include <cstdint>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "faults.hpp"
#include "sample_kernels.hpp"

namespace {

using namespace simt_tests;

TEST_CASE("machines on different OS threads do not disturb each other") {
  host_machine here;
  const std::vector<float> expected = block_sums(here, 20);
  std::vector<std::vector<float>> outputs(2);
  std::vector<int> faults(2, 0);
  std::uint32_t counter = 0;  // shared by all, only through atomics
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < 2; ++i) {
    threads.emplace_back([&, i] {
      host_machine machine({.schedule_seed = static_cast<std::uint32_t>(i)});
      for (int round = 0; round < 3; ++round) {
        outputs[i] = block_sums(machine, 20);
        try {
          machine.launch("faulty", {1, 1, 1}, 64, 0, [](host_context& ctx) {
            if (ctx.thread_index() != 40) ctx.sync();
          });
        } catch (const fault&) {
          ++faults[i];
        }
        machine.launch("count", {2, 1, 1}, 32, 0, [&](host_context& ctx) {
          std::uint32_t old = 0;
          for (;;) {
            const std::uint32_t seen = ctx.atomic_cas(&counter, old, old + 1);
            if (seen == old) break;
            old = seen;
          }
        });
      }
    });
  }
  for (std::thread& one : threads) one.join();
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(outputs[i] == expected);
    CHECK(faults[i] == 3);
  }
  CHECK(counter == 2 * 3 * 64);
}

TEST_CASE("a machine may be used by one OS thread after another") {
  host_machine machine;
  const std::vector<float> expected = block_sums(machine, 4);
  for (int i = 0; i < 3; ++i) {
    std::vector<float> output;
    std::thread([&] { output = block_sums(machine, 4); }).join();
    CHECK(output == expected);
  }
  CHECK(block_sums(machine, 4) == expected);
}

}  // namespace
