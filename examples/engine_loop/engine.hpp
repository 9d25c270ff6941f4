// SPDX-License-Identifier: Apache-2.0
// An engine loop over a small cache and a slower second tier: priorities, length buckets, chunked prefill beside
// decode, reuse of prefixes, and preemption. The oldest request is never preempted, and in every tick it computes a
// token or fails, so the loop always ends.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <pagoda/pagoda.hpp>

#include "model.hpp"

struct request {
  int id = 0;
  int arrival = 0;                     // the tick from which the engine sees it
  int priority = 0;                    // higher ones are served first
  int total = 0;                       // tokens with which it is finished, prompt included
  std::vector<std::int32_t> tokens{};  // the prompt, and behind it what is generated
  pagoda::key_domain domain{};         // whose prefixes it may use

  // The engine's.
  pagoda::sequence sequence{};  // in the cache, while it runs
  pagoda::sequence parked{};    // in the second tier, while it waits
  std::vector<float> output{};  // of the last token that was computed
  std::string error{};

  std::int64_t left() const {  // tokens to compute before the next can be sampled; 1: it decodes
    return static_cast<std::int64_t>(tokens.size()) - (sequence ? sequence.position() : 0);
  }
  pagoda::token_history history() const { return {.tokens = tokens, .domain = &domain}; }
};

struct engine_options {
  std::int32_t blocks = 24;
  std::int32_t second_tier_blocks = 0;  // 0: what is preempted is dropped and computed again
  std::int64_t step_tokens = 64;        // of all requests in one step
  std::int64_t chunk_tokens = 32;       // of one of them
};

struct engine_counts {
  std::int64_t ticks = 0;
  std::int64_t dropped = 0;      // preemptions that threw the tokens away
  std::int64_t swapped_out = 0;  // preemptions that parked them
  std::int64_t swapped_in = 0;
};

class engine {
 public:
  using kv_cache = pagoda::cache<pagoda::int8_per_token>;

  explicit engine(const engine_options& options)
      : options_(options), cache_(toy_model::shape, pagoda::num_blocks{options.blocks}, {.track_reuse = true}) {
    if (options.second_tier_blocks == 0) return;
    second_tier_.emplace(toy_model::shape, pagoda::num_blocks{options.second_tier_blocks});
  }

  void submit(request&& fresh) { live_.push_back(std::make_unique<request>(std::move(fresh))); }

  /// One step for as many requests as fit. False once none is left.
  bool tick() {
    const std::vector<request*> order = ranked();
    ++counts_.ticks;
    if (order.empty()) return !live_.empty();  // the next has not arrived

    std::vector<request*> members;
    std::vector<pagoda::growth> batch;
    std::int64_t budget = options_.step_tokens;
    for (request* r : order) {
      if (budget == 0) break;
      if (!r->sequence && !admit(*r, order)) continue;
      members.push_back(r);
      batch.push_back(wish(*r, std::min({budget, options_.chunk_tokens, r->left()})));
      budget -= batch.back().new_tokens;
    }
    std::optional<pagoda::step> step;
    while (!(step = cache_.try_plan(batch))) {
      if (request* victim = last_running(order); victim != nullptr) {
        preempt(*victim);
        if (members.back() == victim) members.pop_back(), batch.pop_back();
      } else if (const auto room = cache_.manager().growable(order[0]->sequence, batch[0].new_tokens); room > 0) {
        batch[0] = wish(*order[0], room);
      } else if (const auto part = order[0]->sequence.position() % kv_cache::block_size; part != 0) {
        // What was found ends inside a block, for whose copy there is no room: its tokens are computed instead.
        cache_.truncate(order[0]->sequence, order[0]->sequence.position() - part);
        batch[0] = wish(*order[0], std::min(options_.chunk_tokens, order[0]->left()));
      } else {
        fail(*order[0], batch);  // alone, and still too long
        return true;
      }
    }
    run(*step, members, batch);
    return true;
  }

  const std::vector<request>& ended() const { return ended_; }
  const engine_counts& counts() const { return counts_; }
  pagoda::manager_stats snapshot() const { return cache_.manager().snapshot(); }

 private:
  /// Who has arrived: the oldest first, whatever its priority; then by priority; then by length bucket, powers of two,
  /// so that decodes come before prompts and short prompts before long ones; then by age.
  std::vector<request*> ranked() const {
    std::vector<request*> order;
    for (const auto& r : live_) {
      if (r->arrival <= counts_.ticks) order.push_back(r.get());
    }
    const auto age = [](const request* r) { return std::tuple(r->arrival, r->id); };
    const auto rank = [&](const request* r) {
      return std::tuple(-r->priority, std::bit_width(static_cast<std::uint64_t>(r->left())), age(r));
    };
    std::ranges::sort(order, {}, age);
    if (!order.empty()) std::ranges::sort(order.begin() + 1, order.end(), {}, rank);
    return order;
  }

  static request* last_running(const std::vector<request*>& order) {
    for (std::size_t i = order.size() - 1; i > 0; --i) {
      if (order[i]->sequence) return order[i];
    }
    return nullptr;
  }

