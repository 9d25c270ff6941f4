// SPDX-License-Identifier: Apache-2.0
/// @file A real block manager, its model, and a simulated storage of token numbers, which get the same calls.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "manager_model.hpp"
#include "manager_support.hpp"

namespace pagoda_test {

/// What has happened, so that a test can tell that its random calls went everywhere.
struct world_counts {
  std::int64_t plans = 0;
  std::int64_t shortages = 0;
  std::int64_t copies = 0;
  std::int64_t moves = 0;
  std::int64_t dropped = 0;
  std::int64_t truncates_refused = 0;
  std::int64_t released_in_step = 0;
  std::int64_t cancels = 0;
};

class manager_world {
 public:
  using key = manager_model::key;
  static constexpr std::uint64_t poison = ~std::uint64_t{0};

  explicit manager_world(const pagoda::manager_config& settings)
      : config(settings),
        model(settings),
        manager(settings),
        steps(static_cast<std::size_t>(settings.max_open_steps)),
        executed_(steps.size(), false) {
    for (const pagoda::layer_group& group : config.groups) {
      storage_.emplace_back(static_cast<std::size_t>(group.num_blocks * config.block_size), poison);
    }
  }

  std::size_t groups() const { return config.groups.size(); }

  void make() {
    pagoda::sequence handle = manager.make_sequence();
    handles.emplace(model.make(), std::move(handle));
  }

  void fork(key parent) {
    pagoda::sequence handle = manager.fork(handles.at(parent));
    handles.emplace(model.fork(parent), std::move(handle));
  }

  void destroy(key name) {
    stale.push_back(handles.at(name).id());
    if (model.sequences().at(name).in_step) ++counts.released_in_step;
    handles.erase(name);
    model.destroy(name);
  }

  /// Plans in both; the ids in `batch` are those of `wishes`. Empty if they agree.
  std::string plan(std::size_t index, const std::vector<pagoda::growth>& batch,
                   std::vector<manager_model::planned> wishes) {
    pagoda::shortage why;
    std::vector<std::vector<ids>> before;
    for (const pagoda::growth& wish : batch) {
      before.emplace_back();
      for (std::size_t g = 0; g < groups(); ++g) before.back().push_back(table(manager, wish.sequence, int(g)));
    }
    std::optional<pagoda::step> granted = manager.try_plan(batch, &why);
    const std::optional<pagoda::shortage> lack = model.lacks(wishes);
    if (granted.has_value() == lack.has_value()) return "plan granted in one only";
    if (lack) {
      ++counts.shortages;
      const bool same = why.group == lack->group && why.needed == lack->needed && why.free == lack->free &&
                        why.retiring == lack->retiring;
      return same ? "" : "shortage differs";
    }
    ++counts.plans;
    if (model.plan(static_cast<int>(index), std::move(wishes)) != static_cast<std::uint64_t>(granted->issued())) {
      return "ticket differs";
    }
    steps[index].emplace(std::move(*granted));
    executed_[index] = false;
    return take_off(index, before);
  }

  /// Takes the copies, performs them, and writes the planned tokens.
  void execute(std::size_t index) {
    const pagoda::copy_list copies = steps[index]->take_copies();
    perform(copies);
    const manager_model::open_step& step = model.step(static_cast<int>(index));
    for (std::size_t g = 0; g < groups(); ++g) {
      const pagoda::batch_view view = steps[index]->batch(static_cast<int>(g));
      for (std::size_t i = 0; i < step.batch.size(); ++i) {
        const manager_model::planned& entry = step.batch[i];
        if (entry.cancelled) continue;
        auto t = static_cast<std::int64_t>(model.sequences().at(entry.sequence).tokens.size());
        for (const std::uint64_t token : entry.tokens) {
          at(g, view.block(static_cast<std::int32_t>(i), t / config.block_size), t % config.block_size) = token;
          ++t;
        }
      }
    }
    executed_[index] = true;
  }

  bool executed(std::size_t index) const { return executed_[index]; }

  void cancel(std::size_t index, std::size_t entry) {
    steps[index]->cancel(static_cast<int>(entry));
    model.cancel(static_cast<int>(index), entry);
    ++counts.cancels;
    for (flight& f : flights_) {
      if (f.open && f.step == index) f.cancelled[entry] = true;
    }
  }

