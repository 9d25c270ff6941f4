// SPDX-License-Identifier: Apache-2.0
// append: every new row reaches its own place, coded as the quantizer says, and nothing else is written.
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <tuple>
#include <vector>

#include <doctest/doctest.h>
#include <pagoda/block_manager.hpp>
#include <pagoda/host/append.hpp>
#include <pagoda/host/thread_pool.hpp>

#include "poison.hpp"
#include "policy_products.hpp"
#include "stored_rows.hpp"

namespace {

using pagoda::block_id;
using pagoda::num_blocks;
using pagoda::rows_view;
using pagoda_test::bytes_of;
using pagoda_test::stored_slot;

constexpr pagoda::storage_shape shape{.layers = 2, .kv_heads = 3, .head_dim = 48, .value_head_dim = 64};
constexpr std::int64_t heads = 3;
constexpr std::int64_t key_dim = 48;
constexpr std::int64_t value_dim = 64;

std::vector<float> random_floats(std::int64_t size, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> result(static_cast<std::size_t>(size));
  for (float& x : result) x = normal(random);
  return result;
}

template <class T>
std::vector<T> narrowed(const std::vector<float>& from) {
  std::vector<T> result;
  for (const float x : from) result.push_back(pagoda::from_float<T>(x));
  return result;
}

constexpr std::int32_t blocks_for(std::int32_t block_size) {
  return 160 / block_size + 8;
}

pagoda::block_manager make_manager(std::int32_t block_size) {
  return pagoda::block_manager(
      {.groups = {{.num_blocks = blocks_for(block_size)}}, .block_size = block_size, .max_sequences = 8});
}

std::vector<std::byte> snapshot(std::span<const std::byte> bytes) {
  return {bytes.begin(), bytes.end()};
}

TEST_CASE_TEMPLATE_DEFINE("every row of a ragged batch reads back as coded, and no other byte changes", T, round_trip) {
  using K = typename T::key_quantizer;
  using V = typename T::value_quantizer;
  for (const std::int32_t block_size : pagoda_test::block_sizes) {
    for (const pagoda::pool_order order : {pagoda::pool_order::by_layer, pagoda::pool_order::by_block}) {
      const typename T::storage storage(shape, block_size, num_blocks{blocks_for(block_size)}, order);
      pagoda_test::fill(bytes_of(storage), pagoda_test::poison::ones);
      pagoda::block_manager manager = make_manager(block_size);
      const pagoda::sequence sequences[] = {manager.make_sequence(), manager.make_sequence(), manager.make_sequence(),
                                            manager.make_sequence()};
      manager.plan({{sequences[1], 21}, {sequences[0], 5}}).commit();
      const pagoda::step step =
          manager.plan({{sequences[0], 70}, {sequences[1], 1}, {sequences[2], 0}, {sequences[3], 33}});
      constexpr std::int64_t tokens = 104;
      const std::vector<float> keys = random_floats(tokens * heads * key_dim, 1);
      const std::vector<float> values = random_floats(tokens * heads * value_dim, 2);
      const std::vector<std::byte> before = snapshot(bytes_of(storage));
      const auto view = storage.view(1, step);
      pagoda::host::append(view, rows_view(keys, {tokens, heads, key_dim}),
                           rows_view(values, {tokens, heads, value_dim}));

      std::vector<char> expected_change(before.size(), 0);
      std::byte* first = bytes_of(storage).data();
      int wrong = 0;
      std::int64_t row = 0;
      for (const auto& [sequence, begin, end] : {std::tuple{0, 5, 75}, std::tuple{1, 21, 22}, std::tuple{3, 0, 33}}) {
        const std::span<const block_id> table = manager.blocks(sequences[sequence]);
        for (std::int64_t position = begin; position < end; ++position, ++row) {
          const block_id block = table[static_cast<std::size_t>(position / block_size)];
          for (std::int64_t head = 0; head < heads; ++head) {
            const float* key = keys.data() + (row * heads + head) * key_dim;
            const float* value = values.data() + (row * heads + head) * value_dim;
            const std::int64_t slot = position % block_size;
            if (stored_slot(view, block, head, slot) != pagoda_test::coded_slot<K, V>(key, key_dim, value, value_dim))
              ++wrong;
            pagoda_test::visit_slot(view, block, head, slot, [&](const std::byte* byte) {
              expected_change[static_cast<std::size_t>(byte - first)] = 1;
            });
          }
        }
      }
      CHECK(row == tokens);
      CHECK(wrong == 0);
      int strays = 0;
      for (std::size_t i = 0; i < before.size(); ++i) strays += expected_change[i] == 0 && first[i] != before[i];
      CHECK(strays == 0);
    }
  }
}
TEST_CASE_TEMPLATE_APPLY(round_trip, pagoda_test::all_products);

/// One sequence of 9 committed and 20 new tokens in blocks of 16, appended as the caller likes.
template <class Quantizer, class Append>
std::vector<std::byte> bytes_after(Append&& append) {
  const pagoda::block_storage<Quantizer> storage(shape, 16, num_blocks{blocks_for(16)});
  pagoda_test::fill(bytes_of(storage), pagoda_test::poison::ones);
  pagoda::block_manager manager = make_manager(16);
  const pagoda::sequence sequence = manager.make_sequence();
  manager.plan({{sequence, 9}}).commit();
  pagoda::step step = manager.plan({{sequence, 20}});
  append(storage.view(0, step), step);
  return snapshot(bytes_of(storage));
}

#define EVERY_QUANTIZER                                                                                          \
  pagoda_test::f32, pagoda_test::f16, pagoda_test::bf16, pagoda_test::int8, pagoda_test::int4, pagoda_test::fp8, \
      pagoda_test::user_int8, pagoda_test::user_int4, pagoda_test::user_int8_grouped

TEST_CASE_TEMPLATE("half and bfloat16 rows are stored as the floats that they stand for", Q, EVERY_QUANTIZER) {
  const std::vector<pagoda::half> keys = narrowed<pagoda::half>(random_floats(20 * heads * key_dim, 3));
  const std::vector<pagoda::bfloat16> values = narrowed<pagoda::bfloat16>(random_floats(20 * heads * value_dim, 4));
  std::vector<float> wide_keys;
  std::vector<float> wide_values;
  for (const pagoda::half x : keys) wide_keys.push_back(pagoda::to_float(x));
  for (const pagoda::bfloat16 x : values) wide_values.push_back(pagoda::to_float(x));
  const auto narrow = bytes_after<Q>([&](const auto& view, pagoda::step&) {
    pagoda::host::append(view, rows_view(keys, {20, heads, key_dim}), rows_view(values, {20, heads, value_dim}));
  });
  const auto wide = bytes_after<Q>([&](const auto& view, pagoda::step&) {
    pagoda::host::append(view, rows_view(wide_keys, {20, heads, key_dim}),
                         rows_view(wide_values, {20, heads, value_dim}));
  });
  CHECK(narrow == wide);
}

TEST_CASE("keys and values may be slices of one fused QKV tensor, and mutable") {
  constexpr std::int64_t fused_row =
      12 * key_dim + heads * key_dim + heads * value_dim + 5;  // queries, keys, values, a gap
  std::vector<float> fused = random_floats(20 * fused_row, 5);
  std::vector<float> keys;
  std::vector<float> values;
  for (std::int64_t t = 0; t < 20; ++t) {
    const float* row = fused.data() + t * fused_row + 12 * key_dim;
    keys.insert(keys.end(), row, row + heads * key_dim);
    values.insert(values.end(), row + heads * key_dim, row + heads * (key_dim + value_dim));
  }
  const auto sliced = bytes_after<pagoda_test::int8>([&](const auto& view, pagoda::step&) {
    const std::span<float> all(fused);
    const rows_view<float> k(all.subspan(12 * key_dim), {20, heads, key_dim}, {fused_row, key_dim});
    const rows_view<float> v(all.subspan((12 + heads) * key_dim), {20, heads, value_dim}, {fused_row, value_dim});
    pagoda::host::append(view, k, v);
  });
  const auto dense = bytes_after<pagoda_test::int8>([&](const auto& view, pagoda::step&) {
    pagoda::host::append(view, rows_view(keys, {20, heads, key_dim}), rows_view(values, {20, heads, value_dim}));
  });
  CHECK(sliced == dense);
}

TEST_CASE("a thread pool stores the same bytes") {
  const std::vector<float> keys = random_floats(20 * heads * key_dim, 6);
  const std::vector<float> values = random_floats(20 * heads * value_dim, 7);
  pagoda::host::thread_pool pool(3);
  const rows_view k(keys, {20, heads, key_dim});
  const rows_view v(values, {20, heads, value_dim});
  const auto serial =
      bytes_after<pagoda_test::user_int4>([&](const auto& view, pagoda::step&) { pagoda::host::append(view, k, v); });
  const auto pooled = bytes_after<pagoda_test::user_int4>(
      [&](const auto& view, pagoda::step&) { pagoda::host::append(view, k, v, pool); });
  CHECK(serial == pooled);
}

TEST_CASE("rows of a cancelled sequence are skipped, those around it are not") {
  using storage_type = pagoda::block_storage<pagoda_test::int8>;
  const storage_type storage(shape, 16, num_blocks{blocks_for(16)});
  pagoda::block_manager manager = make_manager(16);
  const pagoda::sequence a = manager.make_sequence();
  const pagoda::sequence b = manager.make_sequence();
  const pagoda::sequence c = manager.make_sequence();
  pagoda::step step = manager.plan({{a, 3}, {b, 4}, {c, 2}});
  step.cancel(1);
  const std::vector<float> keys = random_floats(9 * heads * key_dim, 8);
  const std::vector<float> values = random_floats(9 * heads * value_dim, 9);
  pagoda_test::fill(bytes_of(storage), pagoda_test::poison::ones);
  const auto view = storage.view(0, step);
  pagoda::host::append(view, rows_view(keys, {9, heads, key_dim}), rows_view(values, {9, heads, value_dim}));
  const auto expected = [&](std::int64_t row, std::int64_t head) {
    return pagoda_test::coded_slot<pagoda_test::int8, pagoda_test::int8>(
        keys.data() + (row * heads + head) * key_dim, key_dim, values.data() + (row * heads + head) * value_dim,
        value_dim);
  };
  std::size_t written = 0;
  for (std::int32_t block = 0; block < blocks_for(16); ++block) {
    for (std::int64_t slot = 0; slot < 16; ++slot) {
      const std::vector<std::byte> stored = stored_slot(view, block_id{block}, 0, slot);
      written += stored != std::vector<std::byte>(stored.size(), std::byte{0xff});
    }
  }
  CHECK(written == 5);
  for (std::int64_t t = 0; t < 3; ++t) CHECK(stored_slot(view, manager.blocks(a)[0], 2, t) == expected(t, 2));
  for (std::int64_t t = 0; t < 2; ++t) CHECK(stored_slot(view, manager.blocks(c)[0], 1, t) == expected(7 + t, 1));
}

TEST_CASE("rows of another shape are refused, and nothing is written") {
  const std::vector<float> data(25 * heads * value_dim);
  const auto untouched = bytes_after<pagoda_test::f16>([](const auto&, pagoda::step&) {});
  const auto refused = [&](pagoda::rows_shape keys, pagoda::rows_shape values, const char* why) {
    const auto after = bytes_after<pagoda_test::f16>([&](const auto& view, pagoda::step&) {
      CHECK_THROWS_WITH_AS(pagoda::host::append(view, rows_view(data, keys), rows_view(data, values)),
                           doctest::Contains(why), pagoda::invalid_argument);
    });
    CHECK(after == untouched);
  };
  refused(
      {19, heads, key_dim}, {20, heads, value_dim},
      "keys are [19, 3, 48], but the step and its cache need [20, 3, 48]: pass a row for each new token and kv head");
  refused({21, heads, key_dim}, {20, heads, value_dim}, "keys are [21, 3, 48]");
  refused({20, 2, key_dim}, {20, heads, value_dim}, "keys are [20, 2, 48]");
  refused({20, heads, value_dim}, {20, heads, value_dim}, "keys are [20, 3, 64]");
  refused({20, heads, key_dim}, {20, heads, key_dim},
          "values are [20, 3, 48], but the step and its cache need [20, 3, 64]");
  refused({20, heads, key_dim}, {0, heads, value_dim}, "values are [0, 3, 64]");
}

TEST_CASE("a step without new tokens appends nothing") {
  const pagoda::block_storage<> storage(shape, 16, num_blocks{blocks_for(16)});
  pagoda_test::fill(bytes_of(storage), pagoda_test::poison::ones);
  pagoda::block_manager manager = make_manager(16);
  const pagoda::sequence sequence = manager.make_sequence();
  const pagoda::step step = manager.plan({{sequence, 0, 4}});
  const std::vector<float> none;
  pagoda::host::append(storage.view(0, step), rows_view(none, {0, heads, key_dim}),
                       rows_view(none, {0, heads, value_dim}));
  for (const std::byte byte : bytes_of(storage)) {
    if (byte != std::byte{0xff}) FAIL_CHECK("a byte was written");
  }
}

}  // namespace
