// SPDX-License-Identifier: Apache-2.0
/// @file The correctness phase for one quantizer: what the library promises of its CUDA part, checked by the same code
/// on a GPU and in the host context.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <pagoda/cuda/execute.hpp>
#include <pagoda/host/execute.hpp>

#include "backend_calls.hpp"
#include "check_log.hpp"

namespace pagoda_check {

using pagoda_test::attention_error;
using pagoda_test::attention_result;
using pagoda_test::batch_entry;
using pagoda_test::case_config;

/// The largest error against the reference: relative L2 of a row, and of an LSE. Tensor cores round queries and weights
/// to 16 bits.
template <class Quantizer>
inline constexpr double error_bound =
    !pagoda::cuda::has_tensor_path_v<Quantizer, Quantizer> ? pagoda_test::attention_bound
    : std::is_same_v<Quantizer, pagoda_test::bf16>         ? 6e-3
    : std::is_same_v<Quantizer, pagoda_test::int4>         ? 3e-3
                                                           : 1.5e-3;

template <class Machine, class Quantizer>
class correctness {
  using backend = typename Machine::backend;
  using device_case = pagoda_test::device_case<backend, Quantizer>;
  using host_storage = pagoda::block_storage<Quantizer, Quantizer>;
  using device_storage =
      pagoda::block_storage<Quantizer, Quantizer, pagoda::heads_tokens_dim, pagoda::cuda::basic_device_memory<backend>>;
  using tables_type = pagoda::cuda::basic_step_tables<backend>;
  template <class T>
  using array = pagoda_test::device_array<backend, T>;

 public:
  correctness(Machine& machine, check_log& log, std::int32_t head_dim) : machine_(machine), log_(log), dim_(head_dim) {
    log_.begin(std::string(Quantizer::name) + ", head_dim " + std::to_string(head_dim));
  }

  void run() {
    append<float>("float");
    append<pagoda::half>("half");
    append<pagoda::bfloat16>("bfloat16");
    for (const std::int32_t group : {1, 4, 8}) {
      attention("decode, " + name_of_group(group), config(group, decode_lengths()));
      attention("prefill, " + name_of_group(group), config(group, prefill_lengths()));
    }
    options();
    placement();
    neighbours();
    execute();
    plan_on_device();
    graph();
  }

 private:
  static std::string name_of_group(std::int32_t group) { return "group " + std::to_string(group); }

  static std::vector<batch_entry> decode_lengths() {
    std::vector<batch_entry> batch;
    for (const std::int32_t length : {0, 1, 15, 16, 17, 1025}) {
      batch.push_back({length, std::min(length, 1), 1, static_cast<std::uint64_t>(length)});
    }
    return batch;
  }
  /// Whole prompts, chunks of prompts, speculation, decode and a sequence without queries in one batch.
  static std::vector<batch_entry> prefill_lengths() {
    return {{1, 1, 1, 1},    {15, 15, 15, 2},   {16, 16, 16, 3}, {17, 17, 17, 4}, {0, 0, 0, 5},
            {60, 60, 60, 6}, {1025, 21, 21, 7}, {30, 5, 5, 8},   {40, 1, 1, 9},   {20, 3, 0, 10}};
  }
  case_config config(std::int32_t group, std::vector<batch_entry> batch) const {
    return {.shape = {.layers = 2, .kv_heads = 2, .head_dim = dim_}, .query_group = group, .batch = std::move(batch)};
  }

  /// The storage's unused bytes are NaN; the reference reads the same stored values.
  void attention(const std::string& what, const case_config& config, const pagoda::attention_options& options = {}) {
    log_.run(what, [&] {
      device_case on_device(config);
      const attention_error error =
          compare(on_device.run(options), on_device.host.reference(options), config.shape.value_dim());
      on_device.tables.check();
      log_.bounded(what, std::max(error.output, error.lse), error_bound<Quantizer>);
    });
  }

