// SPDX-License-Identifier: Apache-2.0
// What shuffles, ballot, atomics and the approximations return.
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include "faults.hpp"

namespace {

using namespace simt_tests;
using pagoda::simt::full_mask;

/// What each thread's function returned, in one warp or more, under a schedule.
template <class T, class Function>
std::vector<T> results_of(int threads, std::uint32_t seed, const Function& function) {
  std::vector<T> results(static_cast<std::size_t>(threads));
  host_machine machine({.schedule_seed = seed});
  machine.launch("results", {1, 1, 1}, threads, 0,
                 [&](host_context& ctx) { results[static_cast<std::size_t>(ctx.thread_index())] = function(ctx); });
  return results;
}

TEST_CASE("shuffles move values as CUDA's do") {
  for (std::uint32_t seed = 0; seed < 4; ++seed) {
    CAPTURE(seed);
    for (const int n : {0, 1, 2, 5, 16, 31}) {
      CAPTURE(n);
      const auto idx = results_of<int>(64, seed, [&](host_context& c) { return c.shfl(c.thread_index() * 3, n); });
      const auto down =
          results_of<int>(64, seed, [&](host_context& c) { return c.shfl_down(c.thread_index() * 3, n); });
      const auto up = results_of<int>(64, seed, [&](host_context& c) { return c.shfl_up(c.thread_index() * 3, n); });
      const auto bfly = results_of<int>(64, seed, [&](host_context& c) { return c.shfl_xor(c.thread_index() * 3, n); });
      for (int t = 0; t < 64; ++t) {
        const int lane = t % 32;
        const int warp = t - lane;
        CAPTURE(t);
        const auto i = static_cast<std::size_t>(t);
        CHECK(idx[i] == 3 * (warp + n));
        CHECK(bfly[i] == 3 * (warp + (lane ^ n)));
        CHECK(up[i] == 3 * (lane >= n ? t - n : t));
        CHECK(down[i] == 3 * (lane + n < 32 ? t + n : t));
      }
    }
  }
}

TEST_CASE("every lane may read another lane, many times over") {
  for (std::uint32_t seed = 0; seed < 4; ++seed) {
    const auto sums = results_of<std::uint32_t>(96, seed, [](host_context& ctx) {
      std::uint32_t x = static_cast<std::uint32_t>(ctx.thread_index());
      for (int i = 0; i < 200; ++i) x = x * 5 + ctx.shfl(x, (ctx.lane() * 7 + i) % 32);
      return x;
    });
    std::vector<std::uint32_t> expected(96);
    for (std::uint32_t t = 0; t < 96; ++t) expected[t] = t;
    for (std::uint32_t i = 0; i < 200; ++i) {
      const std::vector<std::uint32_t> old = expected;
      for (std::uint32_t t = 0; t < 96; ++t) expected[t] = old[t] * 5 + old[t / 32 * 32 + (t % 32 * 7 + i) % 32];
    }
    CHECK(sums == expected);
  }
}

TEST_CASE("parts of a warp meet on their own, in any mix of masks") {
  for (std::uint32_t seed = 0; seed < 6; ++seed) {
    CAPTURE(seed);
    const auto results = results_of<std::uint32_t>(32, seed, [](host_context& ctx) {
      std::uint32_t sum = 0;
      // Groups of 1, 2, 4, 8, 16 and 32 lanes in turn, so that meetings of old masks are still being read.
      for (int round = 0; round < 24; ++round) {
        const int size = 1 << (round % 6);
        const int first = ctx.lane() / size * size;
        const std::uint32_t mask = (size == 32 ? full_mask : (1u << size) - 1) << first;
        sum = sum * 3 + ctx.shfl(sum + static_cast<std::uint32_t>(ctx.lane()), first + (round * 5) % size, mask);
        sum += ctx.ballot(ctx.lane() % 2 == 1, mask);
      }
      return sum;
    });
    std::vector<std::uint32_t> expected(32, 0);
    for (int round = 0; round < 24; ++round) {
      const std::vector<std::uint32_t> old = expected;
      for (int lane = 0; lane < 32; ++lane) {
        const int size = 1 << (round % 6);
        const int first = lane / size * size;
        const std::uint32_t mask = (size == 32 ? full_mask : (1u << size) - 1) << first;
        const int from = first + (round * 5) % size;
        auto& sum = expected[static_cast<std::size_t>(lane)];
        sum = sum * 3 + old[static_cast<std::size_t>(from)] + static_cast<std::uint32_t>(from);
        sum += 0xaaaaaaaau & mask;
      }
    }
    CHECK(results == expected);
  }
}

TEST_CASE("ballot returns the votes of the mask's lanes") {
  const auto all = results_of<std::uint32_t>(32, 0, [](host_context& c) { return c.ballot(c.lane() % 3 == 0); });
  for (const std::uint32_t votes : all) CHECK(votes == 0x49249249u);
  const auto part = results_of<std::uint32_t>(32, 0, [](host_context& ctx) {
    return ctx.lane() < 8 ? ctx.ballot(true, 0xffu) : ctx.ballot(ctx.lane() == 31, ~0xffu);
  });
  for (std::size_t i = 0; i < 32; ++i) CHECK(part[i] == (i < 8 ? 0xffu : 0x80000000u));
}

TEST_CASE("indices") {
  host_machine machine;
  int seen = 0;
  machine.launch("indices", {3, 2, 2}, 96, 0, [&](host_context& ctx) {
    CHECK(ctx.lane() == ctx.thread_index() % 32);
    CHECK(ctx.warp() == ctx.thread_index() / 32);
    CHECK(ctx.grid_dim() == pagoda::simt::index3{3, 2, 2});
    const auto b = ctx.block_index();
    seen += static_cast<int>(((b.z * 2 + b.y) * 3 + b.x) * 96) + ctx.thread_index();
  });
  CHECK(seen == 1152 * 1151 / 2);
}

TEST_CASE("atomic_cas returns the old value and swaps only on a match") {
  std::uint32_t counter = 0;
  host_machine machine({.schedule_seed = 3});
  machine.launch("count", {4, 1, 1}, 64, 0, [&](host_context& ctx) {
    std::uint32_t old = counter;
    while (true) {
      const std::uint32_t seen = ctx.atomic_cas(&counter, old, old + 1);
      if (seen == old) break;
      old = seen;
    }
  });
  CHECK(counter == 256);
  std::uint32_t value = 5;
  machine.launch("miss", {1, 1, 1}, 32, 0, [&](host_context& ctx) { CHECK(ctx.atomic_cas(&value, 4, 9) == 5); });
  CHECK(value == 5);
}

TEST_CASE("exp2 and log2 know no denormals") {
  const float inf = std::numeric_limits<float>::infinity();
  const float tiny = std::numeric_limits<float>::min();
  const auto exp2 = [](float x) { return results_of<float>(32, 0, [&](host_context& c) { return c.exp2(x); })[0]; };
  const auto log2 = [](float x) { return results_of<float>(32, 0, [&](host_context& c) { return c.log2(x); })[0]; };
  CHECK(exp2(-inf) == 0.0f);
  CHECK(exp2(inf) == inf);
  CHECK(exp2(3.0f) == 8.0f);
  CHECK(exp2(-126.0f) == tiny);
  CHECK(exp2(-126.5f) == 0.0f);
  CHECK(std::isnan(exp2(std::numeric_limits<float>::quiet_NaN())));
  CHECK(log2(8.0f) == 3.0f);
  CHECK(log2(tiny) == -126.0f);
  CHECK(log2(tiny / 2) == -inf);
  CHECK(log2(-tiny / 2) == -inf);
  CHECK(log2(0.0f) == -inf);
  CHECK(std::isnan(log2(-1.0f)));
}

}  // namespace
