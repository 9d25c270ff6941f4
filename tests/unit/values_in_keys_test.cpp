// SPDX-License-Identifier: Apache-2.0
// values_in_keys<N>, as multi-head latent attention has it: key rows of 576 elements, whose first 512 are the values.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>
#include <pagoda/cache.hpp>
#include <pagoda/host/execute.hpp>

#include "attention_case.hpp"
#include "poison.hpp"

namespace {

using pagoda::block_id;
using pagoda::num_blocks;
using pagoda::rows_view;
using pagoda::values_in_keys;
using pagoda_test::attention_case;
using pagoda_test::bytes_of;
using pagoda_test::case_config;
using pagoda_test::noise;

using latent = values_in_keys<512>;

#define EVERY_QUANTIZER                                                                                               \
  pagoda_test::f32, pagoda_test::f16, pagoda_test::int8, pagoda_test::int4, pagoda_test::fp8, pagoda_test::user_int8, \
      pagoda_test::user_int8_grouped

std::vector<float> random_rows(std::int64_t tokens, std::int64_t heads, std::int64_t dim) {
  std::vector<float> rows;
  for (std::int64_t t = 0; t < tokens; ++t) {
    for (std::int64_t head = 0; head < heads; ++head) {
      for (std::int64_t d = 0; d < dim; ++d) rows.push_back(noise(8, 1, t, head, d));
    }
  }
  return rows;
}

std::vector<std::byte> snapshot(std::span<const std::byte> bytes) {
  return {bytes.begin(), bytes.end()};
}

/// Calls visit with the address of every byte of the key row and its scales.
template <class View, class Visit>
void visit_keys(const View& view, block_id block, std::int64_t head, std::int64_t slot, Visit&& visit) {
  using quantizer = typename View::key_quantizer;
  std::byte* row = view.keys.row(block, head, slot);
  for (std::int64_t i = 0; i < pagoda::code_bytes<quantizer>(view.key_dim); ++i) {
    visit(row + i / 16 * view.keys.chunk_stride + i % 16);
  }
  std::byte* scales = view.key_scales.row(block, head, slot);
  for (std::int64_t i = 0; i < pagoda::row_scale_bytes<quantizer>(view.key_dim); ++i) visit(scales + i);
}

template <class Q, class Policy, class Layout>
struct stored_as {
  using storage = pagoda::block_storage<Q, Policy, Layout>;
};
#define EVERY_STORAGE                                                               \
  stored_as<pagoda_test::f16, latent, pagoda::heads_tokens_dim>,                    \
      stored_as<pagoda_test::int8, latent, pagoda::tokens_heads_dim>,               \
      stored_as<pagoda_test::int4, values_in_keys<8>, pagoda::heads_tokens_dim>,    \
      stored_as<pagoda_test::user_int8_grouped, latent, pagoda_test::user_chunked>, \
      stored_as<pagoda_test::user_int4, values_in_keys<576>, pagoda::tokens_heads_dim>

TEST_CASE("options with values_in_keys are one canonical type, in any order") {
  using namespace pagoda;
  using canonical = basic_cache<int8_per_token, latent, heads_tokens_dim, block_size<32>>;
  CHECK(std::is_same_v<cache<int8_per_token, latent, block_size<32>>, canonical>);
  CHECK(std::is_same_v<cache<block_size<32>, latent, keys<int8_per_token>>, canonical>);
  CHECK(std::is_same_v<cache<values<latent>, block_size<32>, int8_per_token>, canonical>);
  CHECK(std::is_same_v<canonical::view_type, cache_view<int8_per_token, int8_per_token>>);
  CHECK(std::is_same_v<canonical::storage_type::value_quantizer, int8_per_token>);
  CHECK(std::is_same_v<cache<latent>, basic_cache<identity<half>, latent>>);
}

TEST_CASE("a token takes its key rows and their scales, and nothing else") {
  const pagoda::storage_shape shape{.layers = 3, .kv_heads = 1, .head_dim = 576};
  CHECK(pagoda::cache<latent>::bytes_per_token(shape) == 3 * 1152);
  CHECK(pagoda::cache<latent, pagoda_test::f32>::bytes_per_token(shape) == 3 * 2304);
  CHECK(pagoda::cache<latent, pagoda_test::int8>::bytes_per_token(shape) == 3 * (576 + 4));
  CHECK(pagoda::cache<latent, pagoda_test::int4>::bytes_per_token(shape) == 3 * (288 + 4));
  CHECK(pagoda::cache<latent, pagoda_test::user_int8_grouped>::bytes_per_token(shape) == 3 * (576 + 4 * 36));
  using storage = pagoda::cache<latent, pagoda_test::int8, pagoda::tokens_heads_dim>::storage_type;
  CHECK(storage::block_bytes(shape, 64) == (64 * 580 + 255) / 256 * 256);
  CHECK(storage::size_bytes(shape, 64, num_blocks{5}) == 3 * 5 * storage::block_bytes(shape, 64));
  CHECK(storage(shape, 64, num_blocks{5}).size_bytes() == storage::size_bytes(shape, 64, num_blocks{5}));
  CHECK(storage::max_blocks(shape, 64, storage::size_bytes(shape, 64, num_blocks{5})) == 5);
}

TEST_CASE_TEMPLATE("a view shows the beginning of the keys as values", T, EVERY_STORAGE) {
  const typename T::storage storage({.layers = 2, .kv_heads = 2, .head_dim = 576}, 16, num_blocks{3});
  const auto view = storage.layer_view(1);
  CHECK(view.values_lie_in_keys());
  CHECK(view.key_dim == 576);
  CHECK(view.value_dim == storage.shape().value_dim());
  CHECK(storage.shape().value_head_dim > 0);
  CHECK(view.values.row(block_id{2}, 1, 15) == view.keys.row(block_id{2}, 1, 15));
  CHECK(view.values.chunk_stride == view.keys.chunk_stride);
  CHECK(view.value_scales.row(block_id{2}, 1, 15) == view.key_scales.row(block_id{2}, 1, 15));
  CHECK_FALSE(pagoda::block_storage<>({.head_dim = 64}, 16, num_blocks{1}).layer_view(0).values_lie_in_keys());
}

TEST_CASE_TEMPLATE("append writes the coded key rows, each byte once, and no other byte", T, EVERY_STORAGE) {
  using Q = typename T::storage::key_quantizer;
  const pagoda::storage_shape shape{.layers = 2, .kv_heads = 2, .head_dim = 576};
  typename T::storage storage(shape, 16, num_blocks{3});
  pagoda_test::fill(bytes_of(storage), pagoda_test::poison::ones);
  std::vector<std::byte> expected = snapshot(bytes_of(storage));
  pagoda::block_manager manager({.groups = {{.num_blocks = 3}}, .block_size = 16, .max_sequences = 1});
  const pagoda::sequence sequence = manager.make_sequence();
  const pagoda::step step = manager.plan({{sequence, 20}});
  const std::vector<float> keys = random_rows(20, 2, 576);
  const auto view = storage.view(1, step);
  pagoda::host::append(view, rows_view(keys, {20, 2, 576}));
  const std::byte* first = bytes_of(storage).data();
  std::vector<char> used(expected.size(), 0);
  int outside = 0;
  int used_twice = 0;
  for (std::int64_t token = 0; token < 20; ++token) {
    for (std::int64_t head = 0; head < 2; ++head) {
      std::vector<std::byte> coded(static_cast<std::size_t>(pagoda::code_bytes<Q>(576)));
      std::vector<std::byte> scales(static_cast<std::size_t>(pagoda::row_scale_bytes<Q>(576)));
      pagoda::row_codec<Q>::encode(keys.data() + (token * 2 + head) * 576, 576, coded.data(), scales.data());
      coded.insert(coded.end(), scales.begin(), scales.end());
      std::size_t i = 0;
      visit_keys(view, step.batch().block(0, token / 16), head, token % 16, [&](const std::byte* byte) {
        const auto place = static_cast<std::size_t>(byte - first);
        outside += place >= expected.size();
        used_twice += used[place]++;
        expected[place] = coded[i++];
      });
    }
  }
  CHECK(outside == 0);
  CHECK(used_twice == 0);
  CHECK(snapshot(bytes_of(storage)) == expected);
}

TEST_CASE_TEMPLATE("attention agrees with the reference for 16 and 128 query heads of one kv head", Q,
                   EVERY_QUANTIZER) {
  const pagoda::storage_shape shape{.kv_heads = 1, .head_dim = 576, .value_head_dim = 512};
  using few = attention_case<Q, latent, pagoda::heads_tokens_dim>;
  using many = attention_case<Q, latent, pagoda_test::user_chunked>;
  const few small({.shape = shape, .query_group = 16, .batch = {{70, 4, -1, 1}, {0, 0, 1, 2}, {131, 1, -1, 3}}});
  CHECK(small.error().output < few::bound);
  CHECK(small.error({.soft_cap = 20.0f}).lse < few::bound);
  const many large({.shape = shape, .block_size = 64, .query_group = 128, .batch = {{66, 1, -1, 4}}});
  CHECK(large.error().output < many::bound);
}

TEST_CASE_TEMPLATE("a storage whose value rows are the same numbers gives the same bits", Q, pagoda_test::f32,
                   pagoda_test::f16) {
  const std::vector<float> keys = random_rows(40, 2, 72);
  std::vector<float> values;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (i % 72 < 48) values.push_back(keys[i]);
  }
  const case_config config{.shape = {.kv_heads = 2, .head_dim = 72, .value_head_dim = 48}, .batch = {{40, 40, 3, 1}}};
  const attention_case<Q, values_in_keys<48>> shared(config);
  const attention_case<Q> apart(config);
  pagoda::host::append(shared.view, rows_view(keys, {40, 2, 72}));
  pagoda::host::append(apart.view, rows_view(keys, {40, 2, 72}), rows_view(values, {40, 2, 48}));
  CHECK(shared.run() == apart.run());
}

