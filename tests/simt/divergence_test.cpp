// SPDX-License-Identifier: Apache-2.0
// Threads that do not come together: each fault, and the kernel that does the same thing right.
#include <cstdint>
#include <string>

#include <doctest/doctest.h>

#include "faults.hpp"

namespace {

using namespace simt_tests;
using pagoda::simt::shared;

TEST_CASE("a lane at sync while its warp shuffles is a deadlock that names both places") {
  int line = 0;
  int other = 0;
  const auto kernel = [&](bool broken) {
    return [&, broken](host_context& ctx) {
      float x = 1.0f;
      if (broken && ctx.lane() == 3) {
        PAGODA_AT(other, ctx.sync());
      } else {
        x = PAGODA_AT(line, ctx.shfl_xor(x, 1));
      }
      if (!broken) ctx.sync();
    };
  };
  expect_fault(kernel(true), line, 0, {"deadlock", "62 at shfl_xor divergence_test.cpp:", "2 at sync", "thread 3, 35"});
  const std::string message = fault_of(kernel(true))->what();
  CHECK(message.find("sync divergence_test.cpp:" + std::to_string(other)) != std::string::npos);
  expect_clean(kernel(false));
}

TEST_CASE("a warp that never comes to the barrier is a deadlock") {
  int line = 0;
  int spare = 0;
  const auto kernel = [&](bool broken) {
    return [&, broken](host_context& ctx) {
      // The second warp waits for its lane 31 while that one waits for the block.
      if (broken && ctx.warp() == 1 && ctx.lane() != 31) PAGODA_AT(spare, ctx.sync_warp());
      PAGODA_AT(line, ctx.sync());
    };
  };
  expect_fault(kernel(true), line, 0, {"deadlock", "33 at sync ", "31 at sync_warp"});
  expect_clean(kernel(false));
}

TEST_CASE("lanes of one warp meet at two different shuffles") {
  int first = 0;
  int second = 0;
  const auto kernel = [&](bool broken) {
    return [&, broken](host_context& ctx) {
      const float x = 1.0f;
      if (broken && ctx.lane() % 2 == 1) {
        PAGODA_AT(second, ctx.shfl_xor(x, 1));
      } else {
        PAGODA_AT(first, ctx.shfl_xor(x, 1));
      }
    };
  };
  // In a random schedule either of the two lines may come second.
  const auto found = fault_of(kernel(true));
  REQUIRE(found.has_value());
  CHECK(found->line() == second);
  CHECK(found->thread() == 1);
  const std::string message = found->what();
  CHECK(message.find("divergent warp: shfl_xor here, while lanes 0x00000001 wait at shfl_xor divergence_test.cpp:" +
                     std::to_string(first)) != std::string::npos);
  expect_clean(kernel(false));
}

TEST_CASE("lanes of one warp meet at a shuffle and a ballot on one line") {
  int line = 0;
  const auto kernel = [&](bool broken) {
    return [&, broken](host_context& ctx) {
      const bool odd = ctx.lane() % 2 == 1;
      PAGODA_AT(line, broken && odd ? static_cast<float>(ctx.ballot(odd)) : ctx.shfl(1.0f, 0));
    };
  };
  expect_fault(kernel(true), line, 1, {"divergent warp: "});
  expect_clean(kernel(false));
}

TEST_CASE("sync reached on two lines") {
  int first = 0;
  int second = 0;
  const auto kernel = [&](bool broken) {
    return [&, broken](host_context& ctx) {
      if (broken && ctx.warp() == 1) {
        PAGODA_AT(second, ctx.sync());
      } else {
        PAGODA_AT(first, ctx.sync());
      }
    };
  };
  const auto found = fault_of(kernel(true));
  REQUIRE(found.has_value());
  CHECK(found->line() == second);
  CHECK(found->thread() == 32);
  const std::string message = found->what();
  CHECK(message.find("while 32 threads wait at sync() divergence_test.cpp:" + std::to_string(first)) !=
        std::string::npos);
  expect_clean(kernel(false));
}

TEST_CASE("a thread leaves while others wait at sync, or before they come") {
  int line = 0;
  for (const int leaver : {0, 5, 63}) {
    CAPTURE(leaver);
    const auto kernel = [&](bool broken) {
      return [&, broken](host_context& ctx) {
        if (broken && ctx.thread_index() == leaver) return;
        PAGODA_AT(line, ctx.sync());
      };
    };
    // Thread 0 leaves first, so that the next one to come finds out.
    expect_fault(kernel(true), line, leaver == 0 ? 1 : leaver, {" the kernel", "sync() "});
    expect_clean(kernel(false));
  }
}

TEST_CASE("a lane leaves while its warp waits for it") {
  int line = 0;
  for (const int leaver : {0, 17}) {
    CAPTURE(leaver);
    const auto kernel = [&](bool broken) {
      return [&, broken](host_context& ctx) {
        if (broken && ctx.lane() == leaver) return;
        PAGODA_AT(line, ctx.sync_warp());
      };
    };
    expect_fault(kernel(true), line, leaver == 0 ? 1 : leaver, {"sync_warp"});
    expect_clean(kernel(false));
  }
}

TEST_CASE("a mask that misses its caller") {
  int line = 0;
  const auto kernel = [&](bool broken) {
    return [&, broken](host_context& ctx) {
      const std::uint32_t mask = broken ? 0x0000ffffu : 0xffff0000u;
      if (ctx.lane() >= 16) PAGODA_AT(line, ctx.ballot(true, mask));
    };
  };
  expect_fault(kernel(true), line, 16, {"the mask 0x0000ffff lacks the calling lane "});
  expect_clean(kernel(false));
}

TEST_CASE("masks that overlap") {
  int line = 0;
  const auto kernel = [&](bool broken) {
    return [&, broken](host_context& ctx) {
      const std::uint32_t low = broken ? 0x0001ffffu : 0x0000ffffu;
      const std::uint32_t mask = ctx.lane() < 16 ? low : 0xffff0000u;
      PAGODA_AT(line, ctx.ballot(true, mask));
    };
  };
  for (const int threads : {32, 64}) {
    expect_fault(kernel(true), line, 16, {"the thread leaves the kernel while lanes", "with the mask 0x0001ffff"},
                 {.threads = threads});
    expect_clean(kernel(false), {.threads = threads});
  }
  // Each waits for one that waits for another.
  const auto circle = [&](bool broken) {
    return [&, broken](host_context& ctx) {
      const std::uint32_t masks[] = {0x3u, 0x6u, 0x5u};
      const std::uint32_t mask = broken ? masks[ctx.lane() % 3] : 0x7u;
      if (ctx.lane() < 3) PAGODA_AT(line, ctx.ballot(true, mask));
    };
  };
  expect_fault(circle(true), line, 0,
               {"deadlock", "1 at ballot divergence_test.cpp:", "with the mask 0x00000003", "with the mask 0x00000006",
                "with the mask 0x00000005"},
               {.threads = 32});
  expect_clean(circle(false));
}

TEST_CASE("a mask that names a lane which has left") {
  int line = 0;
  const auto kernel = [&](bool broken) {
    return [&, broken](host_context& ctx) {
      if (ctx.lane() < 4) return;
      const std::uint32_t mask = broken ? 0xfffffff8u : 0xfffffff0u;
      PAGODA_AT(line, ctx.ballot(true, mask));
    };
  };
  expect_clean(kernel(false));
  const auto found = fault_of(kernel(true));
  REQUIRE(found.has_value());
  CHECK(found->line() == line);
  CHECK(found->thread() == 4);
  CHECK(std::string(found->what()).find("names lane 3, which has left the kernel: keep it until here") !=
        std::string::npos);
}

TEST_CASE("a shuffle from a lane outside the mask") {
  int line = 0;
  const auto kernel = [&](bool broken) {
    return [&, broken](host_context& ctx) {
      if (ctx.lane() < 16) PAGODA_AT(line, ctx.shfl_xor(1.0f, broken ? 16 : 8, 0x0000ffffu));
    };
  };
  expect_fault(kernel(true), line, 0,
               {"shfl_xor: lane ", "which is not in the mask, so the value is undefined: put it into the mask"});
  expect_clean(kernel(false));
}

TEST_CASE("a matrix instruction without all lanes of the warp") {
  int line = 0;
  const auto kernel = [&](int which, bool broken) {
    return [&, which, broken](host_context& ctx) {
      auto bytes = shared<std::byte>(ctx, 1024);
      ctx.sts(bytes, ctx.thread_index() * 16, pagoda::simt::words4{});
      ctx.sync();
      float d[4] = {};
      const std::uint32_t a[4] = {};
      const std::uint32_t b[2] = {};
      std::uint32_t r[4];
      std::uint32_t r2[2];
      if (broken && ctx.lane() == 9) return;
      if (which == 0) PAGODA_AT(line, ctx.mma_m16n8k16(pagoda::half{}, d, a, b));
      if (which == 1) PAGODA_AT(line, ctx.mma_m16n8k16(pagoda::bfloat16{}, d, a, b));
      if (which == 2) PAGODA_AT(line, ctx.ldmatrix_x4(r, bytes, ctx.lane() * 16));
      if (which == 3) PAGODA_AT(line, ctx.ldmatrix_x2_trans(r2, bytes, ctx.lane() * 16));
      if (which == 4) PAGODA_AT(line, ctx.movmatrix_trans(1u));
    };
  };
  const char* names[] = {"mma_m16n8k16 of half", "mma_m16n8k16 of bfloat16", "ldmatrix_x4", "ldmatrix_x2_trans",
                         "movmatrix_trans"};
  for (int which = 0; which < 5; ++which) {
    CAPTURE(which);
    // The last warp to reach the barrier goes on first.
    expect_fault(kernel(which, true), line, 41, {names[which], " the kernel"});
    expect_clean(kernel(which, false));
  }
}

}  // namespace
