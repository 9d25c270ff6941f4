// SPDX-License-Identifier: Apache-2.0
// Every conversion against arithmetic in double, and against the toolkit's own functions where its headers are present.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <type_traits>

#include <doctest/doctest.h>
#include <pagoda/dtype.hpp>

#if defined(PAGODA_TEST_CUDA_HEADERS) && __has_include(<cuda_fp16.h>)
#define PAGODA_TEST_COMPARE_WITH_TOOLKIT 1
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#pragma GCC diagnostic pop
#endif

namespace {

using pagoda::from_float;
using pagoda::to_float;

/// A format as the textbook describes it, with nothing taken from the library.
struct format {
  int exponent_bits;
  int mantissa_bits;
  bool infinities;  ///< the largest exponent field is reserved; without, only its all-ones mantissa is (a NaN)
  bool saturates;   ///< overflow gives the largest finite value

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  std::uint32_t sign_bit() const { return 1u << (exponent_bits + mantissa_bits); }
  std::uint32_t count() const { return sign_bit() << 1; }
  std::uint32_t largest() const {
    if (!infinities) return sign_bit() - 2;
    return (((1u << exponent_bits) - 1u) << mantissa_bits) - 1u;
  }
  std::uint32_t canonical_nan() const { return sign_bit() - 1; }

  bool is_nan(std::uint32_t code) const {
    const std::uint32_t magnitude = code & (sign_bit() - 1);
    return magnitude > largest() + (infinities ? 1u : 0u);
  }

  /// The value of a magnitude, where the code after the largest finite one counts as the next number of the grid.
  double magnitude(std::uint32_t code) const {
    const int field = static_cast<int>(code >> mantissa_bits);
    const double fraction = static_cast<double>(code & ((1u << mantissa_bits) - 1u));
    if (field == 0) return std::ldexp(fraction, 1 - bias() - mantissa_bits);
    return std::ldexp(fraction + std::ldexp(1.0, mantissa_bits), field - bias() - mantissa_bits);
  }

  double decode(std::uint32_t code) const {
    const std::uint32_t positive = code & (sign_bit() - 1);
    double value = magnitude(positive);
    if (infinities && positive == largest() + 1) value = std::numeric_limits<double>::infinity();
    return (code & sign_bit()) != 0 ? -value : value;
  }

  /// Nearest code, ties to the even one: finds the two neighbours by bisection and compares the exact distances.
  std::uint32_t encode(float value) const {
    if (std::isnan(value)) return canonical_nan();
    const std::uint32_t sign = std::signbit(value) ? sign_bit() : 0u;
    const double target = std::fabs(static_cast<double>(value));
    std::uint32_t low = 0;
    std::uint32_t high = largest() + 1;
    if (target >= magnitude(high)) return sign | (saturates ? largest() : high);
    while (high - low > 1) {
      const std::uint32_t middle = low + (high - low) / 2;
      (magnitude(middle) <= target ? low : high) = middle;
    }
    const double below = target - magnitude(low);
    const double above = magnitude(high) - target;
    std::uint32_t code = below < above || (below == above && low % 2 == 0) ? low : high;
    if (saturates && code > largest()) code = largest();
    return sign | code;
  }
};

template <class T>
struct traits;
template <>
struct traits<pagoda::half> {
  static constexpr format layout{5, 10, true, false};
};
template <>
struct traits<pagoda::bfloat16> {
  static constexpr format layout{8, 7, true, false};
};
template <>
struct traits<pagoda::float8_e4m3> {
  static constexpr format layout{4, 3, false, true};
};
template <>
struct traits<pagoda::float8_e5m2> {
  static constexpr format layout{5, 2, true, true};
};

std::uint32_t bits_of(float value) {
  return std::bit_cast<std::uint32_t>(value);
}

template <class T>
T from_code(std::uint32_t code) {
  return T{static_cast<decltype(T::bits)>(code)};
}

/// Calls use(value) for every float that a conversion to T might get wrong, and for a million random patterns.
template <class T, class Use>
void for_each_probe(const Use& use) {
  const format& layout = traits<T>::layout;
  const auto around = [&](float value) {
    for (const float sign : {1.0f, -1.0f}) {
      use(sign * value);
      use(sign * std::nextafter(value, 0.0f));
      use(sign * std::nextafter(value, std::numeric_limits<float>::infinity()));
    }
  };
  for (std::uint32_t code = 0; code <= layout.largest(); ++code) {
    around(static_cast<float>(layout.magnitude(code)));
    around(static_cast<float>((layout.magnitude(code) + layout.magnitude(code + 1)) / 2));
  }
  for (const std::uint32_t bits : {0x7f800000u, 0x7f7fffffu, 0x7f800001u, 0x7fc00000u, 0x7fffffffu, 0x7f812345u,
                                   0x7fa00000u, 0x00000001u, 0x007fffffu, 0x00800000u, 0x00400000u, 0x00008000u}) {
    use(std::bit_cast<float>(bits));
    use(std::bit_cast<float>(bits | 0x80000000u));
  }
  std::mt19937 random(20240229);
  for (int i = 0; i < 1000000; ++i) use(std::bit_cast<float>(static_cast<std::uint32_t>(random())));
  // Most patterns overflow a small format or vanish in it: as many again within a few powers of two of its range.
  const int lowest = std::max(0, 127 - layout.bias() - layout.mantissa_bits);
  const int highest = std::min(254, 127 + layout.bias() + 3);
  const std::uint32_t exponents = static_cast<std::uint32_t>(highest - lowest + 1);
  for (int i = 0; i < 1000000; ++i) {
    const std::uint32_t noise = static_cast<std::uint32_t>(random());
    const std::uint32_t exponent =
        static_cast<std::uint32_t>(lowest) + static_cast<std::uint32_t>(random()) % exponents;
    use(std::bit_cast<float>((noise & 0x807fffffu) | (exponent << 23)));
  }
}

}  // namespace

