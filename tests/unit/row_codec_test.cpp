// SPDX-License-Identifier: Apache-2.0
// The loops of row_codec against the policies' scalar functions, one element at a time: equal to the bit.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include <doctest/doctest.h>

#include <pagoda/quantizer/fp8_e5m2.hpp>
#include <pagoda/quantizer/hadamard.hpp>
#include <pagoda/quantizer/int4_grouped.hpp>
#include <pagoda/quantizer/int8_grouped.hpp>
#include <pagoda/quantizer/row_codec.hpp>

#include "policy_products.hpp"

namespace {

using pagoda::row_stats;

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float quiet_nan = std::numeric_limits<float>::quiet_NaN();

using pagoda::detail::has_store_float;
static_assert(has_store_float<pagoda_test::f16> && has_store_float<pagoda_test::int8> &&
              has_store_float<pagoda_test::int4> && has_store_float<pagoda_test::fp8> &&
              has_store_float<pagoda::fp8_e5m2> && has_store_float<pagoda::int8_grouped<32>> &&
              has_store_float<pagoda::int4_grouped<32>> && has_store_float<pagoda::hadamard<pagoda_test::int8>>);
static_assert(!has_store_float<pagoda_test::user_int8> && !has_store_float<pagoda_test::user_int8_grouped>);

// The elements of a row: random at some size, numbers of every exponent, ties and neighbours of ties, special numbers.
std::vector<std::vector<float>> difficult_rows(std::size_t size) {
  std::mt19937 bits(5);
  std::normal_distribution<float> normal;
  std::vector<std::vector<float>> rows;
  const auto add = [&](auto&& element) {
    std::vector<float> row(size);
    for (float& x : row) x = element();
    rows.push_back(row);
  };
  for (const float scale : {1.0f, 1e-3f, 1e20f, 1e-36f, 1e-42f}) add([&] { return scale * normal(bits); });
  for (int i = 0; i < 20; ++i) {
    add([&] { return pagoda::detail::float_from_bits(static_cast<std::uint32_t>(bits())); });
    add([&] {  // every exponent, no NaN
      return pagoda::detail::float_from_bits(static_cast<std::uint32_t>(bits() % 0x7f800000u | (bits() & 1u) << 31));
    });
  }
  add([&] { return (static_cast<float>(bits() % 1023) - 511.0f) / 4.0f; });
  add([&] { return std::ldexp(static_cast<float>(bits() % 64) - 31.0f, static_cast<int>(bits() % 40) - 30); });
  add([&] { return std::nextafter((static_cast<float>(bits() % 511) - 255.0f) / 2.0f, bits() % 2 ? 1e9f : -1e9f); });
  const float special[] = {0.0f, -0.0f, infinity, -infinity, quiet_nan, -quiet_nan, 1e-45f, 3.4e38f, 448.0f, 464.0f};
  add([&] { return special[bits() % 10]; });
  add([&] { return special[bits() % 2]; });
  add([] { return 0.0f; });
  add([] { return -7.0f; });
  return rows;
}

template <class Q>
std::vector<typename Q::scale_type> difficult_scales() {
  std::vector<typename Q::scale_type> scales;
  if constexpr (!pagoda::has_scale_v<typename Q::scale_type>) {
    scales.emplace_back();
  } else {
    for (const float low : {0.0f, -1.0f, -3.5f, 1e-43f, -1e30f, 2e38f, infinity, -infinity, quiet_nan}) {
      for (const float high : {0.0f, 1.0f, 127.0f, 448.0f, 1e-44f, 3.4e38f, infinity, quiet_nan}) {
        scales.push_back(Q::fit(low < high ? row_stats{low, high} : row_stats{high, low}));
      }
    }
  }
  return scales;
}

/// What encode_group must write, by the definition.
template <class Q>
std::vector<std::byte> codes_one_by_one(const std::vector<float>& row, typename Q::scale_type scale) {
  std::vector<std::byte> codes(static_cast<std::size_t>(pagoda::code_bytes<Q>(static_cast<std::int64_t>(row.size()))));
  for (std::size_t i = 0; i < row.size(); ++i) {
    const std::uint32_t code = Q::encode(row[i], scale);
    if constexpr (Q::bits == 4) {
      codes[i / 2] |= static_cast<std::byte>((code & 15u) << (i % 2 * 4));
    } else {
      std::memcpy(codes.data() + i * Q::bits / 8, &code, Q::bits / 8);
    }
  }
  return codes;
}

/// identity keeps a NaN a NaN, but hardware and from_float give it other bits.
template <class Q>
std::vector<std::byte> with_one_nan(std::vector<std::byte> codes) {
  if constexpr (!pagoda::has_scale_v<typename Q::scale_type>) {
    for (std::size_t i = 0; i < codes.size(); i += Q::bits / 8) {
      std::uint32_t code = 0;
      std::memcpy(&code, codes.data() + i, Q::bits / 8);
      if (std::isnan(Q::codeword(code))) std::memset(codes.data() + i, 0x7f, Q::bits / 8);
    }
  }
  return codes;
}

#define EVERY_QUANTIZER                                                                                          \
  pagoda_test::f32, pagoda_test::f16, pagoda_test::bf16, pagoda_test::int8, pagoda_test::int4, pagoda_test::fp8, \
      pagoda::fp8_e5m2, pagoda::int8_grouped<32>, pagoda::int4_grouped<32>, pagoda_test::user_int8,              \
      pagoda_test::user_int4, pagoda_test::user_int8_grouped

TEST_CASE_TEMPLATE("codes of a group are those of encode, whatever the elements and the scale", Q, EVERY_QUANTIZER) {
  using pagoda::detail::encode_loop;
  for (const std::size_t size : {8u, 16u, 24u, 40u, 46u, 128u}) {
    for (const std::vector<float>& row : difficult_rows(size)) {
      int wrong = 0;
      for (const typename Q::scale_type& scale : difficult_scales<Q>()) {
        const std::vector<std::byte> expected = codes_one_by_one<Q>(row, scale);
        std::vector<std::byte> codes(expected.size() + 1, std::byte{0xa5});
        encode_loop<Q>(row.data(), static_cast<std::int64_t>(size), scale, codes.data());
        wrong += codes.back() != std::byte{0xa5};
        codes.pop_back();
        wrong += with_one_nan<Q>(codes) != with_one_nan<Q>(expected);
      }
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE_TEMPLATE("codewords of a row are those of codeword", Q, EVERY_QUANTIZER) {
  std::mt19937 bits(9);
  for (const std::int64_t size : {8, 16, 24, 46, 64}) {
    const std::vector<float> source = difficult_rows(static_cast<std::size_t>(size))[0];
    std::vector<std::byte> codes = codes_one_by_one<Q>(source, Q::fit({-2.0f, 2.0f}));
    std::vector<float> row(static_cast<std::size_t>(size));
    pagoda::row_codec<Q>::codewords(codes.data(), size, row.data());
    for (std::int64_t i = 0; i < size; ++i) {
      CHECK(row[static_cast<std::size_t>(i)] == Q::codeword(pagoda::row_codec<Q>::load_code(codes.data(), i)));
    }
  }
}

/// The statistics by their definition: accumulator n takes every 16th element from n on, the first what is left, too.
row_stats stats_one_by_one(const std::vector<float>& row) {
  const std::size_t full = row.size() / 16 * 16;
  row_stats found{row[0], row[0]};
  for (std::size_t lane = 0; lane < 16; ++lane) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (i < full ? i % 16 != lane : lane != 0) continue;
      if (std::isnan(row[i])) return {quiet_nan, quiet_nan};
      if (row[i] < found.min) found.min = row[i];
      if (row[i] > found.max) found.max = row[i];
    }
  }
  return found;
}

bool same_number(float a, float b) {
  return std::isnan(a) ? std::isnan(b) : a == b && std::signbit(a) == std::signbit(b);
}

TEST_CASE("statistics are those of the definition, the signs of zeros included, from every element type") {
  using codec = pagoda::row_codec<pagoda_test::int8>;
  std::mt19937 bits(3);
  for (const std::size_t size : {1u, 2u, 7u, 8u, 15u, 16u, 17u, 24u, 40u, 64u, 129u}) {
    std::vector<std::vector<float>> rows = difficult_rows(size);
    for (int i = 0; i < 200; ++i) {  // zeros of both signs, and a few numbers of one sign
      std::vector<float> row(size);
      const float sign = i % 2 == 0 ? 1.0f : -1.0f;
      for (float& x : row) x = bits() % 8 == 0 ? sign * static_cast<float>(bits() % 3) : bits() % 2 == 0 ? 0.0f : -0.0f;
      rows.push_back(row);
    }
    int wrong = 0;
    for (const std::vector<float>& row : rows) {
      const auto length = static_cast<std::int64_t>(size);
      const auto compare = [&](const row_stats& found, const std::vector<float>& of) {
        const row_stats expected = stats_one_by_one(of);
        wrong += !same_number(found.min, expected.min) || !same_number(found.max, expected.max);
      };
      compare(codec::stats(row.data(), length), row);
      const auto narrow = [&]<class T>(T) {
        std::vector<T> from;
        std::vector<float> wide;
        for (const float x : row) from.push_back(pagoda::from_float<T>(x));
        for (const T x : from) wide.push_back(pagoda::to_float(x));
        std::vector<float> copy(size + 1, 123.0f);
        compare(pagoda::detail::find_stats(from.data(), length, copy.data()), wide);
        for (std::size_t i = 0; i < size; ++i) wrong += !same_number(copy[i], wide[i]);
        wrong += copy[size] != 123.0f;
      };
      narrow(pagoda::half{});
      narrow(pagoda::bfloat16{});
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE_TEMPLATE("fit and encode_fitted do together what encode does", Q, pagoda_test::int8, pagoda_test::f16,
                   pagoda::int4_grouped<32>, pagoda::hadamard<pagoda_test::int4>, pagoda::hadamard<pagoda_test::f16>) {
  using codec = pagoda::row_codec<Q>;
  constexpr std::int64_t dim = 96;
  for (const std::vector<float>& row : difficult_rows(dim)) {
    std::vector<std::byte> codes(static_cast<std::size_t>(pagoda::code_bytes<Q>(dim)));
    std::vector<std::byte> scales(static_cast<std::size_t>(pagoda::row_scale_bytes<Q>(dim)) + 1);
    auto fitted_codes = codes;
    auto fitted_scales = scales;
    std::vector<float> values(dim);
    codec::encode(row.data(), dim, codes.data(), scales.data());
    codec::fit(row.data(), dim, values.data(), fitted_scales.data());
    codec::encode_fitted(values.data(), dim, fitted_scales.data(), fitted_codes.data());
    CHECK(codes == fitted_codes);
    CHECK(scales == fitted_scales);
  }
}

}  // namespace
