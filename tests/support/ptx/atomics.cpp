// SPDX-License-Identifier: Apache-2.0
// Atomics: the lanes of a warp go one after another.
#include <algorithm>
#include <cstring>

#include "ptx/lanes.hpp"

namespace pagoda_test::ptx {
namespace {

/// new = Function(old, operands...); atom writes the old value to a register, red does not.
template <class Function, class T, std::size_t Operands, bool Returns>
void execute_atomic(warp& w, const instruction& i, std::uint32_t lanes) {
  using value = typename register_as<T>::value;
  constexpr std::size_t first = Returns ? 1 : 0;
  for_each_lane(lanes, [&](int lane) {
    const std::uint64_t address = w.row(i, first)[lane] + static_cast<std::uint64_t>(i.offset[0]);
    std::byte* at = resolve(w, i, lane, i.op.memory.space, address, sizeof(value), true, true, true);
    std::uint64_t bits = 0;
    std::memcpy(&bits, at, sizeof(value));
    const value old = register_as<T>::read(bits);
    std::uint64_t result = 0;
    if constexpr (Operands == 2) {
      result = register_as<T>::write(Function{}(old, register_as<T>::read(w.row(i, first + 1)[lane]),
                                                register_as<T>::read(w.row(i, first + 2)[lane])));
    } else {
      result =
          register_as<T>::write(static_cast<value>(Function{}(old, register_as<T>::read(w.row(i, first + 1)[lane]))));
    }
    std::memcpy(at, &result, sizeof(value));
    if constexpr (Returns) w.row(i, 0)[lane] = bits;
  });
}

template <class T, std::size_t Operands, class Function>
void add_atomic(opcode_table& table, const std::string& operation, Function) {
  const std::string arguments(Operands, '1');
  const auto add = [&](const char* name, state_space space) {
    const memory_access access = {space};
    table.add("atom" + std::string(name) + "." + operation + "/1a" + arguments,
              {&execute_atomic<Function, T, Operands, true>, flow::lanes, access});
    table.add("red" + std::string(name) + "." + operation + "/a" + arguments,
              {&execute_atomic<Function, T, Operands, false>, flow::lanes, access});
  };
  add("", state_space::generic);
  add(".global", state_space::global);
  add(".shared", state_space::shared);
}

template <class T>
void add_integer_atomics(opcode_table& table, const std::string& type) {
  add_atomic<T, 1>(table, "add." + type, [](T a, T b) {
    return static_cast<T>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
  });
  add_atomic<T, 1>(table, "min." + type, [](T a, T b) { return std::min(a, b); });
  add_atomic<T, 1>(table, "max." + type, [](T a, T b) { return std::max(a, b); });
}

template <class T>
void add_bit_atomics(opcode_table& table, const std::string& type) {
  add_atomic<T, 2>(table, "cas." + type, [](T old, T expected, T desired) { return old == expected ? desired : old; });
  add_atomic<T, 1>(table, "exch." + type, [](T, T desired) { return desired; });
  add_atomic<T, 1>(table, "and." + type, [](T a, T b) { return a & b; });
  add_atomic<T, 1>(table, "or." + type, [](T a, T b) { return a | b; });
  add_atomic<T, 1>(table, "xor." + type, [](T a, T b) { return a ^ b; });
}

}  // namespace

void add_atomic_opcodes(opcode_table& table) {
  add_integer_atomics<std::uint32_t>(table, "u32");
  add_integer_atomics<std::int32_t>(table, "s32");
  add_integer_atomics<std::uint64_t>(table, "u64");
  add_integer_atomics<std::int64_t>(table, "s64");
  add_bit_atomics<std::uint32_t>(table, "b32");
  add_bit_atomics<std::uint64_t>(table, "b64");
  add_atomic<f32, 1>(table, "add.f32", [](float a, float b) { return a + b; });
}

}  // namespace pagoda_test::ptx
