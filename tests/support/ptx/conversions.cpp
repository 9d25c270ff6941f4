// SPDX-License-Identifier: Apache-2.0
// cvt: between integers, between integers and floats, between floats.
#include <algorithm>
#include <cmath>
#include <limits>

#include "ptx/lanes.hpp"
#include "ptx/minimum.hpp"

namespace pagoda_test::ptx {
namespace {

/// A list of types and what PTX calls them.
template <class T>
struct named {
  using type = T;
  const char* name;
};
template <class Function>
void for_each_integer(Function f) {
  f(named<std::int8_t>{"s8"});
  f(named<std::uint8_t>{"u8"});
  f(named<std::int16_t>{"s16"});
  f(named<std::uint16_t>{"u16"});
  f(named<std::int32_t>{"s32"});
  f(named<std::uint32_t>{"u32"});
  f(named<std::int64_t>{"s64"});
  f(named<std::uint64_t>{"u64"});
}
template <class Function>
void for_each_float(Function f) {
  f(named<f16>{"f16"});
  f(named<bf16>{"bf16"});
  f(named<f32>{"f32"});
  f(named<f64>{"f64"});
}

/// An integer goes into a register of 32 bits or more with its sign extended, as cvt.s8.s32 does.
template <class To, class From>
std::uint64_t extend(From x) {
  return static_cast<std::uint64_t>(static_cast<std::int64_t>(static_cast<To>(x)));
}

template <class To, class From>
To clamp_integer(From x) {
  using limits = std::numeric_limits<To>;
  if (std::cmp_less(x, limits::min())) return limits::min();
  return std::cmp_greater(x, limits::max()) ? limits::max() : static_cast<To>(x);
}

/// Floats saturate when they become integers, with and without .sat, and a NaN becomes 0.
template <class To>
To clamp_float(double x) {
  using limits = std::numeric_limits<To>;
  if (x != x) return 0;
  if (x <= static_cast<double>(limits::min())) return limits::min();
  // The largest 64-bit integers have no double of their own: one that reaches the next power of two is beyond them.
  if (x >= std::ldexp(1.0, std::numeric_limits<To>::digits)) return limits::max();
  return static_cast<To>(x);
}

/// Rounding to a whole number. nearbyint rounds to even in the default mode.
struct to_nearest {
  static double round(double x) { return std::nearbyint(x); }
};
struct to_zero {
  static double round(double x) { return std::trunc(x); }
};
struct to_minus {
  static double round(double x) { return std::floor(x); }
};
struct to_plus {
  static double round(double x) { return std::ceil(x); }
};

template <class Function>
void for_each_rounding(Function f) {
  f(named<to_nearest>{".rni"});
  f(named<to_zero>{".rzi"});
  f(named<to_minus>{".rmi"});
  f(named<to_plus>{".rpi"});
}

/// One function serves the four roundings to an integer type: the opcode's variant names one.
template <class To, class From>
void execute_to_integer(warp& w, const instruction& i, std::uint32_t lanes) {
  using rounding_function = double (*)(double);
  constexpr rounding_function roundings[] = {&to_nearest::round, &to_zero::round, &to_minus::round, &to_plus::round};
  const rounding_function round = roundings[i.op.variant];
  const std::uint64_t* from = w.row(i, 1);
  std::uint64_t* to = w.row(i, 0);
  for_each_lane(lanes, [&](int lane) {
    to[lane] = extend<To>(clamp_float<To>(round(static_cast<double>(register_as<From>::read(from[lane])))));
  });
}

template <class To, class From>
void add_to_integer(opcode_table& t, const std::string& with, const std::string& types) {
  std::uint8_t variant = 0;
  for (const char* rounding : {".rni", ".rzi", ".rmi", ".rpi"}) {
    const opcode meaning = {&execute_to_integer<To, From>, flow::lanes, {}, variant++};
    t.add("cvt" + std::string(rounding) + with + types + "/11", meaning);
    t.add("cvt" + std::string(rounding) + with + ".sat" + types + "/11", meaning);
  }
}

/// An integer of 64 bits as a float of type To, rounded once: through a float that is rounded to odd.
template <class To, class From>
typename register_as<To>::value from_integer(From x) {
  if constexpr (std::is_same_v<To, f64>) {
    return static_cast<double>(x);
  } else if constexpr (std::is_same_v<To, f32>) {
    return static_cast<float>(x);
  } else {
    const float nearest = static_cast<float>(x);
    if (nearest >= 0x1p63f || nearest <= -0x1p63f || static_cast<From>(nearest) == x) return nearest;
    if ((__builtin_bit_cast(std::uint32_t, nearest) & 1) != 0) return nearest;
    return std::nextafter(nearest, static_cast<From>(nearest) < x ? INFINITY : -INFINITY);
  }
}

void add_integers(opcode_table& t) {
  for_each_integer([&]<class D>(named<D> to) {
    for_each_integer([&]<class S>(named<S> from) {
      const std::string types = std::string(".") + to.name + "." + from.name;
      on<std::uint64_t, S>(t, "cvt" + types, [](S x) { return extend<D>(x); });
      on<std::uint64_t, S>(t, "cvt.sat" + types, [](S x) { return extend<D>(clamp_integer<D>(x)); });
    });
  });
}

void add_integers_and_floats(opcode_table& t) {
  for_each_integer([&]<class I>(named<I> integer) {
    for_each_float([&]<class F>(named<F> real) {
      const std::string types = std::string(".") + integer.name + "." + real.name;
      add_to_integer<I, F>(t, "", types);
      if constexpr (std::is_same_v<F, f32>) add_to_integer<I, f32_ftz>(t, ".ftz", types);
      on<F, I>(t, std::string("cvt.rn.") + real.name + "." + integer.name, [](I x) { return from_integer<F>(x); });
    });
  });
}

/// Narrowing toward zero: the nearest one, and a step back if that went too far.
template <class Element>
float truncated(float x) {
  const float nearest = register_as<Element>::read(register_as<Element>::write(x));
  if (!(std::fabs(nearest) > std::fabs(x))) return nearest;
  return register_as<Element>::read((register_as<Element>::write(x)) - 1);  // the magnitude one code lower
}

template <class T>
void add_small(opcode_table& t, const std::string& type) {
  on<f32, T>(t, "cvt.f32" + type, [](float x) { return x; });
  on<f64, T>(t, "cvt.f64" + type, [](float x) { return static_cast<double>(x); });
  on<T, f32>(t, "cvt.rn" + type + ".f32", [](float x) { return x; });
  on<T, f32_ftz>(t, "cvt.rn.ftz" + type + ".f32", [](float x) { return x; });
  on<T, f32>(t, "cvt.rz" + type + ".f32", [](float x) { return truncated<T>(x); });
  on<T, f32>(t, "cvt.rn.relu" + type + ".f32", [](float x) { return greatest_nan(x, 0.0f); });
  on<T, f32>(t, "cvt.rn.sat" + type + ".f32", [](float x) { return saturate(x); });
  for_each_rounding([&]<class R>(named<R> rounding) {
    on<T, T>(t, std::string("cvt") + rounding.name + type + type,
             [](float x) { return static_cast<float>(R::round(x)); });
  });
  // Two at once: the first source goes into the upper half.
  using u32 = std::uint32_t;
  const auto pair = [](float high, float low) {
    return static_cast<u32>(register_as<T>::write(high)) << 16 | static_cast<u32>(register_as<T>::write(low));
  };
  on<u32, f32, f32>(t, "cvt.rn" + type + "x2.f32", pair);
  on<u32, f32, f32>(t, "cvt.rn.relu" + type + "x2.f32", [](float high, float low) {
    return static_cast<u32>(register_as<T>::write(greatest_nan(high, 0.0f))) << 16 |
           static_cast<u32>(register_as<T>::write(greatest_nan(low, 0.0f)));
  });
}

void add_floats(opcode_table& t) {
  add_small<f16>(t, ".f16");
  add_small<bf16>(t, ".bf16");
  on<f32_ftz, f16>(t, "cvt.ftz.f32.f16", [](float x) { return x; });
  on<bf16, f16>(t, "cvt.rn.bf16.f16", [](float x) { return x; });
  on<f16, bf16>(t, "cvt.rn.f16.bf16", [](float x) { return x; });
  on<f64, f32>(t, "cvt.f64.f32", [](float x) { return static_cast<double>(x); });
  on<f32, f64>(t, "cvt.rn.f32.f64", [](double x) { return static_cast<float>(x); });
  on<f32_sat, f32>(t, "cvt.sat.f32.f32", [](float x) { return x; });
  on<f32_ftz_sat, f32_ftz>(t, "cvt.ftz.sat.f32.f32", [](float x) { return x; });
  on<f32_ftz, f32_ftz>(t, "cvt.ftz.f32.f32", [](float x) { return x; });
  for_each_rounding([&]<class R>(named<R> rounding) {
    const std::string cvt = std::string("cvt") + rounding.name;
    on<f32, f32>(t, cvt + ".f32.f32", [](float x) { return static_cast<float>(R::round(x)); });
    on<f32_ftz, f32_ftz>(t, cvt + ".ftz.f32.f32", [](float x) { return static_cast<float>(R::round(x)); });
    on<f64, f64>(t, cvt + ".f64.f64", [](double x) { return R::round(x); });
  });
}

/// Pairs of 8-bit floats in 16 bits. Narrowing saturates at the largest finite value.
template <class Float8>
void add_float8(opcode_table& t, const std::string& type) {
  using u16 = std::uint16_t;
  using u32 = std::uint32_t;
  const auto wide = [](u16 pair) {
    const auto one = [](unsigned bits) {
      return static_cast<u32>(register_as<f16>::write(pagoda::to_float(Float8{static_cast<std::uint8_t>(bits)})));
    };
    return one(pair & 255u) | one(pair >> 8u) << 16;
  };
  const auto narrow = [](float high, float low) {
    return static_cast<u16>(pagoda::from_float<Float8>(high).bits << 8 | pagoda::from_float<Float8>(low).bits);
  };
  on<u32, u16>(t, "cvt.rn.f16x2." + type, wide);
  on<u16, f32, f32>(t, "cvt.rn.satfinite." + type + ".f32", narrow);
  on<u16, u32>(t, "cvt.rn.satfinite." + type + ".f16x2", [](u32 pair) {
    const auto one = [](u32 bits) { return pagoda::from_float<Float8>(register_as<f16>::read(bits)).bits; };
    return static_cast<u16>(one(pair >> 16) << 8 | one(pair & 0xffffu));
  });
}

}  // namespace

void add_conversion_opcodes(opcode_table& table) {
  add_integers(table);
  add_integers_and_floats(table);
  add_floats(table);
  add_float8<pagoda::float8_e4m3>(table, "e4m3x2");
  add_float8<pagoda::float8_e5m2>(table, "e5m2x2");
}

}  // namespace pagoda_test::ptx
