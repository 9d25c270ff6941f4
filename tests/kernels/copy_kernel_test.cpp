// SPDX-License-Identifier: Apache-2.0
// kernels::copy_blocks and move_rows on the host context: what host::execute does, and not one byte besides.
#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <pagoda/block_manager.hpp>
#include <pagoda/host/execute.hpp>
#include <pagoda/kernels/copy.hpp>
#include <pagoda/memory/borrowed.hpp>
#include <pagoda/simt/host_context.hpp>

#include "append_case.hpp"
#include "policy_products.hpp"

namespace {

using pagoda::block_copy;
using pagoda::block_id;
using pagoda::num_blocks;
using pagoda::pool_order;
using pagoda::row_copy;
using pagoda::kernels::copy_blocks;
using pagoda::kernels::copy_source;
using pagoda::kernels::row_phase;
using pagoda::simt::host_machine;
using pagoda_test::bytes_of;
using pagoda_test::count_differences;

constexpr pagoda::storage_shape shape{.layers = 3, .kv_heads = 2, .head_dim = 48, .value_head_dim = 80};
constexpr std::int32_t pool_blocks = 90;
constexpr pool_order orders[] = {pool_order::by_layer, pool_order::by_block};

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

/// Launches with a grid of so many blocks; 0: max_units.
template <class Kernel>
void launch(host_machine& machine, const typename Kernel::arguments& args, std::uint32_t grid = 0) {
  const std::int64_t units = Kernel::max_units(args);
  if (units > 0) machine.launch<Kernel>({grid == 0 ? static_cast<std::uint32_t>(units) : grid, 1, 1}, args);
}

/// A scratch of exactly the bytes that a kernel asks for, so that the address sanitizer sees an access behind them.
class scratch {
 public:
  explicit scratch(std::int64_t bytes)
      : data_(static_cast<std::byte*>(::operator new(static_cast<std::size_t>(bytes), alignment))) {
    std::fill_n(data_.get(), bytes, std::byte{0xee});
  }
  std::byte* data() const { return data_.get(); }

 private:
  static constexpr std::align_val_t alignment{16};
  struct deleter {
    void operator()(std::byte* data) const { ::operator delete(data, alignment); }
  };
  std::unique_ptr<std::byte, deleter> data_;
};

/// Gathers and scatters the rows of a list, of which `count` holds (or no number: all).
template <class Storage>
void move(host_machine& machine, const Storage& storage, std::span<const row_copy> rows,
          const std::int32_t* count = nullptr, std::uint32_t grid = 0) {
  using kernel = pagoda::kernels::move_rows<typename Storage::key_quantizer, typename Storage::value_quantizer>;
  auto args = kernel::make_arguments(storage, {rows.data(), static_cast<std::int32_t>(rows.size()), count});
  const scratch rows_between(kernel::row_scratch_bytes(args));
  args.scratch = rows_between.data();
  for (const row_phase phase : {row_phase::gather, row_phase::scatter}) {
    args.phase = phase;
    launch<kernel>(machine, args, grid);
  }
}

/// Performs a list with the kernels, as a launcher does.
template <class Storage>
void execute(host_machine& machine, const Storage& storage, const pagoda::copy_list& copies) {
  const std::span<const block_copy> blocks = copies.blocks();
  launch<copy_blocks>(machine, copy_blocks::make_arguments(
                                   storage, {blocks.data(), static_cast<std::int32_t>(blocks.size()), nullptr}));
  if (!copies.rows().empty()) move(machine, storage, copies.rows());
}

/// Copies the padding of rows, all sources read first: the kernel moves it with the row, host::execute leaves it.
template <class Storage>
void move_padding(const Storage& storage, std::span<const row_copy> rows) {
  using K = typename Storage::key_quantizer;
  using V = typename Storage::value_quantizer;
  std::vector<std::pair<std::byte*, std::byte>> writes;
  for (std::int32_t layer = 0; layer < storage.shape().layers; ++layer) {
    const auto view = storage.layer_view(layer);
    const auto pad = [&](const pagoda::plane_view& plane, std::int64_t begin, std::int64_t end, const row_copy& copy,
                         std::int64_t head) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t offset = i / 16 * plane.chunk_stride + i % 16;
        writes.emplace_back(plane.row(copy.to_block, head, copy.to_slot) + offset,
                            plane.row(copy.from_block, head, copy.from_slot)[offset]);
      }
    };
    for (const row_copy& copy : rows) {
      for (std::int64_t head = 0; head < view.kv_heads; ++head) {
        pad(view.keys, pagoda::code_bytes<K>(view.key_dim), pagoda::row_bytes<K>(view.key_dim), copy, head);
        if (view.values_lie_in_keys()) continue;
        pad(view.values, pagoda::code_bytes<V>(view.value_dim), pagoda::row_bytes<V>(view.value_dim), copy, head);
      }
    }
  }
  for (const auto& [to, byte] : writes) *to = byte;
}

