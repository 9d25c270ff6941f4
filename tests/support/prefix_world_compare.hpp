// SPDX-License-Identifier: Apache-2.0
/// @file The part of prefix_world that compares managers, model and storage, and moves sequences between worlds.
#pragma once

#include <set>

#include "prefix_world.hpp"

namespace pagoda_test {

inline const std::vector<pagoda::prefix_event>& prefix_world::events() {
  std::array<pagoda::prefix_event, 64> room{};
  std::vector<pagoda::prefix_event> first;
  for (lane& one : lanes) {
    std::vector<pagoda::prefix_event> all;
    for (std::size_t taken = 1; taken > 0;) {
      taken = one.manager.take_events(room);
      all.insert(all.end(), room.begin(), room.begin() + static_cast<std::ptrdiff_t>(taken));
    }
    if (&one == &lanes[0]) {
      first = all;
      continue;
    }
    const auto alike = [](const pagoda::prefix_event& a, const pagoda::prefix_event& b) {
      return a.what == b.what && a.group == b.group && a.block == b.block && a.depth == b.depth;
    };
    if (!std::equal(first.begin(), first.end(), all.begin(), all.end(), alike)) twins_told_other_ = true;
  }
  told.insert(told.end(), first.begin(), first.end());
  return told;
}

/// Events name the blocks that were just published by the hashes that a router computes for itself.
inline std::string prefix_world::check_hashes(const pagoda::token_history& published) {
  events();
  if (config.prefix_hash_bits != 64) return "";
  std::vector<std::uint64_t> hashes(published.tokens.size() / static_cast<std::size_t>(config.block_size));
  pagoda::prefix_hashes(published, config.block_size, config.prefix_seed, hashes);
  for (const pagoda::prefix_event& e : told) {
    if (e.what != pagoda::prefix_event::kind::stored) continue;
    const auto depth = static_cast<std::size_t>(e.depth);
    if (e.hash != hashes.at(depth) || e.parent_hash != (depth == 0 ? config.prefix_seed : hashes.at(depth - 1))) {
      return "an event has another hash than prefix_hashes gives";
    }
  }
  return "";
}

/// Within one operation the order is free, but for evictions, which the model orders as the policy does.
inline std::string prefix_world::compare_events() {
  events();
  if (twins_told_other_) return "twins told other events";
  const auto sorted = [](const std::vector<pagoda::prefix_event>& list) {
    std::vector<std::array<std::int32_t, 4>> keys;
    for (const pagoda::prefix_event& e : list) {
      keys.push_back({static_cast<std::int32_t>(e.what), e.group, static_cast<std::int32_t>(e.block), e.depth});
    }
    std::sort(keys.begin(), keys.end());
    return keys;
  };
  if (sorted(told) != sorted(model.events)) return "other events were told than must be";
  for (const pagoda::prefix_event& e : told) {
    const std::pair place{e.group, number(e.block)};
    if (e.what == pagoda::prefix_event::kind::stored) hashes_[place] = e.hash;
    if (e.what == pagoda::prefix_event::kind::removed && hashes_.at(place) != e.hash) return "another hash was removed";
  }
  told.clear();
  model.events.clear();
  return "";
}

inline std::string prefix_world::compare_sequences() {
  for (const auto& [name, seq] : model.sequences()) {
    for (lane& one : lanes) {
      if (seq.released) continue;
      for (std::size_t g = 0; g < groups(); ++g) {
        const auto real = one.manager.blocks(one.id(name), static_cast<int>(g));
        const ids& table = seq.table[g];
        const auto alike = [](pagoda::block_id a, std::int32_t b) { return static_cast<std::int32_t>(a) == b; };
        if (!std::equal(real.begin(), real.end(), table.begin(), table.end(), alike)) return "a table differs";
      }
      const auto match = one.matches.find(name);
      const std::int64_t position =
          match != one.matches.end() ? match->second.tokens() : one.sequences.at(name).position();
      if (position != seq.position) return "a position differs";
    }
    for (std::size_t g = 0; g < groups(); ++g) {
      for (std::int64_t t = 0; t < seq.position; ++t) {
        bool pending = false;  // a copy that was not made yet
        for (const auto& [index, batch] : model.steps()) {
          for (const prefix_model::planned& entry : batch) {
            pending = pending || (entry.name == name && !entry.cancelled && entry.replaced[g] >= 0 &&
                                  !executed_[static_cast<std::size_t>(index)] &&
                                  t >= (seq.position - 1) / config.block_size * config.block_size);
          }
        }
        if (pending) break;
        scratch_ = seq.script.row(t);
        if (place(g, seq, t) != seq.script.row(t)) return "a token reads back as another";
      }
    }
  }
  return "";
}

/// Whatever the index would give to a match is there.
inline std::string prefix_world::compare_contents() const {
  for (const index_model::content& c : model.index().contents()) {
    for (std::size_t g = 0; g < groups(); ++g) {
      if (c.blocks[g] < 0) continue;
      for (std::int32_t slot = 0; slot < c.part.size(); ++slot) {
        if (storage_[g][static_cast<std::size_t>(c.blocks[g] * config.block_size + slot)] !=
            c.part.rows[static_cast<std::size_t>(slot)]) {
          return "a block in the index does not hold its content";
        }
      }
    }
  }
  return "";
}

inline std::string prefix_world::difference(bool thorough) {
  if (std::string fault = compare_events(); !fault.empty()) return fault;
  for (lane& one : lanes) {
    const pagoda::manager_stats real = one.manager.snapshot();
    for (std::size_t g = 0; g < groups(); ++g) {
      const pagoda::block_stats& stats = real.groups[g];
      if (stats != model.stats(g)) return "the statistics of group " + std::to_string(g) + " differ";
      if (stats.free + stats.cached + stats.used + stats.retiring != stats.total) return "blocks do not add up";
    }
    const pagoda::manager_stats& c = model.counts;
    const std::array<std::pair<std::int64_t, std::int64_t>, 13> pairs{
        {{real.sequences, static_cast<std::int64_t>(model.sequences().size())},
         {real.open_steps, static_cast<std::int64_t>(model.steps().size())},
         {real.plans, c.plans},
         {real.failed_plans, c.failed_plans},
         {real.rollbacks, c.rollbacks},
         {real.matches, c.matches},
         {real.asked_tokens, c.asked_tokens},
         {real.hit_tokens, c.hit_tokens},
         {real.lookups, c.lookups},
         {real.hits, c.hits},
         {real.stored, c.stored},
         {real.evictions, c.evictions},
         {real.copied_rows, c.copied_rows}}};
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      if (pairs[i].first != pairs[i].second) {
        return "count " + std::to_string(i) + " is " + std::to_string(pairs[i].first) + ", not " +
               std::to_string(pairs[i].second);
      }
    }
    if (real.copied_blocks != c.copied_blocks) return "copied_blocks differs";
    if (real.eviction_ages != c.eviction_ages) return "eviction_ages differ";
    if (!thorough) continue;
    if (const pagoda::integrity_report report = one.manager.check_integrity(); !report.ok())
      return report.faults.front();
  }
  if (!thorough) return "";
  if (std::string fault = compare_sequences(); !fault.empty()) return fault;
  return compare_contents();
}

