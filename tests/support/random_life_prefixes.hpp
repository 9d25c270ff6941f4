// SPDX-License-Identifier: Apache-2.0
/// @file The part of random_life that finds and publishes prefixes.
#pragma once

#include "random_life.hpp"

namespace pagoda_test {

inline std::string random_life::match(prefix_world& world) {
  text history = some_history(world);
  std::int64_t size = history.size();
  const std::int64_t at_most = chance(60) ? size : chance(50) ? std::max<std::int64_t>(size - 1, 0) : below(size + 3);
  if (full(world)) return refused<pagoda::capacity_exceeded>([&] { (void)world.match(next_, history, size, at_most); });
  const std::vector<std::int64_t> retiring = retiring_of(world);
  if (std::string fault = world.match(next_, history, size, at_most); !fault.empty()) return fault;
  const prefix_model::sequence& seq = world.model.sequences().at(next_++);
  if (retiring != retiring_of(world)) ++seen_["retiring blocks found"];
  if (seq.position % world.config.block_size != 0) ++seen_["hits inside a block"];
  if (seq.position > 0 && !seq.script.tags().empty() && seq.script.tags()[0].begin < seq.position)
    ++seen_["hits with contents"];
  for (const std::int64_t skipped : seq.skipped) seen_["hits behind a window"] += skipped > 0 ? 1 : 0;
  return "";
}

inline std::string random_life::take_match(prefix_world& world) {
  if (world.lanes[0].matches.empty()) return "";
  auto it = world.lanes[0].matches.begin();
  std::advance(it, below(static_cast<std::int64_t>(world.lanes[0].matches.size())));
  const key name = it->first;
  world.take_match(name);
  rewrite(world.model.sequences().at(name));
  return "";
}

inline std::string random_life::publish(prefix_world& world) {
  const std::optional<key> name = living(world);
  if (!name) return "";
  prefix_model::sequence& seq = world.model.sequences().at(*name);
  extend(seq.script, seq.position);
  std::int64_t size = chance(50) ? seq.script.size() : seq.position;
  while (seq.script.inside_content(size)) ++size;
  const std::int64_t tokens = chance(60) ? seq.position : below(seq.position + 1);
  const pagoda::block_advice advice = some_advice(world.model.now());
  if (chance(4)) {
    const auto early = [&](std::int64_t n, std::int64_t m) {
      return refused<pagoda::invalid_argument>([&] { (void)world.publish(*name, seq.script, n, m, advice, false); });
    };
    if (seq.position > 0 && !seq.script.inside_content(seq.position - 1) && chance(50)) {
      return early(seq.position - 1, 0);
    }
    return early(size, seq.position + 1);
  }
  if (chance(5) && seq.publishable && seq.position > 0) {
    const text other = seq.script.copy_in(chance(50) ? seq.script.domain() : 1, below(seq.position));
    if (world.model.published_elsewhere(seq, other, size, tokens)) {
      ++seen_["histories refused"];
      return refused<pagoda::invalid_argument>([&] { (void)world.publish(*name, other, size, tokens, advice, false); });
    }
  }
  seen_["late publishes"] += tokens > world.config.block_size && seq.published == index_model::nothing ? 1 : 0;
  const std::size_t contents = world.model.index().contents().size();
  std::string fault = world.publish(*name, seq.script, size, tokens, advice, tokens == seq.position);
  seen_["contents given up"] += world.model.index().contents().size() < contents ? 1 : 0;
  return fault;
}

inline std::string random_life::advise(prefix_world& world) {
  pagoda::block_advice advice;
  for (int i = 0; i < 3 && advice == pagoda::block_advice{} && !chance(20); ++i)
    advice = some_advice(world.model.now());
  std::string fault = world.advise(some_history(world), advice);
  for (std::size_t g = 0; g < world.groups(); ++g) seen_["pinned blocks"] += world.model.pool(g).pinned() > 0 ? 1 : 0;
  return fault;
}

inline std::string random_life::serve(prefix_world& world) {
  const std::size_t steps = world.model.steps().size();
  if (full(world) || steps == static_cast<std::size_t>(world.config.max_open_steps)) return "";
  text history = some_history(world);
  extend(history, 1 + below(10 * world.config.block_size));
  const std::int64_t size = history.size();
  const key name = next_++;
  if (std::string fault = world.match(name, history, size, size - 1); !fault.empty()) return fault;
  world.take_match(name);
  std::size_t index = 0;
  while (world.model.steps().count(static_cast<int>(index)) != 0) ++index;
  prefix_model::planned entry{.name = name, .tokens = size - world.model.sequences().at(name).position};
  for (std::int32_t i = 0; i < entry.tokens; ++i) entry.accepted.push_back(i);
  if (std::string fault = world.plan(index, {entry}); !fault.empty()) return fault;
  if (world.model.steps().size() == steps) return "";
  if (std::string fault = world.execute(index); !fault.empty()) return fault;
  if (std::string fault = world.commit(index, false); !fault.empty()) return fault;
  std::string fault = world.publish(name, history, size, size, some_advice(world.model.now()), true);
  if (chance(60)) world.destroy(name);
  return fault;
}

inline text random_life::some_history(prefix_world& world) {
  const std::int64_t size = below(8 * world.config.block_size + 2);
  std::vector<const text*> known;
  for (const auto& other : worlds_) {
    for (const auto& [name, seq] : other->model.sequences()) known.push_back(&seq.script);
  }
  for (const text& old : remembered_) known.push_back(&old);
  if (known.empty() || chance(15)) return fresh(size);
  text history = *known[static_cast<std::size_t>(below(static_cast<std::int64_t>(known.size())))];
  const std::int64_t kind = below(10);
  if (kind < 2) history = history.copy_in(static_cast<int>(below(pagoda_test::num_domains)));
  if (kind == 2 && history.size() > 0) history = history.copy_in(history.domain(), below(history.size()));
  if (kind >= 3 && kind < 6) history.cut(below(history.size() + 1));
  if (kind >= 5 && kind < 8) extend(history, size);
  return history;
}

inline std::string random_life::room(prefix_world& world) {
  const std::optional<key> name = living(world);
  if (!name || world.model.sequences().at(*name).in_step) return "";
  const std::int64_t want = below(20 * world.config.block_size);
  std::int64_t most = 0;
  pagoda::shortage why;
  while (most < want && world.model.check({{.name = *name, .tokens = most + 1}}, &why) == prefix_model::verdict::fits) {
    ++most;
  }
  if (world.manager().growable(world.lanes[0].id(*name), want) != most) return "growable differs";
  for (std::size_t g = 0; g < world.groups(); ++g) {
    std::int32_t alone = 0;
    for (const std::int32_t block : world.model.sequences().at(*name).table[g]) {
      alone += world.model.pool(g).at(block).references == 1 ? 1 : 0;
    }
    if (world.manager().exclusive_blocks(world.lanes[0].id(*name), static_cast<int>(g)) != alone) {
      return "exclusive_blocks differs";
    }
  }
  return "";
}

}  // namespace pagoda_test
