// SPDX-License-Identifier: Apache-2.0
// Arithmetic of float, double, half and bfloat16. The approximations are the nearest float of the exact value, which
// lies within the hardware's bound.
#include <cfloat>
#include <cmath>

#include "ptx/lanes.hpp"
#include "ptx/minimum.hpp"
#include "ptx/small_fma.hpp"

namespace pagoda_test::ptx {
namespace {

/// Arithmetic on values of class V, read as In and written as Out; `with` stands between operation and type,
/// ".ftz.f32".
template <class V, class Out, class In = Out>
void add_arithmetic(opcode_table& t, const std::string& with) {
  for (const char* rounding : {"", ".rn"}) {
    on<Out, In, In>(t, std::string("add") + rounding + with, [](V a, V b) { return a + b; });
    on<Out, In, In>(t, std::string("sub") + rounding + with, [](V a, V b) { return a - b; });
    on<Out, In, In>(t, std::string("mul") + rounding + with, [](V a, V b) { return a * b; });
  }
}

template <class V, class T>
void add_selection(opcode_table& t, const std::string& with) {
  on<T, T, T>(t, "min" + with, [](V a, V b) { return least(a, b); });
  on<T, T, T>(t, "max" + with, [](V a, V b) { return greatest(a, b); });
}

/// Opcodes of float; In and Out say what happens to subnormals.
template <class T>
void add_float(opcode_table& t, const std::string& with) {
  on<T, T, T>(t, "div.rn" + with, [](float a, float b) { return a / b; });
  on<T, T, T>(t, "div.full" + with, [](float a, float b) { return a / b; });
  on<T, T, T>(t, "div.approx" + with, [](float a, float b) { return a / b; });
  for (const char* rounding : {".rn", ".approx"}) {
    on<T, T>(t, std::string("rcp") + rounding + with, [](float a) { return 1.0f / a; });
    on<T, T>(t, std::string("sqrt") + rounding + with, [](float a) { return std::sqrt(a); });
  }
  on<T, T>(t, "rsqrt.approx" + with,
           [](float a) { return static_cast<float>(1.0 / std::sqrt(static_cast<double>(a))); });
  on<T, T>(t, "ex2.approx" + with, [](float a) { return std::exp2(a); });
  on<T, T>(t, "lg2.approx" + with, [](float a) { return std::log2(a); });
  on<T, T>(t, "sin.approx" + with, [](float a) { return std::sin(a); });
  on<T, T>(t, "cos.approx" + with, [](float a) { return std::cos(a); });
  on<T, T>(t, "neg" + with, [](float a) { return -a; });
  on<T, T>(t, "abs" + with, [](float a) { return std::fabs(a); });
  add_selection<float, T>(t, with);
  const std::string nan_with = with == ".f32" ? ".NaN.f32" : ".ftz.NaN.f32";
  on<T, T, T>(t, "min" + nan_with, [](float a, float b) { return least_nan(a, b); });
  on<T, T, T>(t, "max" + nan_with, [](float a, float b) { return greatest_nan(a, b); });
}

/// A product and sum rounded once toward an infinity or zero, for range reduction in CUDA's own functions.
template <class Choose>
float directed(double exact_product, float c, Choose choose) {
  // The product of two floats is exact in double; the sum's error tells on which side of its float it lies.
  const double sum = exact_product + c;
  const double part = sum - exact_product;
  const double error = (exact_product - (sum - part)) + (c - part);
  const float nearest = static_cast<float>(sum);
  const double above = (static_cast<double>(nearest) - sum) - error;  // > 0: the float is above the value
  return choose(nearest, above, sum);
}
float toward(float x, float limit) {
  return std::nextafter(x, limit);
}

void add_directed(opcode_table& t) {
  const auto down = [](float nearest, double above, double) {
    return above > 0 ? toward(nearest, -INFINITY) : nearest;
  };
  const auto up = [](float nearest, double above, double) { return above < 0 ? toward(nearest, INFINITY) : nearest; };
  const auto zero = [](float nearest, double above, double sum) {
    return (sum > 0 ? above > 0 : above < 0) ? toward(nearest, 0.0f) : nearest;
  };
  const auto add = [&]<class Choose>(const std::string& rounding, Choose) {
    on<f32, f32, f32, f32>(t, "fma" + rounding + ".f32",
                           [](float a, float b, float c) { return directed(double{a} * b, c, Choose{}); });
    on<f32, f32, f32>(t, "add" + rounding + ".f32", [](float a, float b) { return directed(a, b, Choose{}); });
    on<f32, f32, f32>(t, "mul" + rounding + ".f32",
                      [](float a, float b) { return directed(double{a} * b, 0.0f, Choose{}); });
  };
  add(".rm", down);
  add(".rp", up);
  add(".rz", zero);
}

void add_double(opcode_table& t) {
  add_arithmetic<double, f64>(t, ".f64");
  add_selection<double, f64>(t, ".f64");
  on<f64, f64, f64, f64>(t, "fma.rn.f64", [](double a, double b, double c) { return std::fma(a, b, c); });
  on<f64, f64, f64>(t, "div.rn.f64", [](double a, double b) { return a / b; });
  on<f64, f64>(t, "rcp.rn.f64", [](double a) { return 1.0 / a; });
  on<f64, f64>(t, "sqrt.rn.f64", [](double a) { return std::sqrt(a); });
  on<f64, f64>(t, "neg.f64", [](double a) { return -a; });
  on<f64, f64>(t, "abs.f64", [](double a) { return std::fabs(a); });
}

/// half and bfloat16: float holds more than twice their bits, so rounding the float result again changes nothing.
template <class T, class Element>
void add_small(opcode_table& t, const std::string& type) {
  add_arithmetic<float, T>(t, type);
  add_selection<float, T>(t, type);
  on<T, T, T>(t, "min.NaN" + type, [](float a, float b) { return least_nan(a, b); });
  on<T, T, T>(t, "max.NaN" + type, [](float a, float b) { return greatest_nan(a, b); });
  on<T, T, T, T>(t, "fma.rn" + type, [](float a, float b, float c) { return small_fma(a, b, c); });
  on<T, T>(t, "neg" + type, [](float a) { return -a; });
  on<T, T>(t, "abs" + type, [](float a) { return std::fabs(a); });
}

void add_tests(opcode_table& t) {
  on<predicate, f32>(t, "testp.finite.f32", [](float a) { return std::isfinite(a); });
  on<predicate, f32>(t, "testp.infinite.f32", [](float a) { return std::isinf(a); });
  on<predicate, f32>(t, "testp.number.f32", [](float a) { return !std::isnan(a); });
  on<predicate, f32>(t, "testp.notanumber.f32", [](float a) { return std::isnan(a); });
  on<predicate, f32>(t, "testp.normal.f32", [](float a) { return std::isnormal(a); });
  on<predicate, f32>(t, "testp.subnormal.f32", [](float a) { return std::fpclassify(a) == FP_SUBNORMAL; });
  // The sign of the first, the rest of the second; no value is changed.
  on<std::uint32_t, std::uint32_t, std::uint32_t>(t, "copysign.f32", [](std::uint32_t sign, std::uint32_t magnitude) {
    return (sign & 0x80000000u) | (magnitude & 0x7fffffffu);
  });
  on<f32, f32>(t, "tanh.approx.f32", [](float a) { return std::tanh(a); });
}

}  // namespace

void add_float_opcodes(opcode_table& table) {
  add_arithmetic<float, f32>(table, ".f32");
  add_arithmetic<float, f32_ftz>(table, ".ftz.f32");
  add_arithmetic<float, f32_sat, f32>(table, ".sat.f32");
  add_arithmetic<float, f32_ftz_sat, f32_ftz>(table, ".ftz.sat.f32");
  const auto fma = [](float a, float b, float c) { return std::fma(a, b, c); };
  on<f32, f32, f32, f32>(table, "fma.rn.f32", fma);
  on<f32_ftz, f32_ftz, f32_ftz, f32_ftz>(table, "fma.rn.ftz.f32", fma);
  on<f32_sat, f32, f32, f32>(table, "fma.rn.sat.f32", fma);
  on<f32_ftz_sat, f32_ftz, f32_ftz, f32_ftz>(table, "fma.rn.ftz.sat.f32", fma);
  add_float<f32>(table, ".f32");
  add_float<f32_ftz>(table, ".ftz.f32");
  add_directed(table);
  add_double(table);
  add_small<f16, pagoda::half>(table, ".f16");
  add_small<bf16, pagoda::bfloat16>(table, ".bf16");
  add_tests(table);
}

}  // namespace pagoda_test::ptx
