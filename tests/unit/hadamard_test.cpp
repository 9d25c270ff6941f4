// SPDX-License-Identifier: Apache-2.0
// Rotations: H is a normalised Hadamard matrix for every length that has one; hadamard<Q> codes the rotated row.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include <doctest/doctest.h>
#include <pagoda/attention/reference.hpp>
#include <pagoda/block_manager.hpp>
#include <pagoda/conformance/quantizer.hpp>
#include <pagoda/detail/hadamard.hpp>
#include <pagoda/host/append.hpp>

#include "coded_rows.hpp"
#include "policy_products.hpp"

namespace {

using namespace pagoda_test;
using pagoda::row_codec;
using pagoda::detail::can_rotate;
using pagoda::detail::rotate;
using pagoda::detail::rotate_back;

std::vector<float> gaussian_row(std::size_t dim, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> row(dim);
  for (float& x : row) x = normal(random);
  return row;
}

double length_of(const std::vector<float>& row) {
  double sum = 0;
  for (const float x : row) sum += double{x} * double{x};
  return std::sqrt(sum);
}

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (double{a[i]} - double{b[i]}) * (double{a[i]} - double{b[i]});
  return std::sqrt(sum);
}

TEST_CASE("rows of 1, 3, 5, 7 and 9 times a power of two can be rotated, up to 576") {
  std::vector<int> dims;
  for (int dim = 0; dim <= 640; ++dim) {
    if (can_rotate(dim)) dims.push_back(dim);
  }
  CHECK(dims == std::vector<int>{8,   16,  24,  32,  40,  48,  56,  64,  72,  80,  96,  112,
                                 128, 144, 160, 192, 224, 256, 288, 320, 384, 448, 512, 576});
  CHECK_FALSE(can_rotate(-8));
}

TEST_CASE("H has entries of one size and orthogonal rows, for every length; H^T undoes it") {
  for (int dim = 8; dim <= 576; dim += 8) {
    if (!can_rotate(dim)) continue;
    CAPTURE(dim);
    const auto size = static_cast<std::size_t>(dim);
    std::vector<std::vector<double>> columns;
    double entry_error = 0;
    double back_error = 0;
    for (std::size_t i = 0; i < size; ++i) {
      std::vector<double> unit(size, 0.0);
      unit[i] = 1;
      std::vector<double> column = unit;
      rotate(column.data(), dim);
      std::vector<double> back = column;
      rotate_back(back.data(), dim);
      for (std::size_t j = 0; j < size; ++j) {
        entry_error = std::max(entry_error, std::fabs(std::fabs(column[j]) * std::sqrt(double(dim)) - 1));
        back_error = std::max(back_error, std::fabs(back[j] - unit[j]));
      }
      columns.push_back(column);
    }
    CHECK(entry_error < 1e-14);
    CHECK(back_error < 1e-14);
    double product_error = 0;
    for (std::size_t i = 0; i < size; ++i) {
      for (std::size_t k = 0; k < size; ++k) {
        double product = i == k ? -1 : 0;
        for (std::size_t j = 0; j < size; ++j) product += columns[i][j] * columns[k][j];
        product_error = std::max(product_error, std::fabs(product));
      }
    }
    CHECK(product_error < 1e-13);
  }
}

TEST_CASE("rotating a row of floats there and back costs some units in its last place") {
  for (const std::int64_t dim : {8, 24, 72, 112, 128, 160, 448, 576}) {
    const std::vector<float> row = gaussian_row(static_cast<std::size_t>(dim), 3);
    std::vector<float> turned = row;
    rotate(turned.data(), dim);
    CHECK(distance(turned, row) > 0.1 * length_of(row));
    CHECK(length_of(turned) == doctest::Approx(length_of(row)).epsilon(1e-6));
    rotate_back(turned.data(), dim);
    CHECK(distance(turned, row) < 1e-6 * length_of(row));
  }
}

TEST_CASE("the matrices of a device give the bits of the host's rotation") {
  for (const std::int64_t dim : {64, 24, 80, 56, 144}) {
    for (const bool back : {false, true}) {
      const pagoda::detail::rotation how = pagoda::detail::make_rotation(dim, back);
      std::vector<float> row = gaussian_row(static_cast<std::size_t>(dim), 4);
      std::vector<float> expected = row;
      back ? rotate_back(expected.data(), dim) : rotate(expected.data(), dim);
      std::vector<float> got(row.size());
      for (std::int64_t i = 0; i < dim; ++i) {
        float sum = 0;
        for (int j = 0; j < how.base; ++j) {
          const float x = row[static_cast<std::size_t>(i / how.base * how.base + j)];
          sum += (how.negative[i % how.base] >> j & 1u) != 0 ? -x : x;
        }
        got[static_cast<std::size_t>(i)] = sum;
      }
      for (std::int64_t distance = how.base; distance < dim; distance *= 2) {
        for (std::int64_t i = 0; i < dim; ++i) {
          if ((i / distance) % 2 != 0) continue;
          float& low = got[static_cast<std::size_t>(i)];
          float& high = got[static_cast<std::size_t>(i + distance)];
          const float sum = low + high;
          high = low - high;
          low = sum;
        }
      }
      for (float& x : got) x *= how.factor;
      CHECK(got == expected);
    }
  }
}

