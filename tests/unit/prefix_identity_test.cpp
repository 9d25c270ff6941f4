// SPDX-License-Identifier: Apache-2.0
// What makes two prefixes the same: tokens, content tags and the domain; hashes only say where to look.
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <pagoda/block_manager.hpp>

#include "prefix_support.hpp"

namespace {

using namespace pagoda_test;
using pagoda::block_manager;
using pagoda::content_tag;
using pagoda::key_domain;
using pagoda::manager_config;
using pagoda::sequence;
using pagoda::token_history;

manager_config config_of(std::int32_t hash_bits = 64) {
  return {.groups = {{.num_blocks = 40}}, .block_size = 4, .max_sequences = 8, .prefix_hash_bits = hash_bits};
}

content_tag tag(std::int64_t begin, std::int64_t end, int content) {
  content_tag result{.begin = begin, .end = end};
  result.fingerprint[31] = static_cast<std::byte>(content);
  return result;
}

using tags = std::vector<content_tag>;

TEST_CASE("domains share nothing; names, values, their lengths and their order are part of the key") {
  const std::vector<key_domain> domains{
      key_domain(),
      key_domain().add("a", "bc"),
      key_domain().add("ab", "c"),
      key_domain().add("abc", ""),
      key_domain().add("", "abc"),
      key_domain().add("a", "b").add("c", ""),
      key_domain().add("a", "").add("bc", ""),
      key_domain().add("lora", "x").add("tenant", "y"),
      key_domain().add("tenant", "y").add("lora", "x"),
      key_domain().add("lora", "y").add("tenant", "x"),
      key_domain().add("lora", "x"),
      key_domain().add("tenant", "x"),
      key_domain().add("lora", std::string_view("x\0", 2)),
  };
  for (const std::int32_t bits : {64, 0}) {
    block_manager manager(config_of(bits));
    std::vector<sequence> all;
    const token_list tokens = rising(6);
    for (std::size_t i = 0; i < domains.size(); ++i) {
      CAPTURE(i);
      CHECK(found(manager, token_history{.tokens = tokens, .domain = &domains[i]}) == 0);
      all.clear();
      all.push_back(prefill(manager, token_history{.tokens = tokens, .domain = &domains[i]}));
    }
    for (std::size_t i = 0; i < domains.size(); ++i) {
      CHECK(found(manager, token_history{.tokens = tokens, .domain = &domains[i]}) == 6);
    }
    // No domain is the empty one.
    CHECK(found(manager, tokens) == 6);
    CHECK(manager.snapshot().stored == 2 * static_cast<std::int64_t>(domains.size()));
    CHECK(faults(manager) == "");
  }
}

TEST_CASE("no hit across domains inside the first block either") {
  block_manager manager(config_of());
  const key_domain acme = key_domain().add("tenant", "acme");
  const token_list tokens = rising(3);
  const sequence a = prefill(manager, token_history{.tokens = tokens, .domain = &acme});
  CHECK(found(manager, tokens) == 0);
  CHECK(found(manager, token_history{.tokens = tokens, .domain = &acme}) == 3);
}

TEST_CASE("a sequence is published in one domain only") {
  block_manager manager(config_of());
  const key_domain acme = key_domain().add("tenant", "acme");
  const key_domain other = key_domain().add("tenant", "other");
  const token_list tokens = rising(9);
  const sequence a = prefill(manager, token_history{.tokens = tokens, .domain = &acme});
  CHECK_THROWS_AS(manager.publish(a, {.tokens = tokens, .domain = &other}), pagoda::invalid_argument);
  CHECK_THROWS_AS(manager.publish(a, {.tokens = tokens}), pagoda::invalid_argument);
  CHECK(found(manager, tokens) == 0);
  CHECK(found(manager, token_history{.tokens = tokens, .domain = &other}) == 0);
}

TEST_CASE("a content tag is compared by its place and its fingerprint") {
  block_manager manager(config_of());
  const token_list tokens = rising(12);
  const auto hit = [&](const tags& list) { return found(manager, token_history{.tokens = tokens, .tags = list}); };
  const tags image{tag(5, 9, 1)};
  const sequence a = prefill(manager, token_history{.tokens = tokens, .tags = image});
  CHECK(hit(image) == 12);
  CHECK(hit({tag(5, 9, 2)}) == 5);  // another image: the tokens before it
  CHECK(hit({}) == 5);              // none
  CHECK(hit({tag(6, 9, 1)}) == 5);  // it begins elsewhere
  CHECK(hit({tag(5, 8, 1)}) == 5);  // it ends elsewhere
  CHECK(hit({tag(5, 10, 1)}) == 5);
  CHECK(hit({tag(3, 5, 1)}) == 3);
  CHECK(hit({tag(5, 9, 1), tag(9, 10, 3)}) == 9);  // one more behind it
  CHECK(hit({tag(0, 1, 7), tag(5, 9, 1)}) == 0);
  CHECK(hit({tag(4, 5, 7), tag(5, 9, 1)}) == 4);
  CHECK(faults(manager) == "");
}

TEST_CASE("a fingerprint counts in all of its 32 bytes") {
  block_manager manager(config_of());
  const token_list tokens = rising(4);
  std::vector<sequence> all;
  for (std::size_t byte = 0; byte < 32; ++byte) {
    content_tag one{.begin = 0, .end = 4};
    one.fingerprint[byte] = std::byte{1};
    const tags list{one};
    CHECK(found(manager, token_history{.tokens = tokens, .tags = list}) == 0);
    const sequence seq = prefill(manager, token_history{.tokens = tokens, .tags = list});
  }
  CHECK(manager.stats().cached == 32);
}

TEST_CASE("a tag that spans blocks keeps what is behind it apart, and what is before it shared") {
  block_manager manager(config_of());
  const token_list tokens = rising(16);
  const tags first{tag(2, 14, 1)};
  const tags second{tag(2, 14, 2)};
  const sequence a = prefill(manager, token_history{.tokens = tokens, .tags = first});
  const sequence b = manager.make_sequence(manager.match({.tokens = tokens, .tags = second}, 15));
  CHECK(b.position() == 2);
  grow(manager, b, 14);
  CHECK(manager.publish(b, {.tokens = tokens, .tags = second}) == 4);
  CHECK(found(manager, token_history{.tokens = tokens, .tags = first}) == 16);
  CHECK(found(manager, token_history{.tokens = tokens, .tags = second}) == 16);
}

TEST_CASE("a part of a history inside a tag can be published and found") {
  block_manager manager(config_of());
  const token_list tokens = rising(12);
  const tags image{tag(2, 11, 1)};
  const sequence a = manager.make_sequence();
  grow(manager, a, 7);
  CHECK(manager.publish(a, {.tokens = tokens, .tags = image}) == 2);
  CHECK(found(manager, token_history{.tokens = tokens, .tags = image}) == 7);
  CHECK(found(manager, token_history{.tokens = tokens}) == 2);
}

TEST_CASE("tags out of order, overlapping, empty or outside the tokens are refused by all that take a history") {
  block_manager manager(config_of());
  const token_list tokens = rising(12);
  const sequence a = prefill(manager, tokens);
  const std::vector<std::pair<tags, std::vector<std::string>>> cases{
      {{tag(8, 10, 1), tag(2, 4, 2)}, {"tag 1 begins at token 2", "end at 10", "sort the tags"}},
      {{tag(2, 6, 1), tag(5, 7, 2)}, {"tag 1 begins at token 5", "end at 6", "overlap"}},
      {{tag(3, 3, 1)}, {"tag 0 covers the tokens from 3 to before 3", "one or more of the 12 tokens"}},
      {{tag(5, 4, 1)}, {"tag 0 covers the tokens from 5 to before 4", "12 tokens"}},
      {{tag(-1, 4, 1)}, {"tag 0 covers the tokens from -1 to before 4", "12 tokens"}},
      {{tag(0, 1, 1), tag(8, 13, 1)}, {"tag 1 covers the tokens from 8 to before 13", "12 tokens"}},
  };
  std::array<std::uint64_t, 3> hashes{};
  for (const auto& [list, parts] : cases) {
    const token_history history{.tokens = tokens, .tags = list};
    CHECK(contains_all(message_of([&] { (void)manager.match(history, 11); }), parts));
    CHECK(contains_all(message_of([&] { manager.publish(a, history); }), parts));
    CHECK(contains_all(message_of([&] { manager.advise(history, {.pinned = true}); }), parts));
    CHECK(contains_all(message_of([&] { pagoda::prefix_hashes(history, 4, 0, hashes); }), parts));
  }
  CHECK(manager.snapshot().sequences == 1);
  CHECK(manager.snapshot().stored == 3);
  CHECK(found(manager, tokens) == 12);
  CHECK(faults(manager) == "");
}

TEST_CASE("forced collisions: with every hash equal, a hit still is the same tokens, tags and domain") {
  for (const std::int32_t bits : {0, 1, 4}) {
    block_manager manager(config_of(bits));
    const key_domain acme = key_domain().add("tenant", "acme");
    const tags image{tag(1, 3, 1)};
    const token_list plain = rising(8);
    const token_list swapped = rising(4, 5) + rising(4);
    {
      const sequence a = prefill(manager, plain);
      const sequence b = prefill(manager, swapped);
      const sequence c = prefill(manager, token_history{.tokens = plain, .domain = &acme});
      const sequence d = prefill(manager, token_history{.tokens = plain, .tags = image});
    }
    CHECK(manager.stats().cached == 8);
    CHECK(found(manager, plain) == 8);
    CHECK(found(manager, swapped) == 8);
    CHECK(found(manager, rising(4) + rising(4)) == 4);  // the second block exists behind another first one
    CHECK(found(manager, rising(4, 5) + rising(4, 5)) == 4);
    CHECK(found(manager, token_history{.tokens = plain, .domain = &acme}) == 8);
    CHECK(found(manager, token_history{.tokens = swapped, .domain = &acme}) == 0);
    CHECK(found(manager, token_history{.tokens = plain, .tags = image}) == 8);
    for (const tags& other : {tags{tag(1, 3, 2)}, tags{tag(1, 4, 1)}, tags{tag(1, 3, 1), tag(3, 4, 1)}}) {
      CHECK(found(manager, token_history{.tokens = plain, .tags = other}) == (other.size() == 1 ? 1 : 3));
    }
    CHECK(faults(manager) == "");
  }
}

TEST_CASE("one block's tokens at two depths are two contents") {
  block_manager manager(config_of());
  const token_list same(12, 9);
  const sequence a = prefill(manager, same);
  CHECK(manager.snapshot().stored == 3);
  CHECK(found(manager, token_list(16, 9)) == 12);
  CHECK(table(manager, manager.match({.tokens = same}, 12).id()) == ids{0, 1, 2});
}

TEST_CASE("prefix_hashes are the same for the same content only, and depend on the seed") {
  const token_list tokens = rising(12);
  const key_domain acme = key_domain().add("tenant", "acme");
  const tags image{tag(5, 6, 1)};
  const auto hashes = [](const token_history& history, std::uint64_t seed) {
    std::array<std::uint64_t, 3> result{};
    CHECK(pagoda::prefix_hashes(history, 4, seed, result) == 3);
    return result;
  };
  const auto plain = hashes({.tokens = tokens}, 0);
  CHECK(plain == hashes({.tokens = tokens}, 0));
  const auto seeded = hashes({.tokens = tokens}, 1);
  const auto domain = hashes({.tokens = tokens, .domain = &acme}, 0);
  const auto tagged = hashes({.tokens = tokens, .tags = image}, 0);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(plain[i] != seeded[i]);
    CHECK(plain[i] != domain[i]);
    CHECK((plain[i] == tagged[i]) == (i == 0));  // the tag lies in the second block
  }
  const token_list changed = token_list{0} + rising(11, 2);
  const auto other = hashes({.tokens = changed}, 0);
  for (std::size_t i = 0; i < 3; ++i) CHECK(plain[i] != other[i]);
  std::array<std::uint64_t, 2> small{};
  CHECK(contains_all(message_of([&] { pagoda::prefix_hashes({.tokens = tokens}, 4, 0, small); }),
                     {"room for 2 numbers", "3 full blocks", "longer span"}));
  CHECK(pagoda::prefix_hashes({.tokens = std::span(tokens).first(11)}, 4, 0, small) == 2);
}

