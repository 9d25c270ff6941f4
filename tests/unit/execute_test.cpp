// SPDX-License-Identifier: Apache-2.0
// execute moves encoded bytes: shared blocks to their copies, accepted rows together; in every layer, and nothing else.
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <pagoda/block_manager.hpp>
#include <pagoda/host/execute.hpp>

#include "poison.hpp"
#include "policy_products.hpp"
#include "stored_rows.hpp"

namespace {

using pagoda::block_id;
using pagoda::num_blocks;
using pagoda::pool_order;
using pagoda_test::bytes_of;
using pagoda_test::stored_slot;

constexpr pagoda::storage_shape shape{.layers = 3, .kv_heads = 2, .head_dim = 48, .value_head_dim = 32};
constexpr std::int32_t pool_blocks = 90;
constexpr pool_order orders[] = {pool_order::by_layer, pool_order::by_block};

pagoda::block_manager make_manager(std::int32_t block_size, std::int32_t blocks = pool_blocks) {
  return pagoda::block_manager({.groups = {{.num_blocks = blocks}}, .block_size = block_size, .max_sequences = 8});
}

/// Every byte of the storage differs from its neighbours, so that a byte moved wrongly shows.
void number(std::span<std::byte> bytes) {
  std::uint32_t x = 1;
  for (std::byte& byte : bytes) {
    x = x * 1664525u + 1013904223u;
    byte = static_cast<std::byte>(x >> 24);
  }
}

std::vector<std::byte> snapshot(std::span<const std::byte> bytes) {
  return {bytes.begin(), bytes.end()};
}

TEST_CASE_TEMPLATE_DEFINE("copy-on-write copies whole blocks of every layer, and no other byte", T, whole_blocks) {
  for (const std::int32_t block_size : {16, 64}) {
    for (const pool_order order : orders) {
      typename T::storage storage(shape, block_size, num_blocks{pool_blocks}, order);
      number(bytes_of(storage));
      std::vector<std::byte> expected = snapshot(bytes_of(storage));
      pagoda::block_manager manager = make_manager(block_size);
      const pagoda::sequence parent = manager.make_sequence();
      manager.plan({{parent, 70}}).commit();
      const pagoda::sequence child = manager.fork(parent);
      const pagoda::sequence sibling = manager.fork(parent);
      const auto last = static_cast<std::size_t>(70 / block_size);
      const block_id shared = manager.blocks(parent)[last];
      pagoda::step step = manager.plan({{child, 1}, {sibling, 2}});
      pagoda::host::execute(storage, step.take_copies());
      const std::byte* first = bytes_of(storage).data();
      for (const block_id copy : {manager.blocks(child)[last], manager.blocks(sibling)[last]}) {
        CHECK(copy != shared);
        for (std::int32_t layer = 0; layer < shape.layers; ++layer) {
          const std::span<const std::byte> from = storage.block_bytes(shared, layer);
          const std::span<const std::byte> to = storage.block_bytes(copy, layer);
          std::copy(from.begin(), from.end(), expected.begin() + (to.data() - first));
        }
      }
      CHECK(snapshot(bytes_of(storage)) == expected);
    }
  }
}
TEST_CASE_TEMPLATE_APPLY(whole_blocks, pagoda_test::all_products);

TEST_CASE_TEMPLATE_DEFINE("accepted tree paths move whole rows of every layer as if all were read first", T,
                          tree_paths) {
  for (const std::int32_t block_size : pagoda_test::block_sizes) {
    for (const pool_order order : orders) {
      typename T::storage storage(shape, block_size, num_blocks{pool_blocks}, order);
      number(bytes_of(storage));
      std::vector<std::byte> expected = snapshot(bytes_of(storage));
      pagoda::block_manager manager = make_manager(block_size);
      const pagoda::sequence a = manager.make_sequence();
      const pagoda::sequence b = manager.make_sequence();
      manager.plan({{a, 13}, {b, 3}}).commit();
      pagoda::step step = manager.plan({{a, 24}, {b, 9}});
      const std::vector<block_id> table_a(manager.blocks(a).begin(), manager.blocks(a).end());
      const std::vector<block_id> table_b(manager.blocks(b).begin(), manager.blocks(b).end());
      // Targets are sources of others: token 1 goes to place 0, 2 to 1, 4 to 2, ...
      const std::vector<std::int32_t> paths{1, 2, 4, 5, 20, 23, 0, 3, 4, 8};
      const std::vector<std::int32_t> offsets{0, 6, 10};
      const std::vector<std::byte> before = expected;
      const std::byte* first = bytes_of(storage).data();
      for (std::int32_t layer = 0; layer < shape.layers; ++layer) {
        const auto view = storage.layer_view(layer);
        const auto move = [&](const std::vector<block_id>& table, std::int64_t from, std::int64_t to) {
          for (std::int64_t head = 0; head < shape.kv_heads; ++head) {
            std::vector<std::byte> row;
            pagoda_test::visit_slot(
                view, table[static_cast<std::size_t>(from / block_size)], head, from % block_size,
                [&](const std::byte* byte) { row.push_back(before[static_cast<std::size_t>(byte - first)]); });
            std::size_t i = 0;
            pagoda_test::visit_slot(
                view, table[static_cast<std::size_t>(to / block_size)], head, to % block_size,
                [&](const std::byte* byte) { expected[static_cast<std::size_t>(byte - first)] = row[i++]; });
          }
        };
        for (std::int64_t i = 0; i < 6; ++i) move(table_a, 13 + paths[static_cast<std::size_t>(i)], 13 + i);
        for (std::int64_t i = 0; i < 4; ++i) move(table_b, 3 + paths[static_cast<std::size_t>(6 + i)], 3 + i);
      }
      pagoda::host::execute(storage, step.commit_paths({paths, offsets}));
      CHECK(snapshot(bytes_of(storage)) == expected);
      CHECK(expected != before);
      CHECK(a.position() == 19);
      CHECK(b.position() == 7);
    }
  }
}
TEST_CASE_TEMPLATE_APPLY(tree_paths, pagoda_test::all_products);

TEST_CASE("an empty list copies nothing, and a list is refused for a group that its manager lacks") {
  pagoda::block_storage<> storage(shape, 16, num_blocks{pool_blocks});
  number(bytes_of(storage));
  const std::vector<std::byte> before = snapshot(bytes_of(storage));
  pagoda::host::execute(storage, pagoda::copy_list());
  pagoda::block_manager manager = make_manager(16);
  const pagoda::sequence parent = manager.make_sequence();
  manager.plan({{parent, 3}}).commit();
  const pagoda::sequence child = manager.fork(parent);
  pagoda::step step = manager.plan({{child, 1}});
  CHECK_THROWS_AS(pagoda::host::execute(storage, step.take_copies(), 1), pagoda::out_of_range);
  CHECK(snapshot(bytes_of(storage)) == before);
}

TEST_CASE("ids outside the storage are refused before anything is copied") {
  pagoda::block_storage<> storage(shape, 16, num_blocks{5});
  number(bytes_of(storage));
  const std::vector<std::byte> before = snapshot(bytes_of(storage));
  // A manager of a larger pool: the first copy of its list fits the storage, the second does not.
  pagoda::block_manager manager = make_manager(16, 20);
  const pagoda::sequence a = manager.make_sequence();
  const pagoda::sequence b = manager.make_sequence();
  manager.plan({{a, 20}, {b, 20}}).commit();
  const pagoda::sequence a2 = manager.fork(a);
  const pagoda::sequence b2 = manager.fork(b);
  {
    pagoda::step step = manager.plan({{a2, 1}, {b2, 1}});
    const pagoda::copy_list list = step.take_copies();
    CHECK(list.blocks().size() == 2);
    CHECK_THROWS_WITH_AS(pagoda::host::execute(storage, list),
                         doctest::Contains("a copy names block 5, but the storage has blocks 0 to 4"),
                         pagoda::out_of_range);
  }
  const std::vector<std::int32_t> paths{1, 60};
  const std::vector<std::int32_t> offsets{0, 2};
  pagoda::step step = manager.plan({{a, 70}});
  (void)step.take_copies();
  CHECK_THROWS_WITH_AS(pagoda::host::execute(storage, step.commit_paths({paths, offsets})),
                       doctest::Contains("but the storage has blocks 0 to 4"), pagoda::out_of_range);
  CHECK(snapshot(bytes_of(storage)) == before);
}

TEST_CASE("a cache executes its own steps' copies: a fork that grows leaves its parent's tokens as they were") {
  pagoda::cache<pagoda_test::int8, pagoda::block_size<4>> cache({.layers = 2, .kv_heads = 1, .head_dim = 16},
                                                                num_blocks{8});
  const pagoda::sequence parent = cache.make_sequence();
  cache.plan({{parent, 6}}).commit();
  number(bytes_of(cache.storage()));
  const pagoda::sequence child = cache.fork(parent);
  pagoda::step step = cache.plan({{child, 1}});
  pagoda::host::execute(cache, step.take_copies());
  for (std::int32_t layer = 0; layer < 2; ++layer) {
    const auto view = cache.view(layer, step);
    for (std::int64_t slot = 0; slot < 2; ++slot) {
      CHECK(stored_slot(view, cache.manager().blocks(child)[1], slot) ==
            stored_slot(view, cache.manager().blocks(parent)[1], slot));
    }
  }
  step.commit();
  CHECK(cache.stats().used == 3);
}

}  // namespace
