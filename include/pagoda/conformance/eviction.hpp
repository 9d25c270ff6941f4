// SPDX-License-Identifier: Apache-2.0
/// @file Checks an eviction policy of your own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <pagoda/conformance/report.hpp>
#include <pagoda/eviction.hpp>

namespace pagoda::conformance {

namespace detail {

/// Two policies of one kind that are given the same calls, as a manager gives them, and the truth about the blocks. It
/// makes no further call after the first fault, since the policy may then be in any state.
template <eviction_policy P>
class eviction_trial {
 public:
  eviction_trial(report& result, std::int32_t num_blocks)
      : result_(result),
        num_blocks_(num_blocks),
        first_(std::make_unique<P>(num_blocks)),
        second_(std::make_unique<P>(num_blocks)) {
    for (std::int32_t i = 0; i < num_blocks; ++i) blocks_.push_back({{.id = block_id{i}}, state::unknown});
  }

  bool ok() const noexcept { return result_.ok(); }

  /// A sequence fills a block and the index learns of it.
  void store(block_id id) {
    cached_block& block = of(id).block;
    block = {.id = id, .depth = static_cast<std::int32_t>(random(64))};
    of(id).where = state::held;
    if constexpr (has_stored<P>) both([id](P& policy) { policy.stored(id); });
    compare_sizes("stored");
  }

  /// The last sequence lets go of it.
  void release(block_id id) {
    record& known = of(id);
    if (random(4) == 0) known.block.priority = static_cast<std::int32_t>(random(highest_priority + 1));
    if (random(4) == 0) known.block.expires = now_ + static_cast<std::int64_t>(random(40));
    known.where = state::cached;
    ++cached_;
    const cached_block block = known.block;
    both([&block](P& policy) { policy.insert(block); });
    compare_sizes("insert");
  }

  /// A match takes it.
  void take(block_id id) {
    erase(id);
    ++of(id).block.hits;
    compare_sizes("erase");
  }

  /// It leaves the index.
  void forget(block_id id) {
    if (of(id).where == state::cached) erase(id);
    of(id).where = state::unknown;
    if constexpr (has_forgotten<P>) both([id](P& policy) { policy.forgotten(id); });
    compare_sizes("forgotten");
  }

  void forget_all() {
    for (const record& known : blocks_) {
      if (known.where != state::unknown) forget(known.block.id);
    }
  }

  void advance(std::int64_t by) {
    now_ += by;
    if constexpr (has_advance<P>) both([this](P& policy) { policy.advance(now_); });
    compare_sizes("advance");
  }

  /// Evicts one block; false if there was none.
  bool evict() {
    if (!ok()) return false;
    const std::int32_t before = first_->size();
    const block_id id = first_->evict();
    const block_id other = second_->evict();
    result_.expect(id == other, name, ": two policies that were given the same calls evict different blocks, ",
                   text(id), " and ", text(other), ": let nothing but the calls decide");
    if (id == block_id::none) {
      result_.expect(before == 0, name, ": evict() gives no block, but size() was ", before);
      return false;
    }
    const auto index = static_cast<std::int32_t>(id);
    result_.expect(index >= 0 && index < num_blocks_, name, ": evict() gives ", text(id), ", but ids are 0 to ",
                   num_blocks_ - 1);
    if (!ok()) return false;
    result_.expect(of(id).where != state::held, name, ": evict() gives ", text(id),
                   ", which is held: a block is out of reach from its erase to its next insert");
    result_.expect(of(id).where != state::unknown, name, ": evict() gives ", text(id),
                   ", which is not in the index: it was evicted or forgotten before, and not inserted since");
    result_.expect(before > 0, name, ": evict() gives ", text(id), ", but size() was ", before);
    if (!ok()) return false;
    of(id).where = state::unknown;
    --cached_;
    compare_sizes("evict");
    result_.expect(first_->size() == before - 1, name, ": size() was ", before, " and is ", first_->size(),
                   " after evict() gave a block: it must fall by one");
    return ok();
  }

  /// Evicts all that the policy gives: as many as size() promised, as each makes it fall by one, and none is left at 0.
  void drain() {
    while (evict()) {
    }
  }