TEST_CASE_TEMPLATE("copy-on-write copies whole blocks, accepted paths move key rows, and no other byte changes", T,
                   EVERY_STORAGE) {
  const pagoda::storage_shape shape{.layers = 2, .kv_heads = 2, .head_dim = 576};
  typename T::storage storage(shape, 4, num_blocks{12});
  std::uint32_t x = 1;
  for (std::byte& byte : bytes_of(storage)) byte = static_cast<std::byte>((x = x * 1664525u + 1013904223u) >> 24);
  std::vector<std::byte> expected = snapshot(bytes_of(storage));
  const std::byte* first = bytes_of(storage).data();
  pagoda::block_manager manager({.groups = {{.num_blocks = 12}}, .block_size = 4, .max_sequences = 2});
  const pagoda::sequence parent = manager.make_sequence();
  manager.plan({{parent, 6}}).commit();
  const pagoda::sequence child = manager.fork(parent);
  pagoda::step step = manager.plan({{child, 8}});
  pagoda::host::execute(storage, step.take_copies());
  const block_id shared = manager.blocks(parent)[1];
  const block_id copied = manager.blocks(child)[1];
  CHECK(copied != shared);
  for (std::int32_t layer = 0; layer < 2; ++layer) {
    const std::span<const std::byte> from = storage.block_bytes(shared, layer);
    std::copy(from.begin(), from.end(), expected.begin() + (storage.block_bytes(copied, layer).data() - first));
  }
  CHECK(snapshot(bytes_of(storage)) == expected);

  const std::vector<block_id> table(manager.blocks(child).begin(), manager.blocks(child).end());
  const std::vector<std::byte> before = expected;
  const std::vector<std::int32_t> path{1, 2, 5, 7};  // targets are sources of others
  for (std::int32_t layer = 0; layer < 2; ++layer) {
    const auto view = storage.layer_view(layer);
    for (std::int64_t to = 6; to < 10; ++to) {
      const std::int64_t from = 6 + path[static_cast<std::size_t>(to - 6)];
      for (std::int64_t head = 0; head < 2; ++head) {
        std::vector<std::byte> row;
        visit_keys(view, table[static_cast<std::size_t>(from / 4)], head, from % 4,
                   [&](const std::byte* byte) { row.push_back(before[static_cast<std::size_t>(byte - first)]); });
        std::size_t i = 0;
        visit_keys(view, table[static_cast<std::size_t>(to / 4)], head, to % 4,
                   [&](const std::byte* byte) { expected[static_cast<std::size_t>(byte - first)] = row[i++]; });
      }
    }
  }
  const std::vector<std::int32_t> offsets{0, 4};
  pagoda::host::execute(storage, step.commit_paths({path, offsets}));
  CHECK(expected != before);
  CHECK(snapshot(bytes_of(storage)) == expected);
}

