// SPDX-License-Identifier: Apache-2.0
// The machine around the kernels: launches, names, schedules, exceptions, and use after any of them.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "faults.hpp"
#include "sample_kernels.hpp"

namespace {

using namespace simt_tests;
using pagoda::simt::index3;
using pagoda::simt::shared;

TEST_CASE("a kernel runs over its grid") {
  std::vector<float> from(300);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<float>(i);
  std::vector<float> to(300, -1.0f);
  host_machine machine;
  machine.launch<scale_by_two>({3, 1, 1}, {from.data(), to.data(), 300});
  for (std::size_t i = 0; i < to.size(); ++i) CHECK(to[i] == 2 * from[i]);
}

struct named_kernel {
  static constexpr const char* name = "a_name_of_its_own";
  static constexpr int threads = 32;
  static constexpr int shared_bytes = 64;
  struct arguments {
    int count;
  };
  template <pagoda::simt::execution_context Context>
  PAGODA_HOST_DEVICE static void run(Context& ctx, const arguments& args) {
    shared<float>(ctx, args.count);
  }
};

template <int N>
struct unnamed_kernel : named_kernel {
  static constexpr int name = N;  // no text
};

TEST_CASE("a fault names the kernel by its name, or its type, and the block") {
  host_machine machine;
  machine.launch<named_kernel>({1, 1, 1}, {16});
  machine.launch<named_kernel>({1, 1, 1}, {32}, 128);
  try {
    machine.launch<named_kernel>({1, 1, 1}, {17});
    FAIL("no fault");
  } catch (const fault& found) {
    CHECK(found.kernel() == "a_name_of_its_own");
  }
  try {
    machine.launch<unnamed_kernel<7>>({1, 1, 1}, {17});
    FAIL("no fault");
  } catch (const fault& found) {
    CHECK(found.kernel().find("unnamed_kernel<7>") != std::string::npos);
    CHECK(found.kernel().back() == '>');
  }
  try {
    machine.launch("blocks", {4, 3, 2}, 32, 0, [](host_context& ctx) {
      if (ctx.block_index() == index3{2, 1, 1} && ctx.lane() == 9) ctx.shared<float>(1);
    });
    FAIL("no fault");
  } catch (const fault& found) {
    CHECK(found.block() == index3{2, 1, 1});
    CHECK(found.thread() == 9);
    CHECK(std::string(found.what()).find("kernel blocks, block (2, 1, 1), thread 9, machine_test.cpp:") !=
          std::string::npos);
  }
}

TEST_CASE("a launch that no device accepts is refused") {
  host_machine machine;
  const auto nothing = [](host_context&) {};
  const auto launch = [&](index3 grid, int threads, int shared_bytes) {
    machine.launch("nothing", grid, threads, shared_bytes, nothing);
  };
  launch({1, 1, 1}, 1024, pagoda::simt::max_shared_bytes);
  for (const int threads : {0, -32, 31, 33, 1056})
    CHECK_THROWS_AS(launch({1, 1, 1}, threads, 0), pagoda::invalid_argument);
  for (const int bytes : {-1, pagoda::simt::max_shared_bytes + 1})
    CHECK_THROWS_AS(launch({1, 1, 1}, 32, bytes), pagoda::invalid_argument);
  for (const index3 grid : {index3{0, 1, 1}, {1, 0, 1}, {1, 1, 0}, {0x80000000u, 1, 1}, {1, 65536, 1}, {1, 1, 65536}})
    CHECK_THROWS_AS(launch(grid, 32, 0), pagoda::invalid_argument);
  CHECK_THROWS_AS(machine.launch("outer", {1, 1, 1}, 32, 0,
                                 [&](host_context&) {
                                   launch({1, 1, 1}, 32, 0);
                                 }),
                  pagoda::logic_error);
  launch({1, 1, 1}, 32, 0);
}

TEST_CASE("random schedules give the same bits, and do run in another order") {
  constexpr std::uint32_t seeds = 6;
  using numbers = std::vector<std::uint32_t>;
  std::vector<std::vector<float>> outputs;
  std::vector<numbers> block_orders;
  std::vector<numbers> thread_orders;
  for (std::uint32_t seed = 0; seed < seeds; ++seed) {
    host_machine machine({.schedule_seed = seed});
    outputs.push_back(block_sums(machine, 9));
    numbers blocks;
    numbers threads;
    machine.launch("order", {8, 3, 2}, 64, 0, [&](host_context& ctx) {
      const index3 b = ctx.block_index();
      if (ctx.thread_index() == 0) blocks.push_back((b.z * 3 + b.y) * 8 + b.x);
      if (b == index3{0, 0, 0}) threads.push_back(static_cast<std::uint32_t>(ctx.thread_index()));
    });
    block_orders.push_back(blocks);
    thread_orders.push_back(threads);
  }
  numbers all_blocks(48);
  numbers all_threads(64);
  std::iota(all_blocks.begin(), all_blocks.end(), 0u);
  std::iota(all_threads.begin(), all_threads.end(), 0u);
  CHECK(block_orders[0] == all_blocks);
  CHECK(thread_orders[0] == all_threads);
  for (std::uint32_t seed = 1; seed < seeds; ++seed) {
    CHECK(outputs[seed] == outputs[0]);
    CHECK(block_orders[seed] != block_orders[seed - 1]);
    CHECK(thread_orders[seed] != thread_orders[seed - 1]);
    CHECK(std::is_permutation(all_blocks.begin(), all_blocks.end(), block_orders[seed].begin(),
                              block_orders[seed].end()));
    CHECK(std::is_permutation(all_threads.begin(), all_threads.end(), thread_orders[seed].begin(),
                              thread_orders[seed].end()));
  }
  host_machine again({.schedule_seed = 3});
  CHECK(block_sums(again, 9) == outputs[3]);
}

TEST_CASE("a kernel's exception reaches the caller, every object is destroyed, and the machine goes on") {
  host_machine machine;
  const std::vector<float> expected = block_sums(machine, 3);
  const auto token = std::make_shared<int>(1);
  for (int round = 0; round < 3; ++round) {
    for (const bool is_fault : {false, true}) {
      CAPTURE(is_fault);
      const auto kernel = [&, is_fault](host_context& ctx) {
        const std::vector<std::shared_ptr<int>> held(3, token);
        shared<float>(ctx, 16);
        ctx.sync();
        ctx.shfl_xor(1.0f, 1);
        if (ctx.block_index().x == 2 && ctx.thread_index() == 70) {
          if (is_fault) shared<float>(ctx, 1 << 20);
          throw std::runtime_error("the kernel's own");
        }
        ctx.sync();
      };
      if (is_fault) {
        CHECK_THROWS_AS(machine.launch("faulty", {4, 1, 1}, 128, 64, kernel), fault);
      } else {
        CHECK_THROWS_WITH_AS(machine.launch("throws", {4, 1, 1}, 128, 64, kernel), "the kernel's own",
                             std::runtime_error);
      }
      CHECK(token.use_count() == 1);
      CHECK(block_sums(machine, 3) == expected);
    }
  }
  // A deadlock leaves all threads waiting.
  CHECK_THROWS_AS(machine.launch("deadlock", {1, 1, 1}, 64, 0,
                                 [&](host_context& ctx) {
                                   const std::shared_ptr<int> held = token;
                                   if (ctx.warp() == 0) {
                                     ctx.sync();
                                   } else if (ctx.lane() != 0) {
                                     ctx.sync_warp();
                                   } else {
                                     ctx.sync();
                                   }
                                 }),
                  fault);
  CHECK(token.use_count() == 1);
  CHECK(block_sums(machine, 3) == expected);
}

TEST_CASE("one machine runs launches of different sizes") {
  host_machine machine;
  for (const int threads : {32, 1024, 64, 512}) {
    int sum = 0;
    machine.launch("sizes", {2, 1, 1}, threads, 4 * threads, [&](host_context& ctx) {
      auto s = shared<int>(ctx, threads);
      s[ctx.thread_index()] = ctx.thread_index();
      ctx.sync();
      const int x = s[threads - 1 - ctx.thread_index()];
      sum += x;
    });
    CHECK(sum == threads * (threads - 1));
  }
}

TEST_CASE("elements of shared arrays behave like values") {
  host_machine machine;
  machine.launch("elements", {1, 1, 1}, 32, 1024, [](host_context& ctx) {
    auto s = shared<int>(ctx, 64);
    auto t = s;  // the same array
    const int i = ctx.lane();
    s[i] = 5;
    t[i] += 3;
    const int sum = s[i];
    CHECK(sum == 8);
    s[i] -= 2;
    s[i] *= 7;
    s[i] |= 1;
    s[i] &= 0x3a;
    const int last = s[i];
    CHECK(last == ((6 * 7 | 1) & 0x3a));
    s[i + 32] = s[i];
    const int copy = t[i + 32];
    CHECK(copy == last);
    CHECK(copy + s[i] == 2 * last);
  });
}

TEST_CASE("a deep stack is enough for a large frame, and can be made larger") {
  const auto deep = [](host_context& ctx) {
    volatile char frame[96 * 1024];
    for (std::size_t i = 0; i < sizeof(frame); i += 512) frame[i] = static_cast<char>(ctx.lane());
    ctx.sync_warp();
    CHECK(frame[512] == static_cast<char>(ctx.lane()));
  };
  host_machine machine;
  machine.launch("deep", {1, 1, 1}, 64, 0, deep);
  host_machine large({.stack_bytes = std::size_t{2} << 20});
  large.launch("deeper", {1, 1, 1}, 32, 0, [&](host_context& ctx) {
    volatile char frame[1 << 20];
    for (std::size_t i = 0; i < sizeof(frame); i += 4096) frame[i] = static_cast<char>(ctx.lane());
    deep(ctx);
    CHECK(frame[4096] == static_cast<char>(ctx.lane()));
  });
}

}  // namespace