pagoda::block_manager make_manager(std::int32_t block_size, std::int32_t blocks = pool_blocks) {
  return pagoda::block_manager({.groups = {{.num_blocks = blocks}}, .block_size = block_size, .max_sequences = 8});
}

TEST_CASE_TEMPLATE_DEFINE("copy-on-write and accepted tree paths: the bytes of host::execute", T, same_bytes) {
  host_machine machine;
  for (const std::int32_t block_size : pagoda_test::block_sizes) {
    for (const pool_order order : orders) {
      typename T::storage by_host(shape, block_size, num_blocks{pool_blocks}, order);
      const typename T::storage by_kernel(shape, block_size, num_blocks{pool_blocks}, order);
      number(bytes_of(by_host));
      number(bytes_of(by_kernel));
      const std::vector<std::byte> before = snapshot(bytes_of(by_host));
      pagoda::block_manager manager = make_manager(block_size);
      const pagoda::sequence parent = manager.make_sequence();
      const pagoda::sequence b = manager.make_sequence();
      manager.plan({{parent, 13}, {b, 3}}).commit();
      const pagoda::sequence child = manager.fork(parent);
      const pagoda::sequence sibling = manager.fork(parent);
      pagoda::step step = manager.plan({{child, 24}, {b, 9}, {sibling, 1}});
      const auto execute_both = [&](const pagoda::copy_list& copies) {
        const std::vector<row_copy> rows(copies.rows().begin(), copies.rows().end());
        const std::vector<std::byte> unmoved = snapshot(bytes_of(by_host));
        execute(machine, by_kernel, copies);
        move_padding(by_host, rows);
        pagoda::host::execute(by_host, copies);
        CHECK(count_differences(bytes_of(by_host), bytes_of(by_kernel)) == 0);
        return count_differences(bytes_of(by_host), unmoved);
      };
      const std::size_t copied = execute_both(step.take_copies());
      CHECK((copied > 0) == (block_size > 1));
      // Targets are sources of others: token 1 goes to place 0, 2 to 1, 4 to 2, ...
      const std::vector<std::int32_t> paths{1, 2, 4, 5, 20, 23, 0, 3, 4, 8, 0};
      const std::vector<std::int32_t> offsets{0, 6, 10, 11};
      CHECK(execute_both(step.commit_paths({paths, offsets})) > 0);
    }
  }
}
TEST_CASE_TEMPLATE_APPLY(same_bytes, pagoda_test::all_products);

