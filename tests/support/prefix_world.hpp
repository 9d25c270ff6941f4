// SPDX-License-Identifier: Apache-2.0
/// @file Block managers that share prefixes, their model, and a simulated storage, which get the same calls.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <pagoda/block_manager.hpp>
#include <pagoda/eviction/built_in.hpp>

#include "prefix_model_prefixes.hpp"
#include "prefix_model_steps.hpp"

namespace pagoda_test {

inline pagoda::block_manager manager_of(const pagoda::manager_config& config, std::string_view policy) {
  return pagoda::dispatch(pagoda::built_in_evictions{}, policy, [&](auto tag) {
    return pagoda::block_manager(config, pagoda::evict_by<typename decltype(tag)::type>);
  });
}

/// One manager, or two that differ in the seed of their hashes only: the model and the storage are of both.
class prefix_world {
 public:
  using key = prefix_model::key;
  using state = pool_model::state;

  /// What one manager gave out.
  struct lane {
    lane(const pagoda::manager_config& config, std::string_view policy)
        : manager(manager_of(config, policy)), steps(static_cast<std::size_t>(config.max_open_steps)) {}
    pagoda::block_manager manager;
    std::map<key, pagoda::sequence> sequences{};
    std::map<key, pagoda::prefix_match> matches{};
    std::vector<std::optional<pagoda::step>> steps;

    pagoda::sequence_id id(key name) const {
      const auto match = matches.find(name);
      return match != matches.end() ? match->second.id() : sequences.at(name).id();
    }
  };

  /// The second manager hashes as `twin` says; none without it.
  prefix_world(const pagoda::manager_config& settings, std::string_view policy,
               const std::optional<pagoda::manager_config>& twin)
      : config(settings), model(settings, policy), executed_(static_cast<std::size_t>(settings.max_open_steps), false) {
    lanes.emplace_back(settings, policy);
    if (twin) lanes.emplace_back(*twin, policy);
    for (const pagoda::layer_group& group : config.groups) {
      storage_.emplace_back(static_cast<std::size_t>(group.num_blocks * config.block_size), poison);
    }
  }

  std::size_t groups() const { return config.groups.size(); }
  pagoda::block_manager& manager() { return lanes[0].manager; }

  /// Calls every manager. Throws what they throw; returns what is wrong if some do and some do not.
  template <class Call>
  std::string each(Call call) {
    std::size_t went = 0;
    for (lane& one : lanes) {
      try {
        call(one);
        ++went;
      } catch (const std::exception&) {
        if (&one == &lanes.back() && went == 0) throw;
      }
    }
    return went == lanes.size() ? "" : "one of two managers refused a call";
  }

  // ---- sequences
  std::string make(key name, text script) {
    std::string fault = each([&](lane& one) { one.sequences.emplace(name, one.manager.make_sequence()); });
    model.make(name, std::move(script));
    return fault;
  }

  std::string fork(key parent, key child) {
    std::string fault = each([&](lane& one) { one.sequences.emplace(child, one.manager.fork(one.id(parent))); });
    model.fork(parent, child);
    return fault;
  }

  void destroy(key name) {
    for (lane& one : lanes) {
      one.sequences.erase(name);
      one.matches.erase(name);
    }
    model.destroy(name);
  }

  std::string truncate(key name, std::int64_t tokens) {
    std::string fault = each([&](lane& one) { one.manager.truncate(one.id(name), tokens); });
    model.truncate(name, tokens);
    return fault;
  }

  // ---- prefixes
  std::string match(key name, const text& history, std::int64_t size, std::int64_t at_most) {
    std::string fault =
        each([&](lane& one) { one.matches.emplace(name, one.manager.match(history.history(size), at_most)); });
    if (!fault.empty()) return fault;
    const std::int64_t found = lanes[0].matches.at(name).tokens();
    text asked = history;
    asked.cut(size);
    return model.match(name, asked, std::min(size, at_most), found, tables(lanes[0], name));
  }

