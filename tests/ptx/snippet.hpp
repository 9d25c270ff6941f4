// SPDX-License-Identifier: Apache-2.0
/// @file Runs a few lines of PTX.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ptx/machine.hpp"

namespace pagoda_test {

/// An entry `snippet` around a body. The body finds: %d0 and %d1, two global buffers; %r0, the thread; %r1, the block's
/// dynamic shared memory; %r3, the thread's own word in it; %d3, the thread's own word in the second buffer.
inline std::string snippet_text(std::string_view body) {
  return R"(.version 9.0
.target sm_80
.address_size 64
.extern .shared .align 16 .b8 dynamic[];
.visible .entry snippet(.param .u64 from, .param .u64 to)
{
.reg .pred %p<8>;
.reg .b16 %h<16>;
.reg .b32 %r<64>;
.reg .f32 %f<16>;
.reg .b64 %d<32>;
ld.param.u64 %d0, [from];
ld.param.u64 %d1, [to];
mov.u32 %r0, %tid.x;
mov.u32 %r1, dynamic;
shl.b32 %r2, %r0, 2;
add.u32 %r3, %r1, %r2;
mul.wide.u32 %d2, %r0, 4;
add.s64 %d3, %d1, %d2;
)" + std::string(body) +
         "\nret;\n}\n";
}

/// What the snippet's first body line is numbered.
inline constexpr int first_body_line = 20;

/// The launch of a snippet. `from` holds the words 100, 101, ...; `to` what the snippet wrote.
struct snippet_run {
  int threads = 64;
  std::int64_t shared_bytes = 1024;
  bool limit_ranges = true;
  ptx::machine_options options = {};

  std::vector<std::uint32_t> from = numbers();
  std::vector<std::uint32_t> to = std::vector<std::uint32_t>(1024);

  void run(std::string_view body) {
    const ptx::module module = ptx::module::parse(snippet_text(body), "snippet.ptx");
    if (limit_ranges) options.ranges = {ptx::global_range(from), ptx::global_range(to)};
    const void* arguments[2] = {from.data(), to.data()};
    ptx::machine(module.entry("snippet"), options)
        .launch({1, 1, 1}, threads, shared_bytes, std::as_bytes(std::span(arguments)));
  }

  /// The fault that the body ends in, if any.
  std::optional<ptx::fault> fault_of(std::string_view body) {
    try {
      run(body);
      return std::nullopt;
    } catch (const ptx::fault& caught) {
      return caught;
    }
  }

 private:
  static std::vector<std::uint32_t> numbers() {
    std::vector<std::uint32_t> result(1024);
    for (std::uint32_t i = 0; i < 1024; ++i) result[i] = 100 + i;
    return result;
  }
};

}  // namespace pagoda_test
