// SPDX-License-Identifier: Apache-2.0
// The conformance check passes every policy of the library and a user's own, and tells what is wrong with faulty ones.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <pagoda/conformance/eviction.hpp>
#include <pagoda/eviction/built_in.hpp>
#include <pagoda/layout/heads_tokens_dim.hpp>
#include <pagoda/memory/host.hpp>
#include <pagoda/quantizer/int8_per_token.hpp>

namespace {

using pagoda::block_heap;
using pagoda::block_id;
using pagoda::block_list;
using pagoda::cached_block;
using pagoda::eviction_policy;
using pagoda::conformance::check_eviction;

// A user's own policy: of all cached blocks the deepest in its prefix goes first.
class deepest {
 public:
  static constexpr std::string_view name = "deepest";
  explicit deepest(std::int32_t num_blocks) : order_(num_blocks) {}
  void insert(const cached_block& block) noexcept { order_.push(block.id, {-block.depth, ++inserted_}); }
  void erase(block_id id) noexcept { order_.erase(id); }
  block_id evict() noexcept { return order_.pop_front(); }
  std::int32_t size() const noexcept { return order_.size(); }

 private:
  block_heap<std::pair<std::int32_t, std::uint64_t>> order_;
  std::uint64_t inserted_ = 0;
};
static_assert(eviction_policy<deepest>);

// One that keeps some blocks for good: it would give fewer than are cached.
class beginnings_stay : public pagoda::lru {
 public:
  static constexpr std::string_view name = "beginnings_stay";
  explicit beginnings_stay(std::int32_t num_blocks) : lru(num_blocks), depths_(static_cast<std::size_t>(num_blocks)) {}
  void insert(const cached_block& block) noexcept {
    depth_of(block.id) = block.depth;
    if (block.depth > 0) lru::insert(block);
  }
  void erase(block_id id) noexcept {
    if (depth_of(id) > 0) lru::erase(id);
  }

