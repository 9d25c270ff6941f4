// SPDX-License-Identifier: Apache-2.0
// The vector conversions against the scalar ones on every pattern; exp against double; sums against their written
// order.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>
#include <pagoda/detail/vector_int16.hpp>
#include <pagoda/detail/vector_math.hpp>

#pragma GCC diagnostic ignored "-Wpsabi"

namespace {

using pagoda::bfloat16;
using pagoda::from_float;
using pagoda::half;
using pagoda::to_float;
using pagoda::detail::load_float;
using pagoda::detail::store_float;
using pagoda::detail::vec;

template <int Width>
struct width {
  static constexpr int value = Width;
};

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float quiet_nan = std::numeric_limits<float>::quiet_NaN();

/// Equal bits, or both NaN.
bool same(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b) || (std::isnan(a) && std::isnan(b));
}

/// Counts the elements of input that load_float widens otherwise than to_float. Reads from an odd address of elements.
template <int W, class T>
int count_load_errors(std::vector<T> input) {
  input.insert(input.begin(), input.front());
  int wrong = 0;
  for (std::size_t i = 1; i + W <= input.size(); i += W) {
    vec<float, W> wide;
    load_float<W>(input.data() + i, wide);
    for (int lane = 0; lane < W; ++lane) {
      const T element = input[i + static_cast<std::size_t>(lane)];
      if constexpr (std::is_same_v<T, std::int8_t>) {
        wrong += !same(wide[lane], static_cast<float>(element));
      } else {
        wrong += !same(wide[lane], to_float(element));
      }
    }
  }
  return wrong;
}

/// Counts the floats that store_float narrows otherwise than from_float, and writes outside the W elements.
template <class T, int W>
int count_store_errors(const std::vector<float>& input) {
  const T guard = from_float<T>(12345.0f);
  int wrong = 0;
  for (std::size_t i = 0; i + W <= input.size(); i += W) {
    vec<float, W> wide;
    for (int lane = 0; lane < W; ++lane) wide[lane] = input[i + static_cast<std::size_t>(lane)];
    std::vector<T> output(W + 2, guard);
    store_float<W>(wide, output.data() + 1);
    for (std::size_t lane = 0; lane < W; ++lane) {
      wrong += !same(to_float(output[lane + 1]), to_float(from_float<T>(input[i + lane])));
    }
    wrong += !same(to_float(output.front()), to_float(guard)) + !same(to_float(output.back()), to_float(guard));
  }
  return wrong;
}

template <class T>
std::vector<T> every_code() {
  std::vector<T> codes;
  for (std::uint32_t code = 0; code < 65536; ++code) codes.push_back(T{static_cast<std::uint16_t>(code)});
  return codes;
}

/// Each value of T, the middle to its upper neighbour and the floats on both sides of it; then random patterns.
template <class T>
std::vector<float> narrowing_probes() {
  std::vector<float> probes;
  for (std::uint32_t code = 0; code < 65536; ++code) {
    const float value = to_float(T{static_cast<std::uint16_t>(code)});
    const float next = to_float(T{static_cast<std::uint16_t>(code + 1)});
    const float middle = static_cast<float>((static_cast<double>(value) + static_cast<double>(next)) / 2);
    for (const float probe : {value, middle, std::nextafter(middle, -infinity), std::nextafter(middle, infinity)}) {
      probes.push_back(probe);
    }
  }
  for (const std::uint32_t bits :
       {0x477fefffu, 0x477ff000u, 0x477ff001u, 0x7f7fffffu, 0x7f7f7fffu, 0x7f7f8000u, 0x7f800000u, 0xff800000u,
        0x7f800001u, 0xff812345u, 0x7fffffffu, 0xffffffffu, 0x00000001u, 0x80000001u, 0x33000000u, 0x33000001u}) {
    probes.push_back(std::bit_cast<float>(bits));
  }
  std::mt19937 random(7);
  for (int i = 0; i < 1000000; ++i) probes.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(random())));
  return probes;
}

/// Mixed signs and magnitudes, so that another order of summation rounds otherwise.
vec<float, 8> uneven_vector(std::mt19937& random) {
  vec<float, 8> result;
  for (int lane = 0; lane < 8; ++lane) {
    const float fraction = static_cast<float>(random() % 16777216u) - 8388608.0f;
    result[lane] = std::ldexp(fraction, static_cast<int>(random() % 12u));
  }
  return result;
}

float ordered_sum(const vec<float, 8>& v) {
  const float a = (v[0] + v[1]) + (v[2] + v[3]);
  const float b = (v[4] + v[5]) + (v[6] + v[7]);
  return a + b;
}

