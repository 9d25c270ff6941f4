// SPDX-License-Identifier: Apache-2.0
// Every allocation of every call of a block manager fails once: the call throws, leaves no trace, and succeeds later.
// Calls that promise to allocate nothing do not.
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <pagoda/block_manager.hpp>
#include <pagoda/eviction/built_in.hpp>

#define PAGODA_TEST_NEW_IS_REPLACED_ELSEWHERE
#include "fail_each.hpp"
#include "manager_books.hpp"

namespace {

using pagoda::block_manager;
using pagoda::manager_config;
using pagoda::sequence;
using pagoda::step;
using pagoda::token_history;
using pagoda_test::allocation_scope;
using pagoda_test::books_of;
using pagoda_test::grow;
using pagoda_test::manager_books;

manager_config two_groups(std::int32_t blocks) {
  return {.groups = {{.num_blocks = blocks, .layers = {0, 2}, .block_bytes = 512},
                     {.num_blocks = blocks, .keep = {.sinks = 2, .window = 30}, .layers = {1}, .block_bytes = 256}},
          .block_size = 4,
          .max_sequences = 12,
          .max_open_steps = 2,
          .max_events = 100,
          .track_reuse = true};
}

std::vector<std::int32_t> tokens_from(std::int32_t first, std::int32_t count) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(count));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

/// Histories that a test publishes and looks for.
struct histories {
  std::vector<std::int32_t> plain = tokens_from(0, 30);
  std::vector<std::int32_t> other = tokens_from(500, 30);
  std::vector<std::int32_t> pictures = tokens_from(1000, 30);
  std::vector<pagoda::content_tag> tags = {
      {2, 5, {std::byte{1}}}, {6, 17, {std::byte{2}}}, {17, 20, {std::byte{3}}}, {28, 29, {std::byte{4}}}};
  pagoda::key_domain domain = pagoda::key_domain().add("adapter", "a name too long for a string's own room");

  std::vector<token_history> all() const {
    return {{plain}, {other}, {pictures, tags, &domain}, {pictures, tags}, {plain, {}, &domain}};
  }
  token_history tagged() const { return {pictures, tags, &domain}; }
};

/// A manager in the middle of its life, and a second one. Two that are made alike are alike.
struct world {
  explicit world(std::int32_t blocks = 40) : manager(two_groups(blocks)), tier(two_groups(blocks)) {
    for (block_manager* each : {&manager, &tier}) {  // cached prefixes on both
      const sequence cached = each->make_sequence();
      grow(*each, cached, 22);
      each->publish(cached, {texts.other});
    }
    for (int i = 0; i < 4; ++i) sequences.push_back(manager.make_sequence());
    grow(manager, sequences[0], 27);
    grow(manager, sequences[1], 27);
    sequences.push_back(manager.fork(sequences[0]));
    sequences.push_back(manager.fork(sequences[0]));
    manager.publish_first(sequences[0], 10, {texts.plain});  // two blocks, and a part of one that will give way
    other_sequences.push_back(tier.make_sequence());
    grow(tier, other_sequences[0], 9);
  }

  std::vector<manager_books> books() const { return {books_of(manager, sequences), books_of(tier, other_sequences)}; }

  /// What can be learnt only by calls that change something: the events, the index' contents, and which blocks come
  /// next.
  std::vector<std::int64_t> contents() {
    std::vector<std::int64_t> found;
    for (block_manager* each : {&manager, &tier}) {
      take_events(*each, found);
      for (const token_history& history : texts.all()) found.push_back(each->match(history, 30).tokens());
      const sequence all = each->make_sequence();
      const step filling = each->plan({{all, static_cast<std::int32_t>(each->growable(all, INT32_MAX))}});
      for (int group = 0; group < 2; ++group) {
        for (const pagoda::block_id block : filling.new_blocks(group, 0)) found.push_back(pagoda_test::number(block));
      }
      take_events(*each, found);  // what was evicted for it, in order
    }
    return found;
  }

  static void take_events(block_manager& manager, std::vector<std::int64_t>& found) {
    std::vector<pagoda::prefix_event> events(200);
    events.resize(manager.take_events(events));
    for (const pagoda::prefix_event& event : events) {
      found.push_back(static_cast<std::int64_t>(event.what) * 1000 + event.group * 500 +
                      static_cast<std::int64_t>(event.block));
      found.push_back(static_cast<std::int64_t>(event.hash));
    }
  }

  histories texts;
  block_manager manager;
  block_manager tier;
  std::vector<sequence> sequences;
  std::vector<sequence> other_sequences;
};

