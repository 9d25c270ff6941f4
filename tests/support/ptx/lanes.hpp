// SPDX-License-Identifier: Apache-2.0
/// @file Instructions that each lane executes by itself: how a register is read and written as a type, and how a
/// function of such values becomes an opcode.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <type_traits>

#include <pagoda/dtype.hpp>

#include "ptx/opcode_table.hpp"
#include "ptx/warp.hpp"

namespace pagoda_test::ptx {

// The types of operands that are not integers. Each reads and writes `value`.
struct predicate {
  using value = bool;
};
struct f32 {
  using value = float;
};
struct f32_ftz {
  using value = float;
};  ///< subnormals become zeros of their sign, coming and going
struct f32_sat {
  using value = float;
};  ///< written into [0, 1], NaN as 0
struct f32_ftz_sat {
  using value = float;
};
struct f64 {
  using value = double;
};
struct f16 {
  using value = float;
};  ///< computed in float and rounded once
struct bf16 {
  using value = float;
};

/// CUDA's arithmetic gives one NaN.
inline constexpr std::uint32_t nan_bits = 0x7fffffffu;

inline float flush(float x) {
  const std::uint32_t bits = __builtin_bit_cast(std::uint32_t, x);
  return (bits & 0x7f800000u) == 0 ? __builtin_bit_cast(float, bits & 0x80000000u) : x;
}
inline float saturate(float x) {
  return x >= 1.0f ? 1.0f : x > 0.0f ? x : 0.0f;
}
inline std::uint64_t float_bits(float x) {
  return x != x ? nan_bits : __builtin_bit_cast(std::uint32_t, x);
}

/// How a type lies in a register: reading takes the low bits, writing clears the others.
template <class T>
struct register_as {
  static_assert(std::is_integral_v<T>);
  using value = T;
  static T read(std::uint64_t bits) { return static_cast<T>(bits); }
  static std::uint64_t write(T x) { return static_cast<std::make_unsigned_t<T>>(x); }
};
template <>
struct register_as<predicate> : predicate {
  static bool read(std::uint64_t bits) { return (bits & 1) != 0; }
  static std::uint64_t write(bool x) { return x ? 1 : 0; }
};
template <>
struct register_as<f32> : f32 {
  static float read(std::uint64_t bits) { return __builtin_bit_cast(float, static_cast<std::uint32_t>(bits)); }
  static std::uint64_t write(float x) { return float_bits(x); }
};
template <>
struct register_as<f32_ftz> : f32 {
  static float read(std::uint64_t bits) { return flush(register_as<f32>::read(bits)); }
  static std::uint64_t write(float x) { return float_bits(flush(x)); }
};
template <>
struct register_as<f32_sat> : f32 {
  static float read(std::uint64_t bits) { return register_as<f32>::read(bits); }
  static std::uint64_t write(float x) { return float_bits(saturate(x)); }
};
template <>
struct register_as<f32_ftz_sat> : f32 {
  static float read(std::uint64_t bits) { return register_as<f32_ftz>::read(bits); }
  static std::uint64_t write(float x) { return float_bits(saturate(flush(x))); }
};
template <>
struct register_as<f64> : f64 {
  static double read(std::uint64_t bits) { return __builtin_bit_cast(double, bits); }
  static std::uint64_t write(double x) { return x != x ? 0x7fffffffffffffffu : __builtin_bit_cast(std::uint64_t, x); }
};
template <>
struct register_as<f16> : f16 {
  static float read(std::uint64_t bits) { return pagoda::to_float(pagoda::half{static_cast<std::uint16_t>(bits)}); }
  static std::uint64_t write(float x) { return pagoda::from_float<pagoda::half>(x).bits; }
};
template <>
struct register_as<bf16> : bf16 {
  static float read(std::uint64_t bits) { return pagoda::to_float(pagoda::bfloat16{static_cast<std::uint16_t>(bits)}); }
  static std::uint64_t write(float x) { return pagoda::from_float<pagoda::bfloat16>(x).bits; }
};

/// Result = function(arguments), lane by lane.
template <class Function, class Result, class... Arguments>
void execute_lanes(warp& w, const instruction& i, std::uint32_t lanes) {
  std::uint64_t* result = w.row(i, 0);
  [&]<std::size_t... Is>(std::index_sequence<Is...>) {
    const std::uint64_t* rows[sizeof...(Arguments) + 1] = {w.row(i, Is + 1)..., nullptr};
    for_each_lane(lanes, [&](int lane) {
      result[lane] = register_as<Result>::write(static_cast<typename register_as<Result>::value>(
          Function{}(register_as<Arguments>::read(rows[Is][lane])...)));
    });
  }
  (std::index_sequence_for<Arguments...>{});
}

/// Adds an opcode of one result and as many arguments as the types say: on<f32, f32, f32>(table, "add.f32", f).
/// The function is a lambda without captures.
template <class Result, class... Arguments, class Function>
void on(opcode_table& table, const std::string& mnemonic, Function) {
  table.add(mnemonic + "/1" + std::string(sizeof...(Arguments), '1'), {&execute_lanes<Function, Result, Arguments...>});
}

}  // namespace pagoda_test::ptx
