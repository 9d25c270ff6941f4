// SPDX-License-Identifier: Apache-2.0
// Plans, commits, rollbacks and capacities of a manager of one group that keeps all tokens.
#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <pagoda/block_manager.hpp>

#include "manager_support.hpp"

namespace {

using pagoda::block_manager;
using pagoda::growth;
using pagoda::sequence;
using pagoda::sequence_id;
using pagoda::shortage;
using pagoda::step;
using pagoda_test::faults;
using pagoda_test::free_list;
using pagoda_test::grow;
using pagoda_test::ids;
using pagoda_test::numbers;
using pagoda_test::table;

block_manager make_manager(std::int32_t blocks, std::int32_t block_size = 4, std::int32_t open_steps = 1) {
  return block_manager(
      {.groups = {{.num_blocks = blocks}}, .block_size = block_size, .max_sequences = 8, .max_open_steps = open_steps});
}

TEST_CASE("a plan makes room and a commit makes it tokens") {
  block_manager manager = make_manager(8);
  const sequence seq = manager.make_sequence();
  CHECK(seq.position() == 0);
  step step = manager.plan({{seq, 6}});
  CHECK(step.open());
  CHECK(step.size() == 1);
  CHECK(seq.position() == 0);
  CHECK(table(manager, seq) == ids{0, 1});
  CHECK(numbers(step.new_blocks(0, 0)) == ids{0, 1});
  CHECK(manager.stats().tokens == 0);
  CHECK(manager.stats().used == 2);
  step.commit();
  CHECK_FALSE(step.open());
  CHECK(seq.position() == 6);
  CHECK(seq.resident() == 6);
  CHECK(manager.stats().tokens == 6);
  CHECK(faults(manager) == "");
}

TEST_CASE("a sequence takes a new block exactly when its last one is full") {
  for (const std::int32_t block_size : {1, 2, 16}) {
    block_manager manager = make_manager(40, block_size);
    const sequence seq = manager.make_sequence();
    for (std::int32_t length = 1; length <= 40; ++length) {
      grow(manager, seq, 1);
      REQUIRE(manager.stats().used == (length + block_size - 1) / block_size);
    }
    REQUIRE(faults(manager) == "");
  }
}

TEST_CASE("a step is closed once: further calls are refused") {
  block_manager manager = make_manager(8);
  const sequence seq = manager.make_sequence();
  step step = manager.plan({{seq, 1}});
  step.commit();
  CHECK_THROWS_AS(step.commit(), pagoda::logic_error);
  CHECK_THROWS_AS(step.commit(std::array<std::int32_t, 1>{1}), pagoda::logic_error);
  CHECK_THROWS_AS(step.cancel(0), pagoda::logic_error);
  CHECK_THROWS_AS(step.batch(), pagoda::logic_error);
  CHECK_THROWS_AS(step.size(), pagoda::logic_error);
  CHECK(seq.position() == 1);
}

TEST_CASE("committing fewer tokens gives the rest of the blocks back") {
  block_manager manager = make_manager(8);
  const sequence a = manager.make_sequence();
  const sequence b = manager.make_sequence();
  step step = manager.plan({{a, 9}, {b, 5}});
  CHECK(manager.stats().used == 5);
  CHECK_THROWS_AS(step.commit(std::array<std::int32_t, 1>{1}), pagoda::invalid_argument);
  CHECK_THROWS_AS(step.commit(std::array<std::int32_t, 2>{9, 6}), pagoda::invalid_argument);
  CHECK_THROWS_AS(step.commit(std::array<std::int32_t, 2>{-1, 5}), pagoda::invalid_argument);
  CHECK(a.position() == 0);
  CHECK(step.open());
  step.commit(std::array<std::int32_t, 2>{4, 0});
  CHECK(a.position() == 4);
  CHECK(b.position() == 0);
  CHECK(table(manager, a) == ids{0});
  CHECK(table(manager, b).empty());
  CHECK(manager.stats().used == 1);
  CHECK(faults(manager) == "");
}

TEST_CASE("a rolled back plan leaves no trace, not even in the order of the free list") {
  const auto run = [](bool with_rollback) {
    block_manager manager = make_manager(12);
    const sequence a = manager.make_sequence();
    const sequence b = manager.make_sequence();
    grow(manager, a, 5);
    grow(manager, b, 3);
    const sequence c = manager.fork(a);
    grow(manager, b, 7);
    manager.truncate(b, 2);
    if (with_rollback) {
      step step = manager.plan({{c, 6}, {b, 9}, {a, 2}});
      CHECK(step.take_copies().blocks().size() == 2);
      CHECK(manager.stats().used == 8);
    }
    CHECK(faults(manager) == "");
    return std::array{table(manager, a), table(manager, b), table(manager, c), free_list(manager)};
  };
  const auto plain = run(false);
  CHECK(run(true) == plain);
  CHECK(plain[3].size() == 9);
}

TEST_CASE("cancel takes one sequence out of the step at once") {
  block_manager manager = make_manager(8);
  const sequence a = manager.make_sequence();
  const sequence b = manager.make_sequence();
  grow(manager, a, 3);
  step step = manager.plan({{a, 6}, {b, 2}});
  CHECK(manager.stats().used == 4);
  step.cancel(0);
  CHECK(manager.stats().used == 2);
  CHECK(a.position() == 3);
  CHECK(table(manager, a) == ids{0});
  CHECK(step.batch().context_length(0) == 0);
  CHECK(step.batch().context_length(1) == 2);
  CHECK(step.batch().new_tokens(0) == 6);
  CHECK(step.new_blocks(0, 0).empty());
  CHECK_THROWS_AS(step.cancel(0), pagoda::logic_error);
  CHECK_THROWS_AS(step.cancel(2), pagoda::out_of_range);
  CHECK_THROWS_AS(step.cancel(-1), pagoda::out_of_range);
  CHECK_THROWS_AS(step.commit(std::array<std::int32_t, 2>{1, 2}), pagoda::invalid_argument);
  CHECK(faults(manager) == "");
  step.commit();
  CHECK(a.position() == 3);
  CHECK(b.position() == 2);
  grow(manager, a, 1);
  CHECK(a.position() == 4);
  CHECK(faults(manager) == "");
}

TEST_CASE("truncate frees whole blocks and refuses to lengthen") {
  block_manager manager = make_manager(8);
  const sequence seq = manager.make_sequence();
  grow(manager, seq, 10);
  manager.truncate(seq, 8);
  CHECK(table(manager, seq) == ids{0, 1});
  manager.truncate(seq, 5);
  CHECK(table(manager, seq) == ids{0, 1});
  CHECK(seq.position() == 5);
  CHECK(manager.stats().tokens == 5);
  CHECK_THROWS_AS(manager.truncate(seq, 6), pagoda::invalid_argument);
  CHECK_THROWS_AS(manager.truncate(seq, -1), pagoda::invalid_argument);
  manager.truncate(seq, 0);
  CHECK(manager.stats().used == 0);
  CHECK(faults(manager) == "");
  const step step = manager.plan({{seq, 1}});
  CHECK_THROWS_AS(manager.truncate(seq, 0), pagoda::logic_error);
}

TEST_CASE("the batch view says what each sequence has") {
  block_manager manager = make_manager(16);
  const sequence a = manager.make_sequence();
  const sequence b = manager.make_sequence();
  const sequence c = manager.make_sequence();
  grow(manager, a, 6);
  grow(manager, c, 4);
  const step step = manager.plan({{c, 0, 2}, {a, 3}, {b, 5, 1}});
  const pagoda::batch_view view = step.batch();
  CHECK(view.sequences() == 3);
  CHECK(view.context_length(0) == 4);
  CHECK(view.context_length(1) == 9);
  CHECK(view.context_length(2) == 5);
  CHECK(view.new_tokens(0) == 0);
  CHECK(view.new_tokens(1) == 3);
  CHECK(view.new_tokens(2) == 5);
  CHECK(view.queries(0) == 2);
  CHECK(view.queries(1) == 3);
  CHECK(view.queries(2) == 1);
  CHECK(view.query_offsets[0] == 0);
  CHECK(view.token_offsets[0] == 0);
  CHECK(view.total_queries() == 6);
  CHECK(view.total_new_tokens() == 8);
  CHECK(view.keep.keeps_all());
  const std::array<const sequence*, 3> batch{&c, &a, &b};
  for (std::int32_t i = 0; i < 3; ++i) {
    const auto blocks = manager.blocks(*batch[static_cast<std::size_t>(i)]);
    CHECK(static_cast<std::int32_t>(blocks.size()) == (view.context_length(i) + 3) / 4);
    for (std::size_t logical = 0; logical < blocks.size(); ++logical) {
      CHECK(view.block(i, static_cast<std::int64_t>(logical)) == blocks[logical]);
    }
  }
  CHECK_THROWS_AS(step.batch(1), pagoda::out_of_range);
  CHECK_THROWS_AS(step.batch(-2), pagoda::out_of_range);
  CHECK_THROWS_AS(step.new_blocks(0, 3), pagoda::out_of_range);
}

TEST_CASE("a plan that lacks blocks reports its numbers and changes nothing") {
  block_manager manager = make_manager(4);
  const sequence a = manager.make_sequence();
  const sequence b = manager.make_sequence();
  grow(manager, a, 5);
  const ids before = table(manager, a);
  try {
    (void)manager.plan({{a, 4}, {b, 8}});
    FAIL("a plan that does not fit was granted");
  } catch (const pagoda::out_of_blocks& error) {
    CHECK(error.why().group == 0);
    CHECK(error.why().needed == 3);
    CHECK(error.why().free == 2);
    CHECK(error.why().retiring == 0);
  }
  shortage why;
  CHECK_FALSE(manager.try_plan({{a, 4}, {b, 8}}, &why).has_value());
  CHECK(why.needed == 3);
  CHECK(why.free == 2);
  CHECK(table(manager, a) == before);
  CHECK(manager.stats().free == 2);
  CHECK(faults(manager) == "");
  CHECK(manager.try_plan({{a, 3}, {b, 8}}, &why).has_value());
}

TEST_CASE("a batch that can never fit is told apart from one that lacks blocks") {
  block_manager manager({.groups = {{.num_blocks = 8}}, .block_size = 4, .max_sequences = 4, .max_batch = 2});
  const sequence a = manager.make_sequence();
  const sequence b = manager.make_sequence();
  const sequence c = manager.make_sequence();
  const auto refused = [&](std::vector<growth> batch) {
    shortage why;
    const bool granted = manager.try_plan(batch, &why).has_value();
    CHECK(faults(manager) == "");
    return !granted && why.group == -1;
  };
  CHECK(refused({{a, 1}, {b, 1}, {c, 1}}));
  CHECK_THROWS_AS((void)manager.plan({{a, 1}, {b, 1}, {c, 1}}), pagoda::capacity_exceeded);
  CHECK(refused({{a, 1}, {a, 1}}));
  CHECK_THROWS_AS((void)manager.plan({{a, 1}, {a, 1}}), pagoda::invalid_argument);
  CHECK(refused({{a, 1}, {sequence_id{}, 1}}));
  CHECK_THROWS_AS((void)manager.plan({{sequence_id{}, 1}}), pagoda::invalid_argument);
  CHECK(refused({{a, -1}}));
  CHECK_THROWS_AS((void)manager.plan({{a, -1}}), pagoda::invalid_argument);
  CHECK(refused({{a, 1, -2}}));
  CHECK_THROWS_AS((void)manager.plan({{a, 1, -2}}), pagoda::invalid_argument);
  // Each refusal took its marks back: all of them can still be planned.
  CHECK(manager.try_plan({{a, 1}, {b, 1}}).has_value());
  CHECK(manager.try_plan({{c, 1}}).has_value());
}

TEST_CASE("lengths and query counts beyond 31 bits are refused") {
  block_manager manager = make_manager(4);
  const sequence a = manager.make_sequence();
  const sequence b = manager.make_sequence();
  constexpr std::int32_t most = std::numeric_limits<std::int32_t>::max();
  grow(manager, a, 1);
  CHECK_THROWS_AS((void)manager.plan({{a, most}}), pagoda::invalid_argument);
  CHECK_THROWS_AS((void)manager.plan({{a, most - 1}}), pagoda::out_of_blocks);
  CHECK_THROWS_AS((void)manager.plan({{a, most - 1}, {b, 2}}), pagoda::invalid_argument);
  CHECK_THROWS_AS((void)manager.plan({{a, 1, most}, {b, 1, 1}}), pagoda::invalid_argument);
  CHECK(manager.try_plan({{a, 1, most}}).has_value());
  CHECK(faults(manager) == "");
}

TEST_CASE("queries may differ from new tokens, and be none") {
  block_manager manager = make_manager(4);
  const sequence seq = manager.make_sequence();
  {
    step receive = manager.plan({{seq, 5, 0}});
    CHECK(receive.batch().total_queries() == 0);
    CHECK(receive.batch().total_new_tokens() == 5);
    receive.commit();
  }
  step read = manager.plan({{seq, 0, 4}});
  CHECK(read.batch().total_queries() == 4);
  CHECK(read.batch().total_new_tokens() == 0);
  CHECK(read.batch().context_length(0) == 5);
  read.commit();
  CHECK(seq.position() == 5);
  CHECK(manager.stats().used == 2);
}

TEST_CASE("an empty batch is a step like any other") {
  block_manager manager = make_manager(4);
  step step = manager.plan(std::span<const growth>());
  CHECK(step.size() == 0);
  CHECK(step.batch().sequences() == 0);
  CHECK(step.batch().total_queries() == 0);
  step.commit();
  CHECK(faults(manager) == "");
}

TEST_CASE("as many steps are open at once as the capacities say, and each sequence is in one") {
  block_manager manager = make_manager(8, 4, 2);
  const sequence a = manager.make_sequence();
  const sequence b = manager.make_sequence();
  const sequence c = manager.make_sequence();
  step first = manager.plan({{a, 3}});
  CHECK_THROWS_AS((void)manager.plan({{b, 1}, {a, 1}}), pagoda::logic_error);
  CHECK_THROWS_AS((void)manager.fork(a), pagoda::logic_error);
  step second = manager.plan({{b, 5}});
  CHECK(second.issued() > first.issued());
  CHECK_THROWS_AS((void)manager.plan({{c, 1}}), pagoda::capacity_exceeded);
  CHECK(faults(manager) == "");
  first.commit();
  step third = manager.plan({{a, 1}, {c, 1}});
  CHECK(third.issued() > second.issued());
  second.commit(std::array<std::int32_t, 1>{2});
  CHECK(faults(manager) == "");
  third.commit();
  CHECK(a.position() == 4);
  CHECK(b.position() == 2);
  CHECK(c.position() == 1);
  CHECK(faults(manager) == "");
}

TEST_CASE("the number of sequences is bounded and a released place is taken again") {
  block_manager manager({.groups = {{.num_blocks = 4}}, .max_sequences = 2});
  std::optional<sequence> a(manager.make_sequence());
  const sequence b = manager.make_sequence();
  grow(manager, b, 1);
  CHECK_THROWS_AS((void)manager.make_sequence(), pagoda::capacity_exceeded);
  CHECK_THROWS_AS((void)manager.fork(b), pagoda::capacity_exceeded);
  CHECK(faults(manager) == "");
  a.reset();
  const sequence c = manager.fork(b);
  CHECK(c.position() == 1);
  CHECK(faults(manager) == "");
}

TEST_CASE("impossible configurations are refused") {
  using pagoda::manager_config;
  const auto refused = [](manager_config config) { CHECK_THROWS_AS(block_manager{config}, pagoda::invalid_argument); };
  refused({});
  refused({.groups = {{.num_blocks = 0}}});
  refused({.groups = {{.num_blocks = 4}}, .block_size = 12});
  refused({.groups = {{.num_blocks = 4}}, .block_size = 0});
  refused({.groups = {{.num_blocks = 4}}, .max_sequences = 0});
  refused({.groups = {{.num_blocks = 4}}, .max_sequences = 4, .max_batch = 5});
  refused({.groups = {{.num_blocks = 4}}, .max_open_steps = 0});
  refused({.groups = {{.num_blocks = 4, .keep = {.window = 0}}}});
  refused({.groups = {{.num_blocks = 4, .keep = {.sinks = -1, .window = 8}}}});
  refused({.groups = {{.num_blocks = 4, .keep = {.sinks = 17, .window = 8}}}, .block_size = 4});
  refused({.groups = {{.num_blocks = 4, .layers = {0}}, {.num_blocks = 4}}});
  refused({.groups = {{.num_blocks = 4, .layers = {0, 1}}, {.num_blocks = 4, .layers = {1}}}});
}

}  // namespace