TEST_CASE_TEMPLATE_DEFINE("codes are the inner quantizer's of the rotated row, and decode rotates back", Q, inner) {
  using base = pagoda::unrotated_t<Q>;
  for (const std::int64_t dim : {32, 96, 128, 576}) {
    const std::vector<float> row = gaussian_row(static_cast<std::size_t>(dim), 5);
    std::vector<float> turned = row;
    rotate(turned.data(), dim);
    const auto bytes = [&]<class Quantizer>(std::type_identity<Quantizer>, const std::vector<float>& from) {
      std::vector<std::byte> codes(static_cast<std::size_t>(pagoda::code_bytes<Quantizer>(dim)));
      std::vector<std::byte> scales(static_cast<std::size_t>(pagoda::row_scale_bytes<Quantizer>(dim)));
      row_codec<Quantizer>::encode(from.data(), dim, codes.data(), scales.data());
      codes.insert(codes.end(), scales.begin(), scales.end());
      return codes;
    };
    CHECK(bytes(std::type_identity<Q>(), row) == bytes(std::type_identity<base>(), turned));
    std::vector<float> expected = coded<base>(turned);
    rotate_back(expected.data(), dim);
    CHECK(coded<Q>(row) == expected);
  }
}
TEST_CASE_TEMPLATE_APPLY(inner, rotated_quantizers);

/// The promise in L2: what coding the rotated row may cost, and two rotations in float.
TEST_CASE_TEMPLATE_DEFINE("a row's error in L2 is that of coding the rotated row", Q, lengths) {
  using base = pagoda::unrotated_t<Q>;
  int bounded = 0;
  for (const std::int64_t dim : {64, 96, 128, 160, 576}) {
    for (const named_row& row : finite_rows(static_cast<std::size_t>(dim))) {
      std::vector<float> turned = row.values;
      rotate(turned.data(), dim);
      double sum = 0;
      const std::int64_t size = row_codec<Q>::group_size(dim);
      for (std::int64_t begin = 0; begin < dim; begin += size) {
        const double bound = base::error_bound(row_codec<Q>::stats(turned.data() + begin, size));
        sum += bound * bound * static_cast<double>(size);
      }
      if (!std::isfinite(sum)) continue;
      ++bounded;
      CAPTURE(row.name);
      CAPTURE(dim);
      CHECK(distance(coded<Q>(row.values), row.values) <=
            std::sqrt(sum) + 0x1p-15 * length_of(row.values) + 1e-44 * static_cast<double>(dim));
    }
  }
  CHECK(bounded > 600);
}
TEST_CASE_TEMPLATE_APPLY(lengths, rotated_quantizers);

/// Rows of keys as models have them: most channels alike, a few much larger in every row.
template <class Q>
double error_of_outlier_rows() {
  double error = 0;
  double length = 0;
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::vector<float> row = gaussian_row(128, seed);
    row[7] += 60.0f;
    row[90] -= 40.0f;
    const double off = distance(coded<Q>(row), row);
    error += off * off;
    row[7] = row[90] = 0;  // what is left is what a code has to tell apart
    length += length_of(row) * length_of(row);
  }
  return std::sqrt(error / length);
}

TEST_CASE("rows with outlier channels: a rotation spares them most of the error") {
  const double plain4 = error_of_outlier_rows<int4>();
  const double turned4 = error_of_outlier_rows<rotated<int4>>();
  const double plain8 = error_of_outlier_rows<int8>();
  const double turned8 = error_of_outlier_rows<rotated<int8>>();
  MESSAGE("relative error of int4 " << plain4 << ", rotated " << turned4 << "; int8 " << plain8 << ", " << turned8);
  CHECK(plain4 > 2.5 * turned4);
  CHECK(plain8 > 2.5 * turned8);
  CHECK(turned4 < 0.5);
}

TEST_CASE("Gaussian rows lose nothing by a rotation") {
  const auto error = []<class Q>(std::type_identity<Q>) {
    double sum = 0;
    for (unsigned seed = 0; seed < 100; ++seed) {
      const std::vector<float> row = gaussian_row(128, 1000 + seed);
      sum += distance(coded<Q>(row), row) / length_of(row);
    }
    return sum / 100;
  };
  CHECK(error(std::type_identity<rotated<int4>>()) < 1.05 * error(std::type_identity<int4>()));
  CHECK(error(std::type_identity<rotated<int8>>()) < 1.05 * error(std::type_identity<int8>()));
  CHECK(error(std::type_identity<rotated<f16>>()) < 1.05 * error(std::type_identity<f16>()));
}