TEST_CASE("a fork that grows leaves its parent's attention as it was") {
  pagoda::cache<latent, pagoda_test::int8, pagoda::block_size<4>> cache({.kv_heads = 1, .head_dim = 576},
                                                                        num_blocks{8});
  const std::vector<float> keys = random_rows(7, 1, 576);
  const std::vector<float> query = random_rows(1, 2, 576);
  const auto attend = [&](const pagoda::sequence& of) {
    const pagoda::step step = cache.plan({{of, 0, 1}});
    std::vector<float> output(2 * 512);
    pagoda::host::attention(cache.view(0, step), rows_view(query, {1, 2, 576}), rows_view(output, {1, 2, 512}),
                            {.causal = false});
    return output;
  };
  const pagoda::sequence parent = cache.make_sequence();
  {
    pagoda::step step = cache.plan({{parent, 6}});
    pagoda::host::append(cache.view(0, step), rows_view(std::span(keys).first(6 * 576), {6, 1, 576}));
    step.commit();
  }
  const std::vector<float> before = attend(parent);
  const pagoda::sequence child = cache.fork(parent);
  CHECK(attend(child) == before);
  pagoda::step step = cache.plan({{child, 1}});
  pagoda::host::execute(cache, step.take_copies());
  pagoda::host::append(cache.view(0, step), rows_view(std::span(keys).last(576), {1, 1, 576}));
  step.commit();
  CHECK(attend(parent) == before);
  CHECK(attend(child) != before);
}

