// SPDX-License-Identifier: Apache-2.0
// Random operations on a manager and on a simple model of it: after each of them everything that can be seen agrees,
// and every resident token reads back from the blocks where the manager says that it lies.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <pagoda/block_manager.hpp>

#include "manager_world.hpp"

namespace {

using pagoda::growth;
using pagoda_test::manager_model;
using pagoda_test::manager_world;
using pagoda_test::world_counts;

/// Draws calls for a world. Each returns what went wrong, or nothing.
class random_calls {
 public:
  explicit random_calls(std::uint64_t seed) : random_(seed) {}

  std::int64_t below(std::int64_t limit) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(limit));
  }
  bool chance(std::int64_t percent) { return below(100) < percent; }

  pagoda::manager_config configuration() {
    pagoda::manager_config config;
    config.block_size = 1 << below(5);
    config.max_sequences = static_cast<std::int32_t>(2 + below(8));
    config.max_batch = chance(70) ? 0 : static_cast<std::int32_t>(1 + below(config.max_sequences));
    config.max_open_steps = static_cast<std::int32_t>(1 + below(3));
    config.reuse = chance(50) ? pagoda::reuse_rule::on_completion : pagoda::reuse_rule::stream_ordered;
    const std::int64_t groups = 1 + below(3);
    for (std::int32_t g = 0; g < groups; ++g) {
      pagoda::layer_group group{.num_blocks = static_cast<std::int32_t>(6 + below(40)), .layers = {g}};
      const std::int64_t kind = below(3);
      if (kind >= 1) group.keep.window = 1 + below(3 * config.block_size);
      if (kind == 2) group.keep.sinks = below(2 * config.block_size + 1);
      config.groups.push_back(group);
    }
    return config;
  }

  std::string any(manager_world& world) {
    const std::int64_t draw = below(100);
    if (draw < 6) return make(world);
    if (draw < 12) return fork(world);
    if (draw < 15) return destroy(world);
    if (draw < 20) return truncate(world);
    if (draw < 50) return plan(world);
    if (draw < 60) return execute(world);
    if (draw < 82) return commit(world);
    if (draw < 86) return roll_back(world);
    if (draw < 90) return cancel(world);
    return complete(world);
  }

 private:
  using key = manager_world::key;

  std::optional<key> living(manager_world& world) {
    if (world.handles.empty()) return std::nullopt;
    auto it = world.handles.begin();
    std::advance(it, below(static_cast<std::int64_t>(world.handles.size())));
    return it->first;
  }

  std::optional<std::size_t> open_step(manager_world& world) {
    const auto index = static_cast<std::size_t>(below(static_cast<std::int64_t>(world.steps.size())));
    return world.steps[index] ? std::optional(index) : std::nullopt;
  }

  /// Empty if the call throws an Exception.
  template <class Exception, class Call>
  static std::string refused(Call call) {
    try {
      call();
    } catch (const Exception&) {
      return "";
    }
    return "a call that had to be refused went through";
  }

  std::string make(manager_world& world) {
    if (world.model.slots_taken() == world.config.max_sequences) {
      return refused<pagoda::capacity_exceeded>([&] { world.make(); });
    }
    world.make();
    return "";
  }

  std::string fork(manager_world& world) {
    const std::optional<key> parent = living(world);
    if (!parent) return "";
    if (world.model.sequences().at(*parent).in_step) {
      return refused<pagoda::logic_error>([&] { world.fork(*parent); });
    }
    if (world.model.slots_taken() == world.config.max_sequences) {
      return refused<pagoda::capacity_exceeded>([&] { world.fork(*parent); });
    }
    world.fork(*parent);
    return "";
  }

  std::string destroy(manager_world& world) {
    if (const std::optional<key> victim = living(world)) world.destroy(*victim);
    return "";
  }

  std::string truncate(manager_world& world) {
    const std::optional<key> victim = living(world);
    if (!victim) return "";
    const manager_model::sequence& seq = world.model.sequences().at(*victim);
    const auto length = static_cast<std::int64_t>(seq.tokens.size());
    const std::int64_t target = chance(50) ? length - below(6) : below(length + 2);
    const auto call = [&] { world.manager.truncate(world.handles.at(*victim), target); };
    if (seq.in_step) return refused<pagoda::logic_error>(call);
    if (!world.model.may_truncate(*victim, target)) {
      ++world.counts.truncates_refused;
      return refused<pagoda::invalid_argument>(call);
    }
    call();
    world.model.truncate(*victim, target);
    return "";
  }

  std::string plan(manager_world& world) {
    std::vector<growth> batch;
    std::vector<manager_model::planned> wishes;
    bool valid = true;
    std::vector<key> names;
    for (const auto& [name, handle] : world.handles) names.push_back(name);
    for (std::size_t i = names.size(); i > 1; --i) {
      std::swap(names[i - 1], names[static_cast<std::size_t>(below(static_cast<std::int64_t>(i)))]);
    }
    const std::int64_t most = below(static_cast<std::int64_t>(names.size()) + 1);
    const bool careless = chance(15);
    for (const key name : names) {
      if (static_cast<std::int64_t>(batch.size()) >= most) break;
      const bool in_step = world.model.sequences().at(name).in_step;
      if (in_step && !careless) continue;
      valid = valid && !in_step;
      const std::int64_t kind = below(20);
      const std::int64_t count = kind < 14   ? below(4)
                                 : kind < 19 ? below(2 * world.config.block_size + 2)
                                             : below(12 * world.config.block_size);
      batch.push_back({world.handles.at(name), static_cast<std::int32_t>(count),
                       chance(80) ? -1 : static_cast<std::int32_t>(below(5))});
      wishes.push_back({.sequence = name});
      for (std::int64_t i = 0; i < count; ++i) wishes.back().tokens.push_back(++last_token_);
    }
    if (careless && chance(30) && !batch.empty()) {
      batch.push_back(batch.front());
      valid = false;
    }
    if (careless && chance(30) && !world.stale.empty()) {
      batch.push_back({world.stale[static_cast<std::size_t>(below(static_cast<std::int64_t>(world.stale.size())))], 1});
      valid = false;
    }
    if (careless && chance(10) && !batch.empty()) {
      batch.back().new_tokens = -1;
      valid = false;
    }
    std::size_t index = 0;
    while (index < world.steps.size() && world.steps[index]) ++index;
    const std::int32_t max_batch = world.config.max_batch == 0 ? world.config.max_sequences : world.config.max_batch;
    if (!valid || index == world.steps.size() || batch.size() > static_cast<std::size_t>(max_batch)) {
      pagoda::shortage why;
      if (world.manager.try_plan(batch, &why).has_value()) return "an invalid plan was granted";
      return why.group == -1 ? "" : "an invalid plan was called a shortage";
    }
    return world.plan(index, batch, std::move(wishes));
  }

  std::string execute(manager_world& world) {
    const std::optional<std::size_t> index = open_step(world);
    if (index && !world.executed(*index)) world.execute(*index);
    return "";
  }

  std::string commit(manager_world& world) {
    const std::optional<std::size_t> index = open_step(world);
    if (!index) return "";
    pagoda::step& step = *world.steps[*index];
    const auto& batch = world.model.step(static_cast<int>(*index)).batch;
    if (!world.executed(*index)) {
      bool copies = false;
      for (const manager_model::planned& entry : batch) {
        for (const auto& copied : entry.copied) copies = copies || (copied.has_value() && !entry.cancelled);
      }
      if (copies) {
        const std::string fault = refused<pagoda::logic_error>([&] { step.commit(); });
        if (!fault.empty()) return fault;
      }
      world.execute(*index);
    }
    const std::int64_t mode = below(3);
    std::vector<std::vector<std::int32_t>> kept(batch.size());
    std::vector<std::int32_t> counts;
    std::vector<std::int32_t> values;
    std::vector<std::int32_t> offsets{0};
    for (std::size_t i = 0; i < batch.size(); ++i) {
      const auto planned = static_cast<std::int32_t>(batch[i].cancelled ? 0 : batch[i].tokens.size());
      const std::int64_t count = mode == 0 ? planned : below(planned + 1);
      for (std::int32_t node = 0; node < planned; ++node) {
        if (mode == 2 ? chance(50) : node < count) kept[i].push_back(node);
      }
      counts.push_back(static_cast<std::int32_t>(kept[i].size()));
      values.insert(values.end(), kept[i].begin(), kept[i].end());
      offsets.push_back(static_cast<std::int32_t>(values.size()));
    }
    if (mode == 0) {
      step.commit();
    } else if (mode == 1) {
      step.commit(counts);
    } else {
      world.perform(step.commit_paths({values, offsets}));
    }
    world.closed(*index, kept);
    return "";
  }

  std::string roll_back(manager_world& world) {
    const std::optional<std::size_t> index = open_step(world);
    if (!index) return "";
    world.steps[*index].reset();
    world.closed(*index,
                 std::vector<std::vector<std::int32_t>>(world.model.step(static_cast<int>(*index)).batch.size()));
    return "";
  }

  std::string cancel(manager_world& world) {
    const std::optional<std::size_t> index = open_step(world);
    if (!index) return "";
    const auto& batch = world.model.step(static_cast<int>(*index)).batch;
    if (batch.empty()) return "";
    const auto entry = static_cast<std::size_t>(below(static_cast<std::int64_t>(batch.size())));
    if (batch[entry].cancelled) {
      return refused<pagoda::logic_error>([&] { world.steps[*index]->cancel(static_cast<int>(entry)); });
    }
    world.cancel(*index, entry);
    return "";
  }

  std::string complete(manager_world& world) {
    const auto issued = static_cast<std::int64_t>(world.model.issued());
    const std::int64_t ticket = chance(50) ? issued - below(3) : below(issued + 3);
    world.complete(static_cast<std::uint64_t>(ticket < 0 ? 0 : ticket));
    return "";
  }

  std::mt19937_64 random_;
  std::uint64_t last_token_ = 0;
};

