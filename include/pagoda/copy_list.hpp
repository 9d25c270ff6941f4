// SPDX-License-Identifier: Apache-2.0
/// @file copy_list: the movements of bytes that bookkeeping asks for.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <pagoda/shape.hpp>

namespace pagoda {

/// All bytes of one block, in every layer of the group.
struct block_copy {
  block_id from;
  block_id to;
  friend constexpr bool operator==(const block_copy&, const block_copy&) = default;
};

/// The key row, the value row and their scales of one slot, for all heads and every layer of the group.
struct row_copy {
  block_id from_block;
  std::int32_t from_slot;
  block_id to_block;
  std::int32_t to_slot;
  friend constexpr bool operator==(const row_copy&, const row_copy&) = default;
};

/// What to copy, for each layer group. Only a manager makes one; host::execute performs it on the group's
/// storage as if everything were read before anything is written. Rows move as encoded bytes and are never quantised
/// again. The lists of transfer() name blocks of two managers, and execute takes the storages of both.
class [[nodiscard]] copy_list {
 public:
  copy_list() noexcept = default;

  bool empty() const noexcept {
    for (const copies& group : groups_) {
      if (!group.blocks.empty() || !group.rows.empty()) return false;
    }
    return true;
  }

  /// The copies of one layer group. Throws: out_of_range for a group that the manager does not have, and for none where
  /// it has several.
  std::span<const block_copy> blocks(int group = only_group) const {
    const std::size_t index = checked(group);
    return groups_.empty() ? std::span<const block_copy>() : groups_[index].blocks;
  }
  std::span<const row_copy> rows(int group = only_group) const {
    const std::size_t index = checked(group);
    return groups_.empty() ? std::span<const row_copy>() : groups_[index].rows;
  }

  /// The manager's block size; 0 of an empty list.
  std::int32_t block_size() const noexcept { return block_size_; }

  /// Whether transfer() made it: then it copies whole blocks of one manager to blocks of another.
  bool between_managers() const noexcept { return between_managers_; }

 private:
  friend class manager_core;

  struct copies {
    std::vector<block_copy> blocks;
    std::vector<row_copy> rows;
  };

  explicit copy_list(std::size_t groups) noexcept : group_count_(groups) {}

  /// A list that no manager made is for any group.
  std::size_t checked(int group) const { return group_count_ == 0 ? 0 : detail::group_index(group, group_count_); }

  copies& at(std::size_t group, std::int32_t block_size) {
    if (groups_.empty()) groups_.resize(group_count_);
    block_size_ = block_size;
    return groups_[group];
  }

  std::size_t group_count_ = 0;
  std::vector<copies> groups_;  // empty, or of each group
  std::int32_t block_size_ = 0;
  bool between_managers_ = false;
};

namespace detail {

inline void check_copies_block_size(const copy_list& copies, std::int32_t block_size) {
  if (copies.block_size() != 0 && copies.block_size() != block_size) {
    fail("the copies are for blocks of ", copies.block_size(), " tokens, but the storage has blocks of ", block_size,
         ": execute them on the storage of their own manager");
  }
}

inline void check_copied_block(block_id block, std::int32_t num_blocks) {
  const auto index = static_cast<std::int32_t>(block);
  if (index < 0 || index >= num_blocks) {
    fail<out_of_range>("a copy names block ", index, ", but the storage has blocks 0 to ", num_blocks - 1,
                       ": execute the list on the storage of its own manager");
  }
}

}  // namespace detail

/// Checks one group's copies against a storage of num_blocks blocks of block_size tokens.
/// Throws: out_of_range for a block that it lacks or a group that the manager lacks; invalid_argument for another block
///         size, and for a list of transfer().
inline void check_copies(const copy_list& copies, int group, std::int32_t block_size, std::int32_t num_blocks) {
  detail::check_copies_block_size(copies, block_size);
  if (copies.between_managers()) {
    detail::fail("the copies are of a transfer between two managers, but one storage is given: call ",
                 "execute(from, to, copies)");
  }
  for (const block_copy& copy : copies.blocks(group)) {
    detail::check_copied_block(copy.from, num_blocks);
    detail::check_copied_block(copy.to, num_blocks);
  }
  for (const row_copy& copy : copies.rows(group)) {
    detail::check_copied_block(copy.from_block, num_blocks);
    detail::check_copied_block(copy.to_block, num_blocks);
  }
}

/// Checks one group's copies of a transfer() against the storages that they are from and to.
/// Throws: out_of_range for a block that its storage lacks or a group that the managers lack; invalid_argument for
///         another block size, and for a list that is not of transfer().
inline void check_transfer_copies(const copy_list& copies, int group, std::int32_t block_size, std::int32_t from_blocks,
                                  std::int32_t to_blocks) {
  detail::check_copies_block_size(copies, block_size);
  if (!copies.between_managers() && !copies.empty()) {
    detail::fail("the copies are within one manager's blocks, but two storages are given: call ",
                 "execute(storage, copies)");
  }
  for (const block_copy& copy : copies.blocks(group)) {
    detail::check_copied_block(copy.from, from_blocks);
    detail::check_copied_block(copy.to, to_blocks);
  }
}

}  // namespace pagoda
