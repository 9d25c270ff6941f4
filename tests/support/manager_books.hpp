// SPDX-License-Identifier: Apache-2.0
/// @file All that can be seen of a block manager's books, so that a test can tell whether a refused call changed them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <pagoda/block_manager.hpp>

#include "manager_support.hpp"

namespace pagoda_test {

struct manager_books {
  std::vector<pagoda::block_stats> groups;
  std::vector<std::int64_t> counters;
  std::vector<std::int64_t> positions;
  std::vector<ids> tables;  // [sequences][groups]
  std::string faults;
  friend bool operator==(const manager_books&, const manager_books&) = default;
};

/// The books of a manager and those of its sequences that are named. Plans refused for want of blocks are not among the
/// counters: that they were refused is counted.
inline manager_books books_of(const pagoda::block_manager& manager, std::span<const pagoda::sequence> sequences) {
  const pagoda::manager_stats all = manager.snapshot();
  manager_books books;
  books.groups = all.groups;
  books.counters = {all.sequences,    all.open_steps,    all.plans,       all.rollbacks,   all.matches,
                    all.asked_tokens, all.hit_tokens,    all.lookups,     all.hits,        all.stored,
                    all.evictions,    all.copied_blocks, all.copied_rows, all.copied_bytes};
  for (const std::int64_t count : all.eviction_ages.counts) books.counters.push_back(count);
  for (const std::int64_t count : all.reuse_distances.counts) books.counters.push_back(count);
  for (const pagoda::sequence& sequence : sequences) {
    if (!sequence) continue;
    books.positions.push_back(sequence.position());
    for (int group = 0; group < static_cast<int>(all.groups.size()); ++group) {
      books.tables.push_back(table(manager, sequence, group));
    }
  }
  books.faults = faults(manager);
  return books;
}

}  // namespace pagoda_test
