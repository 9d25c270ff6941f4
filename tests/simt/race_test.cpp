// SPDX-License-Identifier: Apache-2.0
// Races on shared memory: what each barrier orders, what orders nothing, and the grain of a byte.
#include <cstddef>
#include <cstdint>
#include <string>

#include <doctest/doctest.h>

#include "faults.hpp"

namespace {

using namespace simt_tests;
using pagoda::simt::shared;
using pagoda::simt::words4;

enum class between { nothing, sync, sync_warp, shuffle, ballot, mma, movmatrix };

void pass(host_context& ctx, between what) {
  float d[4] = {};
  const std::uint32_t a[4] = {};
  const std::uint32_t b[2] = {};
  if (what == between::sync) ctx.sync();
  if (what == between::sync_warp) ctx.sync_warp();
  if (what == between::shuffle) ctx.shfl_xor(1.0f, 1);
  if (what == between::ballot) ctx.ballot(true);
  if (what == between::mma) ctx.mma_m16n8k16(pagoda::half{}, d, a, b);
  if (what == between::movmatrix) ctx.movmatrix_trans(1u);
}

constexpr between no_barriers[] = {between::nothing, between::shuffle, between::ballot, between::mma,
                                   between::movmatrix};

/// Writes own element, passes something, then reads or writes the element of another lane or warp.
struct two_accesses {
  bool first_writes;
  bool second_writes;
  int distance;  // 32: of the other warp
  int& line;