TEST_CASE_TEMPLATE("chains and swaps of rows: all are read before any is written, in any order of execution", Q,
                   pagoda_test::f16, pagoda_test::int8, pagoda_test::user_int4, pagoda_test::user_int8_grouped) {
  using storage_type = pagoda::block_storage<Q, Q, pagoda_test::user_chunked>;
  const auto at = [](std::int32_t from_block, std::int32_t from_slot, std::int32_t to_block, std::int32_t to_slot) {
    return row_copy{block_id{from_block}, from_slot, block_id{to_block}, to_slot};
  };
  // A swap, a cycle of three, a chain forwards and one backwards, a row to itself, one source for two targets.
  const std::vector<row_copy> rows{at(0, 0, 5, 3), at(5, 3, 0, 0), at(1, 1, 1, 2), at(1, 2, 6, 1), at(6, 1, 1, 1),
                                   at(2, 0, 2, 1), at(2, 1, 2, 2), at(2, 2, 2, 3), at(3, 3, 3, 2), at(3, 2, 3, 1),
                                   at(4, 1, 4, 1), at(7, 0, 7, 1), at(7, 0, 7, 2)};
  for (const pool_order order : orders) {
    storage_type by_host(shape, 4, num_blocks{8}, order);
    number(bytes_of(by_host));
    move_padding(by_host, rows);
    pagoda::host::detail::move_rows(by_host, rows);
    for (const std::uint32_t seed : {0u, 1u, 2u, 3u}) {
      for (const std::uint32_t grid : {0u, 1u, 3u}) {
        const storage_type by_kernel(shape, 4, num_blocks{8}, order);
        number(bytes_of(by_kernel));
        host_machine machine({.schedule_seed = seed});
        move(machine, by_kernel, rows, nullptr, grid);
        CHECK(count_differences(bytes_of(by_host), bytes_of(by_kernel)) == 0);
      }
    }
  }
}

/// As int8, with scales of 2 bytes; and with pairs of 8.
struct half_scaled : pagoda_test::user_int8 {
  using scale_type = pagoda::linear_scale<pagoda::half>;
  static scale_type fit(pagoda::row_stats stats) { return {pagoda::from_float<pagoda::half>(stats.amax() / 100.0f)}; }
  static std::uint32_t encode(float value, scale_type scale) {
    return pagoda_test::user_int8::encode(value, {pagoda::to_float(scale.scale)});
  }
};
struct pair_scaled : pagoda_test::user_int8 {
  using scale_type = pagoda::affine_scale<float>;
  static scale_type fit(pagoda::row_stats stats) { return {stats.amax() / 100.0f, 0.0f}; }
  static std::uint32_t encode(float value, scale_type scale) {
    return pagoda_test::user_int8::encode(value, {scale.scale});
  }
};

template <class Keys, class Values>
struct pair_of {
  using storage = pagoda::block_storage<Keys, Values>;
};

TEST_CASE_TEMPLATE("scales of 2, 4 and 8 bytes beside one another move whole", T, pair_of<half_scaled, pair_scaled>,
                   pair_of<pair_scaled, half_scaled>, pair_of<pagoda_test::int8, half_scaled>,
                   pair_of<pagoda_test::int8, pair_scaled>, pair_of<pagoda_test::f16, half_scaled>,
                   pair_of<pair_scaled, pagoda_test::bf16>) {
  const pagoda::storage_shape odd{.layers = 2, .kv_heads = 3, .head_dim = 40};
  typename T::storage by_host(odd, 1, num_blocks{6});
  const typename T::storage by_kernel(odd, 1, num_blocks{6});
  number(bytes_of(by_host));
  number(bytes_of(by_kernel));
  const std::vector<row_copy> rows{{block_id{1}, 0, block_id{4}, 0}, {block_id{4}, 0, block_id{5}, 0}};
  move_padding(by_host, rows);
  pagoda::host::detail::move_rows(by_host, rows);
  host_machine machine;
  move(machine, by_kernel, rows);
  CHECK(count_differences(bytes_of(by_host), bytes_of(by_kernel)) == 0);
}

TEST_CASE("values in the keys: the key rows move, once") {
  using storage_type = pagoda::block_storage<pagoda_test::int8, pagoda::values_in_keys<64>>;
  const pagoda::storage_shape latent{.layers = 2, .kv_heads = 1, .head_dim = 88};
  storage_type by_host(latent, 4, num_blocks{6});
  const storage_type by_kernel(latent, 4, num_blocks{6});
  number(bytes_of(by_host));
  number(bytes_of(by_kernel));
  const std::vector<row_copy> rows{{block_id{1}, 2, block_id{4}, 0}, {block_id{4}, 0, block_id{1}, 2}};
  using kernel = pagoda::kernels::move_rows<pagoda_test::int8, pagoda_test::int8>;
  // 88 codes take 96 bytes, one scale 4, which are padded to 16; for 2 rows in 2 layers.
  CHECK(kernel::row_scratch_bytes(kernel::make_arguments(by_kernel, {rows.data(), 2, nullptr})) == 4 * (96 + 16));
  move_padding(by_host, rows);
  pagoda::host::detail::move_rows(by_host, rows);
  host_machine machine;
  move(machine, by_kernel, rows);
  CHECK(count_differences(bytes_of(by_host), bytes_of(by_kernel)) == 0);
}

