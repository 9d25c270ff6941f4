// SPDX-License-Identifier: Apache-2.0
/// @file The KV cache of one sequence: Pagoda's bookkeeping beside a storage that is chosen at run time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>

#include <pagoda/block_manager.hpp>

#include "kv_storage.hpp"

struct cache_settings {
  std::string dtype = "half";
  std::string keys{};    ///< of the keys, where it is not dtype
  std::string values{};  ///< of the values, likewise
  std::string layout = "heads_tokens_dim";
  std::int32_t block_size = 16;
  std::int32_t max_tokens = 0;       ///< the longest sequence
  std::int32_t max_step_tokens = 1;  ///< the longest step
  pagoda::retention keep{};
};

/// Blocks that the longest sequence holds at once, whatever its steps: all of its tokens, or the sinks, the window and
/// one step, where both ends may cut a block.
inline pagoda::num_blocks blocks_needed(const cache_settings& settings) {
  const auto blocks = [&](std::int64_t tokens) { return pagoda::divide_up(tokens, settings.block_size); };
  std::int64_t needed = blocks(settings.max_tokens);
  if (!settings.keep.keeps_all()) {
    const std::int64_t window = std::min<std::int64_t>(settings.keep.window, settings.max_tokens);
    needed = std::min(needed, blocks(settings.keep.sinks) + blocks(window + settings.max_step_tokens) + 1);
  }
  return {static_cast<std::int32_t>(needed)};
}

inline kv_storage_names storage_names(const cache_settings& settings) {
  return {settings.keys.empty() ? settings.dtype : settings.keys,
          settings.values.empty() ? settings.dtype : settings.values, settings.layout};
}

/// Throws: as pagoda::block_manager, make_kv_storage and pagoda::block_manager::plan.
class kv_cache {
 public:
  kv_cache(const pagoda::storage_shape& shape, const cache_settings& settings)
      : storage_(make_kv_storage(storage_names(settings), shape, settings.block_size, blocks_needed(settings))),
        manager_({.groups = {{.num_blocks = blocks_needed(settings).value, .keep = settings.keep}},
                  .block_size = settings.block_size,
                  .max_sequences = 1}),
        sequence_(manager_.make_sequence()) {}

  /// Tokens that are committed.
  std::int64_t position() const { return sequence_.position(); }

  /// Room for new tokens, ready to be written and read through storage().
  pagoda::step plan(std::int32_t new_tokens) {
    pagoda::step step = manager_.plan({{sequence_, new_tokens}});
    storage_->execute(step.take_copies());
    peak_blocks_ = std::max(peak_blocks_, manager_.stats().used);
    return step;
  }

  kv_storage& storage() { return *storage_; }
  const kv_storage& storage() const { return *storage_; }

  /// The most blocks in use so far, and those that there are.
  std::int64_t peak_blocks() const { return peak_blocks_; }
  std::int64_t total_blocks() const { return manager_.stats().total; }

 private:
  std::unique_ptr<kv_storage> storage_;
  pagoda::block_manager manager_;
  pagoda::sequence sequence_;
  std::int64_t peak_blocks_ = 0;
};