float exp_of(float x) {
  vec<float, 8> v = pagoda::detail::broadcast<8>(0.0f);
  v[5] = x;
  const vec<float, 8> result = pagoda::detail::exp<8>(v);
  CHECK(result[4] == 1.0f);
  return result[5];
}

}  // namespace

TEST_CASE_TEMPLATE("vector: loads widen like to_float", W, width<8>, width<16>) {
  CHECK(count_load_errors<W::value>(every_code<half>()) == 0);
  CHECK(count_load_errors<W::value>(every_code<bfloat16>()) == 0);
  std::vector<std::int8_t> bytes;
  for (int value = -128; value < 128; ++value) bytes.push_back(static_cast<std::int8_t>(value));
  CHECK(count_load_errors<W::value>(bytes) == 0);
  CHECK(count_load_errors<W::value>(narrowing_probes<half>()) == 0);
}

TEST_CASE_TEMPLATE("vector: packed codes widen to the numbers that they stand for", W, width<8>, width<16>) {
  constexpr int lanes = W::value;
  std::vector<std::byte> codes(256 + 1);  // read from an odd address
  for (std::size_t i = 0; i < 256; ++i) codes[i + 1] = static_cast<std::byte>(i);
  vec<float, lanes> wide;
  int wrong = 0;
  for (int first = 0; first < 256; first += lanes) {
    pagoda::detail::load_biased_int8<lanes>(codes.data() + 1 + first, wide);
    for (int i = 0; i < lanes; ++i) wrong += wide[i] != static_cast<float>(first + i - 128);
    pagoda::detail::load_float8_e4m3<lanes>(codes.data() + 1 + first, wide);
    for (int i = 0; i < lanes; ++i) {
      const int code = first + i;
      const float nan_code = code < 128 ? 480.0f : -480.0f;
      wrong +=
          wide[i] != (code % 128 == 127 ? nan_code : to_float(pagoda::float8_e4m3{static_cast<std::uint8_t>(code)}));
    }
  }
  for (int first = 0; first + lanes / 2 <= 256; first += lanes / 2) {
    pagoda::detail::load_uint4<lanes>(codes.data() + 1 + first, wide);
    for (int i = 0; i < lanes; ++i) wrong += wide[i] != static_cast<float>((first + i / 2) >> (4 * (i % 2)) & 15);
  }
  CHECK(wrong == 0);
}

TEST_CASE_TEMPLATE("vector: codes widen to 16 bits, and pairs of products are summed modulo 2^32", W, width<16>,
                   width<32>) {
  constexpr int lanes = W::value;
  std::vector<std::byte> codes(256 + 1);  // read from an odd address
  for (std::size_t i = 0; i < 256; ++i) codes[i + 1] = static_cast<std::byte>(i);
  vec<std::int16_t, lanes> wide;
  int wrong = 0;
  for (int first = 0; first < 256; first += lanes) {
    pagoda::detail::load_uint8<lanes>(codes.data() + 1 + first, wide);
    for (int i = 0; i < lanes; ++i) wrong += wide[i] != first + i;
    pagoda::detail::load_uint4<lanes>(codes.data() + 1 + first / 2, wide);
    for (int i = 0; i < lanes; ++i) wrong += wide[i] != ((first / 2 + i / 2) >> (4 * (i % 2)) & 15);
  }
  CHECK(wrong == 0);

  vec<std::int16_t, lanes> a;
  vec<std::int16_t, lanes> b;
  vec<std::int32_t, lanes / 2> sum;
  for (int i = 0; i < lanes; ++i) {
    a[i] = static_cast<std::int16_t>(i % 3 == 0 ? 32767 : 255 - i);
    b[i] = static_cast<std::int16_t>(i % 5 == 0 ? -32768 : 32767 - 1000 * i);
  }
  for (int i = 0; i < lanes / 2; ++i) sum[i] = i % 2 == 0 ? 2147483647 - i : -2147483647 + i;
  const vec<std::int32_t, lanes / 2> pairs = pagoda::detail::multiply_pairs(a, b);
  const vec<std::int32_t, lanes / 2> total = pagoda::detail::multiply_add_pairs(sum, a, b);
  const vec<std::int32_t, lanes / 2> difference = pagoda::detail::subtract_wrapping<lanes / 2>(sum, pairs);
  for (int i = 0; i < lanes / 2; ++i) {
    const std::int64_t exact = std::int64_t{a[2 * i]} * b[2 * i] + std::int64_t{a[2 * i + 1]} * b[2 * i + 1];
    CHECK(pairs[i] == exact);
    CHECK(total[i] == static_cast<std::int32_t>(sum[i] + exact));
    CHECK(difference[i] == static_cast<std::int32_t>(sum[i] - exact));
  }
}

