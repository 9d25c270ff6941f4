// SPDX-License-Identifier: Apache-2.0
// Each policy against a slow model of it, and the lists and heaps that policies are made of against the standard ones.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <pagoda/eviction/built_in.hpp>

namespace {

using pagoda::block_heap;
using pagoda::block_id;
using pagoda::block_list;
using pagoda::cached_block;

/// What the models share: the cached blocks, each with a number of its insertion; the one with the smallest rank goes
/// first. Every call scans.
template <class Model>
class ranked_model {
 public:
  void insert(const cached_block& block) { cached_[block.id] = {block, ++calls_}; }
  void erase(block_id id) { cached_.erase(id); }
  void stored(block_id) {}
  void forgotten(block_id) {}
  void advance(std::int64_t) {}
  std::int32_t size() const { return static_cast<std::int32_t>(cached_.size()); }

  block_id evict() {
    if (cached_.empty()) return block_id::none;
    Model& model = static_cast<Model&>(*this);
    const auto first = std::min_element(cached_.begin(), cached_.end(), [&](const auto& a, const auto& b) {
      return model.rank(a.second) < model.rank(b.second);
    });
    const block_id id = first->first;
    model.evicts(first->second);
    cached_.erase(id);
    return id;
  }

 protected:
  struct entry {
    cached_block block;
    std::int64_t inserted;
  };
  void evicts(const entry&) {}

  std::map<block_id, entry> cached_;
  std::int64_t calls_ = 0;
};

struct lru_model : ranked_model<lru_model> {
  static std::int64_t rank(const entry& e) { return e.inserted; }
};

struct fifo_model : ranked_model<fifo_model> {
  std::map<block_id, std::int64_t> stored_at;
  std::set<block_id> overdue;

  void stored(block_id id) { stored_at[id] = ++calls_; }
  void forgotten(block_id id) {
    stored_at.erase(id);
    overdue.erase(id);
  }
  std::pair<int, std::int64_t> rank(const entry& e) const {
    const block_id id = e.block.id;
    return overdue.count(id) > 0 ? std::pair{0, e.inserted} : std::pair{1, stored_at.at(id)};
  }
  void evicts(const entry& e) {
    if (overdue.count(e.block.id) == 0) {
      for (const auto& [id, when] : stored_at) {
        if (when < stored_at.at(e.block.id) && cached_.count(id) == 0) overdue.insert(id);
      }
    }
    forgotten(e.block.id);
  }
};

struct lfu_model : ranked_model<lfu_model> {
  std::map<block_id, std::uint64_t> keys;
  std::uint64_t age = 0;

  void insert(const cached_block& block) {
    keys[block.id] = age + block.hits + 1;
    ranked_model::insert(block);
  }
  std::pair<std::uint64_t, std::int64_t> rank(const entry& e) const { return {keys.at(e.block.id), e.inserted}; }
  void evicts(const entry& e) { age = keys.at(e.block.id); }
};

struct priority_model : ranked_model<priority_model> {
  std::int64_t now = 0;

