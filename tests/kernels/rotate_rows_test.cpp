// SPDX-License-Identifier: Apache-2.0
// kernels::rotate_rows on the host context: the bits of the host's rotation, for the batch's rows and no others.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>
#include <pagoda/detail/hadamard.hpp>
#include <pagoda/kernels/rotate_rows.hpp>
#include <pagoda/simt/host_context.hpp>

#include "append_case.hpp"
#include "attention_case.hpp"

namespace {

using pagoda::bfloat16;
using pagoda::half;
using pagoda::kernels::rotate_rows;
using pagoda_test::spread_rows;

constexpr std::int64_t tokens = 5;
constexpr std::int64_t padding = 2;

/// Rotates `batch_rows` of the rows; the result, float or narrower, starts as 77.
template <class To, class From>
std::vector<To> rotated(const spread_rows<From>& from, std::int64_t heads, std::int64_t dim, bool back,
                        std::int32_t batch_rows, std::uint32_t grid) {
  std::vector<To> to(static_cast<std::size_t>((tokens + padding) * heads * dim), pagoda::from_float<To>(77.0f));
  const std::int32_t sequences = 2;
  const std::vector<std::int32_t> offsets{0, 1, batch_rows};
  const rotate_rows::arguments args{
      .from = from.erased(),
      .to = pagoda::kernels::erase(pagoda::rows_view<To>(to, {tokens + padding, heads, dim})),
      .num_sequences = &sequences,
      .offsets = offsets.data(),
      .heads = static_cast<std::int32_t>(heads),
      .how = pagoda::detail::make_rotation(dim, back)};
  pagoda::simt::host_machine machine;
  const std::int64_t units = rotate_rows::max_units(args);
  machine.launch<rotate_rows>({grid == 0 ? static_cast<std::uint32_t>(units) : grid, 1, 1}, args);
  return to;
}

template <class From, class To>
void check_rotation(std::int64_t heads, std::int64_t dim, bool back, std::uint32_t grid = 0) {
  CAPTURE(heads);
  CAPTURE(dim);
  const spread_rows<From> from(tokens, padding, heads, dim, [](auto... at) { return pagoda_test::noise(3, 1, at...); });
  const std::vector<To> got = rotated<To>(from, heads, dim, back, tokens, grid);
  int wrong = 0;
  for (std::int64_t token = 0; token < tokens + padding; ++token) {
    for (std::int64_t head = 0; head < heads; ++head) {
      std::vector<float> row(static_cast<std::size_t>(dim), 77.0f);
      if (token < tokens) {
        for (std::int64_t d = 0; d < dim; ++d) {
          row[static_cast<std::size_t>(d)] = pagoda::to_float(from.rows().row(token, head)[d]);
        }
        back ? pagoda::detail::rotate_back(row.data(), dim) : pagoda::detail::rotate(row.data(), dim);
      }
      for (std::int64_t d = 0; d < dim; ++d) {
        const To expected = pagoda::from_float<To>(row[static_cast<std::size_t>(d)]);
        const To& found = got[static_cast<std::size_t>((token * heads + head) * dim + d)];
        wrong += std::memcmp(&found, &expected, sizeof(To)) != 0;
      }
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("every length there is, to and fro, has the bits of the host") {
  for (std::int64_t dim = 8; dim <= 576; dim += 8) {
    if (!pagoda::detail::can_rotate(dim)) continue;
    check_rotation<float, float>(1, dim, false);
    check_rotation<float, float>(1, dim, true);
  }
}

TEST_CASE("rows of every element type, strided; heads beside a block's warps; any grid") {
  check_rotation<half, float>(3, 64, false);
  check_rotation<bfloat16, float>(4, 80, false);
  check_rotation<float, half>(5, 128, true);
  check_rotation<float, bfloat16>(9, 56, true);
  check_rotation<half, half>(8, 24, false);
  for (const std::uint32_t grid : {1u, 3u, 40u}) check_rotation<float, float>(6, 96, true, grid);
}

TEST_CASE("rows behind the batch's, or behind the tensor, are left alone") {
  const spread_rows<float> from(tokens, padding, 2, 32, [](auto... at) { return pagoda_test::noise(3, 1, at...); });
  for (const std::int32_t rows : {1, 3}) {
    const std::vector<float> got = rotated<float>(from, 2, 32, false, rows, 0);
    for (std::size_t i = 0; i < got.size(); ++i) CHECK((got[i] == 77.0f) == (i >= static_cast<std::size_t>(rows) * 64));
  }
  const std::vector<float> all = rotated<float>(from, 2, 32, false, 1000, 0);
  CHECK(std::isnan(all.back()));  // the tensor's last row, which is NaN, and nothing behind it
}

TEST_CASE("a NaN or infinity stays in its row") {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    const spread_rows<float> from(tokens, 0, 5, 72, [&](std::int64_t t, std::int64_t h, std::int64_t d) {
      return t == 2 && h == 3 && d == 40 ? bad : pagoda_test::noise(3, 1, t, h, d);
    });
    const std::vector<float> got = rotated<float>(from, 5, 72, false, tokens, 0);
    for (std::size_t i = 0; i < tokens * 5 * 72; ++i) CHECK(std::isfinite(got[i]) == (i / 72 != 13));
  }
}

}  // namespace
