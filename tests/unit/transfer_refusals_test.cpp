// SPDX-License-Identifier: Apache-2.0
// What transfer between two managers refuses, and that nothing has changed then.
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <pagoda/block_manager.hpp>

#include "manager_books.hpp"
#include "transfer_support.hpp"

namespace {

using pagoda::block_manager;
using pagoda::manager_config;
using pagoda::reuse_rule;
using pagoda::sequence;
using pagoda::sequence_id;
using pagoda::transferred;
using pagoda_test::books_of;
using pagoda_test::cache_prefix;
using pagoda_test::faults;
using pagoda_test::free_list;
using pagoda_test::grow;
using pagoda_test::ids;
using pagoda_test::pool_of;
using pagoda_test::table;
using pagoda_test::tokens_from;

/// What each refusal must leave as it was, on both sides.
class refusals {
 public:
  refusals(block_manager& from, block_manager& to, std::span<const sequence> there, std::span<const sequence> here)
      : from_(from), to_(to), there_(there), here_(here) {}

  template <class Error>
  void check(const Error&, std::span<const sequence_id> names, const char* message) {
    const auto source = books_of(from_, here_);
    const auto target = books_of(to_, there_);
    CHECK_THROWS_WITH_AS((void)transfer(from_, names, to_), doctest::Contains(message), Error);
    CHECK(books_of(from_, here_) == source);
    CHECK(books_of(to_, there_) == target);
    CHECK(source.faults == "");
    CHECK(target.faults == "");
  }

