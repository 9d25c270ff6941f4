// SPDX-License-Identifier: Apache-2.0
// ldmatrix, movmatrix and mma against plain loops over plain matrices.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include <doctest/doctest.h>

#include "faults.hpp"

namespace {

using namespace simt_tests;
using pagoda::bfloat16;
using pagoda::half;
using pagoda::simt::shared;

std::uint16_t low(std::uint32_t word) {
  return static_cast<std::uint16_t>(word);
}
std::uint16_t high(std::uint32_t word) {
  return static_cast<std::uint16_t>(word >> 16);
}

/// Element (matrix, row, column) of four 8 x 8 matrices: all different.
std::uint16_t element(int matrix, int row, int column) {
  return static_cast<std::uint16_t>(matrix * 1000 + row * 100 + column);
}

/// Stores the matrices' rows in a scattered order and returns the offset of a row.
int place_of(int matrix, int row) {
  return (matrix * 8 + row) * 5 % 32 * 16;
}

void store_matrices(host_context& ctx, host_context::shared_array<std::byte> bytes) {
  if (ctx.warp() == 0) {
    for (int c = 0; c < 8; ++c) {
      ctx.sts(bytes, place_of(ctx.lane() / 8, ctx.lane() % 8) + 2 * c, element(ctx.lane() / 8, ctx.lane() % 8, c));
    }
  }
  ctx.sync();
}

TEST_CASE("ldmatrix gives each lane two elements of a row, or of a column") {
  for (std::uint32_t seed = 0; seed < 4; ++seed) {
    CAPTURE(seed);
    host_machine machine({.schedule_seed = seed});
    machine.launch("ldmatrix", {1, 1, 1}, 64, 512, [&](host_context& ctx) {
      auto bytes = shared<std::byte>(ctx, 512);
      store_matrices(ctx, bytes);
      const int l = ctx.lane();
      const int g = l / 4;
      const int q = l % 4 * 2;
      const int row = place_of(l / 8, l % 8);
      std::uint32_t four[4];
      std::uint32_t two[2];
      ctx.ldmatrix_x4(four, bytes, row);
      for (int m = 0; m < 4; ++m) {
        CHECK(low(four[m]) == element(m, g, q));
        CHECK(high(four[m]) == element(m, g, q + 1));
      }
      ctx.ldmatrix_x4_trans(four, bytes, row);
      for (int m = 0; m < 4; ++m) {
        CHECK(low(four[m]) == element(m, q, g));
        CHECK(high(four[m]) == element(m, q + 1, g));
      }
      ctx.ldmatrix_x2(two, bytes, row);
      for (int m = 0; m < 2; ++m) {
        CHECK(low(two[m]) == element(m, g, q));
        CHECK(high(two[m]) == element(m, g, q + 1));
      }
      ctx.ldmatrix_x2_trans(two, bytes, row);
      for (int m = 0; m < 2; ++m) {
        CHECK(low(two[m]) == element(m, q, g));
        CHECK(high(two[m]) == element(m, q + 1, g));
      }
      // The register layout of ldmatrix, transposed within the warp, is that of ldmatrix_trans.
      ctx.ldmatrix_x4(four, bytes, row);
      const std::uint32_t transposed = ctx.movmatrix_trans(four[3]);
      CHECK(low(transposed) == element(3, q, g));
      CHECK(high(transposed) == element(3, q + 1, g));
    });
  }
}

template <class Element>
std::vector<Element> random_elements(std::size_t count, std::uint32_t state) {
  std::vector<Element> result(count);
  for (Element& x : result) {
    state = state * 1664525u + 1013904223u;
    x = pagoda::from_float<Element>(static_cast<float>(static_cast<std::int32_t>(state)) * 0x1p-29f);
  }
  return result;
}

template <class Element>
std::uint32_t pair(Element first, Element second) {
  return first.bits | (std::uint32_t{second.bits} << 16);
}

/// d = c + a * b on the machine, with the fragments laid out as the concept says.
template <class Element>
std::vector<float> product(const std::vector<Element>& a, const std::vector<Element>& b, const std::vector<float>& c,
                           std::uint32_t seed) {
  std::vector<float> d(16 * 8);
  host_machine machine({.schedule_seed = seed});
  machine.launch("mma", {1, 1, 1}, 32, 0, [&](host_context& ctx) {
    const auto at_a = [&](int row, int k) { return a[static_cast<std::size_t>(row * 16 + k)]; };
    const auto at_b = [&](int k, int column) { return b[static_cast<std::size_t>(k * 8 + column)]; };
    const int g = ctx.lane() / 4;
    const int q = ctx.lane() % 4 * 2;
    const std::uint32_t ra[4] = {pair(at_a(g, q), at_a(g, q + 1)), pair(at_a(g + 8, q), at_a(g + 8, q + 1)),
                                 pair(at_a(g, q + 8), at_a(g, q + 9)), pair(at_a(g + 8, q + 8), at_a(g + 8, q + 9))};
    const std::uint32_t rb[2] = {pair(at_b(q, g), at_b(q + 1, g)), pair(at_b(q + 8, g), at_b(q + 9, g))};
    const auto i = [&](int row, int column) { return static_cast<std::size_t>(row * 8 + column); };
    float rd[4] = {c[i(g, q)], c[i(g, q + 1)], c[i(g + 8, q)], c[i(g + 8, q + 1)]};
    ctx.mma_m16n8k16(Element{}, rd, ra, rb);
    d[i(g, q)] = rd[0];
    d[i(g, q + 1)] = rd[1];
    d[i(g + 8, q)] = rd[2];
    d[i(g + 8, q + 1)] = rd[3];
  });
  return d;
}

TEST_CASE_TEMPLATE("mma is the plain product", Element, half, bfloat16) {
  const auto a = random_elements<Element>(256, 1);
  const auto b = random_elements<Element>(128, 2);
  const auto c_elements = random_elements<half>(128, 3);
  std::vector<float> c(128);
  for (std::size_t i = 0; i < 128; ++i) c[i] = pagoda::to_float(c_elements[i]);
  std::vector<float> expected = c;
  for (std::size_t row = 0; row < 16; ++row) {
    for (std::size_t column = 0; column < 8; ++column) {
      float& sum = expected[row * 8 + column];
      for (std::size_t k = 0; k < 16; ++k)
        sum += pagoda::to_float(a[row * 16 + k]) * pagoda::to_float(b[k * 8 + column]);
    }
  }
  for (std::uint32_t seed = 0; seed < 4; ++seed) CHECK(product(a, b, c, seed) == expected);
}

TEST_CASE("mma accumulates in float") {
  // 2048 + 1 is no half; 1 + 2^-20 is no sum that a half could hold.
  std::vector<half> a(256, pagoda::from_float<half>(0.0f));
  std::vector<half> b(128, pagoda::from_float<half>(0.0f));
  for (std::size_t k = 0; k < 2; ++k) b[k * 8] = pagoda::from_float<half>(1.0f);
  a[0] = pagoda::from_float<half>(2048.0f);
  a[1] = pagoda::from_float<half>(1.0f);
  a[16] = pagoda::from_float<half>(1.0f);
  a[17] = pagoda::from_float<half>(0x1p-20f);
  const auto d = product(a, b, std::vector<float>(128, 0.0f), 0);
  CHECK(d[0] == 2049.0f);
  CHECK(d[8] == 1.0f + 0x1p-20f);
}

}  // namespace