TEST_CASE("shapes that values_in_keys does not fit are refused") {
  using pagoda::invalid_argument;
  using storage = pagoda::block_storage<pagoda_test::f16, latent>;
  CHECK_NOTHROW(storage({.head_dim = 576, .value_head_dim = 512}, 16, num_blocks{1}));
  CHECK_NOTHROW(storage({.head_dim = 512}, 16, num_blocks{1}));
  CHECK_THROWS_WITH_AS(storage({.head_dim = 576, .value_head_dim = 128}, 16, num_blocks{1}),
                       doctest::Contains("value_head_dim is 128, but values_in_keys<512> takes the values from the "
                                         "first 512 elements of a key row: set it to 0 or 512"),
                       invalid_argument);
  CHECK_THROWS_WITH_AS((void)storage::bytes_per_token({.head_dim = 256}),
                       doctest::Contains("head_dim is 256, but values_in_keys<512> takes the first 512 elements of a "
                                         "key row"),
                       invalid_argument);
  using grouped = pagoda::block_storage<pagoda_test::user_int8_grouped, values_in_keys<40>>;
  CHECK_THROWS_WITH_AS((void)grouped::bytes_per_token({.head_dim = 64}),
                       doctest::Contains("value head_dim is 40, but quantizer user_int8g16 scales groups of 16"),
                       invalid_argument);
}

TEST_CASE("append refuses values where they lie in the keys, and keys alone where they do not, and writes nothing") {
  attention_case<pagoda_test::f16, values_in_keys<16>> shared(
      {.shape = {.kv_heads = 1, .head_dim = 32, .value_head_dim = 16}, .batch = {{5, 5, -1, 1}}});
  attention_case<pagoda_test::f16> apart(
      {.shape = {.kv_heads = 1, .head_dim = 32, .value_head_dim = 16}, .batch = {{5, 5, -1, 1}}});
  const std::vector<float> rows = random_rows(5, 1, 32);
  const auto keys = rows_view(rows, {5, 1, 32});
  const auto values = rows_view(rows, {5, 1, 16});
  const std::vector<std::byte> shared_bytes = snapshot(bytes_of(shared.storage()));
  const std::vector<std::byte> apart_bytes = snapshot(bytes_of(apart.storage()));
  CHECK_THROWS_WITH_AS(pagoda::host::append(shared.view, keys, values),
                       doctest::Contains("append: the values of this view are the first 16 elements of its keys: pass "
                                         "the keys alone, append(view, keys)"),
                       pagoda::invalid_argument);
  CHECK_THROWS_WITH_AS(pagoda::host::append(apart.view, keys),
                       doctest::Contains("append: this view keeps values of its own: pass them, too"),
                       pagoda::invalid_argument);
  CHECK_THROWS_WITH_AS(pagoda::host::append(shared.view, values),
                       doctest::Contains("append: keys are [5, 1, 16], but the step and its cache need [5, 1, 32]"),
                       pagoda::invalid_argument);
  CHECK(snapshot(bytes_of(shared.storage())) == shared_bytes);
  CHECK(snapshot(bytes_of(apart.storage())) == apart_bytes);
}

}  // namespace
