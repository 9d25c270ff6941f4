// SPDX-License-Identifier: Apache-2.0
/// @file The same calls against the same expectations, on any backend: the host context, and a GPU where there is one.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <pagoda/cuda/execute.hpp>
#include <pagoda/host/execute.hpp>

#include "backend_calls.hpp"

namespace pagoda_test {

/// Against the reference: tensor cores round queries and weights to 16 bits.
template <class KeyQuantizer, class ValueQuantizer>
inline constexpr double device_bound =
    pagoda::cuda::has_tensor_path_v<KeyQuantizer, ValueQuantizer> ? 4e-3 : attention_bound;

template <class Backend, class KeyQuantizer, class ValueQuantizer = KeyQuantizer>
void check_attention(const case_config& config, const pagoda::attention_options& options = {}) {
  device_case<Backend, KeyQuantizer, ValueQuantizer> on_device(config);
  const attention_error error =
      compare(on_device.run(options), on_device.host.reference(options), config.shape.value_dim());
  constexpr double bound = device_bound<KeyQuantizer, ValueQuantizer>;
  CHECK(error.output < bound);
  CHECK(error.lse < bound);
  CHECK_NOTHROW(on_device.tables.check());
}

/// Decode, speculation, prefill and a mix of them, over chunks of keys and over none.
template <class Backend, class KeyQuantizer, class ValueQuantizer = KeyQuantizer>
void check_attention_shapes(std::int32_t head_dim) {
  const pagoda::storage_shape shape{.layers = 2, .kv_heads = 2, .head_dim = head_dim};
  const auto check = [&](std::int32_t group, std::vector<batch_entry> batch) {
    CAPTURE(group);
    check_attention<Backend, KeyQuantizer, ValueQuantizer>(
        {.shape = shape, .query_group = group, .batch = std::move(batch)});
  };
  check(4, {{1, 1, 1, 1}, {0, 0, 1, 2}, {17, 1, 1, 3}, {32, 1, 1, 4}});
  check(1, {{1030, 1, 1, 5}, {20, 1, 1, 6}});
  check(3, {{530, 5, 5, 7}, {9, 2, 2, 8}});
  check(2, {{40, 30, 30, 9}, {600, 1, 1, 10}, {25, 12, 12, 11}});
}

template <class Backend, class KeyQuantizer>
void check_attention_options(std::int32_t head_dim) {
  const pagoda::storage_shape shape{.kv_heads = 1, .head_dim = head_dim};
  const case_config config{.shape = shape, .query_group = 2, .batch = {{45, 3, 3, 1}, {20, 10, 10, 2}, {7, 1, 1, 3}}};
  const std::vector<float> sinks{0.5f, -1.0f};
  const std::vector<float> slopes{0.25f, 0.0625f};
  std::vector<std::uint32_t> tree(14);
  for (std::size_t row = 0; row < tree.size(); ++row)
    tree[row] = 0x3ffu & (0x2a5u ^ static_cast<std::uint32_t>(row * 77));
  check_attention<Backend, KeyQuantizer>(config, {.sink_logits = sinks, .soft_cap = 5.0f});
  check_attention<Backend, KeyQuantizer>(config, {.scale = 0.3f, .alibi_slopes = slopes});
  check_attention<Backend, KeyQuantizer>(config, {.window = 11, .sinks = 3});
  check_attention<Backend, KeyQuantizer>(config, {.causal = false});
  check_attention<Backend, KeyQuantizer>(config, {.tree = {.words = tree, .words_per_query = 1}});
  case_config streaming = config;
  streaming.keep = {.sinks = 4, .window = 20};
  check_attention<Backend, KeyQuantizer>(streaming);
}

/// Limits larger than the step, and tensors larger than its rows, change nothing, to the bit; the padding stays as it
/// was.
template <class Backend, class KeyQuantizer>
void check_padding(std::int32_t head_dim) {
  const case_config config{
      .shape = {.kv_heads = 2, .head_dim = head_dim}, .query_group = 2, .batch = {{33, 1, 1, 1}, {70, 2, 2, 2}}};
  device_case<Backend, KeyQuantizer> exact(config);
  const attention_result expected = exact.run();
  device_case<Backend, KeyQuantizer> wide(config, [](pagoda::cuda::step_limits& limits) {
    limits.sequences = 7;
    limits.queries = 20;
    limits.new_tokens = 20;
    limits.blocks = 300;
    limits.query_heads = 9;
    limits.value_head_dim = 576;
  });
  const std::int64_t heads = wide.host.heads();
  const std::int64_t rows = 9;  // the step has 3
  const auto size = static_cast<std::size_t>(rows * heads * head_dim);
  const auto queries = to_device<Backend>(std::vector<float>(size, std::nanf("")));
  Backend::copy(queries.span().data(), wide.host.queries.data(),
                static_cast<std::int64_t>(wide.host.queries.size() * sizeof(float)), {});
  const auto output = to_device<Backend>(std::vector<float>(size, 77.0f));
  pagoda::cuda::attention<Backend>(wide.view, pagoda::rows_view(queries.span(), {rows, heads, head_dim}),
                                   pagoda::rows_view(output.span(), {rows, heads, head_dim}));
  const std::vector<float> got = output.read();
  const std::size_t used = expected.output.size();
  CHECK(std::vector<float>(got.begin(), got.begin() + static_cast<std::ptrdiff_t>(used)) == expected.output);
  for (std::size_t i = used; i < size; ++i) REQUIRE(got[i] == 77.0f);
}

/// What append writes on the device is what host::append wrote; the rest of the storage stays as it was.
template <class Backend, class Input, class KeyQuantizer, class ValueQuantizer = KeyQuantizer>
void check_append(std::int32_t head_dim) {
  const pagoda::storage_shape shape{.layers = 2, .kv_heads = 3, .head_dim = head_dim};
  pagoda::block_manager manager({.groups = {{.num_blocks = 40}}, .block_size = 16});
  pagoda::block_storage<KeyQuantizer, ValueQuantizer> on_host(shape, 16, pagoda::num_blocks{40});
  pagoda::block_storage<KeyQuantizer, ValueQuantizer, pagoda::heads_tokens_dim,
                        pagoda::cuda::basic_device_memory<Backend>>
      on_device(shape, 16, pagoda::num_blocks{40});
  const std::span<std::byte> bytes = bytes_of(on_host);
  std::vector<std::byte> read_back(bytes.size(), std::byte{0});
  std::memset(bytes.data(), 0, bytes.size());
  const auto size = static_cast<std::int64_t>(bytes.size());
  std::byte* device_bytes = on_device.layer_view(0).keys.base;
  Backend::fill(device_bytes, 0, size, {});
  pagoda::cuda::basic_step_tables<Backend> tables(manager, {.sequences = 4,
                                                            .queries = 100,
                                                            .new_tokens = 100,
                                                            .blocks = 40,
                                                            .queries_per_sequence = 100,
                                                            .query_heads = 3,
                                                            .value_head_dim = head_dim,
                                                            .rotated_head_dim = head_dim});
  std::vector<pagoda::sequence> sequences;
  for (int i = 0; i < 3; ++i) sequences.push_back(manager.make_sequence());
  for (int turn = 0; turn < 3; ++turn) {
    std::vector<pagoda::growth> batch;
    for (int i = 0; i < 3; ++i) batch.push_back({sequences[static_cast<std::size_t>(i)], 5 + 7 * i + turn});
    pagoda::step step = manager.plan(batch);
    if (turn == 1) step.cancel(1);
    tables.upload(step);
    const std::int64_t tokens = step.batch().total_new_tokens();
    const std::int64_t padded = tokens + turn;
    std::vector<Input> keys;
    std::vector<Input> values;
    for (std::int64_t t = 0; t < padded; ++t) {
      for (std::int64_t e = 0; e < 3 * head_dim; ++e) {
        keys.push_back(pagoda::from_float<Input>(noise(static_cast<std::uint64_t>(turn), 1, t, 0, e)));
        values.push_back(pagoda::from_float<Input>(noise(static_cast<std::uint64_t>(turn), 2, t, 0, e)));
      }
    }
    const auto device_keys = to_device<Backend>(keys);
    const auto device_values = to_device<Backend>(values);
    for (int layer = 0; layer < 2; ++layer) {
      pagoda::host::append(on_host.view(layer, step), pagoda::rows_view(keys, {tokens, 3, head_dim}),
                           pagoda::rows_view(values, {tokens, 3, head_dim}));
      pagoda::cuda::append<Backend>(on_device.view(layer, tables),
                                    pagoda::rows_view(device_keys.span(), {padded, 3, head_dim}),
                                    pagoda::rows_view(device_values.span(), {padded, 3, head_dim}));
    }
    step.commit();
    Backend::copy(read_back.data(), device_bytes, size, {});
    Backend::synchronize({});
    CHECK(std::memcmp(read_back.data(), bytes.data(), bytes.size()) == 0);
  }
  CHECK_NOTHROW(tables.check());
}

/// Copy-on-write and accepted tree paths move the bytes that host::execute moves. Long lists take several launches.
template <class Backend, class KeyQuantizer, class ValueQuantizer = KeyQuantizer>
void check_execute(pagoda::pool_order order) {
  const pagoda::storage_shape shape{.layers = 3, .kv_heads = 2, .head_dim = 32};
  constexpr std::int32_t blocks = 1100;
  constexpr std::int32_t forks = 500;
  pagoda::block_manager manager({.groups = {{.num_blocks = blocks}}, .block_size = 4, .max_sequences = 600});
  pagoda::block_storage<KeyQuantizer, ValueQuantizer> on_host(shape, 4, pagoda::num_blocks{blocks}, order);
  pagoda::block_storage<KeyQuantizer, ValueQuantizer, pagoda::heads_tokens_dim,
                        pagoda::cuda::basic_device_memory<Backend>>
      on_device(shape, 4, pagoda::num_blocks{blocks}, order);
  const std::span<std::byte> bytes = bytes_of(on_host);
  std::uint32_t x = 1;
  for (std::byte& byte : bytes) byte = static_cast<std::byte>((x = x * 1664525u + 1013904223u) >> 24);
  const auto size = static_cast<std::int64_t>(bytes.size());
  std::byte* device_bytes = on_device.layer_view(0).keys.base;
  Backend::copy(device_bytes, bytes.data(), size, {});
  Backend::synchronize({});
  const auto same = [&] {
    std::vector<std::byte> read_back(bytes.size());
    Backend::copy(read_back.data(), device_bytes, size, {});
    Backend::synchronize({});
    return std::memcmp(read_back.data(), bytes.data(), bytes.size()) == 0;
  };

  const pagoda::sequence parent = manager.make_sequence();
  manager.plan({{parent, 6}}).commit();
  std::vector<pagoda::sequence> children;
  std::vector<pagoda::growth> batch;
  for (int i = 0; i < forks; ++i) {
    children.push_back(manager.fork(parent));
    batch.push_back({children.back(), 1});
  }
  pagoda::step step = manager.plan(batch);
  const pagoda::copy_list copies = step.take_copies();
  REQUIRE(copies.blocks().size() == forks);
  pagoda::host::execute(on_host, copies);
  pagoda::cuda::execute<Backend>(on_device, copies);
  CHECK(same());
  step.commit();

  pagoda::step tree = manager.plan({{children[0], 12}, {children[1], 9}});
  const std::vector<std::int32_t> path{1, 3, 4, 7, 11, 0, 2, 8};
  const std::vector<std::int32_t> offsets{0, 5, 8};
  const pagoda::copy_list moves = tree.commit_paths({path, offsets});
  REQUIRE(moves.rows().size() > 0);
  pagoda::host::execute(on_host, moves);
  pagoda::cuda::execute<Backend>(on_device, moves);
  CHECK(same());
  pagoda::cuda::execute<Backend>(on_device, pagoda::copy_list());
  CHECK(same());
}

/// One set of tensors, tables and views serves steps from no token to several chunks, as a captured graph would; `each`
/// is called after every step's launches.
template <class Backend, class KeyQuantizer, class Each>
void check_growing_steps(std::int32_t head_dim, Each&& each) {
  constexpr std::int32_t rows = 70;
  const pagoda::storage_shape shape{.kv_heads = 2, .head_dim = head_dim};
  pagoda::block_manager manager({.groups = {{.num_blocks = 90}}, .block_size = 16});
  pagoda::block_storage<KeyQuantizer> on_host(shape, 16, pagoda::num_blocks{90});
  const pagoda::block_storage<KeyQuantizer, KeyQuantizer, pagoda::heads_tokens_dim,
                              pagoda::cuda::basic_device_memory<Backend>>
      on_device(shape, 16, pagoda::num_blocks{90});
  pagoda::cuda::basic_step_tables<Backend> tables(manager, {.sequences = 3,
                                                            .queries = rows,
                                                            .new_tokens = rows,
                                                            .blocks = 90,
                                                            .queries_per_sequence = rows,
                                                            .query_heads = 4,
                                                            .value_head_dim = head_dim,
                                                            .rotated_head_dim = head_dim});
  std::vector<float> input;
  for (std::int64_t i = 0; i < rows * 4 * head_dim; ++i) input.push_back(noise(5, 4, i, 0, 0));
  const auto device_input = to_device<Backend>(input);
  const auto device_output = to_device<Backend>(std::vector<float>(input.size(), 0.0f));
  const auto view = on_device.view(0, tables);
  const auto launch = [&] {
    const pagoda::rows_view<float> kv(device_input.span(), {rows, 2, head_dim}, {4 * head_dim, head_dim});
    pagoda::cuda::append<Backend>(view, kv, kv);
    pagoda::cuda::attention<Backend>(view, pagoda::rows_view(device_input.span(), {rows, 4, head_dim}),
                                     pagoda::rows_view(device_output.span(), {rows, 4, head_dim}));
  };
  launch();
  for (const float x : device_output.read()) REQUIRE(x == 0.0f);  // no step yet: nothing is written
  each();
  std::vector<pagoda::sequence> sequences;
  for (int i = 0; i < 3; ++i) sequences.push_back(manager.make_sequence());
  std::vector<float> expected(input.size());
  for (int turn = 0; turn < 14; ++turn) {
    CAPTURE(turn);
    std::vector<pagoda::growth> batch{{sequences[0], turn == 0 ? 1 : 60, 1}, {sequences[2], turn % 3, turn % 3}};
    if (turn == 4) batch = {{sequences[1], 40}};
    pagoda::step step = manager.plan(batch);
    tables.upload(step);
    launch();
    const std::int64_t tokens = step.batch().total_new_tokens();
    const std::int64_t queries = step.batch().total_queries();
    const pagoda::rows_view<float> kv(input, {tokens, 2, head_dim}, {4 * head_dim, head_dim});
    pagoda::host::append(on_host.view(0, step), kv, kv);
    pagoda::host::attention(on_host.view(0, step), pagoda::rows_view(input, {queries, 4, head_dim}),
                            pagoda::rows_view(expected, {queries, 4, head_dim}));
    const std::vector<float> got = device_output.read();
    for (std::size_t i = 0; i < static_cast<std::size_t>(queries * 4 * head_dim); ++i) {
      REQUIRE(std::fabs(got[i] - expected[i]) < device_bound<KeyQuantizer, KeyQuantizer>);
    }
    step.commit();
    each();
  }
}

}  // namespace pagoda_test
