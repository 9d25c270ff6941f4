// SPDX-License-Identifier: Apache-2.0
// Accesses outside their array, beside their alignment, or beyond the launch's shared memory; and their right twins.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "faults.hpp"

namespace {

using namespace simt_tests;
using pagoda::simt::shared;
using pagoda::simt::words4;

TEST_CASE("an index outside a shared array") {
  int line = 0;
  for (const int shift : {1, -1}) {
    CAPTURE(shift);
    const auto write = [&](bool broken) {
      return [&, broken](host_context& ctx) {
        auto s = shared<float>(ctx, 64);
        PAGODA_AT(line, s[ctx.thread_index() + (broken ? shift : 0)] = 1.0f);
      };
    };
    expect_fault(write(true), line, shift > 0 ? 63 : 0,
                 {shift > 0 ? "shared index 64 is outside the array's [0, 64): take more elements, or guard the index"
                            : "shared index -1 is outside"});
    expect_clean(write(false));
  }
  const auto read = [&](bool broken) {
    return [&, broken](host_context& ctx) {
      auto s = shared<std::uint8_t>(ctx, 64);
      auto next = shared<std::uint8_t>(ctx, 64);
      s[ctx.thread_index()] = std::uint8_t{1};
      next[ctx.thread_index()] = std::uint8_t{2};
      ctx.sync();
      [[maybe_unused]] const std::uint8_t x = PAGODA_AT(line, s[broken ? 64 : 63]);
    };
  };
  expect_fault(read(true), line, 63, {"shared index 64"});
  expect_clean(read(false));
}

TEST_CASE("byte offsets outside an array of bytes") {
  int line = 0;
  static const words4 global[1] = {};
  const auto kernel = [&](int which, int offset) {
    return [&, which, offset](host_context& ctx) {
      auto bytes = shared<std::byte>(ctx, 512);
      for (int i = ctx.thread_index() * 16; i < 512; i += 1024) ctx.sts(bytes, i, words4{});
      ctx.sync();
      if (ctx.warp() != 0) return;
      words4 wide{};
      std::uint16_t narrow = 0;
      std::uint32_t r[4];
      if (which == 0 && ctx.lane() == 5) PAGODA_AT(line, ctx.lds(bytes, offset, wide));
      if (which == 1 && ctx.lane() == 5) PAGODA_AT(line, ctx.sts(bytes, offset, wide));
      if (which == 2 && ctx.lane() == 5) PAGODA_AT(line, ctx.lds(bytes, offset, narrow));
      if (which == 3 && ctx.lane() == 5) PAGODA_AT(line, ctx.cp_async16(bytes, offset, global));
      if (which == 4 && ctx.lane() == 5) PAGODA_AT(line, ctx.cp_async4(bytes, offset, global));
      if (which == 5) PAGODA_AT(line, ctx.ldmatrix_x4(r, bytes, ctx.lane() == 5 ? offset : 0));
    };
  };
  const int last[] = {496, 496, 510, 496, 508, 496};
  const int step[] = {16, 16, 2, 16, 4, 16};
  for (int which = 0; which < 6; ++which) {
    CAPTURE(which);
    expect_fault(kernel(which, last[which] + step[which]), line, 5, {"at offset 512 is outside the array's 512 bytes"});
    expect_fault(kernel(which, -step[which]), line, 5, {"at offset -"});
    expect_clean(kernel(which, last[which]));
  }
}

TEST_CASE("misaligned shared accesses, at every size") {
  int line = 0;
  static const words4 global[1] = {};
  const auto kernel = [&](int which, int offset) {
    return [&, which, offset](host_context& ctx) {
      auto bytes = shared<std::byte>(ctx, 512);
      if (ctx.thread_index() < 32) ctx.sts(bytes, ctx.thread_index() * 16, words4{});
      ctx.sync();
      if (ctx.warp() != 0) return;
      std::uint16_t x2 = 0;
      std::uint32_t x4 = 0;
      std::uint64_t x8 = 0;
      words4 x16{};
      std::uint32_t r[2];
      const bool one = ctx.lane() == 7;
      if (which == 0 && one) PAGODA_AT(line, ctx.lds(bytes, offset, x2));
      if (which == 1 && one) PAGODA_AT(line, ctx.lds(bytes, offset, x4));
      if (which == 2 && one) PAGODA_AT(line, ctx.lds(bytes, offset, x8));
      if (which == 3 && one) PAGODA_AT(line, ctx.lds(bytes, offset, x16));
      if (which == 4 && one) PAGODA_AT(line, ctx.sts(bytes, offset, x2));
      if (which == 5 && one) PAGODA_AT(line, ctx.sts(bytes, offset, x4));
      if (which == 6 && one) PAGODA_AT(line, ctx.sts(bytes, offset, x8));
      if (which == 7 && one) PAGODA_AT(line, ctx.sts(bytes, offset, x16));
      if (which == 8 && one) PAGODA_AT(line, ctx.cp_async4(bytes, offset, global));
      if (which == 9 && one) PAGODA_AT(line, ctx.cp_async16(bytes, offset, global));
      if (which == 10) PAGODA_AT(line, ctx.ldmatrix_x2(r, bytes, one ? offset : 0));
    };
  };
  const int size[] = {2, 4, 8, 16, 2, 4, 8, 16, 4, 16, 16};
  for (int which = 0; which < 11; ++which) {
    CAPTURE(which);
    for (const int shift : {1, size[which] / 2}) {
      const std::string text =
          "offset " + std::to_string(32 + shift) + " is not a multiple of " + std::to_string(size[which]);
      expect_fault(kernel(which, 32 + shift), line, 7, {"misaligned", text.c_str()});
    }
    expect_clean(kernel(which, 32));
  }
}

TEST_CASE("misaligned and null global accesses, at every size") {
  int line = 0;
  alignas(16) static std::byte memory[64] = {};
  const auto kernel = [&](int which, std::byte* p) {
    return [&, which, p](host_context& ctx) {
      auto bytes = shared<std::byte>(ctx, 16);
      if (ctx.thread_index() != 40) return;
      auto* p2 = reinterpret_cast<std::uint16_t*>(p);
      auto* p4 = reinterpret_cast<std::uint32_t*>(p);
      auto* p8 = reinterpret_cast<std::uint64_t*>(p);
      auto* p16 = reinterpret_cast<words4*>(p);
      if (which == 0) PAGODA_AT(line, ctx.ldg(p2));
      if (which == 1) PAGODA_AT(line, ctx.ldg(p4));
      if (which == 2) PAGODA_AT(line, ctx.load(p8));
      if (which == 3) PAGODA_AT(line, ctx.ldg(p16));
      if (which == 4) PAGODA_AT(line, ctx.store(p2, std::uint16_t{1}));
      if (which == 5) PAGODA_AT(line, ctx.store(p4, 1u));
      if (which == 6) PAGODA_AT(line, ctx.store(p8, 1u));
      if (which == 7) PAGODA_AT(line, ctx.store(p16, words4{}));
      if (which == 8) PAGODA_AT(line, ctx.cp_async4(bytes, 0, p));
      if (which == 9) PAGODA_AT(line, ctx.cp_async16(bytes, 0, p));
      if (which == 10) PAGODA_AT(line, ctx.atomic_cas(p4, 0u, 1u));
    };
  };
  const int size[] = {2, 4, 8, 16, 2, 4, 8, 16, 4, 16, 4};
  for (int which = 0; which < 11; ++which) {
    CAPTURE(which);
    expect_fault(kernel(which, memory + 16 + size[which] / 2), line, 40,
                 {"misaligned global access", "past a multiple of", ": align it, or take a narrower access"});
    expect_fault(kernel(which, nullptr), line, 40, {"through a null pointer: pass the kernel memory of the device"});
    expect_clean(kernel(which, memory + 16));
  }
}

TEST_CASE("arrays beyond the launch's shared memory") {
  int line = 0;
  const auto kernel = [&](int count) {
    return [&, count](host_context& ctx) {
      auto first = shared<std::uint8_t>(ctx, 1);  // takes 16 bytes
      auto second = PAGODA_AT(line, shared<float>(ctx, count));
      if (ctx.thread_index() == 0) first[0] = std::uint8_t{1};
      second[ctx.thread_index()] = 1.0f;
    };
  };
  expect_clean(kernel(252), {.shared_bytes = 16 + 252 * 4});
  const auto found = fault_of(kernel(253), {.shared_bytes = 16 + 252 * 4});
  REQUIRE(found.has_value());
  CHECK(std::string(found->what())
            .find("of 1012 bytes at offset 16 does not fit the 1024 bytes of the launch: give the "
                  "launch at least 1028") != std::string::npos);
  CHECK(fault_of(kernel(-1)).has_value());
  const auto member = [&](int count) {
    return [&, count](host_context& ctx) { PAGODA_AT(line, ctx.shared<float>(count)); };
  };
  expect_fault(member(257), line, 0, {"does not fit the 1024 bytes"});
  expect_clean(member(256));
}

TEST_CASE("arrays that differ between threads") {
  int line = 0;
  const auto kernel = [&](bool broken) {
    return [&, broken](host_context& ctx) {
      PAGODA_AT(line, ctx.shared<float>(broken && ctx.thread_index() == 3 ? 8 : 4));
    };
  };
  const auto found = fault_of(kernel(true));
  REQUIRE(found.has_value());
  CHECK(found->line() == line);
  CHECK(found->thread() == 3);
  expect_clean(kernel(false));
}

TEST_CASE("shared bytes that nobody wrote") {
  int line = 0;
  const auto kernel = [&](int written) {
    return [&, written](host_context& ctx) {
      auto bytes = shared<std::byte>(ctx, 64);
      auto unread = shared<float>(ctx, 1);
      (void)unread;
      if (ctx.thread_index() < written) bytes[ctx.thread_index()] = std::byte{1};
      ctx.sync();
      words4 wide{};
      PAGODA_AT(line, ctx.lds(bytes, 48, wide));
    };
  };
  expect_fault(kernel(63), line, 63, {"read of shared byte 63, which no thread of the block has written"});
  expect_clean(kernel(64));
  expect_clean(kernel(63), {.options = {.check_uninitialized = false}});

  // What an earlier block wrote is not there for the next one.
  host_machine machine;
  const auto second = [&](host_context& ctx) {
    auto s = shared<float>(ctx, 64);
    if (ctx.block_index().x == 0) s[ctx.thread_index()] = 1.0f;
    ctx.sync();
    if (ctx.block_index().x == 1) [[maybe_unused]]
      const float x = PAGODA_AT(line, s[ctx.thread_index()]);
  };
  try {
    machine.launch("second", {2, 1, 1}, 64, 256, second);
    FAIL("the second block read what the first one wrote");
  } catch (const fault& found) {
    CHECK(found.block().x == 1);
    CHECK(found.line() == line);
  }
}

TEST_CASE("unchecked shared memory is not a number until it is written") {
  host_machine machine({.check_races = false});
  std::vector<float> seen(32, 0.0f);
  machine.launch("poison", {1, 1, 1}, 32, 128, [&](host_context& ctx) {
    auto s = shared<float>(ctx, 32);
    seen[static_cast<std::size_t>(ctx.thread_index())] = s[ctx.thread_index()];
  });
  for (const float x : seen) CHECK(x != x);
}

}  // namespace