/// Lets each allocation of a call on a world fail, in a new world each time; `prepare` comes before the call. Returns
/// how many there are.
template <class Prepare, class Call>
std::int64_t check_strong(std::int32_t blocks, Prepare prepare, Call call) {
  for (std::int64_t fail_at = 0; fail_at < 1000; ++fail_at) {
    CAPTURE(fail_at);
    {
      world tested(blocks);
      world twin(blocks);
      auto ready = prepare(tested);
      auto twin_ready = prepare(twin);
      const std::vector<manager_books> before = tested.books();
      const bool failed = pagoda_test::fails_at(fail_at, [&] { call(tested, ready); });
      if (failed) {
        REQUIRE(tested.books() == before);
        call(tested, ready);
      }
      call(twin, twin_ready);
      CHECK(tested.books() == twin.books());
      CHECK(tested.contents() == twin.contents());
      if (!failed) {
        CHECK(tested.books()[0].faults == "");
        return fail_at;
      }
    }
    world tested(blocks);  // and one whose call does not come again
    world twin(blocks);
    auto ready = prepare(tested);
    [[maybe_unused]] auto twin_ready = prepare(twin);
    REQUIRE(pagoda_test::fails_at(fail_at, [&] { call(tested, ready); }));
    CHECK(tested.contents() == twin.contents());
    CHECK(tested.books() == twin.books());
  }
  FAIL("the call never succeeded");
  return 0;
}

constexpr auto nothing = [](world&) { return 0; };

TEST_CASE("publish with tags, a domain and the first advice that expires") {
  const std::int64_t failures = check_strong(40, nothing, [](world& w, int) {
    w.manager.publish(w.sequences[1], w.texts.tagged(), {.priority = 70, .expires = 9, .pinned = true});
  });
  CHECK(failures >= 10);
}

TEST_CASE("publish where a part of a block was published before, and where blocks are missing in a window") {
  CHECK(check_strong(40, nothing,
                     [](world& w, int) { w.manager.publish(w.sequences[0], {w.texts.plain}, {.expires = 9}); }) == 1);
  CHECK(check_strong(40, nothing,
                     [](world& w, int) { w.manager.publish_first(w.sequences[1], 13, w.texts.tagged()); }) >= 8);
}

TEST_CASE("the first advice that expires") {
  CHECK(check_strong(40, nothing,
                     [](world& w, int) { w.manager.advise({w.texts.other}, {.priority = 1, .expires = 7}); }) == 1);
}

TEST_CASE("take_copies and commit_paths of a step over several groups") {
  const auto planned = [](world& w) {
    return w.manager.plan({{w.sequences[0], 9}, {w.sequences[4], 20}, {w.sequences[2], 3}});
  };
  CHECK(check_strong(40, planned, [](world&, step& open) {
          const bool pending = open.copies_pending();
          const pagoda::copy_list copies = open.take_copies();
          REQUIRE(copies.empty() != pending);
        }) >= 3);
  const auto taken = [&](world& w) {
    step open = planned(w);
    (void)open.take_copies();
    return open;
  };
  const std::vector<std::int32_t> paths{1, 2, 8, 0, 5, 6, 19, 0, 1};
  const std::vector<std::int32_t> offsets{0, 3, 7, 9};
  CHECK(check_strong(40, taken, [&](world&, step& open) {
          const pagoda::copy_list moves = open.commit_paths({paths, offsets});
          REQUIRE_FALSE(moves.empty());
        }) >= 5);
}

TEST_CASE("transfer of sequences that share blocks, into a pool that has to evict for them") {
  for (const std::int32_t blocks : {40, 24}) {
    CAPTURE(blocks);
    const std::int64_t failures = check_strong(blocks, nothing, [](world& w, int) {
      (void)transfer(w.manager, {w.sequences[0], w.sequences[2], w.sequences[5]}, w.tier);
    });
    CHECK(failures >= 6);
  }
}

TEST_CASE("snapshot, check_integrity and match change nothing when memory is short") {
  CHECK(check_strong(40, nothing, [](world& w, int) { (void)w.manager.snapshot(); }) >= 1);
  CHECK(check_strong(40, nothing, [](world& w, int) { (void)w.manager.check_integrity(); }) >= 2);
  CHECK(check_strong(40, nothing, [](world& w, int) { (void)w.manager.match(w.texts.tagged(), 29); }) == 0);
}

/// A call that refuses: its message may find no memory.
template <class Error, class Call>
void check_refusal(Call call) {
  const std::int64_t failures = check_strong(24, nothing, [&](world& w, int) {
    try {
      call(w);
    } catch (const Error&) {
    }
  });
  CHECK(failures >= 1);
}

