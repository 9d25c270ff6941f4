// SPDX-License-Identifier: Apache-2.0
/// @file Random operations on managers that share prefixes, swap with each other and evict all the time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "prefix_world_compare.hpp"
#include "random_choices.hpp"

namespace pagoda_test {

/// How often something happened, so that a test can tell that its random calls went everywhere.
using happened = std::map<std::string_view, std::int64_t>;

/// One world, or two between which sequences move.
class random_life : private random_choices {
 public:
  explicit random_life(std::uint64_t seed) : random_choices(seed) {
    const pagoda::manager_config config = configuration();
    const std::string_view policy =
        any_of<std::string_view>({"lru", "lru", "lru", "priority", "priority", "lfu", "fifo", "never"});
    choose_texts(config.block_size);
    add(config, policy);
    if (!chance(40)) return;
    pagoda::manager_config host = config;
    for (pagoda::layer_group& group : host.groups) group.num_blocks = static_cast<std::int32_t>(4 + below(16));
    host.max_sequences = static_cast<std::int32_t>(2 + below(8));
    host.max_batch = 0;
    add(host, policy);
  }

  /// Returns what went wrong, or nothing.
  std::string step() {
    prefix_world& world = *worlds_[static_cast<std::size_t>(below(static_cast<std::int64_t>(worlds_.size())))];
    const std::int64_t failed = world.model.counts.failed_plans;
    std::string fault = any(world);
    // Whoever finds no room makes some, or nothing would happen any more.
    if (fault.empty() && (failed != world.model.counts.failed_plans || full(world)) && chance(40)) {
      fault = destroy(world);
    }
    const bool thorough = below(2) == 0;
    for (auto& one : worlds_) {
      if (fault.empty()) fault = one->difference(thorough);
    }
    return fault;
  }

  void add_to(happened& all) const {
    for (const auto& [what, often] : seen_) all[what] += often;
    for (const auto& one : worlds_) {
      const pagoda::manager_stats& counts = one->model.counts;
      all["plans"] += counts.plans;
      all["failed plans"] += counts.failed_plans;
      all["rollbacks"] += counts.rollbacks;
      all["hits"] += counts.hits;
      all["blocks stored"] += counts.stored;
      all["evictions"] += counts.evictions;
      all["blocks copied"] += counts.copied_blocks;
      all["rows moved"] += counts.copied_rows;
    }
  }

  std::string last;  // what the last operation was

 private:
  using key = prefix_model::key;

  void add(const pagoda::manager_config& config, std::string_view policy) {
    if (worlds_.empty()) twins_ = chance(35);
    std::optional<pagoda::manager_config> twin;
    if (twins_) {
      twin = config;
      twin->prefix_seed = draw();
      twin->prefix_hash_bits = any_of({64, 64, 2, 0});
    }
    worlds_.push_back(std::make_unique<prefix_world>(config, policy, twin));
  }

  std::string any(prefix_world& world) {
    const std::int64_t what = below(100);
    const auto call = [&](const char* name, std::string (random_life::*operation)(prefix_world&)) {
      last = name;
      return (this->*operation)(world);
    };
    if (what < 2) return call("make", &random_life::make);
    if (what < 5) return call("fork", &random_life::fork);
    if (what < 13) return call("destroy", &random_life::destroy);
    if (what < 16) return call("truncate", &random_life::truncate);
    if (what < 23) return call("match", &random_life::match);
    if (what < 27) return call("take_match", &random_life::take_match);
    if (what < 33) return call("serve", &random_life::serve);
    if (what < 46) return call("publish", &random_life::publish);
    if (what < 49) return call("advise", &random_life::advise);
    if (what < 50) return call("advance", &random_life::advance);
    if (what < 70) return call("plan", &random_life::plan);
    if (what < 73) return call("execute", &random_life::execute);
    if (what < 86) return call("commit", &random_life::commit);
    if (what < 88) return call("roll_back", &random_life::roll_back);
    if (what < 90) return call("cancel", &random_life::cancel);
    if (what < 94) return call("complete", &random_life::complete);
    if (what < 98) return call("transfer", &random_life::transfer);
    if (what < 99) return call("room", &random_life::room);
    return chance(20) ? call("clear", &random_life::clear) : "";
  }