  void take_match(key name) {
    for (lane& one : lanes) {
      one.sequences.emplace(name, one.manager.make_sequence(std::move(one.matches.at(name))));
      one.matches.erase(name);
    }
  }

  std::string publish(key name, const text& history, std::int64_t size, std::int64_t tokens,
                      const pagoda::block_advice& advice, bool all) {
    std::vector<std::int64_t> stored;
    std::string fault = each([&](lane& one) {
      stored.push_back(all ? one.manager.publish(one.id(name), history.history(size), advice)
                           : one.manager.publish_first(one.id(name), tokens, history.history(size), advice));
    });
    if (!fault.empty()) return fault;
    text known = history;
    known.cut(size);
    const std::int64_t expected = model.publish(name, known, tokens, advice);
    if (std::string wrong = check_hashes(history.history(size)); !wrong.empty()) return wrong;
    if (stored[0] != expected) {
      return "publish stored " + std::to_string(stored[0]) + " blocks, not " + std::to_string(expected);
    }
    return stored.front() == stored.back() ? "" : "twins stored another number of blocks";
  }

  std::string advise(const text& history, const pagoda::block_advice& advice) {
    std::string fault;
    const std::int64_t known = model.advise(history, advice);
    for (lane& one : lanes) {
      if (one.manager.advise(history.history(), advice) != known) fault = "advise knew another number of tokens";
    }
    return fault;
  }

  // ---- steps
  std::string plan(std::size_t index, std::vector<prefix_model::planned> batch) {
    pagoda::shortage expected{.group = -1};
    const prefix_model::verdict verdict = model.check(batch, &expected);
    std::size_t granted = 0;
    for (lane& one : lanes) {
      std::vector<pagoda::growth> wishes;
      for (const prefix_model::planned& entry : batch) {
        wishes.push_back({one.id(entry.name), static_cast<std::int32_t>(entry.tokens)});
      }
      pagoda::shortage why;
      std::optional<pagoda::step> step = one.manager.try_plan(wishes, &why);
      granted += step.has_value() ? 1U : 0U;
      if (step) one.steps[index].emplace(std::move(*step));
      if (step || verdict == prefix_model::verdict::fits) continue;
      if (std::string fault = same(why, expected); !fault.empty()) return fault;
    }
    if (granted != (verdict == prefix_model::verdict::fits ? lanes.size() : 0)) return "a plan granted or refused";
    if (verdict == prefix_model::verdict::too_few) ++model.counts.failed_plans;
    if (granted == 0) return "";
    std::vector<std::vector<ids>> after;
    for (const prefix_model::planned& entry : batch) after.push_back(tables(lanes[0], entry.name));
    std::vector<prefix_model::fresh> given;
    std::string fault = model.plan(static_cast<int>(index), std::move(batch), after, events(), given);
    poison_all(given);
    executed_[index] = false;
    return fault;
  }

  /// Takes the copies, performs them, and writes the planned tokens: those to be kept where the script says, among
  /// others that are not.
  std::string execute(std::size_t index) {
    const pagoda::copy_list copies = lanes[0].steps[index]->take_copies();
    for (lane& one : lanes) {
      if (&one == &lanes[0]) continue;
      const pagoda::copy_list other = one.steps[index]->take_copies();
      if (!same_lists(copies, other)) return "twins ask for other copies";
    }
    if (std::string fault = check_copies(index, copies); !fault.empty()) return fault;
    model.take_copies(static_cast<int>(index));
    perform(copies, storage_, storage_);
    for (const prefix_model::planned& entry : model.steps().at(static_cast<int>(index))) {
      if (entry.cancelled) continue;
      const prefix_model::sequence& seq = model.sequences().at(entry.name);
      std::int64_t next = seq.position;
      for (std::int32_t i = 0; i < entry.tokens; ++i) {
        const bool accepted = std::count(entry.accepted.begin(), entry.accepted.end(), i) > 0;
        const std::uint64_t row = accepted ? seq.script.row(next++) : mix(++junk_, 77);
        for (std::size_t g = 0; g < groups(); ++g) place(g, seq, seq.position + i) = row;
      }
    }
    executed_[index] = true;
    return "";
  }
  bool executed(std::size_t index) const { return executed_[index]; }

