// SPDX-License-Identifier: Apache-2.0
// Shuffles, votes and reductions: they wait for the lanes of their mask and order no memory.
#include <algorithm>
#include <array>

#include "ptx/lanes.hpp"

namespace pagoda_test::ptx {
namespace {

enum class shuffle { up, down, bfly, idx };

/// d, [p,] a, b, c, mask: lane l gets a of lane j, if j lies in the segment that c describes, else its own.
template <shuffle Mode, bool HasPredicate>
void execute_shuffle(warp& w, const instruction& i, std::uint32_t lanes) {
  constexpr std::size_t first = HasPredicate ? 2 : 1;
  std::array<std::uint64_t, 32> values;
  std::copy_n(w.row(i, first), 32, values.begin());
  const std::uint64_t* masks = w.row(i, first + 3);
  for_each_lane(lanes, [&](int lane) {
    const auto b = static_cast<std::uint32_t>(w.row(i, first + 1)[lane]) & 31u;
    const auto c = static_cast<std::uint32_t>(w.row(i, first + 2)[lane]);
    const std::uint32_t segment = c >> 8 & 31u;
    const int lowest = static_cast<int>(static_cast<std::uint32_t>(lane) & segment);
    const int bound = lowest | static_cast<int>(c & 31u & ~segment);
    int from = 0;
    if constexpr (Mode == shuffle::up) from = lane - static_cast<int>(b);
    if constexpr (Mode == shuffle::down) from = lane + static_cast<int>(b);
    if constexpr (Mode == shuffle::bfly) from = lane ^ static_cast<int>(b);
    if constexpr (Mode == shuffle::idx) from = lowest | static_cast<int>(b & ~segment);
    const bool inside = Mode == shuffle::up ? from >= bound : from <= bound;
    if (!inside) from = lane;
    if ((masks[lane] >> from & 1) == 0) {
      w.fail(i, lane, "reads lane " + std::to_string(from) + ", which the member mask does not name");
    }
    w.row(i, 0)[lane] = values[static_cast<std::size_t>(from)] & 0xffffffffu;
    if constexpr (HasPredicate) w.row(i, 1)[lane] = inside;
  });
}

template <shuffle Mode>
void add_shuffle(opcode_table& t, const std::string& mode) {
  t.add("shfl.sync." + mode + ".b32/11111", {&execute_shuffle<Mode, false>, flow::collective});
  t.add("shfl.sync." + mode + ".b32/p1111", {&execute_shuffle<Mode, true>, flow::collective});
}

/// The lanes of a lane's own mask for which a predicate holds.
std::uint32_t ballot(warp& w, const instruction& i, int lane) {
  const auto mask = static_cast<std::uint32_t>(w.row(i, 2)[lane]);
  std::uint32_t result = 0;
  for_each_lane(mask, [&](int other) { result |= static_cast<std::uint32_t>(w.row(i, 1)[other] & 1) << other; });
  return result;
}

template <class Function>
void add_vote(opcode_table& t, const std::string& key, Function) {
  t.add(key, {[](warp& w, const instruction& i, std::uint32_t lanes) {
                std::array<std::uint64_t, 32> results{};  // the result may be the register that votes
                for_each_lane(lanes, [&](int lane) {
                  results[static_cast<std::size_t>(lane)] =
                      Function{}(ballot(w, i, lane), static_cast<std::uint32_t>(w.row(i, 2)[lane]));
                });
                for_each_lane(lanes, [&](int lane) { w.row(i, 0)[lane] = results[static_cast<std::size_t>(lane)]; });
              },
              flow::collective});
}

template <class T, class Function>
void add_reduction(opcode_table& t, const std::string& operation, Function) {
  t.add("redux.sync." + operation + "/111",
        {[](warp& w, const instruction& i, std::uint32_t lanes) {
           std::array<std::uint64_t, 32> results{};
           for_each_lane(lanes, [&](int lane) {
             T sum = register_as<T>::read(w.row(i, 1)[lane]);
             const auto others = static_cast<std::uint32_t>(w.row(i, 2)[lane]) & ~(1u << lane);
             for_each_lane(others, [&](int other) { sum = Function{}(sum, register_as<T>::read(w.row(i, 1)[other])); });
             results[static_cast<std::size_t>(lane)] = register_as<T>::write(sum);
           });
           for_each_lane(lanes, [&](int lane) { w.row(i, 0)[lane] = results[static_cast<std::size_t>(lane)]; });
         },
         flow::collective});
}

void execute_activemask(warp& w, const instruction& i, std::uint32_t lanes) {
  for_each_lane(lanes, [&](int lane) { w.row(i, 0)[lane] = lanes; });
}

}  // namespace

void add_warp_opcodes(opcode_table& table) {
  using u32 = std::uint32_t;
  using s32 = std::int32_t;
  add_shuffle<shuffle::up>(table, "up");
  add_shuffle<shuffle::down>(table, "down");
  add_shuffle<shuffle::bfly>(table, "bfly");
  add_shuffle<shuffle::idx>(table, "idx");
  add_vote(table, "vote.sync.ballot.b32/111", [](u32 votes, u32) { return votes; });
  add_vote(table, "vote.sync.any.pred/111", [](u32 votes, u32) { return votes != 0; });
  add_vote(table, "vote.sync.all.pred/111", [](u32 votes, u32 mask) { return votes == mask; });
  add_vote(table, "vote.sync.uni.pred/111", [](u32 votes, u32 mask) { return votes == mask || votes == 0; });
  add_reduction<u32>(table, "add.u32", [](u32 a, u32 b) { return a + b; });
  add_reduction<u32>(table, "add.s32", [](u32 a, u32 b) { return a + b; });
  add_reduction<u32>(table, "min.u32", [](u32 a, u32 b) { return std::min(a, b); });
  add_reduction<u32>(table, "max.u32", [](u32 a, u32 b) { return std::max(a, b); });
  add_reduction<s32>(table, "min.s32", [](s32 a, s32 b) { return std::min(a, b); });
  add_reduction<s32>(table, "max.s32", [](s32 a, s32 b) { return std::max(a, b); });
  add_reduction<u32>(table, "and.b32", [](u32 a, u32 b) { return a & b; });
  add_reduction<u32>(table, "or.b32", [](u32 a, u32 b) { return a | b; });
  add_reduction<u32>(table, "xor.b32", [](u32 a, u32 b) { return a ^ b; });
  table.add("activemask.b32/1", {&execute_activemask});
}

}  // namespace pagoda_test::ptx