  void options() {
    const std::int32_t group = 4;
    const case_config mixed =
        config(group, {{530, 1, 1, 1}, {45, 3, 3, 2}, {60, 20, 20, 3}, {7, 7, 7, 4}, {70, 12, 12, 5}});
    const std::vector<float> sinks{0.5f, -1.0f, 2.0f, 0.0f, -3.0f, 1.0f, 0.25f, 4.0f};
    const std::vector<float> slopes{0.5f, 0.25f, 0.125f, 0.0625f, 0.03f, 0.015f, 0.0f, 0.007f};
    std::vector<std::uint32_t> tree;  // each query sees itself and a pattern of the tokens before it
    for (const batch_entry& entry : mixed.batch) {
      for (std::int32_t q = 0; q < entry.queries; ++q) {
        tree.push_back((1u << q) | (0x2a6d5a6du & ((1u << q) - 1)));
      }
    }
    attention("causal = false", mixed, {.causal = false});
    attention("window 33, 5 sinks", mixed, {.window = 33, .sinks = 5});
    attention("sink logits", mixed, {.sink_logits = sinks});
    attention("soft cap", mixed, {.soft_cap = 3.0f});
    attention("ALiBi, scale", mixed, {.scale = 0.11f, .alibi_slopes = slopes});
    attention("tree mask", mixed, {.tree = {.words = tree, .words_per_query = 1}});
    attention("soft cap, sink logits, window", mixed, {.window = 40, .sink_logits = sinks, .soft_cap = 2.0f});
    case_config streaming = mixed;
    streaming.keep = {.sinks = 4, .window = 48};
    attention("dropped blocks: window 48, 4 sinks", streaming);
  }

  /// Results do not depend on where blocks lie nor on what unused memory holds.
  void placement() {
    const std::string what = "scattered blocks, other poison";
    log_.run(what, [&] {
      case_config first = config(4, {{1025, 1, 1, 1}, {17, 17, 17, 2}, {300, 12, 12, 3}});
      first.scatter = 0;
      first.unused = pagoda_test::poison::zeros;
      const attention_result expected = device_case(first).run();
      bool equal = true;
      for (const auto unused : {pagoda_test::poison::quiet_nan, pagoda_test::poison::half_infinity,
                                pagoda_test::poison::float_infinity, pagoda_test::poison::ones}) {
        case_config other = first;
        other.scatter = 7 + static_cast<std::uint32_t>(unused) % 100;
        other.unused = unused;
        equal = equal && device_case(other).run() == expected;
      }
      log_.same(what, equal);
    });
  }

  void neighbours() {
    const std::string what = "alone, or beside other sequences";
    log_.run(what, [&] {
      const std::vector<batch_entry> together{{40, 1, 1, 1}, {1030, 2, 2, 2}, {17, 17, 17, 3}, {600, 1, 1, 4}};
      const attention_result all = device_case(config(4, together)).run();
      bool equal = true;
      std::size_t row = 0;
      for (const batch_entry& entry : together) {
        const attention_result alone = device_case(config(4, {entry})).run();
        equal = equal &&
                std::equal(alone.lse.begin(), alone.lse.end(), all.lse.begin() + static_cast<std::ptrdiff_t>(row)) &&
                std::equal(alone.output.begin(), alone.output.end(),
                           all.output.begin() + static_cast<std::ptrdiff_t>(row * static_cast<std::size_t>(dim_)));
        row += alone.lse.size();
      }
      log_.same(what, equal && row == all.lse.size());
    });
  }

  template <class Input>
  void append(const std::string& input) {
    const std::string what = "append of " + input + " rows, against host::append";
    log_.run(what, [&] {
      const pagoda::storage_shape shape{.layers = 2, .kv_heads = 2, .head_dim = dim_};
      const pagoda::num_blocks blocks{40};
      pagoda::block_manager manager({.groups = {{.num_blocks = blocks.value}}, .block_size = 16});
      const host_storage on_host(shape, 16, blocks);
      const device_storage on_device(shape, 16, blocks);
      pagoda_test::fill(pagoda_test::bytes_of(on_host), pagoda_test::poison::quiet_nan);
      send(on_host, on_device);
      tables_type tables(manager, limits(3, 200));
      std::vector<pagoda::sequence> sequences;
      for (int i = 0; i < 3; ++i) sequences.push_back(manager.make_sequence());
      bool equal = true;
      for (std::int32_t turn = 0; turn < 3; ++turn) {
        pagoda::step step = manager.plan({{sequences[0], 1}, {sequences[1], 15 + turn}, {sequences[2], 50}});
        if (turn == 1) step.cancel(0);
        tables.upload(step);
        const std::int64_t tokens = step.batch().total_new_tokens();
        const std::vector<Input> keys = rows<Input>(tokens, 10 + turn);
        const std::vector<Input> values = rows<Input>(tokens, 20 + turn);
        const auto device_keys = pagoda_test::to_device<backend>(keys);
        const auto device_values = pagoda_test::to_device<backend>(values);
        for (int layer = 0; layer < 2; ++layer) {
          pagoda::host::append(on_host.view(layer, step), pagoda::rows_view(keys, {tokens, 2, dim_}),
                               pagoda::rows_view(values, {tokens, 2, dim_}));
          pagoda::cuda::append<backend>(on_device.view(layer, tables),
                                        pagoda::rows_view(device_keys.span(), {tokens, 2, dim_}),
                                        pagoda::rows_view(device_values.span(), {tokens, 2, dim_}));
        }
        step.commit();
        equal = equal && holds_same(on_host, on_device);
      }
      tables.check();
      log_.same(what, equal);
    });
  }

