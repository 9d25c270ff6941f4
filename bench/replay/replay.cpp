// SPDX-License-Identifier: Apache-2.0
#include "replay.hpp"

#include <algorithm>
#include <limits>
#include <new>
#include <utility>

#include <pagoda/block_manager.hpp>
#include <pagoda/eviction/built_in.hpp>

#include "../support/stopwatch.hpp"
#include "error.hpp"

namespace pagoda_replay {

namespace {

using pagoda::block_manager;
using pagoda::sequence;

std::int64_t blocks_of(const request& request, std::int32_t block_tokens) {
  return pagoda::divide_up(request.tokens, block_tokens);
}

/// Blocks of the pool: no more than all requests together ask for, as the rest would never be used.
std::int32_t pool_size(const trace& trace, const replay_settings& settings) {
  constexpr std::int32_t most = std::numeric_limits<std::int32_t>::max() - 1;
  const std::int32_t limit = settings.capacity_blocks.value_or(std::numeric_limits<std::int32_t>::max());
  std::int64_t all = 0;
  for (const request& request : trace.requests) {
    const std::int64_t blocks = blocks_of(request, settings.block_tokens);
    if (blocks > limit) {
      refuse("the request of line ", request.line, " has ", blocks, " blocks, but --capacity-blocks is ", limit,
             ": pass at least as many as the longest request has, ",
             pagoda::divide_up(trace.longest(), settings.block_tokens));
    }
    all += blocks;
  }
  if (std::min<std::int64_t>(all, limit) > most) {
    refuse("the requests have ", all, " blocks, but a manager has at most ", most, ": pass --capacity-blocks ", most,
           " or fewer");
  }
  return static_cast<std::int32_t>(std::min<std::int64_t>(all, limit));
}

block_manager make_manager(const trace& trace, const replay_settings& settings) {
  const std::int32_t blocks = pool_size(trace, settings);
  // One more than there are blocks: the next request is made before an older one ends.
  const std::int64_t running = std::min<std::int64_t>(static_cast<std::int64_t>(trace.requests.size()), blocks) + 1;
  constexpr std::int64_t most_running = std::int64_t{1} << pagoda::sequence_id::index_bits;
  if (trace.format != trace_format::mooncake && running > most_running) {
    refuse("up to ", running, " requests may run at once, but a manager has at most ", most_running,
           " sequences: pass --capacity-blocks ", most_running - 1, " or fewer, or a shorter trace");
  }
  pagoda::manager_config config{
      .groups = {{.num_blocks = blocks}},
      .block_size = settings.block_tokens,
      .max_sequences = trace.format == trace_format::mooncake ? 1 : static_cast<std::int32_t>(running),
      .max_batch = 1,
      .max_resident_tokens = trace.longest()};
  try {
    return pagoda::dispatch(pagoda::built_in_evictions{}, settings.policy, [&]<class Policy>(pagoda::type_tag<Policy>) {
      return block_manager(std::move(config), pagoda::evict_by<Policy>);
    });
  } catch (const std::bad_alloc&) {
    refuse("there is no memory for a pool of ", blocks, " blocks and the tables of ", running,
           " sequences: pass a smaller --capacity-blocks or larger --block-tokens");
  }
}

/// Prompts that share their beginnings, one at a time.
class prefix_replay {
 public:
  prefix_replay(const trace& trace, block_manager& manager) : trace_(trace), manager_(manager) {}

  void run(const request& request) {
    const pagoda::token_history prompt{.tokens = trace_.tokens_of(request)};
    pagoda::prefix_match found = manager_.match(prompt, request.tokens);
    const std::int32_t rest = request.tokens - static_cast<std::int32_t>(found.tokens());
    const sequence running = manager_.make_sequence(std::move(found));
    if (rest == 0) return;
    if (std::optional<pagoda::step> step = manager_.try_plan({{running, rest}})) {
      step->commit();
    } else {
      const auto room = static_cast<std::int32_t>(manager_.growable(running, rest));
      not_cached_ += rest - room;
      if (room == 0) return;
      manager_.plan({{running, room}}).commit();
    }
    manager_.publish(running, prompt);
  }

