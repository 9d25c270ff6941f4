// SPDX-License-Identifier: Apache-2.0
// Bookkeeping of shared prefixes: finding one, publishing one, and giving the blocks back.
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>
#include <pagoda/block_manager.hpp>
#include <pagoda/eviction/built_in.hpp>

#include "support/shapes.hpp"
#include "support/stopwatch.hpp"

namespace {

using namespace pagoda_bench;
using pagoda::token_history;

constexpr std::int32_t blocks_in_pool = 65536;
constexpr std::int32_t prompt_tokens = 8192;
constexpr std::int32_t released_blocks = 2048;

/// Tokens that no other prompt begins with.
std::vector<std::int32_t> prompt(std::int32_t number, std::int32_t tokens) {
  std::vector<std::int32_t> all(static_cast<std::size_t>(tokens));
  std::iota(all.begin(), all.end(), number * tokens);
  return all;
}

template <class Policy>
pagoda::block_manager make_manager() {
  return pagoda::block_manager({.groups = {{.num_blocks = blocks_in_pool}}, .block_size = block_size},
                               pagoda::evict_by<Policy>);
}

pagoda::sequence computed(pagoda::block_manager& manager, std::int32_t tokens) {
  pagoda::sequence sequence = manager.make_sequence();
  manager.plan({{sequence, tokens}}).commit();
  return sequence;
}

/// Finds a whole prompt that is cached.
template <class Policy>
void match(benchmark::State& state) {
  pagoda::block_manager manager = make_manager<Policy>();
  const std::vector<std::int32_t> tokens = prompt(0, prompt_tokens);
  manager.publish(computed(manager, prompt_tokens), {.tokens = tokens});
  for (auto _ : state) {
    const stopwatch watch;
    const pagoda::prefix_match found = manager.match({.tokens = tokens}, prompt_tokens - 1);
    state.SetIterationTime(watch.seconds());
    if (found.tokens() != prompt_tokens - 1) state.SkipWithError("the prompt was not found");
  }
}

/// Publishes a prompt that nobody has published; the pool is full of others, which are evicted.
template <class Policy>
void publish(benchmark::State& state) {
  pagoda::block_manager manager = make_manager<Policy>();
  std::int32_t number = 0;
  for (auto _ : state) {
    const std::vector<std::int32_t> tokens = prompt(++number, prompt_tokens);
    const pagoda::sequence sequence = computed(manager, prompt_tokens);
    const stopwatch watch;
    const std::int64_t stored = manager.publish(sequence, {.tokens = tokens});
    state.SetIterationTime(watch.seconds());
    if (stored != prompt_tokens / block_size) state.SkipWithError("the prompt was known");
  }
}

/// Ends a long sequence whose blocks stay cached.
template <class Policy>
void release(benchmark::State& state) {
  pagoda::block_manager manager = make_manager<Policy>();
  const std::vector<std::int32_t> tokens = prompt(0, released_blocks * block_size);
  manager.publish(computed(manager, released_blocks * block_size), {.tokens = tokens});
  for (auto _ : state) {
    std::optional<pagoda::sequence> sequence =
        manager.make_sequence(manager.match({.tokens = tokens}, released_blocks * block_size));
    const stopwatch watch;
    sequence.reset();
    state.SetIterationTime(watch.seconds());
  }
}

/// A decode step in which every sequence needs a block, and all blocks are cached ones.
template <class Policy>
void plan_evicting(benchmark::State& state) {
  constexpr std::int32_t count = 256;
  pagoda::block_manager manager = make_manager<Policy>();
  std::int32_t number = 0;
  const auto fill = [&] {
    while (manager.stats().free > 0) {
      const std::vector<std::int32_t> tokens = prompt(++number, count * block_size);
      manager.publish(computed(manager, count * block_size), {.tokens = tokens});
    }
  };
  fill();
  for (auto _ : state) {
    std::vector<pagoda::sequence> sequences;
    std::vector<pagoda::growth> batch;
    for (std::int32_t i = 0; i < count; ++i) {
      sequences.push_back(manager.make_sequence());
      batch.push_back({sequences.back(), 1});
    }
    const stopwatch watch;
    manager.plan(batch).commit();
    state.SetIterationTime(watch.seconds());
    sequences.clear();
    fill();
  }
  if (manager.snapshot().evictions < state.iterations() * count) state.SkipWithError("nothing had to be evicted");
}

template <class Policy>
void register_policy() {
  const std::string policy = "/policy:" + std::string(Policy::name);
  const auto add = [&](const std::string& name, void (*run)(benchmark::State&)) {
    benchmark::RegisterBenchmark(("manager/" + name + policy).c_str(), run)
        ->UseManualTime()
        ->Unit(benchmark::kMicrosecond);
  };
  add("match/" + axis("tokens", prompt_tokens), match<Policy>);
  add("publish/" + axis("tokens", prompt_tokens), publish<Policy>);
  add("release/" + axis("blocks", released_blocks), release<Policy>);
  add("plan_evicting/sequences:256", plan_evicting<Policy>);
}

[[maybe_unused]] const bool registered = [] {
  register_policy<pagoda::lru>();
  register_policy<pagoda::fifo>();
  register_policy<pagoda::lfu>();
  register_policy<pagoda::priority>();
  return true;
}();

}  // namespace
