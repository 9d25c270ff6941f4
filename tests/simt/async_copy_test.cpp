// SPDX-License-Identifier: Apache-2.0
// cp.async: when data is there, for whom, and what it is a fault to do before.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "faults.hpp"

namespace {

using namespace simt_tests;
using pagoda::simt::in_flight;
using pagoda::simt::shared;
using pagoda::simt::words4;

/// Element i is 7 * i + 1.
const std::uint32_t* aligned_source() {
  alignas(16) static std::uint32_t data[512];
  for (std::uint32_t i = 0; i < 512; ++i) data[i] = i * 7 + 1;
  return data;
}

TEST_CASE("copies of both sizes land, with zero fill, and an invalid one reads nothing") {
  const std::uint32_t* from = aligned_source();
  for (std::uint32_t seed = 0; seed < 4; ++seed) {
    host_machine machine({.schedule_seed = seed});
    std::vector<std::uint32_t> seen(320, 9);
    machine.launch("copies", {1, 1, 1}, 64, 2048, [&](host_context& ctx) {
      auto bytes = shared<std::byte>(ctx, 1280);
      const int t = ctx.thread_index();
      const bool valid = t % 3 != 0;
      ctx.cp_async16(bytes, t * 16, valid ? from + 4 * t : nullptr, valid);
      ctx.cp_async4(bytes, 1024 + 4 * t, valid ? from + t : nullptr, valid);
      ctx.cp_async_commit();
      ctx.cp_async_wait_group(in_flight<0>);
      ctx.sync();
      for (int i = t; i < 320; i += 64) ctx.lds(bytes, 4 * i, seen[static_cast<std::size_t>(i)]);
    });
    for (std::uint32_t i = 0; i < 320; ++i) {
      const std::uint32_t element = i < 256 ? i : i - 256;
      const std::uint32_t owner = i < 256 ? i / 4 : i - 256;
      CHECK(seen[i] == (owner % 3 != 0 ? element * 7 + 1 : 0));
    }
  }
}

TEST_CASE("reading what was not awaited is a fault, by the copying thread and by others") {
  int line = 0;
  int copied = 0;
  // What is missing: 0 nothing, 1 commit, 2 wait, 3 a wait that covers the group, 4 the barrier after the wait.
  const auto kernel = [&](int missing, int reader, int which_read) {
    return [&, missing, reader, which_read](host_context& ctx) {
      auto bytes = shared<std::byte>(ctx, 1024);
      const std::uint32_t* from = aligned_source();
      ctx.sync();  // so that the copies land in another interval than the block's first
      PAGODA_AT(copied, ctx.cp_async16(bytes, ctx.thread_index() * 16, from + 4 * ctx.thread_index()));
      if (missing != 1) ctx.cp_async_commit();
      if (missing == 3) {
        ctx.cp_async_wait_group(in_flight<1>);
      } else if (missing != 2) {
        ctx.cp_async_wait_group(in_flight<0>);
      }
      if (missing != 4) ctx.sync();
      const int at = (ctx.thread_index() ^ reader) * 16;
      words4 wide{};
      std::uint8_t byte = 0;
      std::uint32_t r[4];
      if (which_read == 0) PAGODA_AT(line, ctx.lds(bytes, at, wide));
      if (which_read == 1) PAGODA_AT(line, ctx.lds(bytes, at + 15, byte));
      if (which_read == 2) [[maybe_unused]]
        const std::byte x = PAGODA_AT(line, bytes[at + 3]);
      if (which_read == 3) PAGODA_AT(line, ctx.ldmatrix_x4(r, bytes, at));
    };
  };
  for (int read = 0; read < 4; ++read) {
    CAPTURE(read);
    for (const int reader : {0, 1, 32}) {
      CAPTURE(reader);
      for (int missing = 1; missing <= 3; ++missing) {
        CAPTURE(missing);
        const int thread = 31;  // the last to come to the second sync() goes on first
        expect_fault(kernel(missing, reader, read), line, thread,
                     {"whose cp.async by thread ", "has not been awaited"});
        const std::string message = fault_of(kernel(missing, reader, read))->what();
        CHECK(message.find(" at line " + std::to_string(copied)) != std::string::npos);
      }
      expect_clean(kernel(0, reader, read));
      // After its own wait a thread sees its own copies, and no others; ldmatrix reads for others.
      if (reader == 0 && read != 3) {
        expect_clean(kernel(4, reader, read));
      } else {
        CHECK(fault_of(kernel(4, reader, read)).has_value());
      }
    }
  }
}

TEST_CASE("sync_warp shows landed copies to the warp, not to the block") {
  const auto kernel = [&](int distance) {
    return [distance](host_context& ctx) {
      auto bytes = shared<std::byte>(ctx, 1024);
      ctx.sync();
      ctx.cp_async16(bytes, ctx.thread_index() * 16, aligned_source() + 4 * ctx.thread_index());
      ctx.cp_async_commit();
      ctx.cp_async_wait_group(in_flight<0>);
      ctx.sync_warp();
      words4 wide{};
      ctx.lds(bytes, (ctx.thread_index() ^ distance) * 16, wide);
    };
  };
  expect_clean(kernel(5));
  for (std::uint32_t seed = 0; seed < 4; ++seed)
    CHECK(fault_of(kernel(37), {.options = {.schedule_seed = seed}}).has_value());
}

TEST_CASE("a wait leaves the newest groups in flight") {
  // Three groups; after a wait that leaves `left`, group `g` may be read exactly if g + left < 3.
  int line = 0;
  const auto kernel = [&](int left, int group) {
    return [&, left, group](host_context& ctx) {
      auto bytes = shared<std::byte>(ctx, 3 * 1024);
      const int t = ctx.thread_index() * 16;
      for (int g = 0; g < 3; ++g) {
        ctx.cp_async16(bytes, g * 1024 + t, aligned_source() + g * 8);
        ctx.cp_async_commit();
      }
      if (left == 0) ctx.cp_async_wait_group(in_flight<0>);
      if (left == 1) ctx.cp_async_wait_group(in_flight<1>);
      if (left == 2) ctx.cp_async_wait_group(in_flight<2>);
      if (left == 3) ctx.cp_async_wait_group(in_flight<3>);
      words4 wide{};
      PAGODA_AT(line, ctx.lds(bytes, group * 1024 + t, wide));
      if (wide.w[0] != static_cast<std::uint32_t>(group * 56 + 1)) throw std::runtime_error("wrong data");
    };
  };
  for (int left = 0; left < 4; ++left) {
    for (int group = 0; group < 3; ++group) {
      CAPTURE(left);
      CAPTURE(group);
      if (group + left < 3) {
        expect_clean(kernel(left, group), {.shared_bytes = 3072});
      } else {
        expect_fault(kernel(left, group), line, 0, {"has not been awaited"}, {.shared_bytes = 3072});
      }
    }
  }
}

TEST_CASE("an empty group counts as a group") {
  expect_clean([](host_context& ctx) {
    auto bytes = shared<std::byte>(ctx, 1024);
    const int t = ctx.thread_index() * 16;
    ctx.cp_async16(bytes, t, aligned_source());
    ctx.cp_async_commit();
    ctx.cp_async_commit();
    ctx.cp_async_wait_group(in_flight<1>);
    words4 wide{};
    ctx.lds(bytes, t, wide);
    if (wide.w[0] != 1) throw std::runtime_error("wrong data");
  });
}

TEST_CASE("writing over a copy in flight is a fault, of whatever kind the write is") {
  int line = 0;
  const auto kernel = [&](int which, bool broken) {
    return [&, which, broken](host_context& ctx) {
      auto bytes = shared<std::byte>(ctx, 1024);
      const int t = ctx.thread_index() * 16;
      ctx.cp_async16(bytes, t, aligned_source());
      ctx.cp_async_commit();
      if (!broken) ctx.cp_async_wait_group(in_flight<0>);
      if (which == 0) PAGODA_AT(line, ctx.sts(bytes, t + 12, std::uint32_t{1}));
      if (which == 1) PAGODA_AT(line, bytes[t] = std::byte{1});
      if (which == 2) PAGODA_AT(line, ctx.cp_async4(bytes, t + 8, aligned_source()));
      if (which == 3) PAGODA_AT(line, ctx.cp_async16(bytes, t, nullptr, false));
    };
  };
  for (int which = 0; which < 4; ++which) {
    CAPTURE(which);
    expect_fault(kernel(which, true), line, 0,
                 {which < 2 ? "write of shared byte" : "cp.async to", "has not been awaited"});
    expect_clean(kernel(which, false));
  }
}

TEST_CASE("a copy over bytes that others still read is a race") {
  int line = 0;
  const auto kernel = [&](bool broken) {
    return [&, broken](host_context& ctx) {
      auto bytes = shared<std::byte>(ctx, 1024);
      const int t = ctx.thread_index();
      ctx.sts(bytes, t * 16, words4{});
      ctx.sync();
      words4 wide{};
      ctx.lds(bytes, (t ^ 1) * 16, wide);
      ctx.ballot(true);
      if (!broken) ctx.sync_warp();
      PAGODA_AT(line, ctx.cp_async16(bytes, t * 16, aligned_source()));
    };
  };
  expect_fault(kernel(true), line, 62, {"race: cp.async to shared byte ", "after a read by thread "});
  expect_clean(kernel(false));
}

TEST_CASE("without records, data still lands at the wait and not before") {
  host_machine machine({.check_races = false});
  std::uint32_t before = 0;
  std::uint32_t after = 0;
  machine.launch("late", {1, 1, 1}, 32, 512, [&](host_context& ctx) {
    auto bytes = shared<std::byte>(ctx, 512);
    ctx.cp_async16(bytes, ctx.lane() * 16, aligned_source());
    ctx.cp_async_commit();
    if (ctx.lane() == 0) ctx.lds(bytes, 0, before);
    ctx.cp_async_wait_group(in_flight<0>);
    if (ctx.lane() == 0) ctx.lds(bytes, 0, after);
  });
  CHECK(before == 0xffffffffu);
  CHECK(after == 1);
}

}  // namespace
