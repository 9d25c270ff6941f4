// SPDX-License-Identifier: Apache-2.0
// One row to codes and back: errors within what a quantizer promises, rows that are not finite, packing, statistics.
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <pagoda/conformance/quantizer.hpp>
#include <pagoda/quantizer/row_codec.hpp>

#include "coded_rows.hpp"
#include "policy_products.hpp"

namespace {

using pagoda::row_codec;
using pagoda::row_stats;
using pagoda_test::coded;
using pagoda_test::finite_rows;
using pagoda_test::named_row;

constexpr float quiet_nan = std::numeric_limits<float>::quiet_NaN();
constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float denormal = std::numeric_limits<float>::denorm_min();

#define EVERY_QUANTIZER                                                                                          \
  pagoda_test::f32, pagoda_test::f16, pagoda_test::bf16, pagoda_test::int8, pagoda_test::int4, pagoda_test::fp8, \
      pagoda_test::user_int8, pagoda_test::user_int4, pagoda_test::user_int8_grouped

/// The promise of Q, or half a step of user_int8, which makes none.
template <class Q>
float promised(row_stats stats) {
  if constexpr (requires { Q::error_bound(stats); }) {
    return Q::error_bound(stats);
  } else {
    return stats.amax() < 1e-36f ? stats.amax() : stats.amax() / 199.0f;
  }
}

TEST_CASE_TEMPLATE("every finite row decodes within the promised bound", Q, EVERY_QUANTIZER) {
  for (const std::size_t dim : {16u, 48u, 128u, 576u}) {
    for (const named_row& row : finite_rows(dim)) {
      const std::vector<float> decoded = coded<Q>(row.values);
      const std::size_t size = Q::group == 0 ? dim : static_cast<std::size_t>(Q::group);
      int beyond = 0;
      for (std::size_t i = 0; i < dim; ++i) {
        const float* group = row.values.data() + i / size * size;
        const float bound = promised<Q>(row_codec<Q>::stats(group, static_cast<std::int64_t>(size)));
        if (!(std::fabs(decoded[i] - row.values[i]) <= bound)) ++beyond;
      }
      CAPTURE(row.name);
      CAPTURE(dim);
      CHECK(beyond == 0);
    }
  }
}

TEST_CASE_TEMPLATE("zeros are exact", Q, EVERY_QUANTIZER) {
  for (const float value : coded<Q>(std::vector<float>(64, 0.0f))) CHECK(value == 0.0f);
}

TEST_CASE("huge floats decode within the bound where the format reaches them, else to infinity") {
  std::vector<float> row(32, 1.0f);
  row[3] = 3e38f;
  row[4] = -3e38f;
  const std::vector<float> decoded = coded<pagoda_test::int8>(row);
  CHECK(std::fabs(decoded[3] - row[3]) <= pagoda_test::int8::error_bound({row[4], row[3]}));
  CHECK(decoded[4] == -decoded[3]);
  CHECK(decoded[0] == 0.0f);
  row[3] = std::numeric_limits<float>::max();
  row[4] = -row[3];
  const std::vector<float> largest = coded<pagoda_test::int8>(row);
  CHECK(std::fabs(largest[3] - row[3]) <= pagoda_test::int8::error_bound({row[4], row[3]}));
  CHECK(largest[4] == -largest[3]);
  CHECK(pagoda_test::f16::error_bound({row[4], row[3]}) == infinity);
  CHECK(pagoda_test::bf16::error_bound({row[4], row[3]}) == infinity);
  CHECK(coded<pagoda_test::f32>(row) == row);
  CHECK(coded<pagoda_test::f16>(row)[3] == infinity);
  CHECK(coded<pagoda_test::f16>(row)[4] == -infinity);
  CHECK(coded<pagoda_test::f16>(row)[0] == 1.0f);
  CHECK(coded<pagoda_test::bf16>(row)[3] == infinity);
}

TEST_CASE_TEMPLATE("a row with a NaN or infinity does not decode to finite numbers there, and touches no other group",
                   Q, EVERY_QUANTIZER) {
  for (const float bad : {quiet_nan, infinity, -infinity}) {
    for (const std::size_t place : {0u, 5u, 16u, 31u, 32u, 47u}) {
      std::vector<float> row(48, 0.5f);
      row[place] = bad;
      const std::vector<float> decoded = coded<Q>(row);
      CAPTURE(bad);
      CAPTURE(place);
      CHECK_FALSE(std::isfinite(decoded[place]));
      if (!pagoda::has_scale_v<typename Q::scale_type>) {
        for (std::size_t i = 0; i < 48; ++i) CHECK((i == place) != std::isfinite(decoded[i]));
      }
      if (Q::group != 0) {
        for (std::size_t i = 0; i < 48; ++i) CHECK((i / 16 == place / 16) != std::isfinite(decoded[i]));
      }
    }
  }
}

TEST_CASE("fp8 reaches the largest floats, and its codes are never those of NaN") {
  using pagoda_test::fp8;
  float amax = std::numeric_limits<float>::max();
  for (int i = 0; i < 64; ++i, amax = std::nextafter(amax, 0.0f)) {
    const float decoded = coded<fp8>({-amax, 0.0f, 1.0f, amax})[0];
    CHECK(std::fabs(decoded + amax) <= fp8::error_bound({-amax, amax}));
  }
  for (const float value : {448.0f, 464.0f, 1e30f, -1e30f, infinity, -infinity, quiet_nan}) {
    for (const float scale : {0.0f, denormal, 1.0f, infinity, quiet_nan}) {
      CHECK(fp8::encode(value, {scale}) % 128 != 127);
    }
  }
}

TEST_CASE("fp8 codes are the nearest E4M3 numbers of 448 x / amax, ties to even") {
  const std::vector<float> row{448.0f, -448.0f, 17.0f, 19.0f, -1.0625f, 0x1p-9f, 0x1p-10f, 0x1.8p-9f};
  const std::vector<float> expected{448.0f, -448.0f, 16.0f, 20.0f, -1.0f, 0x1p-9f, 0.0f, 0x1p-8f};
  CHECK(coded<pagoda_test::fp8>(row) == expected);
}

TEST_CASE("int4 codes count the row's fifteenths from its smallest element, by the scale and offset that are stored") {
  std::vector<float> row;
  for (int i = 0; i < 16; ++i) row.push_back(static_cast<float>(3 * i - 20));
  CHECK(coded<pagoda_test::int4>(row) == row);
  row[4] = -8.0f + 1.5f;  // a tie between codes 4 and 5
  row[5] = -5.0f + 1.5f;
  const std::vector<float> ties = coded<pagoda_test::int4>(row);
  CHECK(ties[4] == -8.0f);
  CHECK(ties[5] == -2.0f);
  // 2049 is no half: the offset is 2048 or 2050, and the levels are spaced so that the largest is still reached.
  const std::vector<float> high = coded<pagoda_test::int4>({2049.0f, 2064.0f, 2049.0f, 2064.0f});
  CHECK(std::fabs(high[0] - 2049.0f) <= 1.0f);
  CHECK(std::fabs(high[1] - 2064.0f) <= 0.01f);
}

TEST_CASE("int4 rows beyond halves stay finite, are held at the ends of their levels, and promise nothing") {
  using pagoda_test::int4;
  const std::vector<float> wide = coded<int4>({-65504.0f, 65504.0f, 0.0f, 100.0f});
  CHECK(std::fabs(wide[1] - 65504.0f) <= int4::error_bound({-65504.0f, 65504.0f}));
  CHECK(std::fabs(wide[2]) <= int4::error_bound({-65504.0f, 65504.0f}));
  const std::vector<float> low = coded<int4>({-1e9f, 0.0f, -65504.0f, -70000.0f});
  for (const std::size_t i : {0u, 2u, 3u}) CHECK(low[i] == -65504.0f);
  CHECK(std::fabs(low[1]) <= 16.0f);
  CHECK(int4::error_bound({-1e9f, 0.0f}) == infinity);
  const std::vector<float> high = coded<int4>({0.0f, 3e38f, 1e6f, 65504.0f});
  CHECK(high == std::vector<float>{0.0f, 15 * 65504.0f, 15 * 65504.0f, 65504.0f});
  CHECK(int4::error_bound({0.0f, 3e38f}) == infinity);
  CHECK(int4::error_bound({65505.0f, 65505.0f}) == infinity);
  for (const float value : coded<int4>(std::vector<float>(8, 9e5f))) CHECK(std::fabs(value - 9e5f) <= 500.0f);
}

TEST_CASE("int8 codes are round(127 x / amax), ties to even, and never -128") {
  const std::vector<float> row{127.0f, -127.0f, 0.5f, 1.5f, 2.5f, -0.5f, -1.5f, 63.49f};
  const std::vector<float> expected{127.0f, -127.0f, 0.0f, 2.0f, 2.0f, 0.0f, -2.0f, 63.0f};
  CHECK(coded<pagoda_test::int8>(row) == expected);
}

TEST_CASE("4-bit codes are packed two a byte, the even element in the low half") {
  std::vector<float> row;
  for (int i = 0; i < 16; ++i) row.push_back(static_cast<float>(i));
  std::array<std::byte, 8> codes{};
  std::array<std::byte, 4> scales{};
  using codec = row_codec<pagoda_test::user_int4>;
  codec::encode(row.data(), 16, codes.data(), scales.data());
  for (std::size_t i = 0; i < 8; ++i) CHECK(codes[i] == static_cast<std::byte>(2 * i + 16 * (2 * i + 1)));
  for (int i = 0; i < 16; ++i) CHECK(codec::load_code(codes.data(), i) == static_cast<std::uint32_t>(i));
  CHECK(scale_of(codec::load_scale(scales.data(), 0)) == 1.0f);
  CHECK(offset_of(codec::load_scale(scales.data(), 0)) == 0.0f);
}

TEST_CASE("each group of lanes has its own scale, in order") {
  std::vector<float> row(48, 1.0f);
  for (std::size_t i = 16; i < 32; ++i) row[i] = 1000.0f;
  for (std::size_t i = 32; i < 48; ++i) row[i] = 0.001f;
  const std::vector<float> grouped = coded<pagoda_test::user_int8_grouped>(row);
  for (std::size_t i = 0; i < 48; ++i) CHECK(grouped[i] == doctest::Approx(row[i]).epsilon(1e-6));
  CHECK(coded<pagoda_test::int8>(row)[40] == 0.0f);  // one scale for the whole row loses it
}

TEST_CASE("sizes of rows: codes packed, rows padded to 16 bytes, one scale a row or a group") {
  using namespace pagoda_test;
  CHECK(pagoda::code_bytes<user_int4>(40) == 20);
  CHECK(pagoda::row_bytes<user_int4>(40) == 32);
  CHECK(pagoda::row_bytes<int8>(8) == 16);
  CHECK(pagoda::row_bytes<f16>(72) == 144);
  CHECK(pagoda::row_bytes<f32>(576) == 2304);
  CHECK(pagoda::row_scale_bytes<f16>(128) == 0);
  CHECK(pagoda::row_scale_bytes<int8>(128) == 4);
  CHECK(pagoda::row_scale_bytes<user_int4>(128) == 4);
  CHECK(pagoda::row_scale_bytes<user_int8_grouped>(128) == 32);
  CHECK_NOTHROW(pagoda::check_row<user_int8_grouped>("head_dim", 48));
  CHECK_NOTHROW(pagoda::check_row<int8>("head_dim", 40));
  CHECK_THROWS_WITH_AS(pagoda::check_row<user_int8_grouped>("head_dim", 40),
                       doctest::Contains("head_dim is 40, but quantizer user_int8g16 scales groups of 16 lanes"),
                       pagoda::invalid_argument);
}

TEST_CASE("statistics find the smallest and largest element at every place and length; a NaN anywhere makes both NaN") {
  using codec = row_codec<pagoda_test::f32>;
  for (const std::size_t size : {1u, 7u, 8u, 15u, 16u, 17u, 40u, 128u}) {
    for (std::size_t place = 0; place < size; ++place) {
      std::vector<float> row(size, 2.0f);
      const auto length = static_cast<std::int64_t>(size);
      row[place] = -9.0f;
      CHECK(codec::stats(row.data(), length).min == -9.0f);
      CHECK(codec::stats(row.data(), length).amax() == 9.0f);
      row[place] = 9.0f;
      CHECK(codec::stats(row.data(), length).max == 9.0f);
      row[place] = quiet_nan;
      const row_stats stats = codec::stats(row.data(), length);
      CHECK(std::isnan(stats.min));
      CHECK(std::isnan(stats.max));
      CHECK(std::isnan(stats.amax()));
    }
  }
}

TEST_CASE_TEMPLATE("the conformance check finds no fault in any quantizer", Q, EVERY_QUANTIZER) {
  const pagoda::conformance::report report = pagoda::conformance::check_quantizer<Q>();
  CHECK(report.checks > 1000);
  for (const std::string& fault : report.faults) FAIL_CHECK(fault);
}

}  // namespace
