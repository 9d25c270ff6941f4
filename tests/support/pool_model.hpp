// SPDX-License-Identifier: Apache-2.0
/// @file A simple model of the blocks of one layer group: who is free, used, retiring or cached, and who goes next.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "index_model.hpp"

namespace pagoda_test {

class pool_model {
 public:
  enum class state { free, used, retiring, cached };

  struct block {
    state is = state::free;
    std::int32_t references = 0;
    index_model::id content = index_model::nothing;  // that it is entered with
    std::uint64_t after = 0;                         // the latest ticket of a release or a transfer
  };

  pool_model(std::int32_t blocks, std::string_view policy)
      : blocks_(static_cast<std::size_t>(blocks)), policy_(policy) {}

  const block& at(std::int32_t i) const { return blocks_.at(static_cast<std::size_t>(i)); }
  std::int64_t size() const { return static_cast<std::int64_t>(blocks_.size()); }
  std::int64_t count(state is) const {
    return std::count_if(blocks_.begin(), blocks_.end(), [&](const block& b) { return b.is == is; });
  }
  std::int64_t shared() const {
    return std::count_if(blocks_.begin(), blocks_.end(), [](const block& b) { return b.references > 1; });
  }
  std::int64_t evictable() const { return policy_ == "never" ? 0 : static_cast<std::int64_t>(queue_.size()); }
  std::int64_t available() const { return count(state::free) + evictable(); }
  std::int64_t pinned() const { return count(state::cached) - static_cast<std::int64_t>(queue_.size()); }

  /// Whether victims() knows the order.
  bool exact() const { return policy_ != "fifo"; }

  /// The first blocks to be evicted, in order. Requires: exact().
  std::vector<std::int32_t> victims(std::int64_t number, std::int64_t now) const {
    std::vector<ranked> order = queue_;
    const auto level = [&](const ranked& r) -> std::uint64_t {
      if (policy_ == "lfu") return r.worth;
      if (policy_ != "priority" || r.advice.expires <= now) return 0;
      return static_cast<std::uint64_t>(r.advice.priority);
    };
    std::stable_sort(order.begin(), order.end(), [&](const ranked& a, const ranked& b) { return level(a) < level(b); });
    std::vector<std::int32_t> first;
    for (std::int64_t i = 0; i < number; ++i) first.push_back(order.at(static_cast<std::size_t>(i)).block);
    return first;
  }

  bool evictable(std::int32_t i) const {
    return policy_ != "never" &&
           std::any_of(queue_.begin(), queue_.end(), [&](const ranked& r) { return r.block == i; });
  }

  void enter(std::int32_t i, index_model::id content) { edit(i).content = content; }

  /// The index forgets the block.
  void forget(std::int32_t i) {
    edit(i).content = index_model::nothing;
    if (at(i).is != state::cached) return;
    leave_queue(i);
    edit(i).is = state::free;
  }

  /// As forget, but to be reused: what comes later counts as used as often as this block was.
  void evict(std::int32_t i) {
    for (const ranked& r : queue_) {
      if (r.block == i) age_ = r.worth;
    }
    forget(i);
  }

  void allocate(std::int32_t i) { edit(i) = {.is = state::used, .references = 1}; }

  /// Work up to a ticket reads the block, whoever holds it then.
  void lend(std::int32_t i, std::uint64_t until) { edit(i).after = until; }

  void hold(std::int32_t i) {
    if (at(i).is == state::cached) leave_queue(i);
    if (at(i).is == state::retiring) std::erase_if(retiring_, [&](const auto& r) { return r.first == i; });
    edit(i).is = state::used;
    ++edit(i).references;
  }

  /// Takes a reference back; the last one's block waits for the ticket, if there is one.
  void release(std::int32_t i, std::optional<std::uint64_t> after, const index_model& index) {
    if (after) edit(i).after = *after;
    if (--edit(i).references > 0) return;
    if (!after) return settle(i, index);
    edit(i).is = state::retiring;
    retiring_.emplace_back(i, *after);
  }

  void complete(std::uint64_t done, const index_model& index) {
    while (!retiring_.empty() && retiring_.front().second <= done) {
      const std::int32_t i = retiring_.front().first;
      retiring_.erase(retiring_.begin());
      settle(i, index);
    }
  }

  /// To be called before and after the advice about a cached block's content changes.
  void leave_queue(std::int32_t i) {
    std::erase_if(queue_, [&](const ranked& r) { return r.block == i; });
  }
  void join_queue(std::int32_t i, const index_model& index) {
    const index_model::content& content = index.at(at(i).content);
    if (!content.advice.pinned) queue_.push_back({i, content.advice, age_ + content.hits + 1});
  }

 private:
  struct ranked {
    std::int32_t block;
    pagoda::block_advice advice;
    std::uint64_t worth;  // hits, and the age of the queue when the block came
  };

  block& edit(std::int32_t i) { return blocks_.at(static_cast<std::size_t>(i)); }

  void settle(std::int32_t i, const index_model& index) {
    if (at(i).content == index_model::nothing) {
      edit(i).is = state::free;
    } else {
      edit(i).is = state::cached;
      join_queue(i, index);
    }
  }

  std::vector<block> blocks_;
  std::vector<ranked> queue_;                                     // cached and not pinned, in the order of their coming
  std::vector<std::pair<std::int32_t, std::uint64_t>> retiring_;  // in the order of their release
  std::string_view policy_;
  std::uint64_t age_ = 0;
};

}  // namespace pagoda_test