  /// Performs what commit_paths returned.
  void perform(const pagoda::copy_list& list) {
    for (std::size_t g = 0; g < groups(); ++g) {
      const std::vector<std::uint64_t> old = storage_[g];
      const auto size = static_cast<std::size_t>(config.block_size);
      for (const pagoda::block_copy& copy : list.blocks(static_cast<int>(g))) {
        ++counts.copies;
        std::copy_n(old.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(copy.from) * size), size,
                    storage_[g].begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(copy.to) * size));
      }
      for (const pagoda::row_copy& row : list.rows(static_cast<int>(g))) {
        ++counts.moves;
        at(g, row.to_block, row.to_slot) =
            old[static_cast<std::size_t>(row.from_block) * size + static_cast<std::size_t>(row.from_slot)];
      }
    }
  }

  /// To be called when the real step has been closed.
  void closed(std::size_t index, const std::vector<std::vector<std::int32_t>>& kept) {
    std::int64_t before = 0;
    std::int64_t after = 0;
    for (std::size_t g = 0; g < groups(); ++g) before += model.tokens(g);
    model.commit(static_cast<int>(index), kept);
    for (std::size_t g = 0; g < groups(); ++g) after += model.tokens(g);
    if (after < before) ++counts.dropped;
    steps[index].reset();
    for (flight& f : flights_) {
      if (f.step == index) f.open = false;
    }
  }

  void complete(std::uint64_t ticket) {
    manager.complete(pagoda::ticket{ticket});
    model.complete(ticket);
  }

  /// Compares everything that can be seen. Empty if all of it agrees.
  std::string difference() {
    if (const pagoda::integrity_report report = manager.check_integrity(); !report.ok()) return report.faults.front();
    for (std::size_t g = 0; g < groups(); ++g) {
      const pagoda::block_stats expected{.total = config.groups[g].num_blocks,
                                         .free = model.free(g),
                                         .used = model.used(g),
                                         .retiring = model.retiring(g),
                                         .shared = model.shared(g),
                                         .tokens = model.tokens(g),
                                         .slack = model.slack(g)};
      if (manager.stats(static_cast<int>(g)) != expected) return "statistics differ";
      if (std::string fault = compare_group(g); !fault.empty()) return fault + " in group " + std::to_string(g);
    }
    return "";
  }

  const pagoda::manager_config config;
  manager_model model;
  pagoda::block_manager manager;
  std::map<key, pagoda::sequence> handles;
  std::vector<std::optional<pagoda::step>> steps;
  std::vector<pagoda::sequence_id> stale;
  world_counts counts;

 private:
  // The blocks that one step reads, for each entry and group.
  struct flight {
    std::uint64_t ticket = 0;
    std::size_t step = 0;
    bool open = true;
    std::vector<bool> cancelled{};
    std::vector<std::vector<ids>> blocks{};
  };

  std::uint64_t& at(std::size_t g, pagoda::block_id block, std::int64_t slot) {
    return storage_[g].at(static_cast<std::size_t>(static_cast<std::int64_t>(block) * config.block_size + slot));
  }

  bool reads(const flight& f, std::size_t entry) const {
    if (f.open && !f.cancelled[entry]) return true;
    return config.reuse == pagoda::reuse_rule::on_completion && f.ticket > model.completed();
  }

  // Checks the view of a new step, that its new blocks are read by no work under way, and poisons them.
  std::string take_off(std::size_t index, const std::vector<std::vector<ids>>& before) {
    std::erase_if(flights_, [&](const flight& f) {
      for (std::size_t i = 0; i < f.cancelled.size(); ++i) {
        if (reads(f, i)) return false;
      }
      return true;
    });
    const pagoda::step& step = *steps[index];
    const manager_model::open_step& expected = model.step(static_cast<int>(index));
    flight next{expected.ticket, index, true, std::vector<bool>(expected.batch.size(), false), {}};
    next.blocks.resize(expected.batch.size());
    for (std::size_t g = 0; g < groups(); ++g) {
      const pagoda::batch_view view = step.batch(static_cast<int>(g));
      if (view.sequences() != static_cast<std::int32_t>(expected.batch.size())) return "batch size differs";
      for (std::size_t i = 0; i < expected.batch.size(); ++i) {
        const manager_model::planned& entry = expected.batch[i];
        const auto row = static_cast<std::int32_t>(i);
        const manager_model::sequence& seq = model.sequences().at(entry.sequence);
        if (view.context_length(row) != static_cast<std::int32_t>(seq.tokens.size() + entry.tokens.size()) ||
            view.new_tokens(row) != static_cast<std::int32_t>(entry.tokens.size())) {
          return "lengths of the batch differ";
        }
        ids fresh = numbers(step.new_blocks(static_cast<int>(g), row));
        if (entry.copied[g]) {
          fresh.push_back(number(view.block(row, static_cast<std::int64_t>(seq.tokens.size()) / config.block_size)));
        }
        for (const std::int32_t block : fresh) {
          if (in_flight(g, block)) return "a block is given out that a step still reads";
          for (std::int64_t slot = 0; slot < config.block_size; ++slot) at(g, pagoda::block_id{block}, slot) = poison;
        }
        next.blocks[i].push_back(before[i][g]);
        next.blocks[i][g].insert(next.blocks[i][g].end(), fresh.begin(), fresh.end());
      }
    }
    flights_.push_back(std::move(next));
    return "";
  }

  bool in_flight(std::size_t g, std::int32_t block) const {
    for (const flight& f : flights_) {
      for (std::size_t i = 0; i < f.blocks.size(); ++i) {
        if (reads(f, i) && std::count(f.blocks[i][g].begin(), f.blocks[i][g].end(), block) > 0) return true;
      }
    }
    return false;
  }

  std::string compare_group(std::size_t g) {
    std::map<key, std::int32_t> real_of;
    std::map<std::int32_t, key> model_of;
    for (const auto& [name, seq] : model.sequences()) {
      const manager_model::planned* entry = nullptr;
      std::size_t index = 0;
      std::int32_t row = 0;
      for (std::size_t s = 0; s < steps.size() && seq.in_step; ++s) {
        if (!steps[s]) continue;
        const auto& batch = model.step(static_cast<int>(s)).batch;
        for (std::size_t i = 0; i < batch.size(); ++i) {
          if (batch[i].sequence != name || batch[i].cancelled) continue;
          entry = &batch[i];
          index = s;
          row = static_cast<std::int32_t>(i);
        }
      }
      ids real;
      if (entry != nullptr) {
        const pagoda::batch_view view = steps[index]->batch(static_cast<int>(g));
        for (const auto& [logical, block] : seq.table[g]) real.push_back(number(view.block(row, logical)));
      }
      if (!seq.released) {
        const pagoda::sequence& handle = handles.at(name);
        if (entry != nullptr && real != table(manager, handle, static_cast<int>(g))) return "view and table differ";
        real = table(manager, handle, static_cast<int>(g));
        if (handle.position() != static_cast<std::int64_t>(seq.tokens.size())) return "position differs";
        if (handle.resident(static_cast<int>(g)) != model.resident(seq, g)) return "resident differs";
      }
      if (real.size() != seq.table[g].size()) return "table length differs";
      const bool readable = entry == nullptr || executed_[index];
      auto block = real.begin();
      for (const auto& [logical, expected] : seq.table[g]) {
        if (real_of.emplace(expected, *block).first->second != *block ||
            model_of.emplace(*block, expected).first->second != expected) {
          return "sharing differs";
        }
        for (std::int64_t slot = 0; slot < config.block_size && readable; ++slot) {
          auto t = static_cast<std::size_t>(logical * config.block_size + slot);
          const std::vector<std::uint64_t>* tokens = &seq.tokens;
          if (t >= tokens->size()) {
            t -= tokens->size();
            if (entry == nullptr || t >= entry->tokens.size()) break;
            tokens = &entry->tokens;
          }
          if (at(g, pagoda::block_id{*block}, slot) != (*tokens)[t]) return "a token reads back as another";
        }
        ++block;
      }
    }
    return "";
  }

  std::vector<bool> executed_;
  std::vector<std::vector<std::uint64_t>> storage_;
  std::vector<flight> flights_;
};

/// Appends tokens with numbers from `first` on, keeps those named, and compares manager, model and contents.
inline std::string append(manager_world& world, manager_world::key name, std::uint64_t first, std::int32_t count,
                          std::optional<std::vector<std::int32_t>> path = std::nullopt) {
  std::vector<std::uint64_t> tokens;
  std::vector<std::int32_t> all;
  for (std::int32_t i = 0; i < count; ++i) {
    tokens.push_back(first + static_cast<std::uint64_t>(i));
    all.push_back(i);
  }
  const std::vector<std::int32_t> kept = path.value_or(all);
  if (std::string fault = world.plan(0, {{world.handles.at(name), count}}, {{.sequence = name, .tokens = tokens}});
      !fault.empty()) {
    return fault;
  }
  world.execute(0);
  if (std::string fault = world.difference(); !fault.empty()) return fault;
  const std::int32_t offsets[] = {0, static_cast<std::int32_t>(kept.size())};
  world.perform(world.steps[0]->commit_paths({kept, offsets}));
  world.closed(0, {kept});
  return world.difference();
}

}  // namespace pagoda_test
