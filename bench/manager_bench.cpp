// SPDX-License-Identifier: Apache-2.0
// Bookkeeping alone: what a block manager costs per step. Contexts of some 1000 tokens in blocks of 16.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>
#include <pagoda/block_manager.hpp>

#include "support/shapes.hpp"

namespace {

using namespace pagoda_bench;

constexpr std::int32_t most_sequences = 512;
constexpr std::int32_t drift = 256;  // contexts move this far around their mean

/// A manager with sequences of about manager_context tokens, each at another place in its block.
struct population {
  explicit population(std::int32_t count)
      : manager({.groups = {{.num_blocks = most_sequences * (manager_context + 2 * drift) / block_size}},
                 .block_size = block_size,
                 .max_sequences = most_sequences}) {
    for (std::int32_t i = 0; i < count; ++i) {
      sequences.push_back(manager.make_sequence());
      starts.push_back(manager_context - drift / 2 + i % block_size);
      manager.plan({{sequences.back(), starts.back()}}).commit();
      batch.push_back({sequences.back(), 1});
    }
  }

  pagoda::block_manager manager;
  std::vector<pagoda::sequence> sequences;
  std::vector<std::int32_t> starts;
  std::vector<pagoda::growth> batch;
};

/// A decode step: one token for each sequence.
void plan_commit(benchmark::State& state, std::int32_t count) {
  population all(count);
  std::int32_t steps = 0;
  for (auto _ : state) {
    pagoda::step step = all.manager.plan(all.batch);
    benchmark::DoNotOptimize(step);
    step.commit();
    if (++steps < drift) continue;
    state.PauseTiming();  // back to where it began
    for (std::size_t i = 0; i < all.sequences.size(); ++i) all.manager.truncate(all.sequences[i], all.starts[i]);
    steps = 0;
    state.ResumeTiming();
  }
  state.SetItemsProcessed(state.iterations() * count);
}

/// A fork that shares all blocks, and its end.
void fork(benchmark::State& state) {
  population all(1);
  for (auto _ : state) {
    pagoda::sequence child = all.manager.fork(all.sequences[0]);
    benchmark::DoNotOptimize(child);
  }
  state.SetItemsProcessed(state.iterations());
}

/// Cuts half of the tokens off each of 256 sequences; items are sequences.
void truncate(benchmark::State& state) {
  constexpr std::int32_t count = 256;
  population all(count);
  for (auto _ : state) {
    for (const pagoda::sequence& sequence : all.sequences) all.manager.truncate(sequence, manager_context / 2);
    state.PauseTiming();
    for (std::size_t i = 0; i < all.sequences.size(); ++i) {
      all.manager.plan({{all.sequences[i], all.starts[i] - manager_context / 2}}).commit();
    }
    state.ResumeTiming();
  }
  state.SetItemsProcessed(state.iterations() * count);
}

/// A new, empty sequence, and its end.
void make_release(benchmark::State& state) {
  population all(0);
  for (auto _ : state) {
    pagoda::sequence sequence = all.manager.make_sequence();
    benchmark::DoNotOptimize(sequence);
  }
  state.SetItemsProcessed(state.iterations());
}

/// A batch that does not fit: found out, explained, nothing changed.
void try_plan_shortage(benchmark::State& state) {
  constexpr std::int32_t count = 256;
  population all(count);
  for (pagoda::growth& growth : all.batch) growth.new_tokens = 4 * manager_context;
  for (auto _ : state) {
    pagoda::shortage why;
    const std::optional<pagoda::step> step = all.manager.try_plan(all.batch, &why);
    if (step) {
      state.SkipWithError("the batch fits");
      break;
    }
    benchmark::DoNotOptimize(why);
  }
  state.SetItemsProcessed(state.iterations() * count);
}

[[maybe_unused]] const bool registered = [] {
  for (const std::int32_t count : manager_batches) {
    benchmark::RegisterBenchmark(("manager/plan_commit/" + axis("sequences", count)).c_str(),
                                 [count](benchmark::State& state) { plan_commit(state, count); });
  }
  benchmark::RegisterBenchmark(("manager/fork/" + axis("context", manager_context)).c_str(), fork);
  benchmark::RegisterBenchmark("manager/truncate/sequences:256", truncate);
  benchmark::RegisterBenchmark("manager/make_release", make_release);
  benchmark::RegisterBenchmark("manager/try_plan_shortage/sequences:256", try_plan_shortage);
  return true;
}();

}  // namespace