  std::int64_t not_cached() const { return not_cached_; }

 private:
  const trace& trace_;
  block_manager& manager_;
  std::int64_t not_cached_ = 0;
};

/// Requests that share nothing, as many at a time as there is room for.
class running_replay {
 public:
  running_replay(const trace& trace, block_manager& manager) : manager_(manager), running_(trace.requests.size()) {}

  void run(const request& request) {
    sequence& newest = running_[end_++];
    newest = manager_.make_sequence();
    for (;;) {
      if (std::optional<pagoda::step> step = manager_.try_plan({{newest, request.tokens}})) {
        step->commit();
        break;
      }
      if (begin_ + 1 == end_) refuse("the request of line ", request.line, " does not fit an empty pool");
      running_[begin_++] = {};
    }
    summed_ += static_cast<std::int64_t>(end_ - begin_);
  }

  double mean_running() const { return static_cast<double>(summed_) / static_cast<double>(end_); }

 private:
  block_manager& manager_;
  std::vector<sequence> running_;  // of all requests; those of [begin_, end_) hold blocks
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::int64_t summed_ = 0;
};

/// Runs all requests and returns the seconds that it took. The bar moves between two measurements.
template <class Replay>
double run_all(const std::vector<request>& requests, Replay& replay, progress& bar) {
  constexpr std::size_t pieces = 64;
  double seconds = 0;
  for (std::size_t piece = 0; piece < pieces; ++piece) {
    const std::size_t begin = requests.size() * piece / pieces;
    const std::size_t end = requests.size() * (piece + 1) / pieces;
    const pagoda_bench::stopwatch watch;
    for (std::size_t i = begin; i < end; ++i) replay.run(requests[i]);
    seconds += watch.seconds();
    bar.advance(static_cast<std::int64_t>(end - begin));
  }
  return seconds;
}

/// What the manager itself counts.
void count(const block_manager& manager, replay_result& result) {
  const pagoda::manager_stats all = manager.snapshot();
  const pagoda::block_stats& group = all.groups[0];
  result.lookups = static_cast<std::int64_t>(all.lookups);
  result.hits = static_cast<std::int64_t>(all.hits);
  result.evictions = static_cast<std::int64_t>(all.evictions);
  result.blocks = group.cached + group.used;
  // Only blocks of one token are cached, and no block is used twice.
  const auto slots = static_cast<double>(result.blocks * result.settings.block_tokens);
  result.utilisation = result.blocks == 0 ? 0 : static_cast<double>(group.cached + group.tokens) / slots;
}

}  // namespace

std::optional<double> replay_result::hit_rate() const {
  if (lookups == 0) return std::nullopt;
  return static_cast<double>(hits) / static_cast<double>(lookups);
}

double replay_result::operations_per_second() const {
  return static_cast<double>(operations) / std::max(manager_seconds, 1e-9);
}

std::vector<std::string_view> policy_names() {
  return []<class... Policies>(pagoda::type_list<Policies...>) {
    return std::vector<std::string_view>{Policies::name...};
  }(pagoda::built_in_evictions{});
}

replay_result replay_trace(const trace& trace, const replay_settings& settings, progress& bar) {
  replay_result result{.settings = settings, .requests = static_cast<std::int64_t>(trace.requests.size())};
  if (trace.format == trace_format::mooncake) result.settings.block_tokens = 1;
  block_manager manager = make_manager(trace, result.settings);
  if (trace.format == trace_format::mooncake) {
    prefix_replay replay(trace, manager);
    result.manager_seconds = run_all(trace.requests, replay, bar);
    result.not_cached = replay.not_cached();
    count(manager, result);
    result.operations = result.lookups;
  } else {
    running_replay replay(trace, manager);
    result.manager_seconds = run_all(trace.requests, replay, bar);
    if (settings.capacity_blocks) result.mean_running = replay.mean_running();
    count(manager, result);
    result.operations = result.requests;
  }
  return result;
}

}  // namespace pagoda_replay
