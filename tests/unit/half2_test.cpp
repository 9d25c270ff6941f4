// SPDX-License-Identifier: Apache-2.0
// Pairs of 16-bit floats: each operation against the scalar conversions, and the tensor-core members of every quantizer
// that has them against codeword().
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <type_traits>
#include <utility>

#include <doctest/doctest.h>
#include <pagoda/conformance/quantizer.hpp>
#include <pagoda/detail/half2.hpp>

#include "policy_products.hpp"

namespace {

using namespace pagoda::detail;
using pagoda::bfloat16;
using pagoda::from_float;
using pagoda::half;
using pagoda::to_float;

constexpr std::uint32_t codes = 1u << 16;

std::uint32_t join(std::uint32_t low, std::uint32_t high) {
  return low | high << 16;
}
std::uint32_t narrow(double value) {  // of numbers that a float holds exactly
  return from_float<half>(static_cast<float>(value)).bits;
}
double wide(std::uint32_t bits) {
  return double{to_float(half{static_cast<std::uint16_t>(bits)})};
}

TEST_CASE("half2: elements widen like to_float, for every code in either place") {
  int wrong = 0;
  const auto same = [](float a, float b) { return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b); };
  for (std::uint32_t code = 0; code < codes; ++code) {
    const std::uint32_t other = code * 40503u % codes;
    const auto bits = static_cast<std::uint16_t>(code);
    wrong += !same(half2_low(join(code, other)), to_float(half{bits}));
    wrong += !same(half2_high(join(other, code)), to_float(half{bits}));
    wrong += !same(bfloat162_low(join(code, other)), to_float(bfloat16{bits}));
    wrong += !same(bfloat162_high(join(other, code)), to_float(bfloat16{bits}));
    wrong += pack_half2(to_float(half{bits}), 3.0f) != join(from_float<half>(to_float(half{bits})).bits, 0x4200);
    wrong += pack_half2(3.0f, to_float(half{bits})) != join(0x4200, from_float<half>(to_float(half{bits})).bits);
    const std::uint32_t brain = from_float<bfloat16>(to_float(bfloat16{bits})).bits;
    wrong += pack_bfloat162(to_float(bfloat16{bits}), 3.0f) != join(brain, 0x4040);
    wrong += pack_bfloat162(3.0f, to_float(bfloat16{bits})) != join(0x4040, brain);
  }
  CHECK(wrong == 0);
  CHECK(pack_half2(65519.0f, 65520.0f) == 0x7c007bffu);
  CHECK(pack_bfloat162(1.00390625f, 1.01171875f) == 0x3f823f80u);  // ties to even
}

TEST_CASE("half2: byte_permute picks bytes of either word, or copies of their sign bit") {
  CHECK(byte_permute(0x03020100u, 0x07060504u, 0x7531) == 0x07050301u);
  CHECK(byte_permute(0x03020100u, 0x07060504u, 0x0246) == 0x00020406u);
  CHECK(byte_permute(0x80017f00u, 0x00ff0000u, 0xba98) == 0xff000000u);
  CHECK(byte_permute(0x80017f00u, 0x00ff0000u, 0x63e3) == 0xff80ff80u);
  CHECK(and_or(0x12345678u, 0x0f0f0f0fu, 0x80000000u) == 0x82040608u);
}

