// SPDX-License-Identifier: Apache-2.0
// manager_core: construction and sequences.
#pragma once

namespace pagoda {

namespace detail {

/// Serial numbers of sequences, one series for the whole process.
inline std::uint64_t next_sequence_serial() noexcept {
  static std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

}  // namespace detail

inline manager_core::manager_core(manager_config config, const detail::eviction_choice& eviction)
    : config_(std::move(config)), eviction_(eviction) {
  check_block_size(config_.block_size);
  check_range("max_sequences", config_.max_sequences, 1, std::int64_t{1} << sequence_id::index_bits);
  check_range("max_batch", config_.max_batch, 0, config_.max_sequences);
  check_range("max_open_steps", config_.max_open_steps, 1, 1024);
  check_range("max_resident_tokens", config_.max_resident_tokens, 0, INT64_MAX - config_.block_size);
  check_range("number of layer groups", static_cast<std::int64_t>(config_.groups.size()), 1, 1024);
  check_range("prefix_hash_bits", config_.prefix_hash_bits, 0, 64);
  check_range("max_events", config_.max_events, 0, INT32_MAX);
  if (config_.max_batch == 0) config_.max_batch = config_.max_sequences;
  while ((1 << shift_) < config_.block_size) ++shift_;

  const auto sequences = static_cast<std::size_t>(config_.max_sequences);
  const auto batch = static_cast<std::size_t>(config_.max_batch);
  std::vector<std::int32_t> pool_sizes;
  for (std::size_t g = 0; g < config_.groups.size(); ++g) {
    const layer_group& group = config_.groups[g];
    check_retention(group.keep);
    check_range("block_bytes of a layer group", group.block_bytes, 0, std::int64_t{1} << 40);
    if (config_.groups.size() > 1 && group.layers.empty()) {
      detail::fail("layer group ", g, " names no layers, but a manager of ", config_.groups.size(),
                   " groups needs to know which layers each serves: fill layer_group::layers");
    }
    for (std::size_t i = 0; i < group.layers.size(); ++i) {
      const std::int32_t layer = group.layers[i];
      check_range("layer number", layer, 0, 1 << 20);
      if (locations_.size() <= static_cast<std::size_t>(layer)) {
        locations_.resize(static_cast<std::size_t>(layer) + 1, {.group = -1, .index = -1});
      }
      layer_location& location = locations_[static_cast<std::size_t>(layer)];
      if (location.group >= 0) {
        detail::fail("layer ", layer, " is in layer group ", location.group, " and again in group ", g,
                     ": name each layer once");
      }
      location = {static_cast<std::int32_t>(g), static_cast<std::int32_t>(i)};
    }
    block_pool pool(num_blocks{group.num_blocks});
    const std::int64_t sinks = group.keep.sink_blocks(config_.block_size);
    std::int64_t capacity = group.num_blocks;
    if (config_.max_resident_tokens > 0) {
      // A window, and the sinks before it, may each begin and end inside a block.
      const std::int64_t slack = group.keep.keeps_all() ? 0 : sinks > 0 ? 2 : 1;
      capacity = std::min(capacity, blocks_for(config_.max_resident_tokens) + slack);
    }
    if (sinks > capacity) {
      detail::fail("layer group ", g, " keeps ", group.keep.sinks, " sink tokens, but a block table holds ", capacity,
                   " blocks of ", config_.block_size, ": raise num_blocks or max_resident_tokens");
    }
    const std::int64_t table = checked_multiply(capacity, config_.max_sequences, "block table entries");
    check_range("bytes of the block tables", checked_multiply(table, sizeof(block_id), "bytes of the block tables"), 0,
                INT64_MAX / 2);
    groups_.push_back({std::move(pool), group.keep, static_cast<std::int32_t>(sinks), capacity,
                       std::make_unique_for_overwrite<block_id[]>(static_cast<std::size_t>(table)),
                       std::vector<std::int32_t>(sequences), std::vector<std::int32_t>(sequences),
                       eviction_.make(group.num_blocks)});
    pool_sizes.push_back(group.num_blocks);
  }
  index_.emplace(pool_sizes, config_.block_size, config_.prefix_seed, config_.prefix_hash_bits);
  if (config_.track_reuse) reuse_.emplace(index_->capacity());
  events_.resize(static_cast<std::size_t>(config_.max_events));

  sequences_.resize(sequences);
  free_slots_.reserve(sequences);
  for (std::int32_t slot = config_.max_sequences - 1; slot >= 0; --slot) free_slots_.push_back(slot);

  steps_.resize(static_cast<std::size_t>(config_.max_open_steps));
  for (step_record& step : steps_) {
    step.entries.resize(batch);
    step.context_lengths.resize(batch);
    step.query_offsets.resize(batch + 1);
    step.token_offsets.resize(batch + 1);
    step.groups.resize(groups_.size());
    for (step_group& group : step.groups) {
      group.table_offsets.resize(batch);
      group.skipped.resize(batch);
      group.entries_before.resize(batch);
      group.replaced.resize(batch);
    }
  }
}

inline void manager_core::check_open() const {
  if (closed_) {
    detail::fail<logic_error>("the block manager of this handle has been destroyed: keep the manager alive while its ",
                              "sequences and steps are used");
  }
}

inline std::int32_t manager_core::slot_of(sequence_id id) const {
  check_open();
  if (find(id) == nullptr) {
    detail::fail("sequence id ", id.value, " names no living sequence of this manager: it is empty, was released, or ",
                 "belongs to another manager; pass one that this manager made and that is alive");
  }
  return id.index();
}

inline std::int32_t manager_core::settled_slot_of(sequence_id id, const char* call) const {
  const std::int32_t slot = slot_of(id);
  if (sequences_[static_cast<std::size_t>(slot)].open_step != no_step) {
    detail::fail<logic_error>(call, " of a sequence that is in an open step: commit, cancel or destroy the step first");
  }
  return slot;
}

inline const manager_core::group_state& manager_core::group_at(int group) const {
  return groups_[detail::group_index(group, groups_.size())];
}

inline sequence_id manager_core::take_slot() {
  check_open();
  if (free_slots_.empty()) {
    detail::fail<capacity_exceeded>("all ", config_.max_sequences,
                                    " sequences are in use: release one or raise max_sequences");
  }
  const std::int32_t slot = free_slots_.back();
  free_slots_.pop_back();
  const std::uint64_t id = detail::next_sequence_serial() << sequence_id::index_bits | static_cast<std::uint64_t>(slot);
  sequences_[static_cast<std::size_t>(slot)] = {.id = id};
  for (group_state& group : groups_) {
    group.entries[static_cast<std::size_t>(slot)] = 0;
    group.skipped[static_cast<std::size_t>(slot)] = 0;
  }
  return {id};
}

inline sequence_id manager_core::make_sequence() {
  return take_slot();
}

inline sequence_id manager_core::fork(sequence_id parent) {
  const std::int32_t from = settled_slot_of(parent, "fork");
  const sequence_id child = take_slot();
  const std::int32_t to = child.index();
  const std::int32_t position = sequences_[static_cast<std::size_t>(from)].position;
  const sequence_record& source = sequences_[static_cast<std::size_t>(from)];
  sequence_record& copy = sequences_[static_cast<std::size_t>(to)];
  copy.position = position;
  copy.publishable = source.publishable;
  copy.published = source.published;
  copy.published_generation = source.published_generation;
  for (group_state& group : groups_) {
    const std::int32_t entries = group.entries[static_cast<std::size_t>(from)];
    for (std::int32_t i = 0; i < entries; ++i) {
      group.pool.share(group.row(from)[i]);
      group.row(to)[i] = group.row(from)[i];
    }
    const std::int32_t skipped = group.skipped[static_cast<std::size_t>(from)];
    group.entries[static_cast<std::size_t>(to)] = entries;
    group.table_entries += entries;
    group.skipped[static_cast<std::size_t>(to)] = skipped;
    group.tokens += position - static_cast<std::int64_t>(skipped) * config_.block_size;
  }
  return child;
}

inline void manager_core::release(sequence_id id) noexcept {
  const sequence_record* found = closed_ ? nullptr : find(id);
  if (found == nullptr) return;
  const std::int32_t slot = id.index();
  sequence_record& record = sequences_[static_cast<std::size_t>(slot)];
  if (record.open_step != no_step) {
    record.released = true;  // the step's work may still read the blocks
  } else {
    free_slot(slot);
  }
}

inline void manager_core::free_slot(std::int32_t slot) noexcept {
  sequence_record& record = sequences_[static_cast<std::size_t>(slot)];
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    group_state& group = groups_[g];
    group.tokens -=
        record.position - static_cast<std::int64_t>(group.skipped[static_cast<std::size_t>(slot)]) * config_.block_size;
    release_blocks(g, slot, 0);
  }
  record = {};
  free_slots_.push_back(slot);
}

inline void manager_core::truncate(sequence_id id, std::int64_t tokens) {
  const std::int32_t slot = settled_slot_of(id, "truncate");
  sequence_record& record = sequences_[static_cast<std::size_t>(slot)];
  check_range("the length to truncate to", tokens, 0, record.position, "pass at most the committed tokens");
  for (const group_state& group : groups_) {
    const std::int64_t skipped = group.skipped[static_cast<std::size_t>(slot)];
    const std::int64_t dropped_begin = static_cast<std::int64_t>(group.sink_blocks) * config_.block_size;
    const std::int64_t dropped_end = dropped_begin + skipped * config_.block_size;
    if (skipped > 0 && tokens > dropped_begin && group.keep.window_begin(tokens) < dropped_end) {
      detail::fail("truncate to ", tokens, " would need tokens from ", group.keep.window_begin(tokens),
                   " on, but the window has dropped those from ", dropped_begin, " to ", dropped_end - 1,
                   ": truncate to ", dropped_begin, dropped_begin > 0 ? " or fewer, or to " : ", or to ",
                   dropped_end + group.keep.window - 1, " or more");
    }
  }
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    group_state& group = groups_[g];
    const auto index = static_cast<std::size_t>(slot);
    const std::int64_t dropped_begin = static_cast<std::int64_t>(group.sink_blocks) * config_.block_size;
    const std::int64_t before = record.position - static_cast<std::int64_t>(group.skipped[index]) * config_.block_size;
    const bool all_dropped_is_cut = tokens <= dropped_begin;
    const std::int64_t kept =
        blocks_for(tokens) - (all_dropped_is_cut ? 0 : static_cast<std::int64_t>(group.skipped[index]));
    release_blocks(g, slot, static_cast<std::int32_t>(kept));
    if (all_dropped_is_cut) group.skipped[index] = 0;
    group.tokens += tokens - static_cast<std::int64_t>(group.skipped[index]) * config_.block_size - before;
  }
  record.position = static_cast<std::int32_t>(tokens);
  while (record.published != prefix_index::nothing &&
         index_->generation(record.published) == record.published_generation &&
         index_->depth(record.published) >= tokens >> shift_) {
    record.published = index_->parent(record.published);
    if (record.published != prefix_index::nothing) record.published_generation = index_->generation(record.published);
  }
}

