// SPDX-License-Identifier: Apache-2.0
// Moves between registers, and between the windows of the state spaces.
#include <array>
#include <utility>

#include "ptx/lanes.hpp"

namespace pagoda_test::ptx {
namespace {

/// Many registers to one: the first holds the lowest bits.
template <std::size_t Count, unsigned Bits>
void execute_pack(warp& w, const instruction& i, std::uint32_t lanes) {
  constexpr std::uint64_t mask = (std::uint64_t{1} << Bits) - 1;
  for_each_lane(lanes, [&](int lane) {
    std::uint64_t all = 0;
    for (std::size_t e = 0; e < Count; ++e) all |= (w.row(i, 1 + e)[lane] & mask) << (Bits * e);
    w.row(i, 0)[lane] = all;
  });
}

template <std::size_t Count, unsigned Bits>
void execute_unpack(warp& w, const instruction& i, std::uint32_t lanes) {
  constexpr std::uint64_t mask = (std::uint64_t{1} << Bits) - 1;
  for_each_lane(lanes, [&](int lane) {
    const std::uint64_t all = w.row(i, Count)[lane];
    for (std::size_t e = 0; e < Count; ++e) w.row(i, e)[lane] = (all >> (Bits * e)) & mask;
  });
}

template <std::size_t Count, unsigned Bits>
void add_pack(opcode_table& table, const std::string& mnemonic) {
  const std::string count = std::to_string(Count);
  table.add(mnemonic + "/1" + count, {&execute_pack<Count, Bits>});
  table.add(mnemonic + "/" + count + "1", {&execute_unpack<Count, Bits>});
}

/// Generic address of a shared address, which has 32 bits.
void execute_cvta_shared(warp& w, const instruction& i, std::uint32_t lanes) {
  const std::uint64_t* from = w.row(i, 1);
  for_each_lane(lanes, [&](int lane) { w.row(i, 0)[lane] = (from[lane] & 0xffffffffu) | shared_window; });
}

void execute_cvta_to_shared(warp& w, const instruction& i, std::uint32_t lanes) {
  const std::uint64_t* from = w.row(i, 1);
  for_each_lane(lanes, [&](int lane) {
    if ((from[lane] & window_mask) != shared_window) {
      w.fail(i, lane, "the generic address is not one of shared memory");
    }
    w.row(i, 0)[lane] = from[lane] & 0xffffffffu;
  });
}

void execute_cvta_to_global(warp& w, const instruction& i, std::uint32_t lanes) {
  const std::uint64_t* from = w.row(i, 1);
  for_each_lane(lanes, [&](int lane) {
    if ((from[lane] & window_mask) != 0) w.fail(i, lane, "the generic address is not one of global memory");
    w.row(i, 0)[lane] = from[lane];
  });
}

}  // namespace

void add_move_opcodes(opcode_table& table) {
  const auto copy = [](auto x) { return x; };
  on<std::uint16_t, std::uint16_t>(table, "mov.b16", copy);
  on<std::uint16_t, std::uint16_t>(table, "mov.u16", copy);
  on<std::uint16_t, std::uint16_t>(table, "mov.s16", copy);
  for (const char* type : {"b32", "u32", "s32", "f32"}) {
    on<std::uint32_t, std::uint32_t>(table, std::string("mov.") + type, copy);
  }
  for (const char* type : {"b64", "u64", "s64", "f64"}) {
    on<std::uint64_t, std::uint64_t>(table, std::string("mov.") + type, copy);
  }
  on<predicate, predicate>(table, "mov.pred", copy);
  add_pack<2, 8>(table, "mov.b16");
  add_pack<2, 16>(table, "mov.b32");
  add_pack<4, 8>(table, "mov.b32");
  add_pack<2, 32>(table, "mov.b64");
  add_pack<4, 16>(table, "mov.b64");

  // Global, local and parameter addresses are generic addresses already.
  for (const char* space : {"global", "local", "param", "const"}) {
    on<std::uint64_t, std::uint64_t>(table, std::string("cvta.") + space + ".u64", copy);
  }
  for (const char* space : {"local", "param", "const"}) {
    on<std::uint64_t, std::uint64_t>(table, std::string("cvta.to.") + space + ".u64", copy);
  }
  table.add("cvta.to.global.u64/11", {&execute_cvta_to_global});
  table.add("cvta.shared.u64/11", {&execute_cvta_shared});
  table.add("cvta.to.shared.u64/11", {&execute_cvta_to_shared});
}

}  // namespace pagoda_test::ptx