TEST_CASE("half2: differences, products and fused sums are rounded once, to nearest even") {
  std::mt19937 random(5);
  const auto finite = [](std::uint32_t bits) { return (bits & 0x7c00u) != 0x7c00u; };
  int wrong = 0;
  for (int i = 0; i < 500000; ++i) {
    const auto a = static_cast<std::uint32_t>(random());
    auto b = static_cast<std::uint32_t>(random());
    auto c = static_cast<std::uint32_t>(random());
    if (i % 4 == 1) b = a ^ (b & 0x03ff03ffu);  // numbers alike, so that sums cancel
    if (i % 4 == 2) c = half2_mul(a, b) ^ (c & 0x801f801fu);
    if (!finite(a) || !finite(b) || !finite(c) || !finite(a >> 16) || !finite(b >> 16) || !finite(c >> 16)) continue;
    for (const int shift : {0, 16}) {
      const double x = wide(a >> shift & 0xffffu);
      const double y = wide(b >> shift & 0xffffu);
      const double z = wide(c >> shift & 0xffffu);
      // x - y and x * y are exact in double, which a float holds or rounds innocuously: it has 24 bits for 11.
      wrong += (half2_sub(a, b) >> shift & 0xffffu) != narrow(x - y);
      wrong += (half2_mul(a, b) >> shift & 0xffffu) != narrow(x * y);
      // The rounded sum is the half next to the exact one: no other half may be nearer. The double nearest to the exact
      // sum tells, except at a tie, where the rest decides.
      const std::uint32_t got = half2_fma(a, b, c) >> shift & 0xffffu;
      const double sum = x * y + z;
      if (std::fabs(sum) >= 65520.0) {
        wrong += (got & 0x7fffu) != 0x7c00u;
        continue;
      }
      const double rest = std::fma(x, y, z) == sum ? (x * y - (sum - z)) + (z - (sum - (sum - z))) : 0;
      const auto distance = [&](double h) { return std::fabs((sum - h) + rest); };
      const double here = distance(wide(got));
      for (const std::uint32_t next : {got - 1, got + 1}) {
        if (!finite(next & 0xffffu) || ((next ^ got) & 0x8000u) != 0) continue;
        const double there = distance(wide(next & 0xffffu));
        wrong += there < here || (there == here && (got & 1u) != 0 && rest == 0);
      }
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("half2: a fused sum beside a tie goes to the side of what a float would lose") {
  // (1 + 2^-10) (1 - 2^-10) = 1 - 2^-20. Halves from 2048 on are 2 apart.
  const std::uint32_t a = narrow(1 + 0x1p-10);
  const std::uint32_t b = narrow(1 - 0x1p-10);
  const std::uint32_t c = narrow(2050);
  constexpr std::uint32_t minus = 0x8000;
  CHECK(half2_fma(join(a, a), join(b, b | minus), join(c, c)) == join(c, c));
  CHECK(half2_fma(join(a, a), join(b | minus, b), join(c | minus, c | minus)) == join(c | minus, c | minus));
}

TEST_CASE("half2: infinities and NaN as IEEE has them, every NaN 0x7fff") {
  constexpr std::uint32_t infinite = 0x7c00;
  constexpr std::uint32_t nan = 0x7fff;
  CHECK(half2_sub(join(infinite, 0x3c00), join(infinite, infinite)) == join(nan, 0xfc00));
  CHECK(half2_mul(join(infinite, 0xfe01), join(0, 0x3c00)) == join(nan, nan));
  CHECK(half2_fma(join(infinite, infinite), join(0x3c00, 0x3c00), join(0xfc00, 0x3c00)) == join(nan, infinite));
  CHECK(half2_fma(join(0x7bff, 0), join(0x7bff, 0x8000), join(0xfbff, 0x8000)) == join(infinite, 0x8000));
}

TEST_CASE("half2: every pair of e4m3 codes becomes their exact halves, a NaN 0x7fff") {
  int wrong = 0;
  for (std::uint32_t pair = 0; pair < codes; ++pair) {
    const auto code = [&](std::uint32_t i) {
      return from_float<half>(to_float(pagoda::float8_e4m3{static_cast<std::uint8_t>(pair >> (8 * i) & 0xffu)})).bits;
    };
    wrong += half2_from_e4m3x2(static_cast<std::uint16_t>(pair)) != join(code(0), code(1));
  }
  CHECK(wrong == 0);
}

TEST_CASE_TEMPLATE("tensor-core members unpack every code in every place of a word to its codeword", Q,
                   pagoda_test::f16, pagoda_test::bf16, pagoda_test::int8, pagoda_test::int4, pagoda_test::fp8,
                   pagoda_test::e5m2, pagoda_test::int8g32, pagoda_test::int4g32,
                   pagoda_test::rotated<pagoda_test::int4>) {
  CHECK(pagoda::is_tensor_core_v<Q> == (Q::group == 0));
  constexpr int pairs = Q::half2_pairs;
  constexpr std::uint32_t mask = (1u << (Q::bits % 32)) - 1;
  std::mt19937 random(9);
  int wrong = 0;
  float largest = 0;
  for (std::uint32_t code = 0; code <= mask; ++code) {
    const float codeword = Q::codeword(code);
    if (Q::bits == 8 && code == (Q::codeword(1) == -127.0f ? 0u : 0x7fu)) continue;  // never written
    if (std::is_same_v<Q, pagoda_test::fp8> && code == 0xff) continue;
    if (std::isfinite(codeword)) largest = std::fmax(largest, std::fabs(codeword));
    for (int element = 0; element < 2 * pairs; ++element) {
      for (const std::uint32_t others : {0u, ~0u, static_cast<std::uint32_t>(random())}) {
        const int place = element * Q::bits;
        std::uint32_t unpacked[static_cast<std::size_t>(pairs)];
        Q::unpack_half2((others & ~(mask << place)) | code << place, unpacked);
        const int pair = element % pairs;
        const std::uint32_t both = unpacked[pair];
        const auto bits = static_cast<std::uint16_t>(element < pairs ? both & 0xffffu : both >> 16);
        const float got = std::ldexp(to_float(typename Q::half2_type{bits}), Q::half2_exponent(pair));
        wrong += !(got == codeword || (std::isnan(got) && std::isnan(codeword)));
      }
    }
  }
  CHECK(wrong == 0);
  CHECK(largest == Q::codeword_limit);
}

struct wrong_exponent : pagoda_test::int4 {
  static constexpr int half2_exponent(int) { return 0; }
};
struct wrong_order : pagoda_test::fp8 {
  static constexpr void unpack_half2(std::uint32_t word, std::uint32_t (&pairs)[2]) {
    pagoda_test::fp8::unpack_half2(word, pairs);
    std::swap(pairs[0], pairs[1]);
  }
};
struct wrong_limit : pagoda_test::int8 {
  static constexpr float codeword_limit = 100;
};

TEST_CASE_TEMPLATE("the conformance check finds tensor-core members that contradict codeword()", Q, wrong_exponent,
                   wrong_order, wrong_limit) {
  CHECK_FALSE(pagoda::conformance::check_quantizer<Q>().ok());
}

TEST_CASE("quantizers without tensor-core members say so") {
  CHECK_FALSE(pagoda::is_tensor_core_v<pagoda_test::f32>);
  CHECK_FALSE(pagoda::is_tensor_core_v<pagoda_test::user_int8>);
  CHECK_FALSE(pagoda::is_tensor_core_v<pagoda_test::user_int8_grouped>);
  CHECK_FALSE(pagoda::is_tensor_core_v<pagoda_test::int8g32>);
  CHECK(pagoda::is_tensor_core_v<pagoda_test::rotated<pagoda_test::int8>>);
}

}  // namespace