  auto operator()(between what) const {
    return [self = *this, what](host_context& ctx) {
      auto s = shared<int>(ctx, 64);
      const int own = ctx.thread_index();
      s[own] = 1;
      ctx.sync();
      if (self.first_writes) {
        s[own] = 2;
      } else {
        [[maybe_unused]] const int x = s[own];
      }
      pass(ctx, what);
      const int other = own ^ self.distance;
      if (self.second_writes) {
        PAGODA_AT(self.line, s[other] = 3);
      } else {
        [[maybe_unused]] const int x = PAGODA_AT(self.line, s[other]);
      }
    };
  }
};

TEST_CASE("write then read, read then write, and write then write by another thread") {
  int line = 0;
  for (const int distance : {1, 32}) {
    CAPTURE(distance);
    for (int kind = 1; kind < 4; ++kind) {
      const bool first = kind % 2 == 1;
      const bool second = kind >= 2;
      CAPTURE(first);
      CAPTURE(second);
      const two_accesses kernel{first, second, distance, line};
      for (const between what : no_barriers) {
        CAPTURE(static_cast<int>(what));
        const auto found = fault_of(kernel(what));
        REQUIRE(found.has_value());
        const std::string message = found->what();
        CAPTURE(message);
        CHECK(message.find("race: ") != std::string::npos);
        CHECK(message.find("no barrier between them") != std::string::npos);
        // Within a warp that met in between, the second access comes second.
        if (what != between::nothing && distance == 1) {
          CHECK(found->line() == line);
          CHECK(message.find(second ? "write of shared byte" : "read of shared byte") != std::string::npos);
          CHECK(message.find(first ? "after a write by thread" : "after a read by thread") != std::string::npos);
        }
        for (std::uint32_t seed = 1; seed < 6; ++seed) {
          CHECK(fault_of(kernel(what), {.options = {.schedule_seed = seed}}).has_value());
        }
        CHECK(!fault_of(kernel(what), {.options = {.check_races = false}}).has_value());
      }
      expect_clean(kernel(between::sync));
      if (distance == 1) {
        expect_clean(kernel(between::sync_warp));
      } else {
        CHECK(fault_of(kernel(between::sync_warp)).has_value());
      }
    }
  }
}

TEST_CASE("two reads are no race") {
  int line = 0;
  for (const int distance : {1, 32}) expect_clean(two_accesses{false, false, distance, line}(between::nothing));
}

TEST_CASE("a fault names the other thread and its line") {
  int first = 0;
  int second = 0;
  const auto found = fault_of([&](host_context& ctx) {
    auto s = shared<int>(ctx, 1);
    if (ctx.thread_index() == 7) PAGODA_AT(first, s[0] = 1);
    ctx.sync_warp();
    if (ctx.thread_index() == 45) PAGODA_AT(second, s[0] = 2);
  });
  REQUIRE(found.has_value());
  CHECK(found->thread() == 45);
  CHECK(found->line() == second);
  CHECK(std::string(found->what())
            .find("write of shared byte 0 after a write by thread 7 at line " + std::to_string(first)) !=
        std::string::npos);
}

TEST_CASE("one reader among several is enough, whoever read last") {
  // The last reader is the writer itself: the others must not be forgotten.
  for (const int readers : {2, 32, 64}) {
    CAPTURE(readers);
    const auto kernel = [&](bool broken) {
      return [readers, broken](host_context& ctx) {
        auto s = shared<int>(ctx, 1);
        if (ctx.thread_index() == 0) s[0] = 1;
        ctx.sync();
        if (ctx.thread_index() < readers) [[maybe_unused]]
          const int x = s[0];
        if (!broken) ctx.sync();
        if (ctx.thread_index() == readers - 1) s[0] = 2;
      };
    };
    CHECK(fault_of(kernel(true)).has_value());
    expect_clean(kernel(false));
  }
  // Both warps read; the writer's own warp has passed a barrier of its own since, the other one has not.
  for (const int writer : {0, 63}) {
    CAPTURE(writer);
    const auto kernel = [&](bool broken) {
      return [writer, broken](host_context& ctx) {
        auto s = shared<int>(ctx, 1);
        if (ctx.thread_index() == 0) s[0] = 1;
        ctx.sync();
        for (int i = 0; i < 2; ++i) {
          [[maybe_unused]] const int x = s[0];
          ctx.sync_warp();
        }
        if (!broken) ctx.sync();
        if (ctx.thread_index() == writer) s[0] = 2;
      };
    };
    // Where the writer's warp runs first, the other one's read comes after the write: a race all the same.
    for (std::uint32_t seed = 0; seed < 6; ++seed)
      CHECK(fault_of(kernel(true), {.options = {.schedule_seed = seed}}).has_value());
    expect_clean(kernel(false));
  }
}

TEST_CASE("the two halves of a word, and its bytes, have owners of their own") {
  expect_clean([](host_context& ctx) {
    auto halves = shared<std::uint16_t>(ctx, 64);
    auto bytes = shared<std::uint8_t>(ctx, 64);
    halves[ctx.thread_index()] = static_cast<std::uint16_t>(ctx.thread_index());
    bytes[ctx.thread_index()] = static_cast<std::uint8_t>(ctx.thread_index());
    const std::uint16_t half = halves[ctx.thread_index()];
    const std::uint8_t byte = bytes[ctx.thread_index()];
    if (half != ctx.thread_index() || byte != ctx.thread_index()) throw std::runtime_error("wrong value");
  });
  // A wide read covers all of them.
  int line = 0;
  const auto wide = [&](bool broken) {
    return [&, broken](host_context& ctx) {
      auto bytes = shared<std::byte>(ctx, 64);
      ctx.sts(bytes, ctx.thread_index(), std::uint8_t{1});
      ctx.sync();
      if (ctx.thread_index() == 63) ctx.sts(bytes, 63, std::uint8_t{2});
      if (!broken) ctx.sync();
      words4 value{};
      if (ctx.thread_index() == 0 || ctx.thread_index() == 63) PAGODA_AT(line, ctx.lds(bytes, 48, value));
    };
  };
  const auto found = fault_of(wide(true), {.options = {.schedule_seed = 0}});
  REQUIRE(found.has_value());
  CHECK(std::string(found->what()).find("shared byte 63") != std::string::npos);
  expect_clean(wide(false));
}

TEST_CASE("ldmatrix reads for the whole warp") {
  int line = 0;
  // Rows that the address's own lane wrote go to other lanes: they need a barrier too.
  const auto before = [&](bool broken) {
    return [&, broken](host_context& ctx) {
      auto bytes = shared<std::byte>(ctx, 1024);
      ctx.sts(bytes, ctx.thread_index() * 16, words4{});
      if (!broken) ctx.sync_warp();
      std::uint32_t r[4];
      PAGODA_AT(line, ctx.ldmatrix_x4(r, bytes, ctx.thread_index() * 16));
    };
  };
  expect_fault(before(true), line, 0, {"race: read of shared byte ", "after a write by thread "});
  expect_clean(before(false));
  // And they may be written again only after one.
  const auto after = [&](bool broken) {
    return [&, broken](host_context& ctx) {
      auto bytes = shared<std::byte>(ctx, 1024);
      ctx.sts(bytes, ctx.thread_index() * 16, words4{});
      ctx.sync_warp();
      std::uint32_t r[4];
      ctx.ldmatrix_x4(r, bytes, ctx.thread_index() * 16);
      if (!broken) ctx.sync_warp();
      PAGODA_AT(line, ctx.sts(bytes, ctx.thread_index() * 16, words4{}));
    };
  };
  expect_fault(after(true), line, 30, {"race: write of shared byte ", "after a read by thread "});
  expect_clean(after(false));
  // ldmatrix itself is no barrier.
  const auto through = [&](bool broken) {
    return [&, broken](host_context& ctx) {
      auto bytes = shared<std::byte>(ctx, 1024);
      auto s = shared<int>(ctx, 64);
      ctx.sts(bytes, ctx.thread_index() * 16, words4{});
      ctx.sync();
      s[ctx.thread_index()] = 1;
      std::uint32_t r[2];
      ctx.ldmatrix_x2_trans(r, bytes, ctx.lane() * 16);
      if (!broken) ctx.sync_warp();
      [[maybe_unused]] const int x = PAGODA_AT(line, s[ctx.thread_index() ^ 1]);
    };
  };
  expect_fault(through(true), line, 62, {"race: read of"}, {.shared_bytes = 2048});
  expect_clean(through(false), {.shared_bytes = 2048});
}

TEST_CASE("x2 forms ignore the offsets of lanes 16 to 31") {
  expect_clean([](host_context& ctx) {
    auto bytes = shared<std::byte>(ctx, 256);
    if (ctx.thread_index() < 16) ctx.sts(bytes, ctx.thread_index() * 16, words4{});
    ctx.sync();
    std::uint32_t r[2];
    ctx.ldmatrix_x2(r, bytes, ctx.lane() < 16 ? ctx.lane() * 16 : 7777);
    ctx.ldmatrix_x2_trans(r, bytes, ctx.lane() < 16 ? ctx.lane() * 16 : -1);
  });
}

}  // namespace
