// SPDX-License-Identifier: Apache-2.0
/// @file block_heap: block ids in the order of their keys, for eviction policies.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include <pagoda/shape.hpp>

namespace pagoda {

namespace detail {

template <class Key>
concept heap_key = std::default_initializable<Key> && std::is_nothrow_copy_constructible_v<Key> &&
    std::is_nothrow_copy_assignable_v<Key> && requires(const Key& a, const Key& b) {
  { a < b } -> std::convertible_to<bool>;
};

}  // namespace detail

/// A priority queue of blocks, smallest key first, from which any block can be taken and whose keys may change: a heap
/// in which every node has four children, since a block's key most often sinks and four keys lie side by side. Which of
/// two blocks of equal keys comes first is not stated: put a serial number into the key where it matters. Nothing
/// allocates after construction.
///
/// @tparam Key ordered by <, copied and compared without exceptions.
/// Units:      sizeof(Key) + 8 bytes a block.
/// Requires:   ids from 0 to num_blocks - 1.
/// Complexity: O(log size) for push, update, erase and pop_front; O(1) for the others.
/// Source:     d-ary heaps: Johnson 1975, "Priority queues with update and finding minimum spanning trees".
template <class Key>
class block_heap {
 public:
  /// Throws: invalid_argument for fewer than one block.
  explicit block_heap(std::int32_t num_blocks) {
    // Here, not in the class: a key that is a member of the policy is not yet complete there.
    static_assert(detail::heap_key<Key>,
                  "pagoda: the key of a block_heap must have a default, be copied without exceptions and be "
                  "ordered by `<`, as a number or a std::pair of numbers is");
    check_range("num_blocks", num_blocks, 1, INT32_MAX - 1);
    const auto count = static_cast<std::size_t>(num_blocks);
    keys_.resize(count);
    ids_.resize(count, block_id::none);
    places_.resize(count, nowhere);
  }

  std::int32_t size() const noexcept { return static_cast<std::int32_t>(size_); }
  bool contains(block_id id) const noexcept { return places_[index(id)] != nowhere; }

  /// Requires: contains(id).
  const Key& key(block_id id) const noexcept { return keys_[place(id)]; }

  /// The block with the smallest key, or block_id::none.
  block_id front() const noexcept { return size_ == 0 ? block_id::none : ids_[0]; }

  /// Requires: the block is not in the heap.
  void push(block_id id, Key key) noexcept { rise(size_++, id, key); }

  /// Requires: contains(id).
  void update(block_id id, Key key) noexcept { settle(place(id), id, key); }

  /// Requires: contains(id).
  void erase(block_id id) noexcept {
    const std::size_t hole = place(id);
    places_[index(id)] = nowhere;
    --size_;
    if (hole < size_) settle(hole, ids_[size_], keys_[size_]);
  }

  /// Takes the block with the smallest key out and returns it, or block_id::none.
  block_id pop_front() noexcept {
    const block_id first = front();
    if (first != block_id::none) erase(first);
    return first;
  }

 private:
  static constexpr std::int32_t nowhere = -1;
  static constexpr std::size_t children = 4;

  static std::size_t index(block_id id) noexcept { return static_cast<std::size_t>(id); }
  std::size_t place(block_id id) const noexcept { return static_cast<std::size_t>(places_[index(id)]); }

  void put(std::size_t place, block_id id, const Key& key) noexcept {
    keys_[place] = key;
    ids_[place] = id;
    places_[index(id)] = static_cast<std::int32_t>(place);
  }

  // Each takes the key by value: it may be that of a place which is overwritten here.
  void settle(std::size_t hole, block_id id, Key key) noexcept {
    if (hole > 0 && key < keys_[(hole - 1) / children]) {
      rise(hole, id, key);
    } else {
      sink(hole, id, key);
    }
  }

  void rise(std::size_t hole, block_id id, Key key) noexcept {
    while (hole > 0) {
      const std::size_t parent = (hole - 1) / children;
      if (!(key < keys_[parent])) break;
      put(hole, ids_[parent], keys_[parent]);
      hole = parent;
    }
    put(hole, id, key);
  }

  void sink(std::size_t hole, block_id id, Key key) noexcept {
    for (std::size_t child = hole * children + 1; child < size_; child = hole * children + 1) {
      const std::size_t end = child + children < size_ ? child + children : size_;
      std::size_t least = child;
      while (++child < end) {
        if (keys_[child] < keys_[least]) least = child;
      }
      if (!(keys_[least] < key)) break;
      put(hole, ids_[least], keys_[least]);
      hole = least;
    }
    put(hole, id, key);
  }

  std::vector<Key> keys_;             // by place in the heap
  std::vector<block_id> ids_;         // by place in the heap
  std::vector<std::int32_t> places_;  // by block
  std::size_t size_ = 0;
};

}  // namespace pagoda
