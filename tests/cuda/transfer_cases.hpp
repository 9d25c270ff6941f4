// SPDX-License-Identifier: Apache-2.0
/// @file Transfers between device and pinned memory, on any backend: the host context, and a GPU where there is one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <pagoda/cuda/execute.hpp>

#include "backend_calls.hpp"

namespace pagoda_test {

/// A transfer from device memory to pinned memory, to other device memory, and back: whole blocks of every layer
/// arrive, and no other byte changes.
template <class Backend, class KeyQuantizer, class ValueQuantizer = KeyQuantizer>
void check_transfer(pagoda::pool_order order) {
  const pagoda::storage_shape shape{.layers = 3, .kv_heads = 2, .head_dim = 32};
  using device_storage = pagoda::block_storage<KeyQuantizer, ValueQuantizer, pagoda::heads_tokens_dim,
                                               pagoda::cuda::basic_device_memory<Backend>>;
  using pinned_storage = pagoda::block_storage<KeyQuantizer, ValueQuantizer, pagoda::heads_tokens_dim,
                                               pagoda::cuda::basic_pinned_memory<Backend>>;
  const auto manager_of = [](std::int32_t blocks) {
    return pagoda::block_manager({.groups = {{.num_blocks = blocks}}, .block_size = 4, .max_sequences = 50});
  };
  const auto size = [](const auto& storage) { return static_cast<std::size_t>(storage.size_bytes()); };
  const auto number = [&](const auto& storage, std::uint32_t x) {
    std::vector<std::byte> bytes(size(storage));
    for (std::byte& byte : bytes) byte = static_cast<std::byte>((x = x * 1664525u + 1013904223u) >> 24);
    Backend::copy(storage.layer_view(0).keys.base, bytes.data(), storage.size_bytes(), {});
    Backend::synchronize({});
  };
  const auto read = [&](const auto& storage) {
    std::vector<std::byte> bytes(size(storage));
    Backend::copy(bytes.data(), storage.layer_view(0).keys.base, storage.size_bytes(), {});
    Backend::synchronize({});
    return bytes;
  };
  const auto place = [](const auto& storage, pagoda::block_id block, std::int32_t layer) {
    return storage.block_bytes(block, layer).data() - storage.block_bytes(pagoda::block_id{0}, 0).data();
  };
  const auto move = [&](pagoda::block_manager& from, const auto& from_storage, const pagoda::sequence& sequence,
                        pagoda::block_manager& to, auto& to_storage) {
    const std::vector<std::byte> source = read(from_storage);
    std::vector<std::byte> expected = read(to_storage);
    pagoda::transferred made = transfer(from, {sequence}, to);
    pagoda::cuda::execute<Backend>(from_storage, to_storage, made.copies);
    const auto old = from.blocks(sequence);
    const auto arrived = to.blocks(made.sequences[0]);
    REQUIRE(old.size() == arrived.size());
    const auto bytes = static_cast<std::ptrdiff_t>(device_storage::block_bytes(shape, 4));
    for (std::size_t i = 0; i < old.size(); ++i) {
      for (std::int32_t layer = 0; layer < shape.layers; ++layer) {
        std::copy_n(source.begin() + place(from_storage, old[i], layer), bytes,
                    expected.begin() + place(to_storage, arrived[i], layer));
      }
    }
    CHECK(read(to_storage) == expected);
    CHECK(read(from_storage) == source);
    return std::move(made.sequences[0]);
  };

  pagoda::block_manager device = manager_of(40);
  pagoda::block_manager host = manager_of(70);
  pagoda::block_manager other = manager_of(33);
  device_storage on_device(shape, 4, pagoda::num_blocks{40}, order);
  pinned_storage on_host(shape, 4, pagoda::num_blocks{70}, order);
  device_storage on_other(shape, 4, pagoda::num_blocks{33}, order);
  number(on_device, 1);
  number(on_host, 2);
  number(on_other, 3);
  // Runs of blocks, and single ones, on both sides.
  std::vector<pagoda::sequence> holes;
  for (pagoda::block_manager* manager : {&device, &host}) {
    for (int i = 0; i < 20; ++i) {
      holes.push_back(manager->make_sequence());
      manager->plan({{holes.back(), 1}}).commit();
    }
  }
  for (const std::size_t i : {3u, 4u, 5u, 9u, 14u, 15u, 22u, 27u, 28u, 29u, 30u, 36u}) holes[i] = {};
  const pagoda::sequence first = device.make_sequence();
  device.plan({{first, 90}}).commit();
  const pagoda::sequence parked = move(device, on_device, first, host, on_host);
  const pagoda::sequence elsewhere = move(host, on_host, parked, other, on_other);
  device.truncate(first, 0);
  CHECK(move(other, on_other, elsewhere, device, on_device).position() == 90);
}

/// A request that is parked in pinned memory between two decodes attends as if it had stayed, to the bit.
template <class Backend, class Quantizer>
void check_parked(std::int32_t head_dim) {
  using storage_type =
      pagoda::block_storage<Quantizer, Quantizer, pagoda::heads_tokens_dim, pagoda::cuda::basic_device_memory<Backend>>;
  using pinned_type =
      pagoda::block_storage<Quantizer, Quantizer, pagoda::heads_tokens_dim, pagoda::cuda::basic_pinned_memory<Backend>>;
  const pagoda::storage_shape shape{.layers = 2, .kv_heads = 2, .head_dim = head_dim};
  struct side {
    explicit side(const pagoda::storage_shape& shape, std::int32_t dim)
        : manager({.groups = {{.num_blocks = 6}}}),
          storage(shape, 16, pagoda::num_blocks{6}),
          tables(manager, {.sequences = 1,
                           .queries = 40,
                           .new_tokens = 40,
                           .blocks = 6,
                           .queries_per_sequence = 40,
                           .query_heads = 4,
                           .value_head_dim = dim}) {}
    pagoda::block_manager manager;
    storage_type storage;
    pagoda::cuda::basic_step_tables<Backend> tables;
  };
  const auto go_on = [&](side& on, const pagoda::sequence& sequence, std::uint64_t story, std::int32_t tokens) {
    std::vector<float> input;
    for (std::int64_t t = sequence.position(); t < sequence.position() + tokens; ++t) {
      for (std::int64_t e = 0; e < 4 * head_dim; ++e) input.push_back(noise(story, 1, t, 0, e));
    }
    const auto rows = to_device<Backend>(input);
    const auto output = to_device<Backend>(std::vector<float>(input.size()));
    pagoda::step step = on.manager.plan({{sequence, tokens}});
    on.tables.upload(step);
    std::vector<float> outputs;
    for (std::int32_t layer = 0; layer < shape.layers; ++layer) {
      const auto view = on.storage.view(layer, on.tables);
      const pagoda::rows_view<float> kv(rows.span(), {tokens, 2, head_dim}, {4 * head_dim, head_dim});
      pagoda::cuda::append<Backend>(view, kv, kv);
      pagoda::cuda::attention<Backend>(view, pagoda::rows_view(rows.span(), {tokens, 4, head_dim}),
                                       pagoda::rows_view(output.span(), {tokens, 4, head_dim}));
      const std::vector<float> got = output.read();
      outputs.insert(outputs.end(), got.begin(), got.end());
    }
    step.commit();
    return outputs;
  };
  side device(shape, head_dim);
  side undisturbed(shape, head_dim);
  pagoda::block_manager host({.groups = {{.num_blocks = 9}}});
  pinned_type pinned(shape, 16, pagoda::num_blocks{9});
  pagoda::sequence request = device.manager.make_sequence();
  const pagoda::sequence twin = undisturbed.manager.make_sequence();
  for (const std::int32_t tokens : {40, 15, 1}) {
    CHECK(go_on(device, request, 1, tokens) == go_on(undisturbed, twin, 1, tokens));
  }
  pagoda::transferred out = transfer(device.manager, {request}, host);
  pagoda::cuda::execute<Backend>(device.storage, pinned, out.copies);
  request = {};
  {
    const pagoda::sequence short_one = device.manager.make_sequence();
    for (int i = 0; i < 2; ++i) go_on(device, short_one, 2, 40);
  }
  const pagoda::sequence holder = device.manager.make_sequence();
  go_on(device, holder, 3, 1);
  pagoda::transferred back = transfer(host, {out.sequences[0]}, device.manager);
  pagoda::cuda::execute<Backend>(pinned, device.storage, back.copies);
  for (int turn = 0; turn < 3; ++turn) {
    CHECK(go_on(device, back.sequences[0], 1, 1) == go_on(undisturbed, twin, 1, 1));
  }
}

}  // namespace pagoda_test
