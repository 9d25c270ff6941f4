// SPDX-License-Identifier: Apache-2.0
// The device's bodies of conversions, pairs of halves and quantizers, as nvcc compiled them, give the host's bits.
#include <cstdint>
#include <iostream>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "half2_kernels.hpp"
#include "ptx/machine.hpp"

namespace {

using namespace pagoda_test;

/// Words whose halves, bytes and floats are of every kind, NaN and infinities among them.
std::vector<std::uint32_t> probe_words(std::size_t count) {
  std::mt19937 random(17);
  std::vector<std::uint32_t> words;
  const std::uint32_t special[] = {0u,          0x80000000u, 0x7f800000u, 0xff800000u, 0x7fc00001u, 0xffffffffu,
                                   0x7c00fc00u, 0x00018001u, 0x477fe000u, 0x477ff000u, 0x43e00000u, 0x43e80000u,
                                   0x00000001u, 0x3f800000u, 0x33000000u, 0x33000001u, 0x7f7fffffu, 0x0da24260u};
  for (const std::uint32_t a : special) {
    for (const std::uint32_t b : special) {
      for (const std::uint32_t c : {a, b, 0xba983210u}) words.insert(words.end(), {a, b, c});
    }
  }
  while (words.size() < 3 * count) {
    const auto word = static_cast<std::uint32_t>(random());
    // Half of the floats have exponents near 0, where the narrow formats are.
    words.push_back(random() % 2 == 0 ? word : (word & 0x83ffffffu) | 0x3c000000u);
  }
  return words;
}

TEST_CASE("device bodies give the host's bits") {
#if defined(PAGODA_PTX_DIRECTORY)
  constexpr std::size_t blocks = 64;
  constexpr std::size_t threads = blocks * list_kernel::threads;
  const std::vector<std::uint32_t> from = probe_words(threads);
  for (const char* architecture : {"compute_80", "compute_90"}) {
    CAPTURE(architecture);
    const ptx::module module =
        ptx::module::load(std::string(PAGODA_PTX_DIRECTORY) + "/half2_kernels." + architecture + ".ptx");
    std::vector<std::uint32_t> to(threads * number_list::capacity, 77);
    ptx::launch<list_kernel>(module, "list_kernel", {blocks, 1, 1}, {from.data(), to.data()},
                             {.ranges = {ptx::global_range(from), ptx::global_range(to)}});
    std::vector<int> wrong(number_list::capacity, 0);
    int count = 0;
    for (std::size_t t = 0; t < threads; ++t) {
      std::uint32_t expected[number_list::capacity] = {};
      count = list_results(from[3 * t], from[3 * t + 1], from[3 * t + 2], expected);
      for (int i = 0; i < count; ++i) {
        const auto place = static_cast<std::size_t>(i);
        wrong[place] += to[t * number_list::capacity + place] != expected[place];
      }
    }
    CHECK(count == 54);
    for (int i = 0; i < count; ++i) {
      CAPTURE(i);
      CHECK(wrong[static_cast<std::size_t>(i)] == 0);
    }
  }
#else
  std::cout << "[SKIPPED] nvcc was not found: its PTX is not run\n";
#endif
}

}  // namespace