  std::optional<key> living(prefix_world& world) {
    std::vector<key> names;
    for (const auto& [name, seq] : world.model.sequences()) {
      if (!seq.released) names.push_back(name);
    }
    if (names.empty()) return std::nullopt;
    return names[static_cast<std::size_t>(below(static_cast<std::int64_t>(names.size())))];
  }

  std::optional<std::size_t> open_step(prefix_world& world) {
    if (world.model.steps().empty()) return std::nullopt;
    auto it = world.model.steps().begin();
    std::advance(it, below(static_cast<std::int64_t>(world.model.steps().size())));
    return static_cast<std::size_t>(it->first);
  }

  static bool full(prefix_world& world) {
    return static_cast<std::int64_t>(world.model.sequences().size()) == world.config.max_sequences;
  }

  /// What somebody has, or had, or had in part; or something new.
  text some_history(prefix_world& world);

  // ---- operations
  std::string make(prefix_world& world) {
    if (full(world)) return refused<pagoda::capacity_exceeded>([&] { world.make(next_, text()); });
    return world.make(next_++, chance(60) ? some_history(world) : fresh(0));
  }

  std::string fork(prefix_world& world) {
    const std::optional<key> parent = living(world);
    if (!parent) return "";
    if (world.model.sequences().at(*parent).in_step) {
      return refused<pagoda::logic_error>([&] { world.fork(*parent, next_); });
    }
    if (full(world)) return refused<pagoda::capacity_exceeded>([&] { world.fork(*parent, next_); });
    return world.fork(*parent, next_++);
  }

  std::string destroy(prefix_world& world) {
    const std::optional<key> victim = living(world);
    if (!victim) return "";
    if (chance(30)) {
      remembered_.push_back(world.model.sequences().at(*victim).script);
      if (remembered_.size() > 8) remembered_.erase(remembered_.begin() + below(8));
    }
    world.destroy(*victim);
    return "";
  }

  std::string truncate(prefix_world& world) {
    const std::optional<key> victim = living(world);
    if (!victim) return "";
    prefix_model::sequence& seq = world.model.sequences().at(*victim);
    const std::int64_t target = chance(50) ? seq.position - below(6) : below(seq.position + 2);
    if (seq.in_step) return refused<pagoda::logic_error>([&] { world.truncate(*victim, target); });
    if (target < 0 || target > seq.position || !world.model.may_truncate(seq, target)) {
      return refused<pagoda::invalid_argument>([&] { world.truncate(*victim, target); });
    }
    if (std::string fault = world.truncate(*victim, target); !fault.empty()) return fault;
    rewrite(seq);
    return "";
  }

  /// What comes behind the committed tokens becomes something else, where no content lies across them.
  void rewrite(prefix_model::sequence& seq) {
    if (seq.script.inside_content(seq.position) || chance(40)) return;
    seq.script.cut(seq.position);
    seq.script.push(static_cast<std::int32_t>(below(4)));
  }

  std::string match(prefix_world& world);
  static std::vector<std::int64_t> retiring_of(const prefix_world& world) {
    std::vector<std::int64_t> all;
    for (std::size_t g = 0; g < world.groups(); ++g)
      all.push_back(world.model.pool(g).count(pool_model::state::retiring));
    return all;
  }

  std::string take_match(prefix_world& world);

  std::string publish(prefix_world& world);

  std::string advise(prefix_world& world);

  std::string advance(prefix_world& world) {
    const std::int64_t now = world.model.now() + below(4);
    if (now > 0 && chance(10)) {
      return refused<pagoda::invalid_argument>([&] { world.manager().advance(world.model.now() - 1); });
    }
    for (auto& lane : world.lanes) lane.manager.advance(now);
    world.model.advance(now);
    return "";
  }