TEST_CASE("after any operations the manager is what a simple model says") {
  const char* wish = std::getenv("PAGODA_TEST_OPERATIONS");
  const std::int64_t operations = wish != nullptr ? std::atoll(wish) : 200'000;
  constexpr std::int64_t worlds = 80;
  world_counts all;
  for (std::uint64_t seed = 1; seed <= worlds; ++seed) {
    random_calls calls(seed);
    manager_world world(calls.configuration());
    for (std::int64_t operation = 0; operation < operations / worlds; ++operation) {
      std::string fault = calls.any(world);
      if (fault.empty()) fault = world.difference();
      REQUIRE_MESSAGE(fault.empty(), "seed " << seed << ", operation " << operation << ": " << fault);
    }
    all.plans += world.counts.plans;
    all.shortages += world.counts.shortages;
    all.copies += world.counts.copies;
    all.moves += world.counts.moves;
    all.dropped += world.counts.dropped;
    all.truncates_refused += world.counts.truncates_refused;
    all.released_in_step += world.counts.released_in_step;
    all.cancels += world.counts.cancels;
  }
  if (operations >= 50'000) {
    // The calls went everywhere.
    for (const std::int64_t count : {all.plans, all.shortages, all.copies, all.moves, all.dropped,
                                     all.truncates_refused, all.released_in_step, all.cancels}) {
      CHECK(count > 200);
    }
  }
}

}  // namespace