TEST_CASE_TEMPLATE("dtype: every code widens to the value that its bits stand for", T, pagoda::half, pagoda::bfloat16,
                   pagoda::float8_e4m3, pagoda::float8_e5m2) {
  const format& layout = traits<T>::layout;
  std::uint32_t wrong = 0;
  std::uint32_t nans = 0;
  for (std::uint32_t code = 0; code < layout.count(); ++code) {
    const float value = to_float(from_code<T>(code));
    if (layout.is_nan(code)) {
      ++nans;
      // bfloat16 keeps the payload, the others give one NaN.
      const std::uint32_t expected = std::is_same_v<T, pagoda::bfloat16> ? code << 16 : 0x7fffffffu;
      wrong += bits_of(value) != expected;
    } else {
      wrong += bits_of(value) != bits_of(static_cast<float>(layout.decode(code)));
    }
  }
  CHECK(wrong == 0);
  CHECK(nans == (layout.infinities ? 2 * ((1u << layout.mantissa_bits) - 1u) : 2u));
}

TEST_CASE_TEMPLATE("dtype: narrowing rounds to nearest even", T, pagoda::half, pagoda::bfloat16, pagoda::float8_e4m3,
                   pagoda::float8_e5m2) {
  const format& layout = traits<T>::layout;
  std::uint32_t wrong = 0;
  std::uint32_t probes = 0;
  for_each_probe<T>([&](float value) {
    ++probes;
    wrong += from_float<T>(value).bits != layout.encode(value);
  });
  CHECK(wrong == 0);
  CHECK(probes > 2000000);
}

TEST_CASE_TEMPLATE("dtype: narrowing inverts widening", T, pagoda::half, pagoda::bfloat16, pagoda::float8_e4m3,
                   pagoda::float8_e5m2) {
  const format& layout = traits<T>::layout;
  std::uint32_t wrong = 0;
  for (std::uint32_t code = 0; code < layout.count(); ++code) {
    std::uint32_t expected = layout.is_nan(code) ? layout.canonical_nan() : code;
    if (layout.saturates && layout.infinities && (code & (layout.sign_bit() - 1)) == layout.largest() + 1) --expected;
    wrong += !(from_float<T>(to_float(from_code<T>(code))) == from_code<T>(expected));
  }
  CHECK(wrong == 0);
}

TEST_CASE("dtype: values known by heart") {
  static_assert(to_float(pagoda::half{0x3c00}) == 1.0f);
  static_assert(to_float(pagoda::half{0x0001}) == 0x1p-24f);
  static_assert(to_float(pagoda::float8_e5m2{0x01}) == 0x1p-16f);
  static_assert(from_float<pagoda::half>(65519.996f).bits == 0x7bff);
  static_assert(from_float<const pagoda::half>(65520.0f).bits == 0x7c00);
  static_assert(from_float<pagoda::bfloat16>(-2.0f).bits == 0xc000);
  CHECK(to_float(pagoda::float8_e4m3{0x7e}) == 448.0f);
  CHECK(to_float(pagoda::float8_e5m2{0x7b}) == 57344.0f);
  const float infinity = std::numeric_limits<float>::infinity();
  CHECK(from_float<pagoda::float8_e4m3>(infinity).bits == 0x7e);
  CHECK(from_float<pagoda::float8_e4m3>(-1e30f).bits == 0xfe);
  CHECK(from_float<pagoda::float8_e5m2>(-infinity).bits == 0xfb);
  CHECK(from_float<pagoda::bfloat16>(std::numeric_limits<float>::max()).bits == 0x7f80);
  CHECK(from_float<pagoda::half>(-0.0f).bits == 0x8000);
  CHECK(bits_of(to_float(pagoda::float8_e4m3{0x80})) == 0x80000000u);
  CHECK(bits_of(to_float(-0.0f)) == 0x80000000u);
  CHECK(bits_of(from_float<float>(0.1f)) == bits_of(0.1f));
}