  std::string plan(prefix_world& world) {
    std::size_t index = 0;
    while (world.model.steps().count(static_cast<int>(index)) != 0) ++index;
    if (index == static_cast<std::size_t>(world.config.max_open_steps)) return "";
    std::vector<prefix_model::planned> batch;
    const std::int32_t most = world.config.max_batch == 0 ? world.config.max_sequences : world.config.max_batch;
    for (auto& [name, seq] : world.model.sequences()) {
      if (seq.in_step || seq.released || world.lanes[0].matches.count(name) != 0) continue;
      if (chance(55) || static_cast<std::int32_t>(batch.size()) == most) continue;
      const std::int64_t kind = below(20);
      const std::int64_t tokens = kind < 8    ? below(4)
                                  : kind < 19 ? below(3 * world.config.block_size + 2)
                                              : below(12 * world.config.block_size);
      prefix_model::planned entry{.name = name, .tokens = tokens};
      const std::int64_t mode = below(4);
      const std::int64_t kept = mode < 2 ? tokens : below(tokens + 1);
      for (std::int32_t i = 0; i < tokens; ++i) {
        if (mode == 3 ? chance(50) : i < kept) entry.accepted.push_back(i);
      }
      extend(seq.script, seq.position + static_cast<std::int64_t>(entry.accepted.size()));
      batch.push_back(std::move(entry));
    }
    for (std::size_t i = batch.size(); i > 1; --i) {
      std::swap(batch[i - 1], batch[static_cast<std::size_t>(below(static_cast<std::int64_t>(i)))]);
    }
    return world.plan(index, std::move(batch));
  }

  /// What an engine does with a prompt.
  std::string serve(prefix_world& world);

  std::string execute(prefix_world& world) {
    const std::optional<std::size_t> index = open_step(world);
    return index && !world.executed(*index) ? world.execute(*index) : "";
  }

  std::string commit(prefix_world& world) {
    const std::optional<std::size_t> index = open_step(world);
    if (!index) return "";
    if (!world.executed(*index)) {
      if (std::string fault = world.execute(*index); !fault.empty()) return fault;
    }
    return world.commit(*index, chance(30));
  }

  std::string roll_back(prefix_world& world) {
    if (const std::optional<std::size_t> index = open_step(world)) world.roll_back(*index);
    return "";
  }

  std::string cancel(prefix_world& world) {
    const std::optional<std::size_t> index = open_step(world);
    if (!index) return "";
    const auto& batch = world.model.steps().at(static_cast<int>(*index));
    if (batch.empty()) return "";
    const auto entry = static_cast<std::size_t>(below(static_cast<std::int64_t>(batch.size())));
    if (!batch[entry].cancelled) world.cancel(*index, entry);
    return "";
  }

  std::string complete(prefix_world& world) {
    const auto issued = static_cast<std::int64_t>(world.model.issued());
    const std::int64_t ticket = chance(50) ? issued - below(3) : below(issued + 3);
    world.complete(static_cast<std::uint64_t>(ticket < 0 ? 0 : ticket));
    return "";
  }

  std::string transfer(prefix_world& world) {
    if (worlds_.size() == 1) return "";
    prefix_world& other = *worlds_[&world == worlds_[0].get() ? 1 : 0];
    std::vector<key> names;
    for (const auto& [name, seq] : world.model.sequences()) {
      if (!seq.released && !seq.in_step && world.lanes[0].matches.count(name) == 0 && chance(50)) names.push_back(name);
    }
    if (names.size() + other.model.sequences().size() > static_cast<std::size_t>(other.config.max_sequences)) return "";
    for (const key name : names) {
      for (std::size_t g = 0; g < world.groups(); ++g) {
        const auto entries = static_cast<std::int64_t>(world.model.sequences().at(name).table[g].size());
        if (entries > other.model.row_capacity(g)) return "";
      }
    }
    std::vector<key> made;
    for (std::size_t i = 0; i < names.size(); ++i) made.push_back(next_++);
    const std::size_t there = other.model.sequences().size();
    if (std::string fault = world.transfer_to(other, names, made); !fault.empty()) return fault;
    if (other.model.sequences().size() == there) return "";
    seen_["transfers"] += names.empty() ? 0 : 1;
    seen_["transfers of shared blocks"] += other.model.stats(0).shared > 0 ? 1 : 0;
    if (chance(80)) {
      for (const key name : names) world.destroy(name);
    }
    return "";
  }

  /// What growable and exclusive_blocks promise.
  std::string room(prefix_world& world);

  std::string clear(prefix_world& world) {
    for (auto& lane : world.lanes) lane.manager.clear_prefixes();
    world.model.clear();
    ++seen_["clears"];
    return "";
  }

  std::vector<std::unique_ptr<prefix_world>> worlds_;
  std::vector<text> remembered_;  // of sequences that are gone
  bool twins_ = false;
  key next_ = 1;
  happened seen_;
};

}  // namespace pagoda_test
