// SPDX-License-Identifier: Apache-2.0
// Sizes that are checked before they are used, and the rows_view through which engines hand in tensors.
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <pagoda/shape.hpp>

namespace {

using pagoda::check_shape;
using pagoda::checked_add;
using pagoda::checked_multiply;
using pagoda::rows_shape;
using pagoda::rows_strides;
using pagoda::rows_view;

constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();

TEST_CASE("checked arithmetic gives the exact result or throws size_overflow with both numbers") {
  static_assert(checked_multiply(std::int64_t{1} << 31, std::int64_t{1} << 31, "x") == std::int64_t{1} << 62);
  CHECK(checked_add(most - 1, 1, "x") == most);
  CHECK_THROWS_WITH_AS(checked_multiply(std::int64_t{1} << 32, std::int64_t{1} << 31, "bytes of a layer"),
                       doctest::Contains("bytes of a layer = 4294967296 * 2147483648 does not fit 64 bits"),
                       pagoda::size_overflow);
  CHECK_THROWS_WITH_AS(checked_add(most, 1, "sum"), doctest::Contains("sum = 9223372036854775807 + 1"),
                       pagoda::size_overflow);
  CHECK_THROWS_AS(pagoda::round_up(most - 10, 256, "x"), pagoda::size_overflow);
  CHECK(pagoda::round_up(257, 256, "x") == 512);
  CHECK(pagoda::round_up(256, 256, "x") == 256);
  CHECK(pagoda::round_up(0, 256, "x") == 0);
  CHECK(pagoda::divide_up(0, 16) == 0);
  CHECK(pagoda::divide_up(16, 16) == 1);
  CHECK(pagoda::divide_up(17, 16) == 2);
}

TEST_CASE("a block size is a power of two from 1 to 65536") {
  for (std::int64_t size = 1; size <= 65536; size *= 2) CHECK_NOTHROW(pagoda::check_block_size(size));
  for (const std::int64_t size : {-16, 0, 3, 12, 65535, 131072}) {
    CHECK_THROWS_WITH_AS(pagoda::check_block_size(size), doctest::Contains("block_size is"), pagoda::invalid_argument);
  }
}

TEST_CASE("a storage shape has layers, heads, and head dims that are multiples of 8 up to 576") {
  CHECK_NOTHROW(check_shape({.layers = 1, .kv_heads = 1, .head_dim = 8}));
  CHECK_NOTHROW(check_shape({.layers = 80, .kv_heads = 128, .head_dim = 576, .value_head_dim = 512}));
  const auto refused = [](pagoda::storage_shape shape, const char* why) {
    CHECK_THROWS_WITH_AS(check_shape(shape), doctest::Contains(why), pagoda::invalid_argument);
  };
  refused({.layers = 0, .head_dim = 64}, "layers is 0");
  refused({.kv_heads = 0, .head_dim = 64}, "kv_heads is 0");
  refused({}, "head_dim is 0");
  refused({.head_dim = 100}, "head_dim is 100, but must be a multiple of 8 from 8 to 576");
  refused({.head_dim = 584}, "head_dim is 584");
  refused({.head_dim = 64, .value_head_dim = 4}, "value_head_dim is 4");
  refused({.head_dim = 64, .value_head_dim = -64}, "value_head_dim is -64");
  CHECK(pagoda::storage_shape{.head_dim = 64}.value_dim() == 64);
  CHECK(pagoda::storage_shape{.head_dim = 64, .value_head_dim = 32}.value_dim() == 32);
}

TEST_CASE("rows lie densely unless strides say otherwise") {
  std::vector<float> data(2 * 3 * 4);
  const rows_view dense(data, {2, 3, 4});
  static_assert(std::is_same_v<decltype(dense), const rows_view<float>>);
  CHECK(dense.row(0, 0) == data.data());
  CHECK(dense.row(1, 2) == data.data() + 12 + 8);
  CHECK(dense.strides().token == 12);
  CHECK(dense.strides().head == 4);
  const rows_view strided(data, {2, 2, 4}, {16, 4});
  CHECK(strided.row(1, 1) == data.data() + 20);
  const std::vector<float>& constant = data;
  static_assert(std::is_same_v<decltype(rows_view(constant, {2, 3, 4})), rows_view<const float>>);
  static_assert(std::is_same_v<decltype(rows_view(std::span<const float>(data), {2, 3, 4})), rows_view<const float>>);
}

TEST_CASE("a view of mutable rows converts to one of constant rows, and never back") {
  std::vector<float> data(6);
  const rows_view<const float> constant = rows_view(data, {1, 2, 2}, {0, 3});
  CHECK(constant.row(0, 1) == data.data() + 3);
  CHECK(constant.heads() == 2);
  CHECK(constant.dim() == 2);
  static_assert(std::is_convertible_v<rows_view<float>, rows_view<const float>>);
  static_assert(!std::is_convertible_v<rows_view<const float>, rows_view<float>>);
  static_assert(!std::is_constructible_v<rows_view<float>, rows_view<const float>>);
  static_assert(!std::is_convertible_v<rows_view<float>, rows_view<const double>>);
}

TEST_CASE("a span must reach to the end of the last row, and not further") {
  std::vector<float> data(100);
  const auto view = [&](rows_shape shape, rows_strides strides, std::size_t size) {
    return rows_view<float>(std::span<float>(data).first(size), shape, strides);
  };
  CHECK_NOTHROW(view({3, 2, 8}, {32, 10}, 2 * 32 + 10 + 8));
  CHECK_THROWS_WITH_AS(view({3, 2, 8}, {32, 10}, 2 * 32 + 10 + 7),
                       doctest::Contains("rows_view of [3, 2, 8] with strides (32, 10) needs 82 elements, but its span "
                                         "has 81"),
                       pagoda::invalid_argument);
  CHECK_NOTHROW(view({0, 2, 8}, {32, 10}, 0));
  CHECK_THROWS_AS(view({1, 1, 8}, {0, 0}, 7), pagoda::invalid_argument);
  CHECK_THROWS_AS((rows_view(data, {5, 3, 7})), pagoda::invalid_argument);
  CHECK_NOTHROW(rows_view(data, {5, 2, 10}));
}

TEST_CASE("negative or zero sizes, negative strides and sizes beyond 64 bits are refused") {
  std::vector<float> data(100);
  const auto refused = [&](rows_shape shape, rows_strides strides, const char* why) {
    CHECK_THROWS_WITH_AS((rows_view<float>(data, shape, strides)), doctest::Contains(why), pagoda::invalid_argument);
  };
  refused({-1, 1, 8}, {8, 8}, "rows_view tokens is -1");
  refused({1, 0, 8}, {8, 8}, "rows_view heads is 0");
  refused({1, 1, 0}, {8, 8}, "rows_view dim is 0");
  refused({1, 1, 8}, {-8, 8}, "rows_view token stride is -8");
  refused({1, 1, 8}, {8, -8}, "rows_view head stride is -8");
  CHECK_THROWS_AS((rows_view<float>(data, {most, 1, 8}, {most, 8})), pagoda::size_overflow);
  CHECK_THROWS_AS((rows_view<float>(data, {2, 2, 8}, {most, most})), pagoda::size_overflow);
  CHECK_THROWS_AS((rows_view<float>(data, {1, std::int64_t{1} << 33, std::int64_t{1} << 33})), pagoda::size_overflow);
}

/// Whether two rows share an element, found by marking every element.
bool rows_meet(const rows_view<float>& rows, std::size_t size) {
  std::vector<char> taken(size, 0);
  for (std::int64_t t = 0; t < rows.tokens(); ++t) {
    for (std::int64_t h = 0; h < rows.heads(); ++h) {
      for (std::int64_t d = 0; d < rows.dim(); ++d) {
        char& owner = taken[static_cast<std::size_t>(rows.row(t, h) + d - rows.data())];
        if (owner != 0) return true;
        owner = 1;
      }
    }
  }
  return false;
}

TEST_CASE("rows_overlap finds every overlap, and calls the usual forms free of it") {
  std::vector<float> data(400);
  int overlapping = 0;
  for (std::int64_t tokens = 0; tokens <= 3; ++tokens) {
    for (std::int64_t heads = 1; heads <= 3; ++heads) {
      for (std::int64_t token_stride = 0; token_stride <= 16; ++token_stride) {
        for (std::int64_t head_stride = 0; head_stride <= 16; ++head_stride) {
          const rows_view<float> rows(data, {tokens, heads, 4}, {token_stride, head_stride});
          const bool meet = rows_meet(rows, data.size());
          overlapping += meet;
          if (meet) CHECK(rows.rows_overlap());
          const bool nested = (head_stride >= 4 && token_stride >= heads * head_stride) ||
                              (token_stride >= 4 && head_stride >= tokens * token_stride);
          if (nested) CHECK_FALSE(rows.rows_overlap());
        }
      }
    }
  }
  CHECK(overlapping > 100);
  CHECK_FALSE(rows_view(data, {4, 5, 8}).rows_overlap());
  CHECK_FALSE(rows_view(data, {1, 4, 8}, {0, 8}).rows_overlap());
  CHECK_FALSE(rows_view(data, {4, 1, 8}, {8, 0}).rows_overlap());
  CHECK(rows_view(data, {4, 1, 8}, {0, 8}).rows_overlap());
}

}  // namespace