TEST_CASE("errors whose messages find no memory change nothing") {
  check_refusal<pagoda::invalid_argument>([](world& w) { w.manager.publish(w.sequences[1], {}); });
  check_refusal<pagoda::invalid_argument>([](world& w) { w.manager.publish(w.sequences[0], {w.texts.other}); });
  check_refusal<pagoda::invalid_argument>([](world& w) { (void)w.manager.match({w.texts.plain}, -1); });
  check_refusal<pagoda::invalid_argument>([](world& w) { w.manager.advise({w.texts.plain}, {.priority = -1}); });
  check_refusal<pagoda::invalid_argument>([](world& w) { w.manager.truncate(w.sequences[0], 28); });
  check_refusal<pagoda::invalid_argument>([](world& w) {
    (void)transfer(w.manager, {w.sequences[0], w.sequences[0]}, w.tier);
  });
  check_refusal<pagoda::invalid_argument>([](world& w) { (void)transfer(w.manager, {w.sequences[0]}, w.manager); });
  check_refusal<pagoda::invalid_argument>([](world& w) { (void)transfer(w.tier, {w.sequences[0]}, w.manager); });
}

TEST_CASE("a construction gives back what it had, under every policy") {
  const auto check = [](auto policy) {
    const manager_config config = two_groups(40);
    const std::int64_t failures = pagoda_test::fail_each([&] { const block_manager manager(config, policy); }, [] {});
    CHECK(failures > 30);
  };
  check(pagoda::evict_by<pagoda::lru>);
  check(pagoda::evict_by<pagoda::fifo>);
  check(pagoda::evict_by<pagoda::lfu>);
  check(pagoda::evict_by<pagoda::priority>);
  check(pagoda::evict_by<pagoda::never>);
}

/// How many allocations a call makes.
template <class Call>
std::int64_t allocations_of(Call&& call) {
  const allocation_scope scope;
  call();
  return scope.allocated();
}

template <class Policy>
void check_steady_state() {
  CAPTURE(Policy::name);
  const histories texts;
  block_manager manager(two_groups(24), pagoda::evict_by<Policy>);
  std::vector<pagoda::prefix_event> events(200);
  std::vector<sequence> sequences(4);
  pagoda::shortage why;
  std::int64_t refused = 0;
  std::int64_t found = 0;
  const auto turn = [&](const std::vector<std::int32_t>& tokens, std::int64_t now) {
    const token_history history{tokens};
    pagoda::prefix_match hit = manager.match(history, 24);
    found += hit.tokens();
    sequences[0] = manager.make_sequence(std::move(hit));
    const auto left = static_cast<std::int32_t>(27 - sequences[0].position());
    manager.plan({{sequences[0], left}}).commit();
    manager.publish(sequences[0], history, {.priority = 60, .expires = now + 3});
    sequences[1] = manager.fork(sequences[0]);
    manager.truncate(sequences[1], 24);  // the end of a block: no copy, whose list would need memory
    {
      step second = manager.plan({{sequences[1], 2}});
      (void)second.batch(0);
      (void)second.new_blocks(0, 0);
      const std::int32_t kept[] = {1};
      second.commit(kept);
    }
    {
      step third = manager.plan({{sequences[1], 1}});
      third.cancel(0);
    }
    refused += manager.try_plan({{sequences[1], 1000}}, &why).has_value() ? 0 : 1;
    (void)manager.growable(sequences[0], 100);
    (void)manager.exclusive_blocks(sequences[0], 0);
    (void)manager.stats(0);
    (void)manager.blocks(sequences[0], 1);
    manager.advise(history, {.priority = static_cast<std::int32_t>(now % 100)});
    manager.advance(now);
    sequences[0] = {};
    sequences[1] = {};
    manager.complete(pagoda::ticket{static_cast<std::uint64_t>(now)});
    (void)manager.take_events(events);
  };
  turn(texts.plain, 1);  // the first that expires
  const std::vector<std::int32_t> others[] = {tokens_from(0, 30), tokens_from(200, 30), tokens_from(400, 30),
                                              tokens_from(600, 30), texts.plain};
  std::int64_t now = 1;
  const std::int64_t allocated = allocations_of([&] {
    for (int round = 0; round < 20; ++round) {
      for (const std::vector<std::int32_t>& tokens : others) turn(tokens, ++now);
    }
    manager.clear_prefixes();
  });
  CHECK(allocated == 0);
  CHECK(refused == 101);
  CHECK(found > 0);
  CHECK(pagoda_test::faults(manager) == "");
  CHECK(manager.snapshot().evictions > 0);
}

TEST_CASE("matching, planning, publishing, evicting and releasing allocate nothing, under every policy") {
  check_steady_state<pagoda::lru>();
  check_steady_state<pagoda::fifo>();
  check_steady_state<pagoda::lfu>();
  check_steady_state<pagoda::priority>();
}

}  // namespace
