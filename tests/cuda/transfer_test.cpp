// SPDX-License-Identifier: Apache-2.0
// Transfers between device and pinned memory on a CPU: the bytes, how many copies they take, and what is refused.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <pagoda/cache.hpp>
#include <pagoda/cuda/host_backend.hpp>
#include <pagoda/eviction/fifo.hpp>

#include "transfer_cases.hpp"

namespace {

using pagoda::num_blocks;
using pagoda::pool_order;
using pagoda::cuda::host_backend;
using pagoda_test::f16;
using pagoda_test::f32;
using pagoda_test::int8;

using device_storage =
    pagoda::block_storage<f16, f16, pagoda::heads_tokens_dim, pagoda::cuda::basic_device_memory<host_backend>>;
using pinned_storage =
    pagoda::block_storage<f16, f16, pagoda::heads_tokens_dim, pagoda::cuda::basic_pinned_memory<host_backend>>;

constexpr pagoda::storage_shape shape{.layers = 3, .kv_heads = 1, .head_dim = 16};

pagoda::block_manager manager_of(std::int32_t blocks) {
  return pagoda::block_manager({.groups = {{.num_blocks = blocks}}, .block_size = 4});
}

TEST_CASE("whole blocks of every layer arrive, and no other byte changes") {
  for (const auto order : {pool_order::by_layer, pool_order::by_block}) {
    pagoda_test::check_transfer<host_backend, f16>(order);
    pagoda_test::check_transfer<host_backend, int8>(order);
    pagoda_test::check_transfer<host_backend, pagoda_test::rotated<pagoda_test::int4>, pagoda_test::int8g32>(order);
  }
}

TEST_CASE("a request that was parked goes on as if it had stayed") {
  pagoda_test::check_parked<host_backend, f16>(64);
  pagoda_test::check_parked<host_backend, f32>(32);
  pagoda_test::check_parked<host_backend, int8>(64);
}

TEST_CASE("blocks that follow each other on both sides go in one copy for each layer, or one for all") {
  auto& device = host_backend::device();
  for (const auto order : {pool_order::by_layer, pool_order::by_block}) {
    const std::int64_t pieces = order == pool_order::by_layer ? shape.layers : 1;
    pagoda::block_manager from = manager_of(20);
    pagoda::block_manager to = manager_of(20);
    const device_storage source(shape, 4, num_blocks{20}, order);
    pinned_storage target(shape, 4, num_blocks{20}, order);
    const auto copies_of = [&](const pagoda::sequence& sequence) {
      const pagoda::transferred made = transfer(from, {sequence}, to);
      const std::int64_t before = device.copies;
      const std::int64_t bytes = device.copied_bytes;
      pagoda::cuda::execute<host_backend>(source, target, made.copies);
      CHECK(device.copied_bytes - bytes == static_cast<std::int64_t>(made.copies.blocks().size()) * shape.layers *
                                               device_storage::block_bytes(shape, 4));
      return device.copies - before;
    };
    const pagoda::sequence empty = from.make_sequence();
    CHECK(copies_of(empty) == 0);
    const pagoda::sequence straight = from.make_sequence();
    from.plan({{straight, 20}}).commit();  // blocks 0 to 4
    CHECK(copies_of(straight) == pieces);
    const pagoda::sequence a = from.make_sequence();
    const pagoda::sequence b = from.make_sequence();
    for (int i = 0; i < 3; ++i)
      from.plan({{a, 4}, {b, 8}}).commit();  // a has 5, 8 and 11; b 6 and 7, 9 and 10, 12 and 13
    CHECK(copies_of(a) == 3 * pieces);
    CHECK(copies_of(b) == 3 * pieces);
  }
}

TEST_CASE("copies are enqueued, and nothing waits") {
  auto& device = host_backend::device();
  pagoda::block_manager from = manager_of(4);
  pagoda::block_manager to = manager_of(4);
  pagoda::cache<f16, pagoda::block_size<4>, pagoda::cuda::basic_device_memory<host_backend>> source(shape,
                                                                                                    num_blocks{4});
  pagoda::cache<f16, pagoda::block_size<4>, pagoda::cuda::basic_pinned_memory<host_backend>, pagoda::fifo> target(
      shape, num_blocks{4});
  const auto bytes = static_cast<std::size_t>(source.storage().size_bytes());
  std::byte* at_source = source.storage().layer_view(0).keys.base;
  std::byte* at_target = target.storage().layer_view(0).keys.base;
  std::memset(at_source, 1, bytes);
  std::memset(at_target, 2, bytes);
  const pagoda::sequence sequence = source.make_sequence();
  source.plan({{sequence, 16}}).commit();
  const pagoda::transferred made = transfer(source.manager(), {sequence}, target.manager());
  int stream = 0;
  device.deferred = true;
  pagoda::cuda::execute<host_backend>(source, target, made.copies, &stream);
  CHECK(std::all_of(at_target, at_target + bytes, [](std::byte b) { return b == std::byte{2}; }));
  host_backend::synchronize(&stream);
  device.deferred = false;
  CHECK(std::all_of(at_target, at_target + bytes, [](std::byte b) { return b == std::byte{1}; }));
}

TEST_CASE(
    "storages that hold a block in another way, and lists of another kind, are refused before anything is copied") {
  auto& device = host_backend::device();
  pagoda::block_manager from = manager_of(20);
  pagoda::block_manager to = manager_of(20);
  const pagoda::sequence sequence = from.make_sequence();
  from.plan({{sequence, 30}}).commit();
  const pagoda::transferred made = transfer(from, {sequence}, to);  // blocks 0 to 7
  const device_storage source(shape, 4, num_blocks{20});
  const auto refused = [&](pinned_storage&& target, const pagoda::copy_list& copies, const char* message,
                           int group = 0) {
    const std::int64_t before = device.copies;
    CHECK_THROWS_WITH(pagoda::cuda::execute<host_backend>(source, target, copies, {}, group),
                      doctest::Contains(message));
    CHECK(device.copies == before);
  };
  refused(pinned_storage({.layers = 2, .kv_heads = 1, .head_dim = 16}, 4, num_blocks{20}), made.copies,
          "build both with one shape");
  refused(pinned_storage(shape, 8, num_blocks{20}), made.copies, "build both with one block size");
  refused(pinned_storage(shape, 4, num_blocks{20}, pool_order::by_block), made.copies,
          "build both with one pool_order");
  refused(pinned_storage(shape, 4, num_blocks{7}), made.copies, "names block 7, but the storage has blocks 0 to 6");
  refused(pinned_storage(shape, 4, num_blocks{20}), made.copies, "pass the group of the storage", 1);
  const pagoda::sequence child = from.fork(sequence);
  pagoda::step step = from.plan({{child, 1}});
  refused(pinned_storage(shape, 4, num_blocks{20}), step.take_copies(), "call execute(storage, copies)");
  device_storage one(shape, 4, num_blocks{20});
  CHECK_THROWS_WITH_AS(pagoda::cuda::execute<host_backend>(one, made.copies),
                       doctest::Contains("call execute(from, to, copies)"), pagoda::invalid_argument);
  CHECK_THROWS_WITH_AS(pagoda::cuda::execute<host_backend>(one, one, made.copies), doctest::Contains("to itself"),
                       pagoda::invalid_argument);
}

}  // namespace