  void execute() {
    const std::string what = "copies of blocks and rows, against host::execute";
    log_.run(what, [&] {
      const pagoda::storage_shape shape{.layers = 2, .kv_heads = 2, .head_dim = dim_};
      const pagoda::num_blocks blocks{64};
      pagoda::block_manager manager({.groups = {{.num_blocks = blocks.value}}, .block_size = 16});
      const std::string orders[] = {"by layer", "by block"};
      bool equal = true;
      std::size_t copied = 0;
      for (const pagoda::pool_order order : {pagoda::pool_order::by_layer, pagoda::pool_order::by_block}) {
        host_storage on_host(shape, 16, blocks, order);
        device_storage on_device(shape, 16, blocks, order);
        std::uint32_t x = 1;
        for (std::byte& byte : pagoda_test::bytes_of(on_host)) {
          byte = static_cast<std::byte>((x = x * 1664525u + 1013904223u) >> 24);
        }
        send(on_host, on_device);
        const auto both = [&](const pagoda::copy_list& copies) {
          copied += copies.blocks().size() + copies.rows().size();
          pagoda::host::execute(on_host, copies);
          pagoda::cuda::execute<backend>(on_device, copies);
          equal = equal && holds_same(on_host, on_device);
        };
        const pagoda::sequence parent = manager.make_sequence();
        manager.plan({{parent, 20}}).commit();
        std::vector<pagoda::sequence> children;
        std::vector<pagoda::growth> batch;
        for (int i = 0; i < 10; ++i) {
          children.push_back(manager.fork(parent));
          batch.push_back({children.back(), 1});
        }
        pagoda::step step = manager.plan(batch);
        both(step.take_copies());
        step.commit();
        pagoda::step tree = manager.plan({{children[0], 12}, {children[1], 9}});
        const std::vector<std::int32_t> path{1, 3, 4, 7, 11, 0, 2, 8};
        const std::vector<std::int32_t> offsets{0, 5, 8};
        both(tree.commit_paths({path, offsets}));
      }
      log_.same(what, equal && copied > 20);
    });
  }

  /// A plan that the device makes serves as the host's does.
  void plan_on_device() {
    const std::string what = "plan made on the device";
    log_.run(what, [&] {
      device_case on_device(config(4, {{1025, 1, 1, 1}, {17, 1, 1, 2}, {0, 0, 1, 3}, {600, 4, 4, 4}, {90, 40, 40, 5}}));
      const attention_result expected = on_device.run();
      const pagoda::cuda::device_work& work = *on_device.tables.batch().work;
      backend::fill(work.plan.items, 0, work.max_items * std::int64_t{sizeof(pagoda::kernels::chunk_item)}, {});
      backend::fill(work.plan.offsets, 0, 4, {});
      on_device.tables.plan_on_device();
      log_.same(what, on_device.run() == expected);
    });
  }