 private:
  std::int32_t& depth_of(block_id id) noexcept { return depths_[static_cast<std::size_t>(id)]; }
  std::vector<std::int32_t> depths_;
};

// What cache<...> takes for an eviction policy: whatever means to be one, and no other policy.
struct lacks_all_but_insert {
  void insert(const cached_block&);
};
struct lacks_all_but_evict {
  int evict();
};
static_assert(pagoda::eviction_like<pagoda::never> && pagoda::eviction_like<deepest>);
static_assert(pagoda::eviction_like<lacks_all_but_insert> && !eviction_policy<lacks_all_but_insert>);
static_assert(pagoda::eviction_like<lacks_all_but_evict> && !eviction_policy<lacks_all_but_evict>);
static_assert(!pagoda::eviction_like<pagoda::heads_tokens_dim> && !pagoda::eviction_like<pagoda::host_memory> &&
              !pagoda::eviction_like<pagoda::int8_per_token> && !pagoda::eviction_like<block_list>);

TEST_CASE_TEMPLATE("the check finds no fault in a policy without one", P, pagoda::lru, pagoda::fifo, pagoda::lfu,
                   pagoda::priority, pagoda::never, deepest, beginnings_stay) {
  const pagoda::conformance::report report = check_eviction<P>();
  CHECK(report.checks > 50000);
  for (const std::string& fault : report.faults) FAIL_CHECK(fault);
}

// Faulty policies, each an lru but for one thing.

struct evicts_held : pagoda::lru {
  static constexpr std::string_view name = "evicts_held";
  using lru::lru;
  void stored(block_id id) noexcept { lru::insert({.id = id}); }
  void forgotten(block_id id) noexcept { lru::erase(id); }
  void insert(const cached_block&) noexcept { ++cached_; }
  void erase(block_id) noexcept { --cached_; }
  block_id evict() noexcept { return cached_ > 0 ? --cached_, lru::evict() : block_id::none; }
  std::int32_t size() const noexcept { return cached_; }
  std::int32_t cached_ = 0;
};

struct evicts_twice : pagoda::lru {
  static constexpr std::string_view name = "evicts_twice";
  using lru::lru;
  void stored(block_id) noexcept { last_ = block_id::none; }
  void insert(const cached_block& block) noexcept {
    lru::insert(block);
    last_ = block_id::none;
  }
  block_id evict() noexcept {
    const block_id id = lru::evict();
    return id == block_id::none || last_ == block_id::none ? last_ = id : last_;
  }
  block_id last_ = block_id::none;
};

struct evicts_strangers : pagoda::lru {
  static constexpr std::string_view name = "evicts_strangers";
  explicit evicts_strangers(std::int32_t num_blocks) : lru(num_blocks), num_blocks_(num_blocks) {}
  block_id evict() noexcept {
    const block_id id = lru::evict();
    return static_cast<std::int32_t>(id) == num_blocks_ - 1 ? block_id{num_blocks_} : id;
  }
  std::int32_t num_blocks_;
};

struct counts_held : pagoda::lru {
  static constexpr std::string_view name = "counts_held";
  using lru::lru;
  void stored(block_id) noexcept { ++held_; }
  std::int32_t size() const noexcept { return lru::size() + held_; }
  std::int32_t held_ = 0;
};

struct forgets_to_count : pagoda::lru {
  static constexpr std::string_view name = "forgets_to_count";
  using lru::lru;
  void insert(const cached_block& block) noexcept {
    lru::insert(block);
    ++size_;
  }
  block_id evict() noexcept {
    if (lru::size() > 0) --size_;
    return lru::evict();
  }
  std::int32_t size() const noexcept { return size_; }  // an erase does not count
  std::int32_t size_ = 0;
};

struct promises_too_little : pagoda::lru {
  static constexpr std::string_view name = "promises_too_little";
  using lru::lru;
  std::int32_t size() const noexcept { return lru::size() > 0 ? lru::size() - 1 : 0; }
};

struct counts_by_leaps : pagoda::lru {
  static constexpr std::string_view name = "counts_by_leaps";
  using lru::lru;
  std::int32_t size() const noexcept { return lru::size() > 2 ? lru::size() - 1 : lru::size(); }
};

struct promises_too_much : pagoda::lru {
  static constexpr std::string_view name = "promises_too_much";
  using lru::lru;
  block_id evict() noexcept { return lru::size() == 1 ? block_id::none : lru::evict(); }
};

struct forgets_an_erase : pagoda::lru {
  static constexpr std::string_view name = "forgets_an_erase";
  using lru::lru;
  void insert(const cached_block& block) noexcept {
    if (left_ == block.id) lru::erase(std::exchange(left_, block_id::none));
    lru::insert(block);
  }
  void erase(block_id id) noexcept {
    if (left_ != block_id::none || size() < 3) return lru::erase(id);
    left_ = id;  // and is still in the list
  }
  std::int32_t size() const noexcept { return lru::size() - (left_ == block_id::none ? 0 : 1); }
  block_id left_ = block_id::none;
};

// Random, though with a seed: which of the two oldest goes depends on all policies of the program.
struct throws_dice : pagoda::lru {
  static constexpr std::string_view name = "throws_dice";
  using lru::lru;
  block_id evict() noexcept {
    static std::uint32_t dice = 1;
    dice = dice * 1664525u + 1013904223u;
    const block_id first = lru::evict();
    if (first == block_id::none || lru::size() == 0 || dice >> 31 == 0) return first;
    const block_id second = lru::evict();
    lru::insert({.id = first});
    return second;
  }
};

struct loses_blocks_when_moved : pagoda::lru {
  static constexpr std::string_view name = "loses_blocks_when_moved";
  explicit loses_blocks_when_moved(std::int32_t num_blocks) : lru(num_blocks), num_blocks_(num_blocks) {}
  loses_blocks_when_moved(loses_blocks_when_moved&& other) noexcept
      : lru(other.num_blocks_), num_blocks_(other.num_blocks_) {}
  std::int32_t num_blocks_;
};

template <class P>
void check_fault(const std::string& sentence) {
  const pagoda::conformance::report report = check_eviction<P>();
  CAPTURE(P::name);
  REQUIRE(!report.ok());
  CHECK(report.faults.size() <= 2);
  CAPTURE(report.faults.front());
  CHECK(report.faults.front().rfind(std::string(P::name) + ": ", 0) == 0);
  CHECK(report.faults.front().find(sentence) != std::string::npos);
}

TEST_CASE("the check tells what is wrong with a faulty policy") {
  check_fault<evicts_held>("evict() gives block 0, which is held");
  check_fault<evicts_twice>("which is not in the index");
  check_fault<evicts_strangers>("evict() gives block 1, but ids are 0 to 0");
  check_fault<counts_held>("size() is 1 after stored, but 0 blocks are cached");
  check_fault<forgets_to_count>("size() is 1 after erase, but 0 blocks are cached");
  check_fault<promises_too_little>("evict() gives block 0, but size() was 0");
  check_fault<counts_by_leaps>("size() was 2 and is 2 after evict() gave a block");
  check_fault<promises_too_much>("evict() gives no block, but size() was 1");
  check_fault<forgets_an_erase>("which is held");
  check_fault<throws_dice>("two policies that were given the same calls evict different blocks");
  check_fault<loses_blocks_when_moved>("differ in size() after one was moved");
}

}  // namespace