  void cancel(std::size_t index, std::size_t entry) {
    for (lane& one : lanes) one.steps[index]->cancel(static_cast<int>(entry));
    model.cancel(static_cast<int>(index), entry);
  }

  /// Keeps the accepted tokens. Requires: executed.
  std::string commit(std::size_t index, bool as_paths) {
    std::vector<std::int32_t> counts;
    std::vector<std::int32_t> values;
    std::vector<std::int32_t> offsets{0};
    bool prefixes = true;
    for (const prefix_model::planned& entry : model.steps().at(static_cast<int>(index))) {
      const std::vector<std::int32_t> kept = entry.cancelled ? std::vector<std::int32_t>{} : entry.accepted;
      prefixes = prefixes && (kept.empty() || kept.back() == static_cast<std::int32_t>(kept.size()) - 1);
      counts.push_back(static_cast<std::int32_t>(kept.size()));
      values.insert(values.end(), kept.begin(), kept.end());
      offsets.push_back(static_cast<std::int32_t>(values.size()));
    }
    if (prefixes && !as_paths) {
      for (lane& one : lanes) one.steps[index]->commit(counts);
    } else {
      const pagoda::copy_list moves = lanes[0].steps[index]->commit_paths({values, offsets});
      for (lane& one : lanes) {
        if (&one == &lanes[0]) continue;
        if (!same_lists(moves, one.steps[index]->commit_paths({values, offsets}))) return "twins move other rows";
      }
      for (std::size_t g = 0; g < groups(); ++g) {
        model.counts.copied_rows += static_cast<std::int64_t>(moves.rows(static_cast<int>(g)).size());
      }
      perform(moves, storage_, storage_);
    }
    model.commit(static_cast<int>(index));
    for (lane& one : lanes) one.steps[index].reset();
    return "";
  }

  void roll_back(std::size_t index) {
    for (lane& one : lanes) one.steps[index].reset();
    model.roll_back(static_cast<int>(index));
  }

  void complete(std::uint64_t ticket) {
    for (lane& one : lanes) one.manager.complete(pagoda::ticket{ticket});
    model.complete(ticket);
  }

  /// Twins of sequences here in another world, under the names in `made`.
  std::string transfer_to(prefix_world& other, const std::vector<key>& names, const std::vector<key>& made);

  /// Compares everything that can be seen. Empty if all of it agrees.
  std::string difference(bool thorough);

  static constexpr std::uint64_t poison = ~std::uint64_t{0};
  const pagoda::manager_config config;
  prefix_model model;
  std::vector<lane> lanes;
  std::vector<pagoda::prefix_event> told{};  // what the managers told in the last operation

 private:
  using storage = std::vector<std::vector<std::uint64_t>>;

  std::vector<ids> tables(const lane& one, key name) const {
    std::vector<ids> all;
    for (std::size_t g = 0; g < groups(); ++g)
      all.push_back(numbers(one.manager.blocks(one.id(name), static_cast<int>(g))));
    return all;
  }

  static std::string same(const pagoda::shortage& a, const pagoda::shortage& b) {
    if (b.group == -1) return a.group == -1 ? "" : "a refused batch was called a shortage";
    const bool equal = a.group == b.group && a.needed == b.needed && a.free == b.free && a.evictable == b.evictable &&
                       a.retiring == b.retiring;
    return equal ? "" : "a shortage differs";
  }

