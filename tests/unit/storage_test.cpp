// SPDX-License-Identifier: Apache-2.0
// The bytes of a storage: what a block holds and where, the two pool orders, sizes known beforehand, refusals.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <pagoda/cache.hpp>
#include <pagoda/conformance/memory.hpp>
#include <pagoda/memory/borrowed.hpp>

#include "policy_products.hpp"
#include "stored_rows.hpp"

namespace {

using pagoda::block_id;
using pagoda::num_blocks;
using pagoda::pool_order;
using pagoda::storage_shape;
using pagoda_test::block_sizes;

constexpr storage_shape small{.layers = 3, .kv_heads = 2, .head_dim = 32, .value_head_dim = 48};
constexpr pool_order orders[] = {pool_order::by_layer, pool_order::by_block};

TEST_CASE_TEMPLATE_DEFINE("rows and scales of all slots, blocks and layers are disjoint and inside their block", T,
                          places) {
  for (const std::int32_t block_size : block_sizes) {
    for (const pool_order order : orders) {
      const typename T::storage storage(small, block_size, num_blocks{3}, order);
      std::vector<char> used(static_cast<std::size_t>(storage.size_bytes()), 0);
      const std::byte* first = storage.block_bytes(block_id{0}, 0).data();
      int outside = 0;
      int used_twice = 0;
      for (std::int32_t layer = 0; layer < small.layers; ++layer) {
        const auto view = storage.layer_view(layer);
        CHECK(view.block_size() == block_size);
        CHECK(view.num_blocks == 3);
        for (std::int32_t b = 0; b < 3; ++b) {
          const std::span<std::byte> block = storage.block_bytes(block_id{b}, layer);
          for (std::int64_t head = 0; head < 2; ++head) {
            for (std::int64_t slot = 0; slot < block_size; ++slot) {
              pagoda_test::visit_slot(view, block_id{b}, head, slot, [&](const std::byte* byte) {
                if (byte < block.data() || byte >= block.data() + block.size()) {
                  ++outside;
                } else if (used[static_cast<std::size_t>(byte - first)]++ != 0) {
                  ++used_twice;
                }
              });
            }
          }
        }
      }
      CHECK(outside == 0);
      CHECK(used_twice == 0);
    }
  }
}
TEST_CASE_TEMPLATE_APPLY(places, pagoda_test::all_products);

TEST_CASE_TEMPLATE_DEFINE("blocks tile the memory in their order, each on a multiple of 256", T, tiles) {
  for (const pool_order order : orders) {
    const typename T::storage storage(small, 16, num_blocks{4}, order);
    const std::int64_t block = T::storage::block_bytes(small, 16);
    CHECK(block % 256 == 0);
    CHECK(storage.size_bytes() == block * 4 * 3);
    CHECK(storage.size_bytes() == T::storage::size_bytes(small, 16, num_blocks{4}));
    const std::byte* first = storage.block_bytes(block_id{0}, 0).data();
    CHECK(reinterpret_cast<std::uintptr_t>(first) % 256 == 0);
    for (std::int32_t layer = 0; layer < 3; ++layer) {
      for (std::int32_t b = 0; b < 4; ++b) {
        const std::span<std::byte> bytes = storage.block_bytes(block_id{b}, layer);
        CHECK(static_cast<std::int64_t>(bytes.size()) == block);
        const std::int64_t place = order == pool_order::by_layer ? layer * 4 + b : b * 3 + layer;
        CHECK(bytes.data() - first == place * block);
      }
    }
  }
}
TEST_CASE_TEMPLATE_APPLY(tiles, pagoda_test::all_products);

TEST_CASE("a block is its rows, padded to 16 bytes, and its scales, padded to 256 together") {
  using pagoda_test::int8;
  using pagoda_test::user_int4;
  using apart = pagoda::block_storage<int8, user_int4>;
  // Keys: 32 codes and a 4-byte scale; values: 20 bytes of codes padded to 32 and a 4-byte scale.
  const storage_shape shape{.kv_heads = 3, .head_dim = 32, .value_head_dim = 40};
  CHECK(apart::block_bytes(shape, 16) == (3 * 16 * (32 + 32 + 4 + 4) + 255) / 256 * 256);
  CHECK(apart::bytes_per_token(shape) == 3 * (32 + 32 + 4 + 4));
  const auto view = apart(shape, 16, num_blocks{1}).layer_view(0);
  CHECK(view.key_scales.base - view.keys.base == 3 * 16 * 64);
  CHECK(view.value_scales.base - view.key_scales.base == 16 * 4);
  CHECK(view.key_scales.head_stride == 16 * 8);
  CHECK(view.key_scales.slot_stride == 4);
}

TEST_CASE("sizes are known before memory is taken: LLaMA-7B in half takes 512 MiB for 1024 tokens") {
  const storage_shape llama{.layers = 32, .kv_heads = 32, .head_dim = 128};
  using half_cache = pagoda::cache<>;
  CHECK(half_cache::bytes_per_token(llama) == 524288);
  CHECK(half_cache::bytes_for(llama, 1024) == 536870912);
  CHECK(half_cache::bytes_for(llama, 1023) == 536870912);
  CHECK(half_cache::bytes_for(llama, 1025) == 536870912 + 16 * 524288);
  CHECK(half_cache::blocks_for_budget(llama, 536870912).value == 64);
  CHECK(half_cache::blocks_for_budget(llama, 536870911).value == 63);
  CHECK(half_cache::storage_type::max_blocks(llama, 16, 8388607) == 0);
  CHECK_THROWS_WITH_AS((void)half_cache::blocks_for_budget(llama, 8388607),
                       doctest::Contains("8388607 bytes holds no block: one takes 8388608"), pagoda::invalid_argument);
  using int8_cache = pagoda::cache<pagoda::int8_per_token>;
  CHECK(int8_cache::bytes_per_token(llama) == 32 * 32 * 2 * (128 + 4));
  CHECK(half_cache::blocks_for_budget(llama, INT64_MAX).value == 2147483646);
  CHECK_THROWS_AS((void)half_cache::bytes_for(llama, 0), pagoda::invalid_argument);
  CHECK_THROWS_AS((void)half_cache::blocks_for_budget(llama, -1), pagoda::invalid_argument);
}

TEST_CASE("sizes that do not fit 64 bits are refused") {
  const storage_shape wide{.layers = 1 << 20, .kv_heads = 1 << 20, .head_dim = 576};
  CHECK_THROWS_AS((void)pagoda::block_storage<>::size_bytes(wide, 65536, num_blocks{1}), pagoda::size_overflow);
  CHECK_THROWS_AS((void)pagoda::block_storage<>::size_bytes(small, 16, num_blocks{0}), pagoda::invalid_argument);
  CHECK_THROWS_AS((void)pagoda::block_storage<>::size_bytes(small, 16, num_blocks{INT32_MAX}),
                  pagoda::invalid_argument);
}

TEST_CASE_TEMPLATE("offsets are computed in 64 bits: every row of a pool of 64 TiB lies where it should", L,
                   pagoda::heads_tokens_dim, pagoda::tokens_heads_dim, pagoda_test::user_chunked) {
  // The memory is lent on paper only: nothing reads or writes it.
  alignas(256) static std::byte start[256];
  using storage = pagoda::block_storage<pagoda_test::int8, pagoda_test::f32, L, pagoda::borrowed_memory>;
  const storage_shape shape{.layers = 64, .kv_heads = 8, .head_dim = 128};
  const std::int64_t block = storage::block_bytes(shape, 64);
  const auto blocks = static_cast<std::int32_t>((std::int64_t{1} << 46) / (block * 64));
  const std::int64_t bytes = storage::size_bytes(shape, 64, num_blocks{blocks});
  for (const pool_order order : orders) {
    const storage pool(shape, 64, num_blocks{blocks},
                       pagoda::borrowed_memory(std::span<std::byte>(start, static_cast<std::size_t>(bytes))), order);
    CHECK(pool.size_bytes() == bytes);
    for (const std::int32_t layer : {0, 63}) {
      const auto view = pool.layer_view(layer);
      for (const std::int64_t limit : {std::int64_t{1} << 31, std::int64_t{1} << 32, std::int64_t{1} << 45}) {
        const std::int64_t index = std::min<std::int64_t>(limit / block + 1, blocks - 1);
        const auto id = block_id{static_cast<std::int32_t>(index)};
        const std::int64_t place =
            order == pool_order::by_layer ? layer * std::int64_t{blocks} + index : index * 64 + layer;
        CHECK(pool.block_bytes(id, layer).data() - start == place * block);
        const auto planes = L::place({8, 64, 128, 512});
        CHECK(view.keys.row(id, 7, 63) - start ==
              place * block + planes.keys.offset + 7 * planes.keys.head + 63 * planes.keys.slot);
        CHECK(view.values.row(id, 7, 63) - start ==
              place * block + planes.values.offset + 7 * planes.values.head + 63 * planes.values.slot);
        CHECK(view.key_scales.row(id, 7, 63) - start == place * block + planes.size_bytes + 7 * 256 + 63 * 4);
      }
    }
  }
}

TEST_CASE("borrowed memory that is too small names what is needed and what would fit; misaligned or empty is refused") {
  using storage =
      pagoda::block_storage<pagoda_test::f16, pagoda_test::f16, pagoda::heads_tokens_dim, pagoda::borrowed_memory>;
  const storage_shape shape{.kv_heads = 2, .head_dim = 32};
  const auto block = static_cast<std::size_t>(storage::block_bytes(shape, 16));
  pagoda::host_memory arena(static_cast<std::int64_t>(4 * block));
  const auto lend = [&](std::size_t begin, std::size_t size) {
    return pagoda::borrowed_memory(std::span<std::byte>(arena.data() + begin, size));
  };
  CHECK_NOTHROW(storage(shape, 16, num_blocks{4}, lend(0, 4 * block)));
  CHECK(storage(shape, 16, num_blocks{2}, lend(256, 2 * block)).block_bytes(block_id{0}, 0).data() ==
        arena.data() + 256);
  CHECK_THROWS_WITH_AS(storage(shape, 16, num_blocks{4}, lend(0, 4 * block - 1)),
                       doctest::Contains("the storage needs 16384 bytes, but its memory has 16383: lend more, or ask "
                                         "for at most 3 blocks"),
                       pagoda::invalid_argument);
  CHECK_THROWS_WITH_AS(storage({.layers = 3, .kv_heads = 2, .head_dim = 32}, 16, num_blocks{4}, lend(0, 2 * block)),
                       doctest::Contains("the storage needs 49152 bytes, but its memory has 8192, which holds no "
                                         "block: lend at least the 12288 bytes that one block takes in all layers"),
                       pagoda::invalid_argument);
  CHECK_THROWS_WITH_AS(lend(64, block), doctest::Contains("64 past a multiple of 256"), pagoda::invalid_argument);
  CHECK_THROWS_AS(lend(0, 0), pagoda::invalid_argument);
}

TEST_CASE("a storage that was moved from keeps its sizes and refuses its bytes") {
  pagoda::block_manager books({.groups = {{.num_blocks = 4}}, .max_sequences = 1});
  const pagoda::sequence sequence = books.make_sequence();
  const pagoda::step step = books.plan({{sequence, 5}});
  pagoda::block_storage<> from(small, 16, num_blocks{4});
  const std::byte* bytes = from.block_bytes(block_id{1}, 2).data();
  pagoda::block_storage<> to = std::move(from);
  CHECK(to.block_bytes(block_id{1}, 2).data() == bytes);
  CHECK_NOTHROW((void)to.view(0, step));
  const auto refused = [](auto call) {
    CHECK_THROWS_WITH_AS(call(), doctest::Contains("this storage was moved from: use the one that it went to"),
                         pagoda::logic_error);
  };
  refused([&] { (void)from.view(0, step); });
  refused([&] { (void)from.layer_view(0); });
  refused([&] { (void)from.block_bytes(block_id{0}, 0); });
  CHECK(from.shape().head_dim == 32);
  CHECK(from.block_size() == 16);
  CHECK(from.blocks() == 4);
  CHECK(from.order() == pool_order::by_layer);
  CHECK(from.size_bytes() == to.size_bytes());
  from = std::move(to);
  CHECK(from.block_bytes(block_id{1}, 2).data() == bytes);
  refused([&] { (void)to.layer_view(0); });
}

TEST_CASE("borrowed memory that was moved from still lends its bytes") {
  using storage =
      pagoda::block_storage<pagoda_test::f16, pagoda_test::f16, pagoda::heads_tokens_dim, pagoda::borrowed_memory>;
  pagoda::host_memory arena(storage::size_bytes({.head_dim = 32}, 16, num_blocks{1}));
  storage from({.head_dim = 32}, 16, num_blocks{1},
               pagoda::borrowed_memory({arena.data(), static_cast<std::size_t>(arena.size_bytes())}));
  const storage to = std::move(from);
  CHECK(from.block_bytes(block_id{0}, 0).data() == arena.data());
  CHECK(to.block_bytes(block_id{0}, 0).data() == arena.data());
}

TEST_CASE("host memory that was moved from has no bytes, and makes no storage") {
  pagoda::host_memory from(4096);
  const std::byte* bytes = from.data();
  pagoda::host_memory to = std::move(from);
  CHECK(to.data() == bytes);
  CHECK(to.size_bytes() == 4096);
  CHECK(from.data() == nullptr);
  CHECK(from.size_bytes() == 0);
  CHECK_THROWS_WITH_AS(pagoda::block_storage<>({.head_dim = 8}, 1, num_blocks{1}, std::move(from)),
                       doctest::Contains("its memory has 0, which holds no block"), pagoda::invalid_argument);
  from = std::move(to);
  CHECK(from.data() == bytes);
  CHECK(from.size_bytes() == 4096);
  CHECK(to.data() == nullptr);
  CHECK(to.size_bytes() == 0);
}

TEST_CASE("host memory passes the conformance check, small and large, and refuses to be empty") {
  for (const std::int64_t size : {std::int64_t{1}, std::int64_t{4096}, std::int64_t{3} << 20}) {
    pagoda::host_memory memory(size);
    const pagoda::conformance::report report = pagoda::conformance::check_memory(memory);
    for (const std::string& fault : report.faults) FAIL_CHECK(fault);
    if (size >= (std::int64_t{2} << 20)) CHECK(reinterpret_cast<std::uintptr_t>(memory.data()) % (2u << 20) == 0);
  }
  CHECK_THROWS_AS(pagoda::host_memory(0), pagoda::invalid_argument);
  CHECK_THROWS_AS(pagoda::host_memory(-1), pagoda::invalid_argument);
}

namespace {

/// A memory that begins where it says, whatever that is.
struct placed_memory {
  std::byte* begin = nullptr;
  std::int64_t size = 0;
  std::byte* data() const { return begin; }
  std::int64_t size_bytes() const { return size; }
};

}  // namespace

TEST_CASE("a storage refuses memory that is not aligned, and null") {
  using storage =
      pagoda::block_storage<pagoda::identity<float>, pagoda::identity<float>, pagoda::heads_tokens_dim, placed_memory>;
  const pagoda::host_memory memory(std::int64_t{1} << 20);
  const auto make = [](placed_memory placed) { return storage(small, 16, num_blocks{1}, placed).blocks(); };
  CHECK(make({memory.data(), memory.size_bytes()}) == 1);
  CHECK_THROWS_WITH_AS(make({memory.data() + 64, memory.size_bytes() - 64}),
                       doctest::Contains("begins 64 past a multiple of 256: align it"), pagoda::invalid_argument);
  CHECK_THROWS_WITH_AS(make({nullptr, memory.size_bytes()}), doctest::Contains("data() is null"),
                       pagoda::invalid_argument);
}

TEST_CASE("a view is refused for tables of another block size or of more blocks, and for a layer that is not there") {
  const pagoda::block_storage<> storage(small, 16, num_blocks{8});
  const auto tables_of = [](std::int32_t blocks, std::int32_t block_size) {
    return pagoda::block_manager({.groups = {{.num_blocks = blocks}}, .block_size = block_size, .max_sequences = 1});
  };
  const auto view = [&](pagoda::block_manager manager, std::int32_t layer) {
    const pagoda::sequence sequence = manager.make_sequence();
    const pagoda::step step = manager.plan({{sequence, 5}});
    return storage.view(layer, step).batch.total_new_tokens();
  };
  CHECK(view(tables_of(8, 16), 2) == 5);
  CHECK(view(tables_of(7, 16), 0) == 5);
  CHECK_THROWS_WITH_AS(view(tables_of(8, 32), 0),
                       doctest::Contains("the tables are for 8 blocks of 32 tokens, but the storage has 8 of 16"),
                       pagoda::invalid_argument);
  CHECK_THROWS_WITH_AS(view(tables_of(9, 16), 0), doctest::Contains("the tables are for 9 blocks"),
                       pagoda::invalid_argument);
  CHECK_THROWS_WITH_AS(view(tables_of(8, 16), 3), doctest::Contains("layer 3 lies outside the storage's 0 to 2"),
                       pagoda::out_of_range);
  CHECK_THROWS_AS(view(tables_of(8, 16), -1), pagoda::out_of_range);
  CHECK_THROWS_WITH_AS((void)storage.block_bytes(block_id{8}, 0), doctest::Contains("block id 8 lies outside"),
                       pagoda::out_of_range);
  CHECK_THROWS_AS((void)storage.block_bytes(block_id::none, 0), pagoda::out_of_range);
}

TEST_CASE("a storage refuses shapes that its quantizers cannot store, and block sizes that are no power of two") {
  using grouped = pagoda::block_storage<pagoda_test::user_int8_grouped>;
  CHECK_THROWS_WITH_AS(grouped({.head_dim = 40}, 16, num_blocks{1}), doctest::Contains("scales groups of 16 lanes"),
                       pagoda::invalid_argument);
  CHECK_THROWS_WITH_AS(grouped({.head_dim = 32, .value_head_dim = 40}, 16, num_blocks{1}),
                       doctest::Contains("value head_dim is 40"), pagoda::invalid_argument);
  CHECK_THROWS_AS(pagoda::block_storage<>(small, 12, num_blocks{1}), pagoda::invalid_argument);
  CHECK_THROWS_AS(pagoda::block_storage<>({.head_dim = 20}, 16, num_blocks{1}), pagoda::invalid_argument);
}

}  // namespace