TEST_CASE("a length without a matrix is refused, with the remedy") {
  using mixed_storage = pagoda::block_storage<f16, rotated<int8>>;
  for (const std::int64_t dim : {88, 104, 120, 136, 208, 568}) {
    CHECK_THROWS_AS(pagoda::check_row<rotated<int8>>("head_dim", dim), pagoda::invalid_argument);
    CHECK_NOTHROW(pagoda::check_row<int8>("head_dim", dim));
  }
  CHECK_THROWS_WITH_AS(
      pagoda::check_row<rotated<int4>>("head_dim", 88),
      doctest::Contains("head_dim is 88, but quantizer hadamard-int4 rotates rows of 1, 3, 5, 7 or 9 times a power of "
                        "two, from 8 to 576: pad the heads to such a length or use quantizer int4"),
      pagoda::invalid_argument);
  CHECK_THROWS_WITH_AS(mixed_storage({.head_dim = 64, .value_head_dim = 120}, 16, pagoda::num_blocks{2}),
                       doctest::Contains("value head_dim is 120, but quantizer hadamard-int8"),
                       pagoda::invalid_argument);
  CHECK_NOTHROW(
      pagoda::block_storage<rotated<int8>>({.head_dim = 576, .value_head_dim = 72}, 16, pagoda::num_blocks{2}));
}

TEST_CASE("reference attention is the same over rotated rows, but for their codes' error") {
  constexpr std::int64_t tokens = 20;
  constexpr std::int64_t heads = 2;
  const auto attend = [&]<class Key, class Value>(std::type_identity<Key>, std::type_identity<Value>) {
    pagoda::block_manager manager({.groups = {{.num_blocks = 8}}, .block_size = 4});
    const pagoda::block_storage<Key, Value> storage({.kv_heads = heads, .head_dim = 40, .value_head_dim = 96}, 4,
                                                    pagoda::num_blocks{8});
    const pagoda::sequence sequence = manager.make_sequence();
    pagoda::step step = manager.plan({{sequence, tokens}});
    const auto view = storage.view(0, step);
    const std::vector<float> keys = gaussian_row(tokens * heads * 40, 1);
    const std::vector<float> values = gaussian_row(tokens * heads * 96, 2);
    pagoda::host::append(view, pagoda::rows_view(keys, {tokens, heads, 40}),
                         pagoda::rows_view(values, {tokens, heads, 96}));
    std::vector<double> output(tokens * heads * 96);
    pagoda::reference_attention(view, pagoda::rows_view(keys, {tokens, heads, 40}),
                                pagoda::rows_view(output, {tokens, heads, 96}));
    return output;
  };
  const std::vector<double> plain = attend(std::type_identity<f32>(), std::type_identity<f32>());
  const auto worst = [&](const std::vector<double>& got) {
    double error = 0;
    for (std::size_t i = 0; i < plain.size(); ++i) error = std::max(error, std::fabs(got[i] - plain[i]));
    return error;
  };
  CHECK(worst(attend(std::type_identity<rotated<f32>>(), std::type_identity<f32>())) < 1e-5);
  CHECK(worst(attend(std::type_identity<f32>(), std::type_identity<rotated<f32>>())) < 1e-5);
  CHECK(worst(attend(std::type_identity<rotated<int8>>(), std::type_identity<rotated<f16>>())) < 0.05);
}

// ---- Faults that the conformance check finds.

struct wrong_sixteen : int8 {
  template <int W>
  static void load_float(const std::byte* codes, pagoda::vec<float, W>& values) {
    int8::load_float<W>(codes, values);
    if constexpr (W == 16) values[15] += 1;
  }
};
struct wrong_bias : int8 {
  static constexpr int int16_bias = 127;
};
struct wrong_int16 : int8 {
  static constexpr int int16_bias = 0;
  template <int W>
  static void load_int16(const std::byte* codes, pagoda::vec<std::int16_t, W>& values) {
    for (int i = 0; i < W; ++i) values[i] = static_cast<std::int16_t>(static_cast<int>(codes[i]) - 127);
  }
};
struct right_int16 : int8 {
  static constexpr int int16_bias = 0;
  template <int W>
  static void load_int16(const std::byte* codes, pagoda::vec<std::int16_t, W>& values) {
    for (int i = 0; i < W; ++i) values[i] = static_cast<std::int16_t>(static_cast<int>(codes[i]) - 128);
  }
};
struct limit_without_hooks : user_int8 {
  static constexpr float codeword_limit = 50;
};
struct error_by_length : user_int8 {
  static float error_bound(pagoda::row_stats stats, std::int64_t dim) {
    return stats.amax() / static_cast<float>(dim * 4);
  }
};

TEST_CASE_TEMPLATE("the conformance check finds faults of wide hooks, limits and promises by length", Q, wrong_sixteen,
                   wrong_int16, wrong_bias, limit_without_hooks, error_by_length) {
  CHECK_FALSE(pagoda::conformance::check_quantizer<Q>().ok());
}
TEST_CASE("the conformance check counts 16-bit hooks, and finds no fault in right ones") {
  const pagoda::conformance::report with = pagoda::conformance::check_quantizer<right_int16>();
  CHECK(with.ok());
  CHECK(with.checks >= pagoda::conformance::check_quantizer<user_int8>().checks + 1280);
}

}  // namespace
