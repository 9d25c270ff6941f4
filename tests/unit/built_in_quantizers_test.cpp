// SPDX-License-Identifier: Apache-2.0
// Every quantizer of the library: errors within its promise on rows of every kind, ranges, rows that are not finite.
#include <cmath>
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include <doctest/doctest.h>
#include <pagoda/block_manager.hpp>
#include <pagoda/conformance/quantizer.hpp>
#include <pagoda/host/append.hpp>

#include "coded_rows.hpp"
#include "policy_products.hpp"
#include "stored_rows.hpp"

namespace {

using namespace pagoda_test;
using pagoda::error_bound_of;
using pagoda::row_codec;
using pagoda::row_stats;

constexpr float quiet_nan = std::numeric_limits<float>::quiet_NaN();
constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float largest = std::numeric_limits<float>::max();

template <class Q>
bool takes(std::int64_t dim) {
  try {
    pagoda::check_row<Q>("head_dim", dim);
    return true;
  } catch (const pagoda::invalid_argument&) {
    return false;
  }
}

/// What Q promises for element i of a row.
template <class Q>
float promised(const std::vector<float>& row, std::size_t i) {
  const auto dim = static_cast<std::int64_t>(row.size());
  const std::int64_t size = pagoda::is_rotated_v<Q> ? dim : row_codec<Q>::group_size(dim);
  const float* group = row.data() + static_cast<std::int64_t>(i) / size * size;
  return error_bound_of<Q>(row_codec<Q>::stats(group, size), dim);
}

TEST_CASE_TEMPLATE_DEFINE("every finite row decodes within the promised bound", Q, bounds) {
  int sizes = 0;
  for (const std::size_t dim : {16u, 32u, 48u, 96u, 128u, 160u, 448u, 576u}) {
    if (!takes<Q>(static_cast<std::int64_t>(dim))) continue;
    ++sizes;
    int unbounded = 0;
    const std::vector<named_row> rows = finite_rows(dim);
    for (const named_row& row : rows) {
      const std::vector<float> decoded = coded<Q>(row.values);
      int beyond = 0;
      bool bounded = true;
      for (std::size_t i = 0; i < dim; ++i) {
        const float bound = promised<Q>(row.values, i);
        bounded = bounded && std::isfinite(bound);
        if (std::isfinite(bound) && !(std::fabs(decoded[i] - row.values[i]) <= bound)) ++beyond;
      }
      unbounded += !bounded;
      CAPTURE(row.name);
      CAPTURE(dim);
      CHECK(beyond == 0);
    }
    CHECK(unbounded * 7 <= static_cast<int>(rows.size()));  // of those kinds, heavy tails alone leave a half's range
  }
  CHECK(sizes >= 4);
}
TEST_CASE_TEMPLATE_APPLY(bounds, built_in_quantizers);

TEST_CASE_TEMPLATE_DEFINE("zeros are exact", Q, zeros) {
  for (const float value : coded<Q>(std::vector<float>(64, 0.0f))) CHECK(value == 0.0f);
  for (const float value : coded<Q>(std::vector<float>(64, -0.0f))) CHECK(value == 0.0f);
}
TEST_CASE_TEMPLATE_APPLY(zeros, built_in_quantizers);

TEST_CASE_TEMPLATE_DEFINE("the conformance check finds no fault", Q, conformance) {
  const pagoda::conformance::report report = pagoda::conformance::check_quantizer<Q>();
  CHECK(report.checks > 1000);
  for (const std::string& fault : report.faults) FAIL_CHECK(fault);
}
TEST_CASE_TEMPLATE_APPLY(conformance, built_in_quantizers);

template <class... Q>
std::vector<std::string_view> names_of(std::tuple<Q...>) {
  return {Q::name...};
}

TEST_CASE("names are distinct, and stay what file headers and flags say") {
  const std::vector<std::string_view> names = names_of(built_in_quantizers{});
  const std::vector<std::string_view> expected{"float",
                                               "half",
                                               "bfloat16",
                                               "fp8_e4m3",
                                               "fp8_e5m2",
                                               "int8",
                                               "int4",
                                               "int8g32",
                                               "int4g32",
                                               "hadamard-int8",
                                               "hadamard-int4",
                                               "hadamard-int8g32",
                                               "hadamard-int4g32",
                                               "hadamard-fp8_e4m3",
                                               "hadamard-fp8_e5m2",
                                               "hadamard-half"};
  CHECK(names == expected);
  CHECK(std::set<std::string_view>(names.begin(), names.end()).size() == names.size());
  CHECK(pagoda::int8_grouped<>::name == "int8g32");
  CHECK(pagoda::int8_grouped<16>::name == "int8g16");
  CHECK(pagoda::int4_grouped<1024>::name == "int4g1024");
  CHECK(rotated<user_int8>::name == "hadamard-user_int8");
}

TEST_CASE("a scale's bytes: 34 for 32 elements of int8g32, 20 for int4g32, one float a row for fp8") {
  const auto bytes = []<class Q>(std::type_identity<Q>, std::int64_t dim) {
    return pagoda::code_bytes<Q>(dim) + pagoda::row_scale_bytes<Q>(dim);
  };
  CHECK(bytes(std::type_identity<int8g32>(), 128) == 4 * 34);
  CHECK(bytes(std::type_identity<int4g32>(), 128) == 4 * 20);
  CHECK(bytes(std::type_identity<rotated<int4g32>>(), 128) == 4 * 20);
  CHECK(bytes(std::type_identity<e5m2>(), 128) == 132);
}

TEST_CASE("a group that does not divide the row is refused, with the remedy") {
  CHECK_THROWS_WITH_AS(
      pagoda::check_row<int8g32>("head_dim", 80),
      doctest::Contains("head_dim is 80, but quantizer int8g32 scales groups of 32 lanes: use a multiple of 32"),
      pagoda::invalid_argument);
  CHECK_THROWS_AS(pagoda::check_row<int4g32>("head_dim", 48), pagoda::invalid_argument);
  CHECK_THROWS_AS(pagoda::check_row<rotated<int4g32>>("head_dim", 48), pagoda::invalid_argument);
  CHECK_NOTHROW(pagoda::check_row<int8g32>("head_dim", 96));
  CHECK_THROWS_WITH_AS(pagoda::block_storage<int4g32>({.head_dim = 72}, 16, pagoda::num_blocks{2}),
                       doctest::Contains("head_dim is 72, but quantizer int4g32"), pagoda::invalid_argument);
}

// ---- Saturation.

TEST_CASE("fp8 of both kinds reaches the largest floats, and stores no code of an infinity or NaN") {
  float amax = largest;
  for (int i = 0; i < 64; ++i, amax = std::nextafter(amax, 0.0f)) {
    const float decoded = coded<e5m2>({-amax, 0.0f, 1.0f, amax})[0];
    CHECK(std::fabs(decoded + amax) <= e5m2::error_bound({-amax, amax}));
  }
  for (const float value : {57344.0f, 61440.0f, 65520.0f, 1e30f, -1e30f, infinity, -infinity, quiet_nan}) {
    for (const float scale : {0.0f, 1e-45f, 1.0f, infinity, quiet_nan}) {
      CHECK((e5m2::encode(value, {scale}) & 0x7fu) < 0x7cu);
      CHECK((fp8::encode(value, {scale}) & 0x7fu) < 0x7fu);
    }
  }
}

TEST_CASE("fp8_e5m2 codes are the nearest E5M2 numbers of 57344 x / amax, ties to even") {
  const std::vector<float> row{57344.0f, -57344.0f, 9.0f, 11.0f, -1.1f, 0x1p-16f, 0x1p-17f, 0x1.8p-16f};
  const std::vector<float> expected{57344.0f, -57344.0f, 8.0f, 12.0f, -1.0f, 0x1p-16f, 0.0f, 0x1p-15f};
  CHECK(coded<e5m2>(row) == expected);
  // What its exponent is for: an element 2^-16 of the largest still has its 3 digits, in fp8_e4m3 one or two.
  const std::vector<float> wide{57344.0f, 0.875f, 0.0f, 0.0f};
  CHECK(coded<e5m2>(wide)[1] == 0.875f);
  CHECK(std::fabs(coded<fp8>(wide)[1] - 0.875f) > 0.08f);
}

TEST_CASE("int8g32: the rounded scale never lets a code beyond 127, and halves hold the range") {
  std::vector<float> row(64, 0.0f);
  for (std::size_t i = 0; i < 64; ++i) row[i] = 100.0f + static_cast<float>(i);
  const std::vector<float> decoded = coded<int8g32>(row);
  for (std::size_t i = 0; i < 64; ++i) CHECK(std::fabs(decoded[i] - row[i]) <= promised<int8g32>(row, i));
  std::vector<float> beyond(64, 1.0f);
  beyond[3] = 1e9f;
  beyond[4] = -3e38f;
  beyond[5] = 65504.0f;
  const std::vector<float> held = coded<int8g32>(beyond);
  CHECK(held[3] == 127 * 65504.0f);
  CHECK(held[4] == -127 * 65504.0f);
  CHECK(held[5] == 65504.0f);
  CHECK(held[0] == 0.0f);
  CHECK(std::fabs(held[40] - 1.0f) < 1e-3f);  // the other group
  CHECK(int8g32::error_bound({-1.0f, 1e9f}) == infinity);
  CHECK(int8g32::error_bound({-1.0f, 127 * 65504.0f}) < 33000.0f);
}

TEST_CASE("int4g32 rows beyond halves stay finite and are held at the ends of their levels, each group alone") {
  std::vector<float> row(64, 2.0f);
  row[0] = -1e9f;
  row[1] = 0.0f;
  const std::vector<float> decoded = coded<int4g32>(row);
  CHECK(decoded[0] == -65504.0f);
  CHECK(std::fabs(decoded[1]) <= 16.0f);
  for (std::size_t i = 32; i < 64; ++i) CHECK(decoded[i] == 2.0f);
  CHECK(int4g32::error_bound({-1e9f, 0.0f}) == infinity);
}

TEST_CASE("hadamard: beyond the range of the floats or of the inner quantizer nothing is promised") {
  CHECK(rotated<int8>::error_bound({-1e37f, 1e37f}, 128) == infinity);
  CHECK(std::isfinite(rotated<int8>::error_bound({-1e36f, 1e36f}, 128)));
  CHECK(rotated<f16>::error_bound({-6000.0f, 6000.0f}, 128) == infinity);
  CHECK(std::isfinite(rotated<f16>::error_bound({-5000.0f, 5000.0f}, 128)));
  CHECK(rotated<f16>::error_bound({quiet_nan, quiet_nan}, 128) == infinity);
  const std::vector<float> decoded = coded<rotated<int8>>(std::vector<float>(128, 1e36f));
  for (const float x : decoded) CHECK(std::fabs(x - 1e36f) <= rotated<int8>::error_bound({1e36f, 1e36f}, 128));
}

// ---- Rows that are not finite.

TEST_CASE_TEMPLATE_DEFINE("a NaN or infinity is not finite where it stood, and touches no other group", Q, bad_rows) {
  for (const float bad : {quiet_nan, infinity, -infinity}) {
    for (const std::size_t place : {0u, 5u, 31u, 32u, 63u}) {
      std::vector<float> row(64, 0.5f);
      row[place] = bad;
      row[place ^ 1] = -2.0f;
      const std::vector<float> decoded = coded<Q>(row);
      CAPTURE(bad);
      CAPTURE(place);
      CHECK_FALSE(std::isfinite(decoded[place]));
      for (std::size_t i = 0; i < 64; ++i) {
        if (pagoda::is_rotated_v<Q>) {
          CHECK_FALSE(std::isfinite(decoded[i]));
        } else if (!pagoda::has_scale_v<typename Q::scale_type>) {
          CHECK((i == place) != std::isfinite(decoded[i]));
        } else if (Q::group != 0) {
          CHECK((i / 32 == place / 32) != std::isfinite(decoded[i]));
        }
      }
    }
  }
}
TEST_CASE_TEMPLATE_APPLY(bad_rows, built_in_quantizers);

TEST_CASE_TEMPLATE_DEFINE("a row that is not finite leaves the bytes of every other row alone", Q, neighbours) {
  constexpr std::int64_t dim = 64;
  constexpr std::int64_t heads = 2;
  constexpr std::int64_t tokens = 5;
  const auto stored = [&](const std::vector<float>& keys) {
    pagoda::block_manager manager({.groups = {{.num_blocks = 4}}, .block_size = 4});
    const pagoda::block_storage<Q> storage({.kv_heads = heads, .head_dim = dim}, 4, pagoda::num_blocks{4});
    const pagoda::sequence sequence = manager.make_sequence();
    pagoda::step step = manager.plan({{sequence, tokens}});
    const auto view = storage.view(0, step);
    const std::vector<float> values(keys.size(), 0.25f);
    pagoda::host::append(view, pagoda::rows_view(keys, {tokens, heads, dim}),
                         pagoda::rows_view(values, {tokens, heads, dim}));
    std::vector<std::vector<std::byte>> slots;
    for (std::int64_t t = 0; t < tokens; ++t) {
      for (std::int64_t h = 0; h < heads; ++h) slots.push_back(stored_slot(view, view.batch.block(0, t / 4), h, t % 4));
    }
    return slots;
  };
  std::vector<float> keys;
  for (std::int64_t i = 0; i < tokens * heads * dim; ++i) keys.push_back(static_cast<float>(i * 37 % 101) - 50.0f);
  const auto clean = stored(keys);
  for (const float bad : {quiet_nan, infinity}) {
    std::vector<float> poisoned = keys;
    poisoned[5 * dim + 9] = bad;  // token 2, head 1
    const auto got = stored(poisoned);
    for (std::size_t row = 0; row < clean.size(); ++row) CHECK((got[row] == clean[row]) == (row != 5));
  }
}
TEST_CASE_TEMPLATE_APPLY(neighbours, built_in_quantizers);

}  // namespace