TEST_CASE_TEMPLATE("vector: stores narrow like from_float", W, width<8>, width<16>) {
  CHECK(count_store_errors<half, W::value>(narrowing_probes<half>()) == 0);
  CHECK(count_store_errors<bfloat16, W::value>(narrowing_probes<bfloat16>()) == 0);
  CHECK(count_store_errors<float, W::value>(narrowing_probes<half>()) == 0);
}

TEST_CASE_TEMPLATE("vector: broadcast fills every lane", W, width<8>, width<16>) {
  for (const float value : {1.5f, -0.0f, infinity, quiet_nan}) {
    const vec<float, W::value> wide = pagoda::detail::broadcast<W::value>(value);
    for (int lane = 0; lane < W::value; ++lane) CHECK(same(wide[lane], value));
  }
}

TEST_CASE_TEMPLATE("vector: fma rounds once where the target can", W, width<8>, width<16>) {
  std::mt19937 random(11);
  int wrong = 0;
  int once_differs = 0;
  for (int i = 0; i < 10000; ++i) {
    vec<float, W::value> a;
    vec<float, W::value> b;
    vec<float, W::value> c;
    for (int lane = 0; lane < W::value; ++lane) {
      a[lane] = static_cast<float>(random() % 65536u) - 32768.0f + 0x1p-6f;
      b[lane] = static_cast<float>(random() % 65536u) - 32768.0f + 0x1p-7f;
      c[lane] = -a[lane] * b[lane];
    }
    const vec<float, W::value> result = pagoda::detail::fma(a, b, c);
    for (int lane = 0; lane < W::value; ++lane) {
      const float once = std::fma(a[lane], b[lane], c[lane]);
      once_differs += once != 0.0f;  // rounding the product first leaves 0
#if PAGODA_HAS_AVX2
      wrong += result[lane] != once;
#else
      wrong += result[lane] != once && result[lane] != 0.0f;
#endif
    }
  }
  CHECK(wrong == 0);
  CHECK(once_differs > 1000);
}

TEST_CASE("vector: sums keep their order, one vector or eight") {
  std::mt19937 random(3);
  int wrong = 0;
  int order_matters = 0;
  for (int i = 0; i < 20000; ++i) {
    vec<float, 8> rows[8];
    for (vec<float, 8>& row : rows) row = uneven_vector(random);
    const vec<float, 8> sums = pagoda::detail::horizontal_sum8(rows);
    for (int row = 0; row < 8; ++row) {
      const float expected = ordered_sum(rows[row]);
      wrong += !same(pagoda::detail::horizontal_sum(rows[row]), expected);
      wrong += !same(sums[row], expected);
      float serial = rows[row][0];
      for (int lane = 1; lane < 8; ++lane) serial += rows[row][lane];
      order_matters += serial != expected;
    }
  }
  CHECK(wrong == 0);
  CHECK(order_matters > 1000);
}

TEST_CASE("vector: the largest lane is found wherever it lies") {
  for (int place = 0; place < 8; ++place) {
    vec<float, 8> v;
    for (int lane = 0; lane < 8; ++lane) v[lane] = -3.0f - static_cast<float>(lane);
    v[place] = -1.0f;
    CHECK(pagoda::detail::horizontal_max(v) == -1.0f);
    v[(place + 3) % 8] = infinity;
    CHECK(pagoda::detail::horizontal_max(v) == infinity);
  }
  CHECK(pagoda::detail::horizontal_max(pagoda::detail::broadcast<8>(-infinity)) == -infinity);
}

TEST_CASE("vector: exp is within 3e-7 from -87 to 88.72") {
  double worst = 0;
  std::vector<float> probes;
  const auto sweep = [&](float first, float last, std::uint32_t sign) {
    const std::uint32_t end = std::bit_cast<std::uint32_t>(last);
    for (std::uint32_t bits = std::bit_cast<std::uint32_t>(first); bits <= end; bits += 1009) {
      probes.push_back(std::bit_cast<float>(bits | sign));
    }
  };
  sweep(0.0f, 88.7228f, 0u);
  sweep(0.0f, 87.0f, 0x80000000u);
  for (int i = 0; i < 400000; ++i) probes.push_back(-87.0f + static_cast<float>(i) * (175.0f / 400000.0f));
  while (probes.size() % 8 != 0) probes.push_back(88.0f);
  for (std::size_t i = 0; i < probes.size(); i += 8) {
    vec<float, 8> x;
    load_float<8>(probes.data() + i, x);
    const vec<float, 8> result = pagoda::detail::exp<8>(x);
    for (int lane = 0; lane < 8; ++lane) {
      const double expected = std::exp(static_cast<double>(x[lane]));
      const double error = std::fabs(static_cast<double>(result[lane]) - expected) / expected;
      if (!(error <= worst)) worst = error;  // takes a NaN, too
    }
  }
  INFO("largest relative error ", worst);
  CHECK(worst < 3e-7);
}