  static pagoda::growth wish(const request& r, std::int64_t tokens) {
    return {r.sequence, static_cast<std::int32_t>(tokens), tokens == r.left() ? 1 : 0};
  }

  /// Blocks that a plan could take: the free ones, and those that only the prefix index knows.
  std::int64_t room() const { return cache_.stats().free + cache_.stats().cached - cache_.stats().pinned; }

  /// Gives a request a sequence: its parked one, or what is found of its tokens. The oldest gets one in any case;
  /// others only if their tokens and one more block of each running request fit, or they would soon be out again.
  bool admit(request& r, const std::vector<request*>& order) {
    const bool oldest = &r == order[0];
    const auto running = std::ranges::count_if(order, [](const request* other) { return bool(other->sequence); });
    if (r.parked) {
      const auto needed = static_cast<std::int64_t>(second_tier_->manager().blocks(r.parked).size());
      for (request* victim; oldest && room() < needed && (victim = last_running(order)) != nullptr;) preempt(*victim);
      if (room() < needed + (oldest ? 0 : 1 + running)) return false;
      swap(*second_tier_, r.parked, cache_, r.sequence);
      ++counts_.swapped_in;
      return true;
    }
    if (!oldest && room() < pagoda::divide_up(r.left(), kv_cache::block_size) + 1 + running) return false;
    r.sequence = cache_.make_sequence(cache_.match(r.history(), r.left() - 1));  // the last is computed, for its output
    return true;
  }

  void preempt(request& r) {
    const auto blocks = static_cast<std::int64_t>(cache_.manager().blocks(r.sequence).size());
    if (second_tier_ && second_tier_->stats().free >= blocks) {
      swap(cache_, r.sequence, *second_tier_, r.parked);
      ++counts_.swapped_out;
    } else {
      cache_.publish(r.sequence, r.history());
      r.sequence = {};  // what is not evicted until it comes back need not be computed again
      ++counts_.dropped;
    }
  }

  static void swap(kv_cache& from, pagoda::sequence& old, kv_cache& to, pagoda::sequence& twin) {
    pagoda::transferred moved = pagoda::transfer(from, {old}, to);
    pagoda::host::execute(from, to, moved.copies);
    old = {};
    twin = std::move(moved.sequences[0]);
  }

  void run(pagoda::step& step, const std::vector<request*>& members, const std::vector<pagoda::growth>& batch) {
    pagoda::host::execute(cache_, step.take_copies());
    std::vector<float> keys, values, queries;
    for (std::size_t i = 0; i < members.size(); ++i) {
      const request& r = *members[i];
      const std::int64_t first = r.sequence.position();
      std::uint64_t state = toy_model::begin(r.domain.bytes());
      for (std::int64_t t = 0; t < first + batch[i].new_tokens; ++t) {
        state = toy_model::mix(state, static_cast<std::uint64_t>(r.tokens[static_cast<std::size_t>(t)]));
        if (t < first) continue;
        toy_model::add_row(keys, state, toy_model::row_kind::key);
        toy_model::add_row(values, state, toy_model::row_kind::value);
      }
      if (batch[i].queries == 1) toy_model::add_row(queries, state, toy_model::row_kind::query);
    }
    std::vector<float> outputs(queries.size());
    const auto rows = [](auto& data, int heads) {
      const auto elements = std::int64_t{heads} * toy_model::head_dim;
      return pagoda::rows_view(data, {static_cast<std::int64_t>(data.size()) / elements, heads, toy_model::head_dim});
    };
    const auto view = cache_.view(0, step);
    pagoda::host::append(view, rows(keys, toy_model::kv_heads), rows(values, toy_model::kv_heads));
    pagoda::host::attention(view, rows(queries, toy_model::query_heads), rows(outputs, toy_model::query_heads));
    step.commit();

    auto output = outputs.begin();
    for (std::size_t i = 0; i < members.size(); ++i) {
      request& r = *members[i];
      if (batch[i].new_tokens > 1) cache_.publish(r.sequence, r.history());
      if (batch[i].queries == 0) continue;
      r.output.assign(output, output + toy_model::width);
      output += toy_model::width;
      if (static_cast<int>(r.tokens.size()) == r.total) {
        end(r);
      } else {
        r.tokens.push_back(toy_model::sample(r.output));
      }
    }
  }

  void fail(request& r, const std::vector<pagoda::growth>& batch) {
    try {
      (void)cache_.plan(batch);
    } catch (const pagoda::out_of_blocks& why) {
      r.error = why.what();
    }
    end(r);
  }

  void end(request& r) {
    cache_.publish(r.sequence, r.history());
    r.sequence = {};  // its blocks stay cached until others need them
    ended_.push_back(std::move(r));
    std::erase_if(live_, [&](const auto& other) { return other.get() == &r; });
  }

  engine_options options_;
  kv_cache cache_;
  std::optional<kv_cache> second_tier_;
  std::vector<std::unique_ptr<request>> live_;
  std::vector<request> ended_;
  engine_counts counts_;
};