TEST_CASE("counts are read on the device and cut at the list's size; nothing listed moves nothing") {
  using storage_type = pagoda::block_storage<pagoda_test::int8>;
  const std::vector<block_copy> blocks{
      {block_id{0}, block_id{5}}, {block_id{1}, block_id{6}}, {block_id{2}, block_id{7}}};
  const std::vector<row_copy> rows{{block_id{0}, 0, block_id{5}, 1}, {block_id{1}, 3, block_id{6}, 2}};
  for (const std::int32_t count : {-1, 0, 1, 2, 3, 100}) {
    storage_type by_host(shape, 4, num_blocks{8});
    const storage_type by_kernel(shape, 4, num_blocks{8});
    number(bytes_of(by_host));
    number(bytes_of(by_kernel));
    const auto first = [&](const auto& list) {
      const std::int32_t size = static_cast<std::int32_t>(list.size());
      return std::span(list).first(static_cast<std::size_t>(std::clamp(count, 0, size)));
    };
    for (std::int32_t layer = 0; layer < shape.layers; ++layer) {
      for (const block_copy& copy : first(blocks)) {
        std::ranges::copy(by_host.block_bytes(copy.from, layer), by_host.block_bytes(copy.to, layer).begin());
      }
    }
    move_padding(by_host, first(rows));
    pagoda::host::detail::move_rows(by_host, first(rows));
    host_machine machine;
    launch<copy_blocks>(machine, copy_blocks::make_arguments(by_kernel, {blocks.data(), 3, &count}));
    move(machine, by_kernel, rows, &count);
    CHECK(count_differences(bytes_of(by_host), bytes_of(by_kernel)) == 0);
  }
  const storage_type storage(shape, 4, num_blocks{8});
  CHECK(copy_blocks::max_units(copy_blocks::make_arguments(storage, {})) == 0);
}

TEST_CASE("a block of a by_block pool is one piece, one of a by_layer pool a piece for each layer; tiles cover it") {
  using storage_type = pagoda::block_storage<pagoda_test::f32>;
  const pagoda::storage_shape large{.layers = 3, .kv_heads = 3, .head_dim = 136};
  const std::vector<block_copy> blocks{{block_id{2}, block_id{0}}, {block_id{3}, block_id{1}}};
  for (const pool_order order : orders) {
    storage_type by_host(large, 16, num_blocks{4}, order);
    number(bytes_of(by_host));
    const std::vector<std::byte> before = snapshot(bytes_of(by_host));
    const auto args = copy_blocks::make_arguments(by_host, {blocks.data(), 2, nullptr});
    const std::int64_t bytes = storage_type::block_bytes(large, 16);
    CHECK(bytes > 16384);
    CHECK(args.pieces == (order == pool_order::by_block ? 1 : 3));
    CHECK(args.piece_bytes * args.pieces == 3 * bytes);
    for (std::int32_t layer = 0; layer < 3; ++layer) {
      for (const block_copy& copy : blocks) {
        std::ranges::copy(by_host.block_bytes(copy.from, layer), by_host.block_bytes(copy.to, layer).begin());
      }
    }
    CHECK(count_differences(bytes_of(by_host), before) > 0);
    for (const std::uint32_t seed : {0u, 1u, 2u}) {
      for (const std::uint32_t grid : {0u, 1u, 5u}) {
        const storage_type by_kernel(large, 16, num_blocks{4}, order);
        number(bytes_of(by_kernel));
        host_machine machine({.schedule_seed = seed});
        launch<copy_blocks>(machine, copy_blocks::make_arguments(by_kernel, {blocks.data(), 2, nullptr}), grid);
        CHECK(count_differences(bytes_of(by_host), bytes_of(by_kernel)) == 0);
      }
    }
  }
}

