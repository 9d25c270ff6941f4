// SPDX-License-Identifier: Apache-2.0
// Bank conflicts and sectors of patterns whose counts are known.
#include <cstddef>
#include <cstdint>
#include <string>

#include <doctest/doctest.h>

#include "faults.hpp"

namespace {

using namespace simt_tests;
using pagoda::simt::access_count;
using pagoda::simt::access_kind;
using pagoda::simt::shared;
using pagoda::simt::words4;

constexpr host_options counting{.check_uninitialized = false, .count_accesses = true};

void check_count(const access_count& count, std::uint64_t requests, std::uint64_t actual, std::uint64_t ideal) {
  CHECK(count.requests == requests);
  CHECK(count.actual == actual);
  CHECK(count.ideal == ideal);
}

TEST_CASE("4-byte shared accesses with strides") {
  struct pattern {
    int stride;
    std::uint64_t wavefronts;
  };
  for (const pattern one : {pattern{1, 1}, {2, 2}, {3, 1}, {4, 4}, {8, 8}, {32, 32}, {33, 1}, {0, 1}}) {
    CAPTURE(one.stride);
    host_machine machine(counting);
    int line = 0;
    machine.launch("strided", {1, 1, 1}, 64, 4 * 33 * 32, [&](host_context& ctx) {
      auto s = shared<float>(ctx, 33 * 32);
      for (int i = 0; i < 3; ++i) [[maybe_unused]] const float x = PAGODA_AT(line, s[one.stride * ctx.lane()]);
    });
    check_count(machine.accesses().at(line, access_kind::shared_load), 6, 6 * one.wavefronts, 6);
    check_count(machine.accesses().at(line, access_kind::shared_store), 0, 0, 0);
    CHECK(machine.accesses().lines.size() == 1);
    CHECK(machine.accesses().lines[0].file.find("access_counter_test.cpp") != std::string::npos);
  }
}

TEST_CASE("8- and 16-byte shared accesses are served in phases") {
  host_machine machine(counting);
  int dense16 = 0;
  int strided16 = 0;
  int rows128 = 0;
  int dense8 = 0;
  int strided8 = 0;
  int half_warp = 0;
  machine.launch("wide", {1, 1, 1}, 32, 32 * 128, [&](host_context& ctx) {
    auto s = shared<std::byte>(ctx, 32 * 128);
    words4 x16{};
    std::uint64_t x8 = 0;
    const int l = ctx.lane();
    PAGODA_AT(dense16, ctx.sts(s, l * 16, x16));
    ctx.sync();
    PAGODA_AT(strided16, ctx.lds(s, l * 32, x16));
    PAGODA_AT(rows128, ctx.lds(s, l * 128, x16));
    PAGODA_AT(dense8, ctx.lds(s, l * 8, x8));
    PAGODA_AT(strided8, ctx.lds(s, l * 16, x8));
    if (l < 16) PAGODA_AT(half_warp, ctx.lds(s, l * 16, x16));
  });
  const auto& report = machine.accesses();
  check_count(report.at(dense16, access_kind::shared_store), 1, 4, 4);
  check_count(report.at(strided16, access_kind::shared_load), 1, 8, 4);
  check_count(report.at(rows128, access_kind::shared_load), 1, 32, 4);
  check_count(report.at(dense8, access_kind::shared_load), 1, 2, 2);
  check_count(report.at(strided8, access_kind::shared_load), 1, 4, 2);
  check_count(report.at(half_warp, access_kind::shared_load), 1, 2, 2);
}

TEST_CASE("ldmatrix rows side by side, and on top of each other") {
  host_machine machine(counting);
  int dense = 0;
  int stacked = 0;
  int swizzled = 0;
  machine.launch("rows", {1, 1, 1}, 32, 32 * 128, [&](host_context& ctx) {
    auto s = shared<std::byte>(ctx, 32 * 128);
    std::uint32_t r[4];
    const int l = ctx.lane();
    PAGODA_AT(dense, ctx.ldmatrix_x4(r, s, l * 16));
    PAGODA_AT(stacked, ctx.ldmatrix_x4(r, s, l * 128));
    PAGODA_AT(swizzled, ctx.ldmatrix_x4(r, s, l * 128 + l % 8 * 16));
  });
  check_count(machine.accesses().at(dense, access_kind::shared_load), 1, 4, 4);
  check_count(machine.accesses().at(stacked, access_kind::shared_load), 1, 32, 4);
  check_count(machine.accesses().at(swizzled, access_kind::shared_load), 1, 4, 4);
}

TEST_CASE("sectors of global accesses") {
  alignas(64) static float from[32 * 32] = {};
  alignas(64) static float to[32] = {};
  host_machine machine(counting);
  int dense = 0;
  int strided = 0;
  int same = 0;
  int wide = 0;
  int wide_rows = 0;
  int shifted = 0;
  int stored = 0;
  int copied = 0;
  int skipped = 0;
  machine.launch("global", {2, 1, 1}, 32, 512, [&](host_context& ctx) {
    auto s = shared<std::byte>(ctx, 512);
    const int l = ctx.lane();
    PAGODA_AT(dense, ctx.ldg(from + l));
    PAGODA_AT(strided, ctx.ldg(from + 32 * l));
    PAGODA_AT(same, ctx.load(from));
    PAGODA_AT(wide, ctx.ldg(reinterpret_cast<const words4*>(from) + l));
    PAGODA_AT(wide_rows, ctx.ldg(reinterpret_cast<const words4*>(from) + 8 * l));
    PAGODA_AT(shifted, ctx.ldg(from + l + 1));
    PAGODA_AT(stored, ctx.store(to + l, 1.0f));
    PAGODA_AT(copied, ctx.cp_async16(s, l * 16, from + 4 * l));
    ctx.cp_async_commit();
    ctx.cp_async_wait_group(pagoda::simt::in_flight<0>);
    ctx.sync_warp();
    PAGODA_AT(skipped, ctx.cp_async4(s, l * 4, nullptr, false));
  });
  const auto& report = machine.accesses();
  check_count(report.at(dense, access_kind::global_load), 2, 8, 8);
  check_count(report.at(strided, access_kind::global_load), 2, 64, 8);
  check_count(report.at(same, access_kind::global_load), 2, 2, 2);
  check_count(report.at(wide, access_kind::global_load), 2, 32, 32);
  check_count(report.at(wide_rows, access_kind::global_load), 2, 64, 32);
  check_count(report.at(shifted, access_kind::global_load), 2, 10, 8);
  check_count(report.at(stored, access_kind::global_store), 2, 8, 8);
  check_count(report.at(copied, access_kind::global_load), 2, 32, 32);
  check_count(report.at(copied, access_kind::shared_store), 2, 8, 8);
  check_count(report.at(skipped, access_kind::global_load), 0, 0, 0);
  check_count(report.at(skipped, access_kind::shared_store), 2, 2, 2);
}

TEST_CASE("a meeting of the lanes ends a request, whatever the schedule") {
  for (std::uint32_t seed = 0; seed < 4; ++seed) {
    host_options options = counting;
    options.schedule_seed = seed;
    host_machine machine(options);
    int line = 0;
    machine.launch("halves", {1, 1, 1}, 64, 4 * 64, [&](host_context& ctx) {
      auto s = shared<float>(ctx, 64);
      // Even lanes read in the first pass, odd ones in the second: two requests of 16 lanes, not one of 32.
      for (int pass = 0; pass < 2; ++pass) {
        if (ctx.lane() % 2 == pass) [[maybe_unused]]
          const float x = PAGODA_AT(line, s[ctx.lane()]);
        ctx.ballot(true);
      }
    });
    check_count(machine.accesses().at(line, access_kind::shared_load), 4, 4, 4);
  }
}

TEST_CASE("counts are of the last launch, and only on request") {
  host_machine machine(counting);
  const auto one = [](host_context& ctx) { shared<float>(ctx, 32)[ctx.lane()] = 1.0f; };
  machine.launch("a", {1, 1, 1}, 32, 128, one);
  machine.launch("b", {1, 1, 1}, 32, 128, one);
  REQUIRE(machine.accesses().lines.size() == 1);
  CHECK(machine.accesses().lines[0].requests == 1);
  host_machine silent;
  silent.launch("a", {1, 1, 1}, 32, 128, one);
  CHECK(silent.accesses().lines.empty());
}

}  // namespace