TEST_CASE("a tail gives way only to a history that begins with it, in its domain") {
  block_manager manager(config_of());
  const sequence a = manager.make_sequence();
  grow(manager, a, 6);
  const pagoda::key_domain mine = pagoda::key_domain().add("tenant", "a");
  const pagoda::key_domain other = pagoda::key_domain().add("tenant", "b");
  CHECK(manager.publish(a, {.tokens = rising(6), .domain = &mine}) == 2);
  grow(manager, a, 1);
  token_list changed = rising(7);
  changed[5] = -1;
  const auto refused = [&](const pagoda::token_history& history) {
    const pagoda::manager_stats before = manager.snapshot();
    CHECK_THROWS_AS(manager.publish(a, history), pagoda::invalid_argument);
    CHECK(manager.snapshot().stored == before.stored);
    CHECK(manager.match({.tokens = rising(6), .domain = &mine}, 6).tokens() == 6);
  };
  refused({.tokens = changed, .domain = &mine});
  refused({.tokens = rising(7), .domain = &other});
  CHECK(manager.publish(a, {.tokens = rising(7), .domain = &mine}) == 1);
  CHECK(manager.match({.tokens = rising(7), .domain = &mine}, 7).tokens() == 7);

  const sequence b = manager.make_sequence();  // less than a block
  grow(manager, b, 2);
  CHECK(manager.publish(b, {.tokens = token_list{7, 8}, .domain = &mine}) == 1);
  grow(manager, b, 1);
  CHECK_THROWS_WITH_AS(manager.publish(b, {.tokens = token_list{7, 8, 9}, .domain = &other}),
                       doctest::Contains("differs from what this sequence was published as"), pagoda::invalid_argument);
  CHECK(faults(manager) == "");
}

TEST_CASE("a domain may be made of its own bytes") {
  pagoda::key_domain domain = pagoda::key_domain().add("tenant", std::string(40, 'x'));
  pagoda::key_domain twin = domain;
  const std::string bytes(domain.bytes());
  domain.add("parent", domain.bytes()).add(domain.bytes().substr(0, 9), "y");
  twin.add("parent", bytes);
  const std::string more(twin.bytes().substr(0, 9));
  CHECK(domain == twin.add(more, "y"));
}

}  // namespace