TEST_CASE("16 bytes a thread, neighbours beside one another: every sector is touched once") {
  using storage_type = pagoda::block_storage<pagoda_test::f16>;
  const storage_type storage(shape, 16, num_blocks{4});
  const std::vector<block_copy> blocks{{block_id{2}, block_id{0}}};
  host_machine machine({.count_accesses = true});
  launch<copy_blocks>(machine, copy_blocks::make_arguments(storage, {blocks.data(), 1, nullptr}));
  std::uint64_t wide = 0;
  for (const pagoda::simt::access_count& site : machine.accesses().lines) {
    CHECK(site.actual == site.ideal);
    wide += site.kind == pagoda::simt::access_kind::global_store ? site.actual : 0;
  }
  CHECK(wide == static_cast<std::uint64_t>(3 * storage_type::block_bytes(shape, 16) / 32));
}

TEST_CASE("misaligned pools and scratches are a fault of the launch") {
  using storage_type = pagoda::block_storage<pagoda_test::int8>;
  using kernel = pagoda::kernels::move_rows<pagoda_test::int8, pagoda_test::int8>;
  const storage_type storage(shape, 4, num_blocks{8});
  host_machine machine;
  const std::vector<block_copy> blocks{{block_id{2}, block_id{0}}};
  auto args = copy_blocks::make_arguments(storage, {blocks.data(), 1, nullptr});
  args.base += 8;
  CHECK_THROWS_WITH_AS(launch<copy_blocks>(machine, args), doctest::Contains("align"), pagoda::simt::fault);
  const std::vector<row_copy> rows{{block_id{1}, 2, block_id{4}, 0}};
  auto moved = kernel::make_arguments(storage, {rows.data(), 1, nullptr});
  const scratch between(kernel::row_scratch_bytes(moved) + 4);
  moved.scratch = between.data() + 4;
  CHECK_THROWS_AS(launch<kernel>(machine, moved), pagoda::simt::fault);
}

TEST_CASE("blocks above 2^31 and 2^32 bytes") {
  // Pages are taken from the system only where a block is touched.
  constexpr std::size_t bytes = std::size_t{9} << 30;
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  REQUIRE(memory != MAP_FAILED);
  using storage_type =
      pagoda::block_storage<pagoda_test::int8, pagoda_test::int8, pagoda::heads_tokens_dim, pagoda::borrowed_memory>;
  for (const pool_order order : orders) {
    const std::int64_t block = storage_type::block_bytes(shape, 16);
    const auto count = static_cast<std::int32_t>(static_cast<std::int64_t>(bytes) / block / shape.layers);
    const storage_type storage(shape, 16, num_blocks{count},
                               pagoda::borrowed_memory(std::span(static_cast<std::byte*>(memory), bytes)), order);
    const block_id last{count - 1};
    const block_id middle{count / 2};
    for (std::int32_t layer = 0; layer < shape.layers; ++layer) {
      number(storage.block_bytes(last, layer));
      storage.block_bytes(last, layer)[0] = static_cast<std::byte>(layer);
    }
    const std::vector<block_copy> blocks{{last, middle}, {last, block_id{0}}};
    const std::vector<row_copy> rows{{last, 3, middle, 5}};
    host_machine machine;
    launch<copy_blocks>(machine, copy_blocks::make_arguments(storage, {blocks.data(), 2, nullptr}));
    for (std::int32_t layer = 0; layer < shape.layers; ++layer) {
      CHECK(count_differences(storage.block_bytes(last, layer), storage.block_bytes(middle, layer)) == 0);
      CHECK(count_differences(storage.block_bytes(last, layer), storage.block_bytes(block_id{0}, layer)) == 0);
    }
    move(machine, storage, rows);
    for (std::int32_t layer = 0; layer < shape.layers; ++layer) {
      const auto view = storage.layer_view(layer);
      CHECK(pagoda_test::stored_slot(view, middle, 5) == pagoda_test::stored_slot(view, last, 3));
      CHECK(pagoda_test::stored_slot(view, middle, 4) == pagoda_test::stored_slot(view, last, 4));
    }
  }
  munmap(memory, bytes);
}

}  // namespace