TEST_CASE_TEMPLATE("vector: exp of what is at most 0", W, width<8>, width<16>) {
  constexpr int lanes = W::value;
  const auto of = [](float x) {
    vec<float, lanes> v = pagoda::detail::broadcast<lanes>(-1.0f);
    v[lanes - 3] = x;
    const vec<float, lanes> result = pagoda::detail::exp_of_nonpositive<lanes>(v);
    CHECK(std::fabs(result[0] - 0.36787944f) < 1e-7f);
    return result[lanes - 3];
  };
  CHECK(of(0.0f) == 1.0f);
  CHECK(of(-infinity) == 0.0f);
  CHECK(of(-88.0f) == 0.0f);
  CHECK(of(std::numeric_limits<float>::lowest()) == 0.0f);
  for (const std::uint32_t bits : {0x7fc00000u, 0xffc00000u, 0x7f800001u, 0x7fc001ffu, 0xffffffffu}) {
    CHECK(std::isnan(of(std::bit_cast<float>(bits))));
  }
  double worst = 0;
  for (int i = 0; i <= 8733; ++i) {
    const float x = -0.01f * static_cast<float>(i);
    const double expected = std::exp(static_cast<double>(x));
    worst = std::max(worst, std::fabs(static_cast<double>(of(x)) - expected) / expected);
  }
  CHECK(worst < 3e-7);
  for (float x = -88.0f; x < -87.3f; x += 0.001f) {
    const double expected = std::exp(static_cast<double>(x));
    const float result = of(x);
    // n = -127 flushes, n = -126 may be subnormal.
    CHECK((result == 0.0f || std::fabs(static_cast<double>(result) - expected) < 3e-7 * expected + 0x1p-149));
  }
}

TEST_CASE("vector: sums, maxima and exp of 16 lanes are those of their halves") {
  vec<float, 16> rows[8];
  for (int row = 0; row < 8; ++row) {
    for (int lane = 0; lane < 16; ++lane) rows[row][lane] = static_cast<float>((lane * 7 + row * 5) % 23) - 11.25f;
  }
  const vec<float, 8> sums = pagoda::detail::horizontal_sum8(rows);
  for (int row = 0; row < 8; ++row) {
    float sum = 0;
    float largest = -infinity;
    for (int lane = 0; lane < 16; ++lane) sum += rows[row][lane], largest = std::max(largest, rows[row][lane]);
    CHECK(pagoda::detail::horizontal_sum(rows[row]) == sum);  // quarters: exact in any order
    CHECK(sums[row] == sum);
    CHECK(pagoda::detail::horizontal_max(rows[row]) == largest);
    const vec<float, 16> powers = pagoda::detail::exp<16>(rows[row]);
    for (int lane = 0; lane < 16; ++lane) CHECK(powers[lane] == exp_of(rows[row][lane]));
  }
}

TEST_CASE("vector: exp at the ends of its range") {
  CHECK(exp_of(0.0f) == 1.0f);
  CHECK(exp_of(-0.0f) == 1.0f);
  CHECK(exp_of(-infinity) == 0.0f);
  CHECK(exp_of(std::numeric_limits<float>::lowest()) == 0.0f);
  CHECK(exp_of(-104.0f) == 0.0f);
  CHECK(exp_of(-1e30f) == 0.0f);
  CHECK(exp_of(infinity) == infinity);
  CHECK(exp_of(std::numeric_limits<float>::max()) == infinity);
  CHECK(exp_of(88.73f) == infinity);
  CHECK(exp_of(std::bit_cast<float>(0x42b17218u)) == infinity);  // the first float whose exponential overflows
  CHECK(std::isfinite(exp_of(std::bit_cast<float>(0x42b17217u))));
  CHECK(std::isnan(exp_of(quiet_nan)));
  CHECK(std::isnan(exp_of(-quiet_nan)));
  CHECK(std::isnan(exp_of(std::bit_cast<float>(0x7f800001u))));
  // Below the normal floats a result is 0 or right, never negative or large.
  for (float x = -104.0f; x < -87.0f; x += 0.001f) {
    const float result = exp_of(x);
    const double expected = std::exp(static_cast<double>(x));
    const bool right = std::fabs(static_cast<double>(result) - expected) < 3e-7 * expected + 0x1p-149;
    const bool flushed = result == 0.0f && expected < 0x1p-126;
    CHECK((right || flushed));
  }
}
