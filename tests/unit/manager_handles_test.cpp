// SPDX-License-Identifier: Apache-2.0
// Handles of sequences and steps: moved, outliving their manager, destroyed in the middle of a step.
#include <optional>
#include <utility>

#include <doctest/doctest.h>
#include <pagoda/block_manager.hpp>

#include "manager_support.hpp"

namespace {

using pagoda::block_manager;
using pagoda::sequence;
using pagoda::sequence_id;
using pagoda::step;
using pagoda_test::faults;
using pagoda_test::grow;
using pagoda_test::ids;
using pagoda_test::table;

pagoda::manager_config small() {
  return {.groups = {{.num_blocks = 8}}, .block_size = 4, .max_sequences = 4};
}

TEST_CASE("a sequence's blocks go back when its handle dies") {
  block_manager manager(small());
  {
    const sequence seq = manager.make_sequence();
    grow(manager, seq, 9);
    CHECK(manager.stats().used == 3);
  }
  CHECK(manager.stats().used == 0);
  CHECK(manager.stats().tokens == 0);
  CHECK(faults(manager) == "");
}

TEST_CASE("a moved sequence handle leaves an empty one behind") {
  block_manager manager(small());
  sequence a = manager.make_sequence();
  grow(manager, a, 5);
  const sequence_id id = a.id();
  sequence b = std::move(a);
  CHECK_FALSE(static_cast<bool>(a));
  CHECK(a.id() == sequence_id{});
  CHECK_THROWS_AS((void)a.position(), pagoda::invalid_argument);
  CHECK(b.id() == id);
  CHECK(b.position() == 5);
  sequence c = manager.make_sequence();
  grow(manager, c, 1);
  CHECK(manager.stats().used == 3);
  c = std::move(b);  // frees what c owned
  CHECK(manager.stats().used == 2);
  CHECK(c.position() == 5);
  sequence& alias = c;
  c = std::move(alias);
  CHECK(c.position() == 5);
  c = sequence();
  CHECK(manager.stats().used == 0);
  CHECK(faults(manager) == "");
}

TEST_CASE("a moved step is committed once, and an overwritten one is rolled back") {
  block_manager manager({.groups = {{.num_blocks = 8}}, .block_size = 4, .max_open_steps = 2});
  const sequence a = manager.make_sequence();
  const sequence b = manager.make_sequence();
  step first = manager.plan({{a, 5}});
  step second = std::move(first);
  CHECK_FALSE(first.open());
  CHECK_THROWS_AS(first.commit(), pagoda::logic_error);
  CHECK(second.open());
  const pagoda::ticket issued = second.issued();
  step third = manager.plan({{b, 1}});
  CHECK(manager.stats().used == 3);
  third = std::move(second);
  CHECK(manager.stats().used == 2);
  CHECK(third.issued() == issued);
  step& alias = third;
  third = std::move(alias);
  CHECK(third.open());
  third.commit();
  CHECK(a.position() == 5);
  CHECK(b.position() == 0);
  CHECK(faults(manager) == "");
}

TEST_CASE("handles may outlive their manager and then own nothing") {
  sequence seq;
  std::optional<step> open;
  {
    block_manager manager(small());
    seq = manager.make_sequence();
    grow(manager, seq, 3);
    open.emplace(manager.plan({{seq, 2}}));
    CHECK(static_cast<bool>(seq));
    CHECK(open->open());
  }
  CHECK_FALSE(static_cast<bool>(seq));
  CHECK_FALSE(open->open());
  CHECK_THROWS_AS((void)seq.position(), pagoda::logic_error);
  CHECK_THROWS_AS((void)seq.resident(), pagoda::logic_error);
  CHECK_THROWS_AS(open->commit(), pagoda::logic_error);
  CHECK_THROWS_AS((void)open->take_copies(), pagoda::logic_error);
  CHECK_THROWS_AS((void)open->batch(), pagoda::logic_error);
  const sequence moved = std::move(seq);
  CHECK_THROWS_AS((void)moved.position(), pagoda::logic_error);
}

TEST_CASE("an empty handle names no sequence of any manager") {
  block_manager manager(small());
  const sequence empty;
  CHECK_FALSE(static_cast<bool>(empty));
  CHECK_THROWS_AS((void)empty.position(), pagoda::invalid_argument);
  CHECK_THROWS_AS((void)manager.plan({{empty, 1}}), pagoda::invalid_argument);
  CHECK_THROWS_AS((void)manager.fork(empty), pagoda::invalid_argument);
  CHECK_THROWS_AS(manager.truncate(empty, 0), pagoda::invalid_argument);
}

TEST_CASE("a sequence destroyed in an open step keeps its blocks until the step closes") {
  for (const bool commit : {true, false}) {
    block_manager manager(small());
    const sequence other = manager.make_sequence();
    sequence seq = manager.make_sequence();
    grow(manager, seq, 5);
    const sequence_id id = seq.id();
    {
      step step = manager.plan({{seq, 4}, {other, 1}});
      const ids blocks = table(manager, id);
      seq = sequence();
      CHECK_THROWS_AS((void)manager.blocks(id), pagoda::invalid_argument);
      CHECK(manager.stats().used == 4);
      CHECK(step.batch().context_length(0) == 9);
      for (std::size_t i = 0; i < blocks.size(); ++i) {
        CHECK(pagoda_test::number(step.batch().block(0, static_cast<std::int64_t>(i))) == blocks[i]);
      }
      CHECK(faults(manager) == "");
      if (commit) step.commit();
    }
    CHECK(manager.stats().used == (commit ? 1 : 0));
    CHECK(other.position() == (commit ? 1 : 0));
    CHECK(faults(manager) == "");
  }
}

TEST_CASE("a sequence destroyed in an open step goes when its entry is cancelled") {
  block_manager manager(small());
  const sequence parent = manager.make_sequence();
  grow(manager, parent, 6);
  sequence child = manager.fork(parent);
  step step = manager.plan({{child, 4}});
  child = sequence();
  CHECK(manager.stats().used == 4);
  step.cancel(0);
  CHECK(manager.stats().used == 2);
  const sequence next = manager.make_sequence();  // takes the freed place while the step is still open
  CHECK(faults(manager) == "");
  step.commit();
  CHECK(next.position() == 0);
  CHECK(parent.position() == 6);
  CHECK(faults(manager) == "");
}

TEST_CASE("a moved manager keeps its sequences and open steps") {
  block_manager first(small());
  const sequence seq = first.make_sequence();
  grow(first, seq, 3);
  step step = first.plan({{seq, 3}});
  block_manager second = std::move(first);
  step.commit();
  CHECK(seq.position() == 6);
  grow(second, seq, 1);
  CHECK(second.stats().tokens == 7);
  CHECK(faults(second) == "");

  block_manager third(small());
  const sequence foreign = third.make_sequence();
  grow(third, foreign, 2);
  third = std::move(second);
  CHECK(third.stats().tokens == 7);
  grow(third, seq, 1);
  CHECK(seq.position() == 8);
  CHECK(faults(third) == "");
}

}  // namespace