  /// Moves one of the policies to another place.
  void move_one() {
    second_ = std::make_unique<P>(std::move(*second_));
    compare_sizes("one was moved");
  }

  /// One call, as a manager under load would make it.
  void step() {
    const block_id id{static_cast<std::int32_t>(random(static_cast<std::uint64_t>(num_blocks_)))};
    switch (of(id).where) {
      case state::unknown:
        return store(id);
      case state::held:
        return random(16) == 0 ? forget(id) : release(id);
      case state::cached:
        break;
    }
    switch (random(8)) {
      case 0:
        return forget(id);
      case 1:
        return advance(static_cast<std::int64_t>(random(8)));
      case 2:  // new advice
        erase(id);
        return release(id);
      case 3:
      case 4:
        return take(id);
      default:
        evict();
    }
  }

  std::uint64_t random(std::uint64_t below) noexcept {
    seed_ = seed_ * 6364136223846793005u + 1442695040888963407u;  // Knuth's MMIX
    return (seed_ >> 33) % below;
  }

 private:
  enum class state { unknown, held, cached };

  struct record {
    cached_block block;
    state where;
  };

  static constexpr std::string_view name = P::name;

  static std::string text(block_id id) {
    return id == block_id::none ? "none" : "block " + std::to_string(static_cast<std::int32_t>(id));
  }

  record& of(block_id id) { return blocks_[static_cast<std::size_t>(id)]; }

  template <class Call>
  void both(const Call& call) {
    if (!ok()) return;
    call(*first_);
    call(*second_);
  }

  void erase(block_id id) {
    of(id).where = state::held;
    --cached_;
    both([id](P& policy) { policy.erase(id); });
  }

  void compare_sizes(std::string_view after) {
    if (!ok()) return;
    const std::int32_t size = first_->size();
    result_.expect(size >= 0 && size <= cached_, name, ": size() is ", size, " after ", after, ", but ", cached_,
                   " blocks are cached: only those can be evicted");
    result_.expect(size == second_->size(), name,
                   ": two policies that were given the same calls differ in size() after ", after, ": ", size, " and ",
                   second_->size());
  }

  report& result_;
  std::int32_t num_blocks_;
  std::unique_ptr<P> first_;  // apart from the second, so that an order by address shows
  std::unique_ptr<P> second_;
  std::vector<record> blocks_{};
  std::int32_t cached_ = 0;
  std::int64_t now_ = 0;
  std::uint64_t seed_ = 1;
};

}  // namespace detail

/// Gives the policy the calls that a manager makes, over pools of several sizes, and checks what holds for every order
/// of eviction: only blocks come out that were inserted and neither erased nor evicted since; size() is the number of
/// blocks that evict() then gives; two policies that are given the same calls agree on every block; moving one changes
/// nothing. It stops at the first fault. Whether the order is a good one shows in a replay only.
///
/// Complexity: some 50,000 calls; well under a second for a policy of logarithmic calls.
template <class P>
report check_eviction() {
  static_assert(require_eviction_policy<P>());
  report result;
  result.expect(!std::string_view(P::name).empty(), "the policy's name is empty");
  for (const std::int32_t num_blocks : {1, 2, 7, 64, 300}) {
    detail::eviction_trial<P> trial(result, num_blocks);
    trial.drain();  // of nothing
    for (int round = 0; round < 2 && result.ok(); ++round) {
      for (std::int32_t i = 0; i < num_blocks; ++i) trial.store(block_id{i});
      trial.drain();  // all are held
      for (std::int32_t i = num_blocks - 1; i >= 0; --i) trial.release(block_id{i});
      for (std::int32_t i = 0; i < num_blocks; i += 2) trial.take(block_id{i});
      trial.move_one();
      trial.advance(100);
      trial.drain();
      trial.forget_all();
    }
    for (int i = 0; i < 10000 && result.ok(); ++i) {
      if (trial.random(500) == 0) {
        trial.random(2) == 0 ? trial.drain() : trial.move_one();
        if (trial.random(4) == 0) trial.forget_all();
      }
      trial.step();
    }
    trial.drain();
    if (!result.ok()) break;  // larger pools would say the same
  }
  return result;
}

}  // namespace pagoda::conformance