inline std::string prefix_world::transfer_to(prefix_world& other, const std::vector<key>& names,
                                             const std::vector<key>& made) {
  std::vector<ids> sources(groups());
  std::vector<ids> holders(groups());
  for (std::size_t g = 0; g < groups(); ++g) {
    std::map<std::int32_t, std::int32_t> count;
    for (const key name : names) {
      for (const std::int32_t block : model.sequences().at(name).table[g]) ++count[block];
    }
    for (const auto& [block, held] : count) {
      sources[g].push_back(block);
      holders[g].push_back(held);
    }
  }
  pagoda::shortage expected;
  const bool fits = other.model.check_arrival(sources, &expected) == prefix_model::verdict::fits;
  std::optional<pagoda::copy_list> copies;
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    std::vector<pagoda::sequence_id> names_of;
    for (const key name : names) names_of.push_back(lanes[i].id(name));
    try {
      pagoda::transferred moved = pagoda::transfer(lanes[i].manager, names_of, other.lanes[i].manager);
      if (!fits) return "a transfer went through without room";
      for (std::size_t s = 0; s < made.size(); ++s) {
        other.lanes[i].sequences.emplace(made[s], std::move(moved.sequences[s]));
      }
      if (copies && !same_lists(*copies, moved.copies)) return "twins ask for other copies of a transfer";
      if (!copies) copies = std::move(moved.copies);
    } catch (const pagoda::out_of_blocks& error) {
      if (fits) return "a transfer was refused that had room";
      if (std::string fault = same(error.why(), expected); !fault.empty()) return fault;
    }
  }
  if (!fits) {
    ++other.model.counts.failed_plans;
    return "";
  }
  std::vector<ids> targets(groups());
  for (std::size_t g = 0; g < groups(); ++g) {
    std::map<std::int32_t, std::int32_t> to_of;
    for (const pagoda::block_copy& copy : copies->blocks(static_cast<int>(g))) {
      if (!to_of.emplace(number(copy.from), number(copy.to)).second) return "a transfer copies a block twice";
    }
    for (const std::int32_t block : sources[g]) {
      if (to_of.count(block) == 0) return "a transfer leaves out a block";
      targets[g].push_back(to_of[block]);
    }
    if (to_of.size() != sources[g].size()) return "a transfer copies a block that nobody has";
  }
  model.counts.copied_blocks += static_cast<std::int64_t>([&] {
    std::size_t sum = 0;
    for (const ids& blocks : sources) sum += blocks.size();
    return sum;
  }());
  if (std::string fault = other.model.arrive(targets, holders, other.events()); !fault.empty()) return fault;
  for (std::size_t g = 0; g < groups(); ++g) {
    std::vector<prefix_model::fresh> given;
    for (const std::int32_t block : targets[g]) given.push_back({g, block});
    other.poison_all(given);
  }
  perform(*copies, storage_, other.storage_);
  for (std::size_t s = 0; s < names.size(); ++s) {
    const prefix_model::sequence& old = model.sequences().at(names[s]);
    prefix_model::sequence& twin = other.model.make(made[s], old.script);
    twin.position = old.position;
    twin.publishable = old.publishable;
    twin.skipped = old.skipped;
    for (std::size_t g = 0; g < groups(); ++g) {
      for (const std::int32_t block : old.table[g]) {
        const auto at = std::find(sources[g].begin(), sources[g].end(), block) - sources[g].begin();
        twin.table[g].push_back(targets[g][static_cast<std::size_t>(at)]);
      }
    }
  }
  model.issue(sources);
  other.model.issue({});
  return "";
}

}  // namespace pagoda_test
