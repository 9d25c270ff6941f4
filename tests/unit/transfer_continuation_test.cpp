// SPDX-License-Identifier: Apache-2.0
// Sequences that move between caches: their bytes arrive, and attention goes on as if they had never moved, to the bit.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <pagoda/cache.hpp>
#include <pagoda/eviction/never.hpp>
#include <pagoda/host/append.hpp>
#include <pagoda/host/execute.hpp>
#include <pagoda/memory/borrowed.hpp>

#include "attention_case.hpp"
#include "manager_support.hpp"

namespace {

using pagoda::block_id;
using pagoda::num_blocks;
using pagoda::pool_order;
using pagoda::sequence;
using pagoda_test::bytes_of;
using pagoda_test::f16;
using pagoda_test::f32;
using pagoda_test::faults;
using pagoda_test::int8;
using pagoda_test::noise;

constexpr pagoda::storage_shape shape{.layers = 2, .kv_heads = 2, .head_dim = 32};
constexpr std::int64_t query_heads = 4;

template <class Quantizer>
using cache_of = pagoda::cache<Quantizer, pagoda::block_size<8>>;

/// Computes a sequence's next tokens as a model would, in every layer. Its contents follow from `story` and the
/// positions. Returns the attention outputs.
template <class Cache>
std::vector<float> go_on(Cache& cache, const sequence& sequence, std::uint64_t story, std::int32_t tokens) {
  const std::int64_t begin = sequence.position();
  pagoda::step step = cache.plan({{sequence, tokens}});
  pagoda::host::execute(cache, step.take_copies());
  const auto rows = [&](std::uint64_t stream, std::int64_t heads) {
    std::vector<float> numbers;
    for (std::int64_t t = begin; t < begin + tokens; ++t) {
      for (std::int64_t head = 0; head < heads; ++head) {
        for (std::int64_t d = 0; d < shape.head_dim; ++d) numbers.push_back(noise(story, stream, t, head, d));
      }
    }
    return numbers;
  };
  pagoda_test::serial_items serial;
  std::vector<float> outputs;
  for (std::int32_t layer = 0; layer < shape.layers; ++layer) {
    const auto stream = static_cast<std::uint64_t>(layer * 3);
    const std::vector<float> keys = rows(stream, shape.kv_heads);
    const std::vector<float> values = rows(stream + 1, shape.kv_heads);
    const std::vector<float> queries = rows(stream + 2, query_heads);
    std::vector<float> output(queries.size());
    const auto view = cache.view(layer, step);
    pagoda::host::append(view, pagoda::rows_view(keys, {tokens, shape.kv_heads, shape.head_dim}),
                         pagoda::rows_view(values, {tokens, shape.kv_heads, shape.head_dim}));
    pagoda_test::attend(view, pagoda::rows_view<const float>(queries, {tokens, query_heads, shape.head_dim}),
                        pagoda::rows_view<float>(output, {tokens, query_heads, shape.head_dim}), {}, serial);
    outputs.insert(outputs.end(), output.begin(), output.end());
  }
  step.commit();
  return outputs;
}

/// Moves sequences with their bytes; the old ones are released.
template <class From, class To>
std::vector<sequence> move(From& from, std::vector<sequence> sequences, To& to) {
  const std::vector<pagoda::sequence_id> ids(sequences.begin(), sequences.end());
  auto [moved, copies, read, written] = transfer(from.manager(), ids, to.manager());
  pagoda::host::execute(from, to, copies);
  from.complete(read);
  to.complete(written);
  return std::move(moved);
}

template <class From, class To>
sequence move(From& from, sequence&& one, To& to) {
  std::vector<sequence> sequences;
  sequences.push_back(std::move(one));
  return std::move(move(from, std::move(sequences), to).front());
}

/// So that a byte that did not come along shows.
template <class Cache>
void poison_bytes(Cache& cache) {
  pagoda_test::fill(bytes_of(cache.storage()), pagoda_test::poison::quiet_nan);
}

TEST_CASE_TEMPLATE("a long request is parked so that short ones run, and goes on as if it had never moved", Q, f32, f16,
                   int8) {
  cache_of<Q> device(shape, num_blocks{16});
  cache_of<Q> host(shape, num_blocks{40});
  cache_of<Q> undisturbed(shape, num_blocks{100});
  poison_bytes(device);
  poison_bytes(host);
  sequence request = device.make_sequence();
  const sequence twin = undisturbed.make_sequence();
  CHECK(go_on(device, request, 1, 101) == go_on(undisturbed, twin, 1, 101));
  {  // Short ones come, and there is no room for them.
    const sequence short_one = device.make_sequence();
    CHECK_THROWS_AS((void)device.plan({{short_one, 30}}), pagoda::out_of_blocks);
  }
  const sequence other = host.make_sequence();  // so that blocks have other numbers there
  CHECK(go_on(host, other, 9, 3).size() > 0);
  sequence parked = move(device, std::move(request), host);
  CHECK(parked.position() == 101);
  CHECK(device.stats().used == 0);
  CHECK(host.stats().used == 1 + 13);
  {
    const sequence a = device.make_sequence();
    const sequence b = device.make_sequence();
    const sequence alone = undisturbed.make_sequence();
    const std::vector<float> expected = go_on(undisturbed, alone, 2, 60);
    CHECK(go_on(device, a, 2, 60) == expected);
    CHECK(go_on(device, b, 2, 60) == expected);
  }
  const sequence first = device.make_sequence();
  CHECK(go_on(device, first, 3, 2).size() > 0);
  request = move(host, std::move(parked), device);
  CHECK(host.stats().used == 1);
  CHECK(device.stats().used == 1 + 13);
  for (std::int32_t turn = 0; turn < 12; ++turn) {
    CAPTURE(turn);
    REQUIRE(go_on(device, request, 1, 1) == go_on(undisturbed, twin, 1, 1));
  }
  CHECK(faults(device.manager()) == "");
  CHECK(faults(host.manager()) == "");
}

TEST_CASE_TEMPLATE("forks that share blocks share them after every move, and grow apart as they would have", Q, f32,
                   int8) {
  cache_of<Q> device(shape, num_blocks{40});
  cache_of<Q> host(shape, num_blocks{30});
  cache_of<Q> undisturbed(shape, num_blocks{60});
  poison_bytes(host);
  const auto grow_family = [](cache_of<Q>& cache) {
    std::vector<sequence> family;
    family.push_back(cache.make_sequence());
    go_on(cache, family[0], 1, 37);           // 5 blocks, the last of 5 tokens
    family.push_back(cache.fork(family[0]));  // grows apart before the move: a copy of the last block, and one more
    go_on(cache, family[1], 2, 6);
    family.push_back(cache.fork(family[0]));  // shares all, the part of a block included
    family.push_back(cache.fork(family[1]));
    return family;
  };
  std::vector<sequence> family = grow_family(device);
  const std::vector<sequence> twins = grow_family(undisturbed);
  const pagoda::block_stats before = device.stats();
  CHECK(before.used == 7);
  CHECK(before.shared == 7);
  family = move(device, std::move(family), host);
  CHECK(device.stats().used == 0);
  CHECK(host.stats().used == before.used);
  CHECK(host.stats().shared == before.shared);
  CHECK(host.stats().tokens == before.tokens);
  CHECK(host.stats().slack == before.slack);
  for (std::size_t i = 0; i < family.size(); ++i) {
    CHECK(go_on(host, family[i], 10 + i, 5) == go_on(undisturbed, twins[i], 10 + i, 5));
  }
  CHECK(host.stats().used == undisturbed.stats().used);
  poison_bytes(device);
  family = move(host, std::move(family), device);
  CHECK(device.stats().used == undisturbed.stats().used);
  CHECK(device.stats().shared == undisturbed.stats().shared);
  for (std::size_t i = 0; i < family.size(); ++i) {
    CHECK(go_on(device, family[i], 20 + i, 3) == go_on(undisturbed, twins[i], 20 + i, 3));
  }
  CHECK(faults(device.manager()) == "");
  CHECK(faults(host.manager()) == "");
}

TEST_CASE("one of a family moves alone: its own copy of what the others keep") {
  cache_of<int8> device(shape, num_blocks{20});
  cache_of<int8> host(shape, num_blocks{20});
  cache_of<int8> undisturbed(shape, num_blocks{20});
  const sequence stays = device.make_sequence();
  const sequence twin = undisturbed.make_sequence();
  go_on(device, stays, 1, 29);
  go_on(undisturbed, twin, 1, 29);
  const sequence moved = move(device, device.fork(stays), host);
  const sequence twin_of_moved = undisturbed.fork(twin);
  CHECK(device.stats().used == 4);
  CHECK(device.stats().shared == 0);
  CHECK(host.stats().used == 4);
  CHECK(go_on(host, moved, 2, 4) == go_on(undisturbed, twin_of_moved, 2, 4));
  CHECK(go_on(device, stays, 3, 4) == go_on(undisturbed, twin, 3, 4));
}

TEST_CASE("windows: only the blocks that are left move, and the window goes on") {
  for (const pagoda::retention keep :
       {pagoda::retention{.window = 20}, pagoda::retention{.sinks = 3, .window = 20}, pagoda::retention{.window = 1}}) {
    CAPTURE(keep.sinks);
    CAPTURE(keep.window);
    const pagoda::cache_options options{.keep = keep};
    cache_of<f32> device(shape, num_blocks{16}, options);
    cache_of<f32> host(shape, num_blocks{9}, options);
    cache_of<f32> undisturbed(shape, num_blocks{16}, options);
    poison_bytes(host);
    sequence request = device.make_sequence();
    const sequence twin = undisturbed.make_sequence();
    for (const std::int32_t tokens : {60, 4, 20}) {
      go_on(device, request, 1, tokens);
      go_on(undisturbed, twin, 1, tokens);
    }
    for (std::int32_t turn = 0; turn < 30; ++turn) {
      CAPTURE(turn);
      request = move(device, std::move(request), host);
      CHECK(request.position() == twin.position());
      CHECK(request.resident() == twin.resident());
      CHECK(host.stats().used == undisturbed.stats().used);
      CHECK(faults(host.manager()) == "");
      if (turn % 2 == 1) {
        REQUIRE(go_on(host, request, 1, 1) == go_on(undisturbed, twin, 1, 1));
      }
      request = move(host, std::move(request), device);
      REQUIRE(go_on(device, request, 1, 2) == go_on(undisturbed, twin, 1, 2));
      CHECK(faults(device.manager()) == "");
    }
  }
}

TEST_CASE("three tiers in a row, and back") {
  using borrowed_cache = pagoda::cache<f16, pagoda::block_size<8>, pagoda::borrowed_memory, pagoda::never>;
  const std::int64_t bytes = borrowed_cache::storage_type::size_bytes(shape, 8, num_blocks{20});
  pagoda::host_memory file(bytes);
  cache_of<f16> device(shape, num_blocks{9}, {.order = pool_order::by_block});
  cache_of<f16> host(shape, num_blocks{12}, {.order = pool_order::by_block});
  borrowed_cache disk(shape, num_blocks{20},
                      pagoda::borrowed_memory(std::span(file.data(), static_cast<std::size_t>(bytes))),
                      {.order = pool_order::by_block});
  cache_of<f16> undisturbed(shape, num_blocks{40});
  sequence request = device.make_sequence();
  const sequence twin = undisturbed.make_sequence();
  CHECK(go_on(device, request, 1, 60) == go_on(undisturbed, twin, 1, 60));
  for (std::int32_t turn = 0; turn < 3; ++turn) {
    request = move(device, std::move(request), host);
    poison_bytes(device);
    request = move(host, std::move(request), disk);
    poison_bytes(host);
    CHECK(device.stats().used + host.stats().used == 0);
    request = move(disk, std::move(request), host);
    request = move(host, std::move(request), device);
    CHECK(go_on(device, request, 1, 3) == go_on(undisturbed, twin, 1, 3));
  }
  CHECK(disk.stats().used == 0);
}

/// Every byte of the storage differs from its neighbours, so that a byte moved wrongly shows.
void number(std::span<std::byte> bytes, std::uint32_t x) {
  for (std::byte& byte : bytes) {
    x = x * 1664525u + 1013904223u;
    byte = static_cast<std::byte>(x >> 24);
  }
}

TEST_CASE_TEMPLATE("whole blocks of every layer arrive, and no other byte changes", Storage, pagoda::block_storage<f16>,
                   pagoda::block_storage<int8, pagoda_test::int4, pagoda_test::user_chunked>,
                   pagoda::block_storage<pagoda_test::int8g32, pagoda_test::f32, pagoda::tokens_heads_dim>,
                   pagoda::block_storage<f16, pagoda::values_in_keys<64>>) {
  const pagoda::storage_shape wide{.layers = 3, .kv_heads = 2, .head_dim = 64};
  for (const pool_order order : {pool_order::by_layer, pool_order::by_block}) {
    const Storage from(wide, 4, num_blocks{20}, order);
    Storage to(wide, 4, num_blocks{31}, order);
    number(bytes_of(from), 1);
    number(bytes_of(to), 2);
    std::vector<std::byte> expected(bytes_of(to).begin(), bytes_of(to).end());
    const std::vector<std::byte> before(bytes_of(from).begin(), bytes_of(from).end());
    pagoda::block_manager source({.groups = {{.num_blocks = 20}}, .block_size = 4});
    pagoda::block_manager target({.groups = {{.num_blocks = 31}}, .block_size = 4});
    const sequence skipped = source.make_sequence();
    const sequence moved = source.make_sequence();
    const sequence there = target.make_sequence();
    source.plan({{skipped, 9}, {moved, 30}}).commit();
    target.plan({{there, 50}}).commit();
    const pagoda::transferred made = transfer(source, {moved}, target);
    CHECK(made.copies.between_managers());
    CHECK(made.copies.blocks().size() == 8);
    pagoda::host::execute(from, to, made.copies);
    const std::byte* first = bytes_of(to).data();
    for (std::size_t i = 0; i < 8; ++i) {
      for (std::int32_t layer = 0; layer < 3; ++layer) {
        const std::span<const std::byte> bytes = from.block_bytes(source.blocks(moved)[i], layer);
        const std::span<const std::byte> place = to.block_bytes(target.blocks(made.sequences[0])[i], layer);
        std::copy(bytes.begin(), bytes.end(), expected.begin() + (place.data() - first));
      }
    }
    CHECK(std::equal(expected.begin(), expected.end(), bytes_of(to).begin()));
    CHECK(std::equal(before.begin(), before.end(), bytes_of(from).begin()));
  }
}

TEST_CASE("each layer group moves between its own storages") {
  const pagoda::manager_config config{
      .groups = {{.num_blocks = 30, .layers = {0, 2}}, {.num_blocks = 12, .keep = {.window = 9}, .layers = {1}}},
      .block_size = 4};
  pagoda::block_manager source(config);
  pagoda::block_manager target(config);
  const sequence other = source.make_sequence();
  const sequence moved = source.make_sequence();
  source.plan({{other, 5}, {moved, 30}}).commit();
  const pagoda::transferred made = transfer(source, {moved}, target);
  CHECK(made.copies.blocks(0).size() == 8);
  CHECK(made.copies.blocks(1).size() == 3);
  const auto check = [&](int group, std::int32_t layers, std::int32_t blocks) {
    const pagoda::storage_shape layers_shape{.layers = layers, .kv_heads = 1, .head_dim = 16};
    const pagoda::block_storage<f16> from(layers_shape, 4, num_blocks{blocks});
    pagoda::block_storage<f16> to(layers_shape, 4, num_blocks{blocks});
    number(bytes_of(from), 1);
    number(bytes_of(to), 2);
    pagoda::host::execute(from, to, made.copies, group);
    const auto old = source.blocks(moved, group);
    const auto arrived = target.blocks(made.sequences[0], group);
    REQUIRE(old.size() == arrived.size());
    for (std::size_t i = 0; i < old.size(); ++i) {
      for (std::int32_t layer = 0; layer < layers; ++layer) {
        const auto bytes = from.block_bytes(old[i], layer);
        CHECK(std::equal(bytes.begin(), bytes.end(), to.block_bytes(arrived[i], layer).begin()));
      }
    }
    CHECK_THROWS_AS(pagoda::host::execute(from, to, made.copies), pagoda::out_of_range);
    CHECK_THROWS_AS(pagoda::host::execute(from, to, made.copies, 2), pagoda::out_of_range);
  };
  check(0, 2, 30);
  check(1, 1, 12);
}

TEST_CASE("storages that hold a block in another way, and lists of another kind, are refused before a byte moves") {
  using storage = pagoda::block_storage<f16>;
  pagoda::block_manager source({.groups = {{.num_blocks = 20}}, .block_size = 4});
  pagoda::block_manager target({.groups = {{.num_blocks = 20}}, .block_size = 4});
  const sequence there = target.make_sequence();
  const sequence moved = source.make_sequence();
  source.plan({{moved, 30}}).commit();  // blocks 0 to 7
  target.plan({{there, 4}}).commit();
  const pagoda::transferred made = transfer(source, {moved}, target);  // to blocks 1 to 8
  const storage from(shape, 4, num_blocks{20});
  const auto refused = [&](auto error, storage&& to, const char* message, const storage& source_storage,
                           const pagoda::copy_list& copies) {
    number(bytes_of(to), 2);
    const std::vector<std::byte> before(bytes_of(to).begin(), bytes_of(to).end());
    CHECK_THROWS_WITH_AS(pagoda::host::execute(source_storage, to, copies), doctest::Contains(message),
                         decltype(error));
    CHECK(std::equal(before.begin(), before.end(), bytes_of(to).begin()));
  };
  const pagoda::invalid_argument invalid("");
  const pagoda::out_of_range range("");
  const auto unlike = [&](storage&& to, const char* message) {
    refused(invalid, std::move(to), message, from, made.copies);
  };
  unlike(storage({.layers = 3, .kv_heads = 2, .head_dim = 32}, 4, num_blocks{20}),
         "from a storage of 2 layers, 2 kv heads and head dims 32 and 32 to one of 3 layers, 2 kv heads");
  unlike(storage({.layers = 2, .kv_heads = 1, .head_dim = 32}, 4, num_blocks{20}), "to one of 2 layers, 1 kv heads");
  unlike(storage({.layers = 2, .kv_heads = 2, .head_dim = 40}, 4, num_blocks{20}), "head dims 40 and 40");
  unlike(storage({.layers = 2, .kv_heads = 2, .head_dim = 32, .value_head_dim = 16}, 4, num_blocks{20}),
         "head dims 32 and 16: build both with one shape");
  unlike(storage(shape, 8, num_blocks{20}), "with blocks of 4 tokens to one with blocks of 8: build both");
  unlike(storage(shape, 4, num_blocks{20}, pool_order::by_block), "build both with one pool_order");
  refused(range, storage(shape, 4, num_blocks{8}), "names block 8, but the storage has blocks 0 to 7", from,
          made.copies);
  refused(range, storage(shape, 4, num_blocks{20}), "names block 6, but the storage has blocks 0 to 5",
          storage(shape, 4, num_blocks{6}), made.copies);
  refused(invalid, storage(shape, 16, num_blocks{20}), "the copies are for blocks of 4 tokens",
          storage(shape, 16, num_blocks{20}), made.copies);
  storage small(shape, 4, num_blocks{9});
  CHECK_NOTHROW(pagoda::host::execute(from, small, made.copies));

  storage both(shape, 4, num_blocks{20});
  CHECK_THROWS_WITH_AS(pagoda::host::execute(both, both, made.copies), doctest::Contains("to itself"),
                       pagoda::invalid_argument);
  CHECK_THROWS_WITH_AS(pagoda::host::execute(both, made.copies), doctest::Contains("call execute(from, to, copies)"),
                       pagoda::invalid_argument);
  const sequence child = source.fork(moved);
  pagoda::step step = source.plan({{child, 9}});
  refused(invalid, storage(shape, 4, num_blocks{20}), "call execute(storage, copies)", from, step.take_copies());
  const std::vector<std::int32_t> path{1, 4};
  const std::vector<std::int32_t> offsets{0, 2};
  refused(invalid, storage(shape, 4, num_blocks{20}), "call execute(storage, copies)", from,
          step.commit_paths({path, offsets}));
  CHECK_NOTHROW(pagoda::host::execute(from, both, pagoda::copy_list()));
}

}  // namespace
