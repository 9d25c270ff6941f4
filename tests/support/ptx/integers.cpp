// SPDX-License-Identifier: Apache-2.0
// Integer arithmetic. Sums and products are taken modulo the width, in unsigned 64 bits.
#include <algorithm>
#include <limits>

#include "ptx/lanes.hpp"

namespace pagoda_test::ptx {
namespace {

/// The integer types of PTX by size: 16, 32 and 64 bits.
template <class T>
struct wider;
template <>
struct wider<std::int16_t> {
  using type = std::int32_t;
};
template <>
struct wider<std::uint16_t> {
  using type = std::uint32_t;
};
template <>
struct wider<std::int32_t> {
  using type = std::int64_t;
};
template <>
struct wider<std::uint32_t> {
  using type = std::uint64_t;
};
template <>
struct wider<std::int64_t> {
  __extension__ typedef __int128 type;
};
template <>
struct wider<std::uint64_t> {
  __extension__ typedef unsigned __int128 type;
};
template <class T>
using wider_t = typename wider<T>::type;

std::uint64_t bits(auto x) {
  return static_cast<std::uint64_t>(x);
}

/// Opcodes that are the same for all integers of a type T that PTX calls `type`.
template <class T>
void add_common(opcode_table& t, const std::string& type) {
  on<T, T, T>(t, "add." + type, [](T a, T b) { return static_cast<T>(bits(a) + bits(b)); });
  on<T, T, T>(t, "sub." + type, [](T a, T b) { return static_cast<T>(bits(a) - bits(b)); });
  on<T, T, T>(t, "mul.lo." + type, [](T a, T b) { return static_cast<T>(bits(a) * bits(b)); });
  on<T, T, T, T>(t, "mad.lo." + type, [](T a, T b, T c) { return static_cast<T>(bits(a) * bits(b) + bits(c)); });
  on<T, T, T>(t, "mul.hi." + type, [](T a, T b) {
    return static_cast<T>(static_cast<wider_t<T>>(static_cast<wider_t<T>>(a) * b) >> (8 * sizeof(T)));
  });
  on<T, T, T, T>(t, "mad.hi." + type, [](T a, T b, T c) {
    const auto high = static_cast<T>(static_cast<wider_t<T>>(static_cast<wider_t<T>>(a) * b) >> (8 * sizeof(T)));
    return static_cast<T>(bits(high) + bits(c));
  });
  // Division by zero gives all ones, as the hardware does; the least integer over -1 is itself.
  on<T, T, T>(t, "div." + type, [](T a, T b) {
    if (b == 0) return static_cast<T>(-1);
    if (std::is_signed_v<T> && b == static_cast<T>(-1)) return static_cast<T>(0 - bits(a));
    return static_cast<T>(a / b);
  });
  on<T, T, T>(t, "rem." + type, [](T a, T b) {
    if (b == 0) return a;
    if (std::is_signed_v<T> && b == static_cast<T>(-1)) return T{0};
    return static_cast<T>(a % b);
  });
  on<T, T, T>(t, "min." + type, [](T a, T b) { return std::min(a, b); });
  on<T, T, T>(t, "max." + type, [](T a, T b) { return std::max(a, b); });
  on<T, T, std::uint32_t>(t, "shr." + type, [](T a, std::uint32_t n) {
    constexpr std::uint32_t width = 8 * sizeof(T);
    if (n < width) return static_cast<T>(a >> n);
    return static_cast<T>(a < 0 ? -1 : 0);
  });
}

template <class T>
void add_signed(opcode_table& t, const std::string& type) {
  on<T, T>(t, "neg." + type, [](T a) { return static_cast<T>(0 - bits(a)); });
  on<T, T>(t, "abs." + type, [](T a) { return a < 0 ? static_cast<T>(0 - bits(a)) : a; });
}

/// Products of twice the width.
template <class T>
void add_wide(opcode_table& t, const std::string& type) {
  using wide = wider_t<T>;
  on<wide, T, T>(t, "mul.wide." + type, [](T a, T b) { return static_cast<wide>(bits(a) * bits(b)); });
  on<wide, T, T, wide>(t, "mad.wide." + type,
                       [](T a, T b, wide c) { return static_cast<wide>(bits(a) * bits(b) + bits(c)); });
}

std::uint32_t absolute_difference(std::int64_t a, std::int64_t b) {
  return static_cast<std::uint32_t>(a > b ? a - b : b - a);
}

void add_32_bit(opcode_table& t) {
  using s32 = std::int32_t;
  using u32 = std::uint32_t;
  on<s32, s32, s32>(t, "add.sat.s32", [](s32 a, s32 b) {
    return std::clamp<std::int64_t>(std::int64_t{a} + b, std::numeric_limits<s32>::min(),
                                    std::numeric_limits<s32>::max());
  });
  on<s32, s32, s32>(t, "sub.sat.s32", [](s32 a, s32 b) {
    return std::clamp<std::int64_t>(std::int64_t{a} - b, std::numeric_limits<s32>::min(),
                                    std::numeric_limits<s32>::max());
  });
  on<u32, u32, u32, u32>(t, "sad.u32", [](u32 a, u32 b, u32 c) { return c + absolute_difference(a, b); });
  on<u32, s32, s32, u32>(t, "sad.s32", [](s32 a, s32 b, u32 c) { return c + absolute_difference(a, b); });
  // Only the low 24 bits of each factor count.
  on<u32, u32, u32>(t, "mul24.lo.u32", [](u32 a, u32 b) { return (a & 0xffffffu) * (b & 0xffffffu); });
  // Dot products of four bytes, the sums modulo 2^32.
  on<u32, u32, u32, u32>(t, "dp4a.s32.s32", [](u32 a, u32 b, u32 c) {
    for (int n = 0; n < 4; ++n) {
      c += static_cast<u32>(static_cast<std::int8_t>(a >> (8 * n)) * static_cast<std::int8_t>(b >> (8 * n)));
    }
    return c;
  });
  on<u32, u32, u32, u32>(t, "dp4a.u32.u32", [](u32 a, u32 b, u32 c) {
    for (int n = 0; n < 4; ++n) c += ((a >> (8 * n)) & 255u) * ((b >> (8 * n)) & 255u);
    return c;
  });
}

}  // namespace

void add_integer_opcodes(opcode_table& table) {
  add_common<std::int16_t>(table, "s16");
  add_common<std::uint16_t>(table, "u16");
  add_common<std::int32_t>(table, "s32");
  add_common<std::uint32_t>(table, "u32");
  add_common<std::int64_t>(table, "s64");
  add_common<std::uint64_t>(table, "u64");
  add_signed<std::int16_t>(table, "s16");
  add_signed<std::int32_t>(table, "s32");
  add_signed<std::int64_t>(table, "s64");
  add_wide<std::int16_t>(table, "s16");
  add_wide<std::uint16_t>(table, "u16");
  add_wide<std::int32_t>(table, "s32");
  add_wide<std::uint32_t>(table, "u32");
  add_32_bit(table);
}

}  // namespace pagoda_test::ptx
