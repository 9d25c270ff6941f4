// SPDX-License-Identifier: Apache-2.0
// Logic, shifts and bit fields.
#include <algorithm>
#include <bit>

#include "ptx/lanes.hpp"

namespace pagoda_test::ptx {
namespace {

using u32 = std::uint32_t;

template <class T>
void add_logic(opcode_table& t, const std::string& type) {
  on<T, T, T>(t, "and." + type, [](T a, T b) { return a & b; });
  on<T, T, T>(t, "or." + type, [](T a, T b) { return a | b; });
  on<T, T, T>(t, "xor." + type, [](T a, T b) { return a ^ b; });
  on<T, T>(t, "not." + type, [](T a) { return ~a; });
  on<T, T>(t, "cnot." + type, [](T a) { return a == 0 ? 1 : 0; });
  // Shifts by the width or more leave nothing.
  on<T, T, u32>(t, "shl." + type, [](T a, u32 n) { return n < 8 * sizeof(T) ? static_cast<T>(a << n) : T{0}; });
  on<T, T, u32>(t, "shr." + type, [](T a, u32 n) { return n < 8 * sizeof(T) ? static_cast<T>(a >> n) : T{0}; });
}

template <class T>
T reverse(T a) {
  T result = 0;
  for (unsigned n = 0; n < 8 * sizeof(T); ++n) result = static_cast<T>(result << 1 | (a >> n & 1));
  return result;
}

/// Counting and fields, for 32 and 64 bits.
template <class T>
void add_counts(opcode_table& t, const std::string& width) {
  constexpr u32 bits = 8 * sizeof(T);
  on<u32, T>(t, "popc.b" + width, [](T a) { return std::popcount(a); });
  on<u32, T>(t, "clz.b" + width, [](T a) { return std::countl_zero(a); });
  on<T, T>(t, "brev.b" + width, [](T a) { return reverse(a); });
  on<u32, T>(t, "bfind.u" + width, [](T a) { return a == 0 ? ~0u : bits - 1 - static_cast<u32>(std::countl_zero(a)); });
  on<u32, T>(t, "bfind.shiftamt.u" + width, [](T a) { return a == 0 ? ~0u : static_cast<u32>(std::countl_zero(a)); });
  // A signed number's highest bit is the highest that differs from its sign.
  on<u32, T>(t, "bfind.s" + width, [](T a) {
    const T m = a >> (bits - 1) != 0 ? static_cast<T>(~a) : a;
    return m == 0 ? ~0u : bits - 1 - static_cast<u32>(std::countl_zero(m));
  });
  on<u32, T>(t, "bfind.shiftamt.s" + width, [](T a) {
    const T m = a >> (bits - 1) != 0 ? static_cast<T>(~a) : a;
    return m == 0 ? ~0u : static_cast<u32>(std::countl_zero(m));
  });
  on<T, T, u32, u32>(t, "bfe.u" + width, [](T a, u32 position, u32 length) {
    position &= 255;
    length &= 255;
    if (position >= bits || length == 0) return T{0};
    const T field = a >> position;
    return length >= bits ? field : static_cast<T>(field & ((T{1} << length) - 1));
  });
  // Above the field, and where it leaves the word, stands its sign.
  on<T, T, u32, u32>(t, "bfe.s" + width, [](T a, u32 position, u32 length) {
    position &= 255;
    length &= 255;
    if (length == 0) return T{0};
    const u32 top = std::min(position + length - 1, bits - 1);
    const bool negative = (a >> top & 1) != 0;
    T result = negative ? static_cast<T>(~T{0}) : T{0};
    for (u32 n = 0; n < length && n < bits && position + n < bits; ++n) {
      const T bit = T{1} << n;
      result = (a >> (position + n) & 1) != 0 ? result | bit : result & static_cast<T>(~bit);
    }
    return result;
  });
  on<T, T, T, u32, u32>(t, "bfi.b" + width, [](T a, T b, u32 position, u32 length) {
    position &= 255;
    length &= 255;
    for (u32 n = 0; n < length && position + n < bits; ++n) {
      const T bit = T{1} << (position + n);
      b = (a >> n & 1) != 0 ? b | bit : b & static_cast<T>(~bit);
    }
    return b;
  });
}

/// Bytes 0 to 3 are a's, 4 to 7 b's; each nibble of the selector names one, its highest bit asks for the sign alone.
u32 permute(u32 a, u32 b, u32 selector) {
  const std::uint64_t both = std::uint64_t{b} << 32 | a;
  u32 result = 0;
  for (unsigned n = 0; n < 4; ++n) {
    const u32 choice = selector >> (4 * n) & 15;
    u32 byte = static_cast<u32>(both >> (8 * (choice & 7))) & 255;
    if ((choice & 8) != 0) byte = (byte & 128) != 0 ? 255 : 0;
    result |= byte << (8 * n);
  }
  return result;
}

/// Bit n of the table is the result for the bits (a, b, c) = n.
u32 logic3(u32 a, u32 b, u32 c, u32 lookup) {
  u32 result = 0;
  for (unsigned n = 0; n < 8; ++n) {
    if ((lookup >> n & 1) == 0) continue;
    result |= ((n & 4) != 0 ? a : ~a) & ((n & 2) != 0 ? b : ~b) & ((n & 1) != 0 ? c : ~c);
  }
  return result;
}

u32 funnel_left(u32 low, u32 high, u32 n) {
  return static_cast<u32>((std::uint64_t{high} << 32 | low) << n >> 32);
}
u32 funnel_right(u32 low, u32 high, u32 n) {
  return static_cast<u32>((std::uint64_t{high} << 32 | low) >> n);
}

}  // namespace

void add_bit_opcodes(opcode_table& table) {
  add_logic<std::uint16_t>(table, "b16");
  add_logic<u32>(table, "b32");
  add_logic<std::uint64_t>(table, "b64");
  on<predicate, predicate, predicate>(table, "and.pred", [](bool a, bool b) { return a && b; });
  on<predicate, predicate, predicate>(table, "or.pred", [](bool a, bool b) { return a || b; });
  on<predicate, predicate, predicate>(table, "xor.pred", [](bool a, bool b) { return a != b; });
  on<predicate, predicate>(table, "not.pred", [](bool a) { return !a; });
  add_counts<u32>(table, "32");
  add_counts<std::uint64_t>(table, "64");
  on<u32, u32, u32, u32>(table, "prmt.b32", [](u32 a, u32 b, u32 s) { return permute(a, b, s); });
  on<u32, u32, u32, u32, u32>(table, "lop3.b32", [](u32 a, u32 b, u32 c, u32 l) { return logic3(a, b, c, l); });
  on<u32, u32, u32, u32>(table, "shf.l.wrap.b32", [](u32 a, u32 b, u32 n) { return funnel_left(a, b, n & 31); });
  on<u32, u32, u32, u32>(table, "shf.r.wrap.b32", [](u32 a, u32 b, u32 n) { return funnel_right(a, b, n & 31); });
  on<u32, u32, u32, u32>(table, "shf.l.clamp.b32",
                         [](u32 a, u32 b, u32 n) { return funnel_left(a, b, std::min(n, 32u)); });
  on<u32, u32, u32, u32>(table, "shf.r.clamp.b32",
                         [](u32 a, u32 b, u32 n) { return funnel_right(a, b, std::min(n, 32u)); });
}

}  // namespace pagoda_test::ptx