  /// One graph of append and attention, captured once, replayed for steps of other lengths, blocks and sequences.
  void graph() {
    const std::string what = "one graph over growing lengths, against direct calls";
    log_.run(what, [&] {
      constexpr std::int32_t most = 3;  // sequences of a step
      const std::int32_t heads = 8;
      const pagoda::storage_shape shape{.layers = 1, .kv_heads = 2, .head_dim = dim_};
      const pagoda::num_blocks blocks{120};
      pagoda::block_manager manager({.groups = {{.num_blocks = blocks.value}}, .block_size = 16});
      const device_storage storage(shape, 16, blocks);
      backend::fill(storage.layer_view(0).keys.base, 0xff, storage.size_bytes(), {});
      tables_type wide(manager, limits(most, 600));
      tables_type tables(manager, {.sequences = most,
                                   .queries = most,
                                   .new_tokens = most,
                                   .blocks = 120,
                                   .query_heads = heads,
                                   .value_head_dim = dim_});
      const auto view = storage.view(0, tables);
      const array<float> keys(pagoda_test::to_device<backend>(rows<float>(600, 1)));
      const array<float> values(pagoda_test::to_device<backend>(rows<float>(600, 2)));
      const array<float> queries(pagoda_test::to_device<backend>(rows<float>(most * heads / 2, 3)));
      const pagoda::rows_shape new_shape{most, 2, dim_};
      const pagoda::rows_shape shape_of_rows{most, heads, dim_};
      const std::vector<float> unwritten(static_cast<std::size_t>(most * heads * dim_), -77.0f);
      const array<float> replayed(pagoda_test::to_device<backend>(unwritten));
      const array<float> direct(pagoda_test::to_device<backend>(unwritten));
      const auto enqueue = [&](const array<float>& output, pagoda::cuda::stream_ref stream) {
        pagoda::cuda::append<backend>(view, pagoda::rows_view(keys.span(), new_shape),
                                      pagoda::rows_view(values.span(), new_shape), stream);
        pagoda::cuda::attention<backend>(view, pagoda::rows_view(queries.span(), shape_of_rows),
                                         pagoda::rows_view(output.span(), shape_of_rows), {}, stream);
      };
      enqueue(direct, machine_.stream());  // of an empty batch: prepares the kernels, writes nothing
      const auto kept = machine_.capture([&](pagoda::cuda::stream_ref stream) { enqueue(replayed, stream); });
      std::vector<pagoda::sequence> sequences;
      for (int i = 0; i < most; ++i) sequences.push_back(manager.make_sequence());
      bool equal = true;
      bool moved = false;
      std::vector<float> before = unwritten;
      for (const std::int32_t grown : {0, 1, 14, 1, 30, 480, 511}) {
        // One sequence grows by that, another by a little; then all but sometimes one decode.
        if (grown > 0) {
          pagoda::step history = manager.plan({{sequences[0], grown, 0}, {sequences[1], 1 + grown % 7, 0}});
          wide.upload(history);
          const std::int64_t tokens = history.batch().total_new_tokens();
          pagoda::cuda::append<backend>(storage.view(0, wide), pagoda::rows_view(keys.span(), {tokens, 2, dim_}),
                                        pagoda::rows_view(values.span(), {tokens, 2, dim_}));
          history.commit();
        }
        std::vector<pagoda::growth> batch;
        for (int i = grown % 2; i < most; ++i) batch.push_back({sequences[static_cast<std::size_t>(i)], 1});
        pagoda::step step = manager.plan(batch);
        tables.upload(step, machine_.stream());
        machine_.replay(kept);
        enqueue(direct, machine_.stream());
        backend::synchronize(machine_.stream());
        const std::vector<float> result = replayed.read();
        equal = equal && result == direct.read();
        moved = moved || result != before;
        before = result;
        equal = equal &&
                std::none_of(result.begin(), result.begin() + static_cast<std::ptrdiff_t>(batch.size()) * heads * dim_,
                             [](float x) { return x == -77.0f || !(x == x); });
        step.commit();
      }
      tables.check();
      log_.same(what, equal && moved);
    });
  }

  pagoda::cuda::step_limits limits(std::int32_t sequences, std::int32_t new_tokens) const {
    return {.sequences = sequences,
            .queries = new_tokens,
            .new_tokens = new_tokens,
            .blocks = 120,
            .queries_per_sequence = new_tokens,
            .query_heads = 2,
            .value_head_dim = dim_};
  }

  /// [tokens, 2, head_dim], with rows of zeros, of one number and of one large element among them.
  template <class Input>
  std::vector<Input> rows(std::int64_t tokens, std::int64_t seed) const {
    std::vector<Input> result;
    for (std::int64_t t = 0; t < tokens; ++t) {
      for (std::int64_t head = 0; head < 2; ++head) {
        for (std::int64_t d = 0; d < dim_; ++d) {
          float x = pagoda_test::noise(static_cast<std::uint64_t>(seed), 1, t, head, d);
          if (t % 11 == 3) x = 0.0f;
          if (t % 11 == 5) x = 0.75f;
          if (t % 11 == 7 && d == 5) x = 40.0f;
          result.push_back(pagoda::from_float<Input>(x));
        }
      }
    }
    return result;
  }

  static void send(const host_storage& from, const device_storage& to) {
    const std::span<const std::byte> bytes = pagoda_test::bytes_of(from);
    backend::copy(to.layer_view(0).keys.base, bytes.data(), static_cast<std::int64_t>(bytes.size()), {});
    backend::synchronize({});
  }
  static bool holds_same(const host_storage& host, const device_storage& device) {
    const std::span<const std::byte> bytes = pagoda_test::bytes_of(host);
    std::vector<std::byte> read(bytes.size());
    backend::copy(read.data(), device.layer_view(0).keys.base, static_cast<std::int64_t>(read.size()), {});
    backend::synchronize({});
    return std::memcmp(read.data(), bytes.data(), read.size()) == 0;
  }

  Machine& machine_;
  check_log& log_;
  std::int32_t dim_;
};

/// All checks of a quantizer and a head_dim.
template <class Machine, class Quantizer>
void check_quantizer(Machine& machine, check_log& log, std::int32_t head_dim) {
  correctness<Machine, Quantizer>(machine, log, head_dim).run();
}

}  // namespace pagoda_check