  void advance(std::int64_t time) { now = time; }
  std::pair<std::int32_t, std::int64_t> rank(const entry& e) const {
    return {e.block.expires <= now ? 0 : e.block.priority, e.inserted};
  }
};

/// Random calls to both, as a manager may make them; each block that goes must be the same.
template <class Policy, class Model>
void compare(std::int32_t num_blocks, std::uint32_t seed, int operations) {
  enum { unknown, held, cached };
  CAPTURE(num_blocks);
  CAPTURE(seed);
  std::mt19937 random(seed);
  const auto below = [&](std::int32_t limit) { return static_cast<std::int32_t>(random() % std::uint32_t(limit)); };
  Policy policy(num_blocks);
  Model model;
  std::vector<int> states(static_cast<std::size_t>(num_blocks), unknown);
  std::vector<std::uint32_t> hits(states.size(), 0);
  std::int64_t now = 0;
  int evictions = 0;
  const auto insert = [&](block_id id) {
    cached_block block{.id = id, .depth = below(9), .hits = hits[static_cast<std::size_t>(id)]};
    if (below(3) > 0) block.priority = below(4) * 25;
    if (below(3) == 0) block.expires = now + below(50);
    policy.insert(block);
    model.insert(block);
  };
  const auto erase = [&](block_id id) {
    policy.erase(id);
    model.erase(id);
  };
  for (int i = 0; i < operations; ++i) {
    const block_id id{below(num_blocks)};
    int& state = states[static_cast<std::size_t>(id)];
    const bool forget = below(20) == 0;
    if (state == unknown) {
      if constexpr (pagoda::has_stored<Policy>) policy.stored(id);
      model.stored(id);
      hits[static_cast<std::size_t>(id)] = 0;
      state = held;
    } else if (forget) {
      if (state == cached) erase(id);
      if constexpr (pagoda::has_forgotten<Policy>) policy.forgotten(id);
      model.forgotten(id);
      state = unknown;
    } else if (state == held) {
      insert(id);
      state = cached;
    } else if (below(3) > 0) {
      erase(id);
      hits[static_cast<std::size_t>(id)] += static_cast<std::uint32_t>(below(4));
      state = held;
    } else {  // new advice
      erase(id);
      insert(id);
    }
    if (below(10) == 0) {
      now += below(20);
      if constexpr (pagoda::has_advance<Policy>) policy.advance(now);
      model.advance(now);
    }
    for (int several = below(6) == 0 ? below(4) : 0; several > 0; --several) {
      const block_id gone = policy.evict();
      REQUIRE(gone == model.evict());
      if (gone == block_id::none) break;
      ++evictions;
      states[static_cast<std::size_t>(gone)] = unknown;
    }
    REQUIRE(policy.size() == model.size());
  }
  CHECK(evictions > operations / 20);
}

template <class Policy, class Model>
void compare_all() {
  for (const std::int32_t num_blocks : {1, 2, 3, 5, 16, 40, 100}) {
    compare<Policy, Model>(num_blocks, 11u + static_cast<std::uint32_t>(num_blocks), 15000);
  }
}

TEST_CASE("lru evicts what its model evicts") {
  compare_all<pagoda::lru, lru_model>();
}
TEST_CASE("fifo evicts what its model evicts") {
  compare_all<pagoda::fifo, fifo_model>();
}
TEST_CASE("lfu evicts what its model evicts") {
  compare_all<pagoda::lfu, lfu_model>();
}
TEST_CASE("priority evicts what its model evicts") {
  compare_all<pagoda::priority, priority_model>();
}

TEST_CASE("block_list: several lists share the blocks, as deques would") {
  constexpr std::int32_t num_blocks = 50;
  constexpr std::int32_t lists = 3;
  std::mt19937 random(5);
  const auto below = [&](std::int32_t limit) { return static_cast<std::int32_t>(random() % std::uint32_t(limit)); };
  block_list list(num_blocks, lists);
  std::vector<std::deque<block_id>> model(lists);
  const auto find = [&](block_id id) {
    return std::find_if(model.begin(), model.end(),
                        [id](const auto& d) { return std::find(d.begin(), d.end(), id) != d.end(); });
  };
  for (int i = 0; i < 100000; ++i) {
    const block_id id{below(num_blocks)};
    const std::int32_t which = below(lists);
    std::deque<block_id>& blocks = model[static_cast<std::size_t>(which)];
    const auto owner = find(id);
    REQUIRE(list.contains(id) == (owner != model.end()));
    if (below(4) == 0) {
      const block_id first = blocks.empty() ? block_id::none : blocks.front();
      REQUIRE(list.pop_front(which) == first);
      if (first != block_id::none) blocks.pop_front();
    } else if (owner != model.end()) {
      list.unlink(id);
      owner->erase(std::find(owner->begin(), owner->end(), id));
    } else if (below(2) == 0) {
      list.push_front(id, which);
      blocks.push_front(id);
    } else {
      list.push_back(id, which);
      blocks.push_back(id);
    }
    std::size_t size = 0;
    for (std::int32_t l = 0; l < lists; ++l) {
      const std::deque<block_id>& expected = model[static_cast<std::size_t>(l)];
      REQUIRE(list.front(l) == (expected.empty() ? block_id::none : expected.front()));
      REQUIRE(list.empty(l) == expected.empty());
      size += expected.size();
    }
    REQUIRE(list.size() == static_cast<std::int32_t>(size));
  }
}

TEST_CASE("block_heap: keys come out in the order of a set, whatever is taken or changed in between") {
  for (const std::int32_t num_blocks : {1, 4, 5, 6, 21, 22, 200}) {
    std::mt19937 random(7);
    const auto below = [&](std::int32_t limit) { return static_cast<std::int32_t>(random() % std::uint32_t(limit)); };
    using key = std::pair<std::int32_t, std::int32_t>;
    block_heap<key> heap(num_blocks);
    std::set<std::pair<key, block_id>> model;
    std::map<block_id, key> keys;
    for (int i = 0; i < 15000; ++i) {
      const block_id id{below(num_blocks)};
      const key changed{below(20), i};
      REQUIRE(heap.contains(id) == (keys.count(id) > 0));
      switch (below(4)) {
        case 0: {
          const block_id first = model.empty() ? block_id::none : model.begin()->second;
          REQUIRE(heap.pop_front() == first);
          if (first == block_id::none) break;
          model.erase(model.begin());
          keys.erase(first);
          break;
        }
        case 1:
          if (!heap.contains(id)) break;
          heap.erase(id);
          model.erase({keys.at(id), id});
          keys.erase(id);
          break;
        default:
          if (heap.contains(id)) {
            REQUIRE(heap.key(id) == keys.at(id));
            model.erase({keys.at(id), id});
            heap.update(id, changed);
          } else {
            heap.push(id, changed);
          }
          keys[id] = changed;
          model.insert({changed, id});
      }
      REQUIRE(heap.size() == static_cast<std::int32_t>(model.size()));
      REQUIRE(heap.front() == (model.empty() ? block_id::none : model.begin()->second));
    }
  }
}

TEST_CASE("lists and heaps of impossible sizes are refused") {
  CHECK_THROWS_AS(block_list(0), pagoda::invalid_argument);
  CHECK_THROWS_WITH_AS(block_list(3, 0), doctest::Contains("lists is 0"), pagoda::invalid_argument);
  CHECK_THROWS_AS(block_list(INT32_MAX - 1, 2), pagoda::invalid_argument);
  CHECK_THROWS_AS(block_heap<int>(0), pagoda::invalid_argument);
  CHECK_THROWS_AS(block_heap<int>(-5), pagoda::invalid_argument);
}

}  // namespace