TEST_CASE("dtype: equality compares bits") {
  CHECK(pagoda::half{0x7e00} == pagoda::half{0x7e00});
  CHECK(pagoda::half{0x8000} != pagoda::half{0x0000});
  CHECK(pagoda::bfloat16{0x7fc0} == pagoda::bfloat16{0x7fc0});
  CHECK(pagoda::float8_e4m3{0x7f} != pagoda::float8_e4m3{0xff});
  CHECK(pagoda::float8_e5m2{0x7f} == pagoda::float8_e5m2{0x7f});
}

TEST_CASE("dtype: names and the concept of element types") {
  CHECK(pagoda::dtype_name<float> == "float");
  CHECK(pagoda::dtype_name<const pagoda::half> == "half");
  CHECK(pagoda::dtype_name<pagoda::bfloat16> == "bfloat16");
  CHECK(pagoda::dtype_name<pagoda::float8_e4m3> == "float8_e4m3");
  CHECK(pagoda::dtype_name<pagoda::float8_e5m2> == "float8_e5m2");
  static_assert(pagoda::floating_element<float> && pagoda::floating_element<const pagoda::half> &&
                pagoda::floating_element<pagoda::bfloat16>);
  static_assert(!pagoda::floating_element<double> && !pagoda::floating_element<pagoda::float8_e4m3> &&
                !pagoda::floating_element<std::uint16_t> && !pagoda::floating_element<float&>);
}

TEST_CASE("dtype: int4 codes lie low nibble first") {
  const std::uint8_t packed[] = {0x21, 0x43, 0xf8};
  for (std::int64_t i = 0; i < 4; ++i) CHECK(pagoda::unpack_int4(packed, i) == static_cast<std::uint32_t>(i + 1));
  CHECK(pagoda::unpack_int4(packed, 4) == 8);
  CHECK(pagoda::unpack_int4(packed, 5) == 15);
  for (std::uint32_t low = 0; low < 16; ++low) {
    for (std::uint32_t high = 0; high < 16; ++high) {
      const std::uint8_t byte = pagoda::pack_int4(low | 0xff0u, high | 0xabcd0u);
      CHECK(pagoda::unpack_int4(&byte, 0) == low);
      CHECK(pagoda::unpack_int4(&byte, 1) == high);
    }
    CHECK(pagoda::sign_extend_int4(low) == (low < 8 ? static_cast<int>(low) : static_cast<int>(low) - 16));
  }
  static_assert(pagoda::pack_int4(3, 12) == 0xc3 && pagoda::sign_extend_int4(0xf8) == -8);
}

#if defined(PAGODA_TEST_COMPARE_WITH_TOOLKIT)
namespace {

// The toolkit's functions, as bits, on the host.
std::uint32_t toolkit_narrow(pagoda::half, float value) {
  return static_cast<__half_raw>(__float2half_rn(value)).x;
}
std::uint32_t toolkit_narrow(pagoda::bfloat16, float value) {
  return static_cast<__nv_bfloat16_raw>(__float2bfloat16_rn(value)).x;
}
std::uint32_t toolkit_narrow(pagoda::float8_e4m3, float value) {
  return __nv_cvt_float_to_fp8(value, __NV_SATFINITE, __NV_E4M3);
}
std::uint32_t toolkit_narrow(pagoda::float8_e5m2, float value) {
  return __nv_cvt_float_to_fp8(value, __NV_SATFINITE, __NV_E5M2);
}

float toolkit_widen(pagoda::half value) {
  __half_raw raw;
  raw.x = value.bits;
  return __half2float(__half(raw));
}
float toolkit_widen(pagoda::bfloat16 value) {
  __nv_bfloat16_raw raw;
  raw.x = value.bits;
  return __bfloat162float(__nv_bfloat16(raw));
}
float toolkit_widen(pagoda::float8_e4m3 value) {
  return __half2float(__half(__nv_cvt_fp8_to_halfraw(value.bits, __NV_E4M3)));
}
float toolkit_widen(pagoda::float8_e5m2 value) {
  return __half2float(__half(__nv_cvt_fp8_to_halfraw(value.bits, __NV_E5M2)));
}

}  // namespace

TEST_CASE_TEMPLATE("dtype: the CUDA toolkit's host functions give the same bits", T, pagoda::half, pagoda::bfloat16,
                   pagoda::float8_e4m3, pagoda::float8_e5m2) {
  std::uint32_t wrong = 0;
  for (std::uint32_t code = 0; code < traits<T>::layout.count(); ++code) {
    const T value = from_code<T>(code);
    wrong += bits_of(to_float(value)) != bits_of(toolkit_widen(value));
  }
  CHECK(wrong == 0);
  for_each_probe<T>([&](float value) { wrong += from_float<T>(value).bits != toolkit_narrow(T{}, value); });
  CHECK(wrong == 0);
}
#endif
