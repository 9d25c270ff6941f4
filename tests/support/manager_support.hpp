// SPDX-License-Identifier: Apache-2.0
/// @file What the tests of the block manager share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <pagoda/block_manager.hpp>

namespace pagoda_test {

using ids = std::vector<std::int32_t>;

inline std::int32_t number(pagoda::block_id block) {
  return static_cast<std::int32_t>(block);
}

inline ids numbers(std::span<const pagoda::block_id> blocks) {
  ids result;
  for (const pagoda::block_id block : blocks) result.push_back(number(block));
  return result;
}

/// The block table of a sequence.
inline ids table(const pagoda::block_manager& manager, pagoda::sequence_id id, int group = 0) {
  return numbers(manager.blocks(id, group));
}

/// Plans and commits new tokens of one sequence; its copies are taken and dropped.
inline void grow(pagoda::block_manager& manager, pagoda::sequence_id id, std::int32_t tokens) {
  pagoda::step step = manager.plan({{id, tokens}});
  (void)step.take_copies();
  step.commit();
}

/// Empty if check_integrity finds nothing and each group's free, cached, used and retiring blocks are its total.
inline std::string faults(const pagoda::block_manager& manager) {
  std::string all;
  for (const std::string& fault : manager.check_integrity().faults) all += fault + "; ";
  for (int group = 0; group < static_cast<int>(manager.config().groups.size()); ++group) {
    const pagoda::block_stats stats = manager.stats(group);
    if (stats.free + stats.cached + stats.used + stats.retiring != stats.total) {
      all += "free + cached + used + retiring != total; ";
    }
  }
  return all;
}

/// The blocks that the pool of one group gives out next, in order: takes all of them with one sequence, and rolls back.
inline ids free_list(pagoda::block_manager& manager, int group = 0) {
  const pagoda::sequence probe = manager.make_sequence();
  const auto free = static_cast<std::int32_t>(manager.stats(group).free);
  const pagoda::step step = manager.plan({{probe, free * manager.config().block_size}});
  return numbers(step.new_blocks(group, 0));
}

/// All tokens, a window, sinks and a window.
inline pagoda::manager_config three_groups(std::int32_t blocks = 24) {
  return {.groups = {{.num_blocks = blocks, .layers = {0}},
                     {.num_blocks = blocks, .keep = {.window = 5}, .layers = {1}},
                     {.num_blocks = blocks, .keep = {.sinks = 3, .window = 6}, .layers = {2}}},
          .block_size = 4,
          .max_sequences = 6,
          .max_open_steps = 2};
}

/// The block tables of a sequence in every group.
inline std::vector<ids> tables(const pagoda::block_manager& manager, pagoda::sequence_id id) {
  std::vector<ids> all;
  for (int g = 0; g < static_cast<int>(manager.config().groups.size()); ++g) all.push_back(table(manager, id, g));
  return all;
}

}  // namespace pagoda_test