  bool same_lists(const pagoda::copy_list& a, const pagoda::copy_list& b) const {
    for (int g = 0; g < static_cast<int>(groups()); ++g) {
      const auto blocks = a.blocks(g);
      const auto rows = a.rows(g);
      if (!std::equal(blocks.begin(), blocks.end(), b.blocks(g).begin(), b.blocks(g).end())) return false;
      if (!std::equal(rows.begin(), rows.end(), b.rows(g).begin(), b.rows(g).end())) return false;
    }
    return true;
  }

  /// Each shared block that a step writes is copied once, to the block that stands in for it, and nothing else.
  std::string check_copies(std::size_t index, const pagoda::copy_list& copies) {
    for (std::size_t g = 0; g < groups(); ++g) {
      std::vector<pagoda::block_copy> expected;
      for (const prefix_model::planned& entry : model.steps().at(static_cast<int>(index))) {
        if (entry.cancelled || entry.replaced[g] < 0) continue;
        const ids& table = model.sequences().at(entry.name).table[g];
        expected.push_back({pagoda::block_id{entry.replaced[g]},
                            pagoda::block_id{table[static_cast<std::size_t>(entry.before[g] - 1)]}});
      }
      const auto asked = copies.blocks(static_cast<int>(g));
      model.counts.copied_blocks += static_cast<std::int64_t>(asked.size());
      if (!std::equal(asked.begin(), asked.end(), expected.begin(), expected.end()))
        return "a step asks for other copies";
    }
    return "";
  }

  void poison_all(const std::vector<prefix_model::fresh>& given) {
    for (const auto& [g, block] : given) {
      std::fill_n(storage_[g].begin() + std::int64_t{block} * config.block_size, config.block_size, poison);
    }
  }

  void perform(const pagoda::copy_list& list, const storage& from, storage& to) const {
    const std::int64_t size = config.block_size;
    for (std::size_t g = 0; g < groups(); ++g) {
      if (list.blocks(static_cast<int>(g)).empty() && list.rows(static_cast<int>(g)).empty()) continue;
      const std::vector<std::uint64_t> old = from[g];
      for (const pagoda::block_copy& copy : list.blocks(static_cast<int>(g))) {
        std::copy_n(old.begin() + static_cast<std::int64_t>(copy.from) * size, size,
                    to[g].begin() + static_cast<std::int64_t>(copy.to) * size);
      }
      for (const pagoda::row_copy& row : list.rows(static_cast<int>(g))) {
        to[g].at(static_cast<std::size_t>(static_cast<std::int64_t>(row.to_block) * size + row.to_slot)) =
            old.at(static_cast<std::size_t>(static_cast<std::int64_t>(row.from_block) * size + row.from_slot));
      }
    }
  }

  /// The slot of a token in one group; a scratch one if the window has dropped it.
  std::uint64_t& place(std::size_t g, const prefix_model::sequence& seq, std::int64_t t) {
    const std::int64_t logical = t / config.block_size;
    const pagoda::retention& keep = config.groups[g].keep;
    const std::int64_t sinks = keep.keeps_all() ? 0 : model.blocks_for(keep.sinks);
    if (logical >= sinks && logical < sinks + seq.skipped[g]) return scratch_;
    const std::int64_t entry = logical < sinks ? logical : logical - seq.skipped[g];
    const std::int64_t block = seq.table[g].at(static_cast<std::size_t>(entry));
    return storage_[g].at(static_cast<std::size_t>(block * config.block_size + t % config.block_size));
  }

  /// What the managers tell: taken, compared between them, and appended to `told`.
  const std::vector<pagoda::prefix_event>& events();
  std::string check_hashes(const pagoda::token_history& published);
  std::string compare_events();
  std::string compare_sequences();
  std::string compare_contents() const;

  std::vector<bool> executed_;
  storage storage_;
  std::map<std::pair<std::int32_t, std::int32_t>, std::uint64_t> hashes_;  // of the blocks of each group, as told
  std::uint64_t scratch_ = 0;
  std::uint64_t junk_ = 0;
  bool twins_told_other_ = false;
};

}  // namespace pagoda_test