 private:
  block_manager& from_;
  block_manager& to_;
  std::span<const sequence> there_;
  std::span<const sequence> here_;
};

TEST_CASE("what cannot move is refused, and nothing has changed on either side") {
  block_manager from(pool_of(20));
  block_manager to(pool_of(6));
  std::vector<sequence> here;
  std::vector<sequence> there;
  for (std::int32_t i = 0; i < 3; ++i) here.push_back(from.make_sequence());
  for (std::int32_t i = 0; i < 6; ++i) there.push_back(to.make_sequence());
  grow(from, here[0], 12);
  grow(from, here[1], 9);
  grow(to, there[0], 3);
  cache_prefix(to, tokens_from(0, 8));
  const ids free_before = free_list(to);
  refusals refuse(from, to, there, here);
  const pagoda::invalid_argument invalid("");
  const pagoda::capacity_exceeded exceeded("");
  const pagoda::logic_error wrong_time("");
  const auto names = [&](std::vector<sequence_id> list) { return list; };

  refuse.check(invalid, names({here[0], here[1], here[0]}), "twice: name each once");
  refuse.check(invalid, names({here[0], sequence_id{}}),
               "sequence id 0 names no living sequence of this manager: it is empty, was released, or belongs to "
               "another manager; pass one that this manager made and that is alive");
  refuse.check(invalid, names({here[0], there[0]}), "names no living sequence of this manager");
  sequence_id stale;
  {
    const sequence ended = from.make_sequence();
    stale = ended;
  }
  refuse.check(invalid, names({stale, here[0]}), "names no living sequence");
  {
    const pagoda::step open = from.plan({{here[1], 1}});
    refuse.check(wrong_time, names({here[0], here[1]}), "transfer of a sequence that is in an open step");
  }
  // 3 + 3 blocks, but 3 are free and 2 can be evicted.
  CHECK_THROWS_AS((void)transfer(from, {here[0], here[1]}, to), pagoda::out_of_blocks);
  try {
    (void)transfer(from, {here[0], here[1]}, to);
  } catch (const pagoda::out_of_blocks& error) {
    CHECK(error.why().needed == 6);
    CHECK(error.why().free == 3);
    CHECK(error.why().evictable == 2);
  }
  CHECK(to.snapshot().failed_plans == 2);
  const std::vector<std::int32_t> prefix = tokens_from(0, 8);
  CHECK(to.match({.tokens = prefix}, 8).tokens() == 8);
  {
    std::vector<sequence> many;
    while (to.snapshot().sequences < 7) many.push_back(to.make_sequence());
    refuse.check(exceeded, names({here[0], here[2]}), "2 sequences to a manager with room for 1 more");
  }
  CHECK(free_list(to) == free_before);
  CHECK_THROWS_WITH_AS((void)transfer(from, {here[0]}, from), doctest::Contains("fork them instead"),
                       pagoda::invalid_argument);

  block_manager gone = std::move(to);
  CHECK_THROWS_WITH_AS((void)transfer(from, {here[0]}, to), doctest::Contains("moved from"), pagoda::logic_error);
  CHECK_THROWS_WITH_AS((void)transfer(to, {here[0]}, from), doctest::Contains("moved from"), pagoda::logic_error);
  CHECK(transfer(from, {here[0]}, gone).copies.blocks().size() == 3);
}

TEST_CASE("managers that differ in more than their number of blocks are refused") {
  manager_config config{.groups = {{.num_blocks = 20, .layers = {0, 1}, .block_bytes = 512},
                                   {.num_blocks = 20, .keep = {.window = 8}, .layers = {2}, .block_bytes = 256}},
                        .block_size = 4,
                        .max_sequences = 8};
  block_manager from(config);
  std::vector<sequence> here;
  here.push_back(from.make_sequence());
  grow(from, here[0], 30);
  const auto unlike = [&](const char* message, auto change) {
    manager_config other = config;
    change(other);
    block_manager to(other);
    refusals(from, to, {}, here).check(pagoda::invalid_argument(""), std::vector<sequence_id>{here[0]}, message);
  };
  unlike("from blocks of 4 tokens to blocks of 8: build both", [](manager_config& c) { c.block_size = 8; });
  unlike("of 2 layer groups to one of 1", [](manager_config& c) { c.groups.pop_back(); });
  unlike("layer group 1 differs in its layers", [](manager_config& c) { c.groups[1].layers = {3}; });
  unlike("layer group 1 differs in its layers or its retention", [](manager_config& c) { c.groups[1].keep = {}; });
  unlike("layer group 1 differs", [](manager_config& c) { c.groups[1].keep.window = 9; });
  unlike("layer group 1 differs", [](manager_config& c) { c.groups[1].keep.sinks = 1; });
  unlike("from blocks of 512 bytes to blocks of 1024 bytes in layer group 0",
         [](manager_config& c) { c.groups[0].block_bytes = 1024; });

  manager_config alike = config;
  alike.groups[0].block_bytes = 0;  // not told
  alike.groups[0].num_blocks = 9;
  alike.groups[1].num_blocks = 3;
  alike.max_sequences = 1;
  alike.reuse = reuse_rule::on_completion;
  block_manager to(alike, pagoda::evict_by<pagoda::lru>);
  const transferred made = transfer(from, {here[0]}, to);
  CHECK(made.copies.blocks(0).size() == 8);
  CHECK(made.copies.blocks(1).size() == 3);
  CHECK(made.sequences[0].resident(1) == here[0].resident(1));
  CHECK(faults(to) == "");
}

TEST_CASE("a table that is too short names its limit; a pool that is too small names the blocks") {
  block_manager from(pool_of(20));
  const sequence seq = from.make_sequence();
  grow(from, seq, 33);
  manager_config short_tables = pool_of(20);
  short_tables.max_resident_tokens = 32;
  block_manager to(short_tables);
  CHECK_THROWS_WITH_AS((void)transfer(from, {seq}, to),
                       doctest::Contains("9 blocks to a manager whose tables hold 8: raise max_resident_tokens"),
                       pagoda::capacity_exceeded);
  block_manager small(pool_of(8));
  CHECK_THROWS_AS((void)transfer(from, {seq}, small), pagoda::out_of_blocks);
  CHECK(faults(to) == "");
  CHECK(faults(small) == "");
}

TEST_CASE("a group that lacks blocks refuses for all groups") {
  manager_config config{.groups = {{.num_blocks = 20, .layers = {0}}, {.num_blocks = 20, .layers = {1}}},
                        .block_size = 4,
                        .max_sequences = 8};
  block_manager from(config);
  config.groups[1].num_blocks = 2;
  block_manager to(config);
  std::vector<sequence> here;
  here.push_back(from.make_sequence());
  grow(from, here[0], 12);
  const auto before = books_of(to, {});
  try {
    (void)transfer(from, {here[0]}, to);
    FAIL("nothing was thrown");
  } catch (const pagoda::out_of_blocks& error) {
    CHECK(error.why().group == 1);
  }
  CHECK(books_of(to, {}) == before);
}

}  // namespace