inline std::int64_t manager_core::position(sequence_id id) const {
  return sequences_[static_cast<std::size_t>(slot_of(id))].position;
}

inline std::int64_t manager_core::resident(sequence_id id, int group) const {
  const auto slot = static_cast<std::size_t>(slot_of(id));
  return sequences_[slot].position - static_cast<std::int64_t>(group_at(group).skipped[slot]) * config_.block_size;
}

inline std::span<const block_id> manager_core::blocks(sequence_id id, int group) const {
  const std::int32_t slot = slot_of(id);
  const group_state& state = group_at(group);
  return {state.row(slot), static_cast<std::size_t>(state.entries[static_cast<std::size_t>(slot)])};
}

inline layer_location manager_core::locate(std::int32_t layer) const {
  if (locations_.empty() && layer >= 0) return {0, layer};
  if (layer < 0 || static_cast<std::size_t>(layer) >= locations_.size() ||
      locations_[static_cast<std::size_t>(layer)].group < 0) {
    detail::fail<out_of_range>("layer ", layer, " is in none of the ", groups_.size(),
                               " layer groups: name it in one of layer_group::layers");
  }
  return locations_[static_cast<std::size_t>(layer)];
}

inline void manager_core::close() noexcept {
  closed_ = true;
  std::vector<group_state>().swap(groups_);
  std::vector<sequence_record>().swap(sequences_);
  std::vector<std::int32_t>().swap(free_slots_);
  std::vector<step_record>().swap(steps_);
  std::vector<layer_location>().swap(locations_);
  std::vector<std::int64_t>().swap(expires_);
  std::vector<prefix_event>().swap(events_);
  index_.reset();
  reuse_.reset();
}

}  // namespace pagoda
