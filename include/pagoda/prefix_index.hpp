// SPDX-License-Identifier: Apache-2.0
/// @file prefix_index: from token histories to the blocks that hold them.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <pagoda/detail/content_key.hpp>
#include <pagoda/eviction.hpp>
#include <pagoda/token_history.hpp>

namespace pagoda {

/// A tree of contents. A node is one block's worth of tokens behind the node before it; it knows, for each layer group,
/// the block that holds its keys and values, if one still does. Two nodes of full blocks are never the same content,
/// and two histories lead to one node only if all tokens, tags and domains on the way are equal: hashes only say where
/// to look.
///
/// A node of fewer tokens than a block is the tail of a history; it has no children. A node that lost its blocks stays
/// while others stand behind it ("bare"), since their identity rests on it. When no node is free, the subtree behind
/// the node that has been bare for longest is given up; what new nodes are to stand on counts as bare since then.
///
/// It knows no references and no order of eviction: the manager does.
/// Complexity: O(tokens of a block) for each block found, added or taken out, but for find_tail.
class prefix_index {
 public:
  using node_id = std::int32_t;
  static constexpr node_id nothing = -1;

  /// Of the children of a node, find_tail looks at no more than the youngest of this number: older ones may be the same
  /// tail as a younger one.
  static constexpr int most_tails = 64;

  /// hash_bits below 64 keeps only so many bits of each hash: for tests that need collisions.
  prefix_index(std::span<const std::int32_t> blocks_of_groups, std::int32_t block_size, std::uint64_t seed,
               std::int32_t hash_bits)
      : block_size_(block_size),
        groups_(static_cast<std::int32_t>(blocks_of_groups.size())),
        seed_(seed),
        mask_(hash_bits == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << hash_bits) - 1) {
    std::int64_t capacity = 0;
    for (const std::int32_t blocks : blocks_of_groups) {
      capacity += blocks;
      node_of_.emplace_back(static_cast<std::size_t>(blocks), nothing);
    }
    check_range("blocks of all layer groups", capacity, 1, INT32_MAX - 1, "make the pools smaller");
    const auto count = static_cast<std::size_t>(capacity);
    nodes_.resize(count);
    buckets_.assign(count, nothing);
    tokens_ = std::make_unique_for_overwrite<std::int32_t[]>(
        static_cast<std::size_t>(checked_multiply(capacity, block_size, "tokens of the prefix index")));
    blocks_ = std::make_unique_for_overwrite<block_id[]>(
        static_cast<std::size_t>(checked_multiply(capacity, groups_, "blocks of the prefix index")));
  }

  // ---- finding
  /// The hash of a content behind a node; `before` is nothing for the first block.
  std::uint64_t hash(node_id before, const detail::block_content& content) const noexcept {
    return detail::hash_block(before == nothing ? seed_ : at(before).hash, content) & mask_;
  }

  /// The node of a full block's content behind `before`, or nothing.
  node_id find(node_id before, const detail::block_content& content, std::uint64_t hash) const noexcept {
    node_id i = buckets_[bucket_of(hash)];
    while (i != nothing && !(at(i).hash == hash && at(i).parent == before && content_of(i).equals(content)))
      i = at(i).next;
    return i;
  }

  struct tail {
    node_id node = nothing;
    std::int32_t tokens = 0;
  };

  /// The child of `before` that agrees with the content for the most tokens, one at least, and that every group holds:
  /// whoever goes on from within its block reads it in all of them.
  /// Complexity: O(tokens of a block) for each child looked at, of which there are most_tails at most.
  tail find_tail(node_id before, const detail::block_content& content) const noexcept {
    tail best;
    int left = most_tails;
    for (node_id i = first_child(before); i != nothing && left > 0; i = at(i).next_sibling, --left) {
      if (static_cast<std::int32_t>(at(i).held) < groups_) continue;
      const std::int32_t tokens = content_of(i).agreeing(content);
      if (tokens > best.tokens) best = {i, tokens};
    }
    return best;
  }

  /// The child of `before` that is this content of fewer tokens than a block, whoever holds it, or nothing.
  /// Complexity: as find_tail.
  node_id find_same_tail(node_id before, const detail::block_content& content) const noexcept {
    int left = most_tails;
    for (node_id i = first_child(before); i != nothing && left > 0; i = at(i).next_sibling, --left) {
      if (content_of(i).equals(content)) return i;
    }
    return nothing;
  }

  // ---- what a node holds
  /// Whether its tokens, tags and domain are those that the content begins with.
  bool begins(node_id i, const detail::block_content& content) const noexcept {
    return content_of(i).agreeing(content) == at(i).tokens;
  }
  /// Whether it is this content, tokens, tags and domain, behind whatever is before it.
  bool holds(node_id i, const detail::block_content& content) const noexcept { return content_of(i).equals(content); }
  std::int32_t tokens(node_id i) const noexcept { return at(i).tokens; }
  node_id parent(node_id i) const noexcept { return at(i).parent; }
  block_id block(node_id i, int group) const noexcept { return blocks_[place(i, group)]; }
  bool bare(node_id i) const noexcept { return at(i).held == 0; }
  std::uint64_t hash_of(node_id i) const noexcept { return at(i).hash; }
  std::uint64_t parent_hash_of(node_id i) const noexcept {
    return at(i).parent == nothing ? seed_ : at(at(i).parent).hash;
  }
  std::uint32_t generation(node_id i) const noexcept { return at(i).generation; }
  std::int32_t depth(node_id i) const noexcept { return at(i).depth; }  ///< blocks before it

  /// Matches that took the node since it was stored.
  std::uint32_t hits(node_id i) const noexcept { return at(i).hits; }
  /// The manager's count of lookups when the node was last stored or taken. Requires: it has a block.
  std::uint64_t last_use(node_id i) const noexcept { return at(i).last_use; }
  void count_hit(node_id i, std::uint64_t now) noexcept {
    ++at(i).hits;
    at(i).last_use = now;
  }

  /// What the caller holds of the content; a new node has the default.
  std::int32_t priority(node_id i) const noexcept { return static_cast<std::int32_t>(at(i).priority); }
  bool pinned(node_id i) const noexcept { return at(i).pinned != 0; }
  void set_worth(node_id i, std::int32_t priority, bool pinned) noexcept {
    at(i).priority = static_cast<std::uint32_t>(priority) & 127;
    at(i).pinned = pinned ? 1 : 0;
  }

  /// The domain that a node belongs to. Complexity: O(depth).
  std::string_view domain_of(node_id i) const noexcept {
    while (at(i).parent != nothing) i = at(i).parent;
    return at(i).key == nullptr ? std::string_view() : std::string_view(at(i).key->domain);
  }

  /// The node that a block of a group is entered in, or nothing.
  node_id node_of(int group, block_id block) const noexcept {
    return node_of_[static_cast<std::size_t>(group)][static_cast<std::size_t>(block)];
  }

  /// How many slots of a block the index has promised not to change; 0 of a block that is not entered.
  std::int32_t promised(int group, block_id block) const noexcept {
    const node_id i = node_of(group, block);
    return i == nothing ? 0 : at(i).tokens;
  }

  std::int32_t size() const noexcept { return live_; }
  std::int32_t capacity() const noexcept { return static_cast<std::int32_t>(nodes_.size()); }
  bool full() const noexcept { return first_free_ == nothing && fresh_ == static_cast<node_id>(nodes_.size()); }

  /// The node that has been bare for longest, or nothing.
  node_id oldest_bare() const noexcept { return first_bare_; }

  /// The bare ones among a node and those before it count as bare since now. Complexity: O(depth).
  void renew_bare(node_id i) noexcept {
    for (; i != nothing; i = at(i).parent) {
      if (!at(i).in_bare_list) continue;
      leave_bare_list(i);
      note_bare(i);
    }
  }

  bool is_behind(node_id i, node_id ancestor) const noexcept {
    while (i != nothing && i != ancestor) i = at(i).parent;
    return i == ancestor;
  }

  // ---- changing
  /// A new node, without blocks yet. Requires: it is not there, the index is not full, and `key` is the content's part.
  node_id add(node_id before, const detail::block_content& content, std::uint64_t hash,
              std::unique_ptr<const detail::content_key> key) noexcept {
    const node_id i = first_free_ != nothing ? std::exchange(first_free_, at(first_free_).next) : fresh_++;
    node& fresh = at(i);
    fresh = {.hash = hash, .key = std::move(key), .parent = before, .generation = fresh.generation};
    fresh.tokens = static_cast<std::int32_t>(content.tokens.size());
    fresh.depth = before == nothing ? 0 : at(before).depth + 1;
    std::copy(content.tokens.begin(), content.tokens.end(), tokens_.get() + std::int64_t{i} * block_size_);
    std::fill_n(blocks_.get() + place(i, 0), groups_, block_id::none);
    node_id& sibling = before == nothing ? first_root_ : at(before).first_child;
    fresh.next_sibling = sibling;
    if (sibling != nothing) at(sibling).previous_sibling = i;
    sibling = i;
    if (fresh.tokens == block_size_) {
      node_id& first = buckets_[bucket_of(hash)];
      fresh.next = first;
      first = i;
    }
    if (before != nothing) note_bare(before);
    ++live_;
    return i;
  }

  /// Enters the block that holds a node's content. Requires: the node has none in that group, the block has no node.
  void attach(node_id i, int group, block_id block, std::uint64_t now) noexcept {
    blocks_[place(i, group)] = block;
    node_of_[static_cast<std::size_t>(group)][static_cast<std::size_t>(block)] = i;
    ++at(i).held;
    note_bare(i);
    at(i).last_use = now;
  }

  /// Takes a block out, and the nodes that are of no use without it; but `keep` stays.
  void detach(int group, block_id block, node_id keep = nothing) noexcept {
    const node_id i =
        std::exchange(node_of_[static_cast<std::size_t>(group)][static_cast<std::size_t>(block)], nothing);
    blocks_[place(i, group)] = block_id::none;
    --at(i).held;
    note_bare(i);
    prune(i, keep);
  }

  /// Takes out a node that holds nothing and leads nowhere, and so those before it, up to `keep`.
  void prune(node_id i, node_id keep = nothing) noexcept {
    while (i != nothing && i != keep && at(i).held == 0 && at(i).first_child == nothing) {
      const node_id before = at(i).parent;
      take_out(i);
      if (before != nothing) note_bare(before);
      i = before;
    }
  }

  /// Takes out a node and all behind it, and those before it as prune does. First on_block(node, group, block) is
  /// called for each block. Complexity: O(nodes of the subtree).
  template <class OnBlock>
  void drop(node_id root, OnBlock on_block, node_id keep = nothing) noexcept {
    const node_id before = at(root).parent;
    node_id i = root;
    while (true) {
      while (at(i).first_child != nothing) i = at(i).first_child;
      for (int group = 0; group < groups_; ++group) {
        const block_id held = block(i, group);
        if (held == block_id::none) continue;
        on_block(i, group, held);
        node_of_[static_cast<std::size_t>(group)][static_cast<std::size_t>(held)] = nothing;
      }
      const node_id up = at(i).parent;
      const bool done = i == root;
      at(i).held = 0;
      take_out(i);
      if (done) break;
      i = up;
    }
    if (before == nothing) return;
    note_bare(before);
    prune(before, keep);
  }

  /// Takes out everything, as drop does.
  template <class OnBlock>
  void clear(OnBlock on_block) noexcept {
    while (first_root_ != nothing) drop(first_root_, on_block);
  }

  /// Walks everything. True if links and counts agree. Complexity: O(nodes * groups).
  bool consistent() const;

 private:
  struct node {
    std::uint64_t hash = 0;
    std::unique_ptr<const detail::content_key> key{};
    node_id parent = nothing;
    node_id first_child = nothing;
    node_id next_sibling = nothing;
    node_id previous_sibling = nothing;
    node_id next = nothing;  // in the bucket, or in the free list
    std::int32_t tokens = 0;
    std::int32_t depth = 0;
    std::uint32_t generation = 0;  // of this record: a note of it from before a removal does not fit
    std::uint32_t hits = 0;
    std::uint32_t held : 11 = 0;  // groups with a block
    std::uint32_t in_bare_list : 1 = 0;
    std::uint32_t pinned : 1 = 0;
    std::uint32_t priority : 7 = default_priority;
    std::uint64_t last_use = 0;  // of a bare node: its place in the list of the bare
  };
  static_assert(sizeof(void*) != 8 || sizeof(node) == 64, "a node is a cache line");

  struct bare_links {
    node_id previous;
    node_id next;
  };

  node& at(node_id i) noexcept { return nodes_[static_cast<std::size_t>(i)]; }
  const node& at(node_id i) const noexcept { return nodes_[static_cast<std::size_t>(i)]; }
  std::size_t place(node_id i, int group) const noexcept {
    return static_cast<std::size_t>(i) * static_cast<std::size_t>(groups_) + static_cast<std::size_t>(group);
  }
  std::size_t bucket_of(std::uint64_t hash) const noexcept {
    return static_cast<std::size_t>((hash >> 32) * buckets_.size() >> 32);
  }
  node_id first_child(node_id i) const noexcept { return i == nothing ? first_root_ : at(i).first_child; }

  detail::stored_content content_of(node_id i) const noexcept {
    return {{tokens_.get() + std::int64_t{i} * block_size_, static_cast<std::size_t>(at(i).tokens)}, at(i).key.get()};
  }

  bare_links links_of(node_id i) const noexcept { return std::bit_cast<bare_links>(at(i).last_use); }
  void set_links(node_id i, bare_links links) noexcept { at(i).last_use = std::bit_cast<std::uint64_t>(links); }

  void leave_bare_list(node_id i) noexcept {
    const bare_links links = links_of(i);
    if (links.previous == nothing) {
      first_bare_ = links.next;
    } else {
      set_links(links.previous, {links_of(links.previous).previous, links.next});
    }
    if (links.next == nothing) {
      last_bare_ = links.previous;
    } else {
      set_links(links.next, {links.previous, links_of(links.next).next});
    }
    at(i).in_bare_list = 0;
    at(i).last_use = 0;
    at(i).hits = 0;
  }

  /// Enters the node in the list of the bare, or takes it out, as its state says.
  void note_bare(node_id i) noexcept {
    const bool belongs = at(i).held == 0 && at(i).first_child != nothing;
    if (belongs == (at(i).in_bare_list != 0)) return;
    if (!belongs) return leave_bare_list(i);
    at(i).in_bare_list = 1;
    set_links(i, {last_bare_, nothing});
    if (last_bare_ == nothing) {
      first_bare_ = i;
    } else {
      set_links(last_bare_, {links_of(last_bare_).previous, i});
    }
    last_bare_ = i;
  }

  /// Requires: no children, no blocks.
  void take_out(node_id i) noexcept {
    node& old = at(i);
    if (old.in_bare_list != 0) leave_bare_list(i);
    if (old.tokens == block_size_) {
      node_id* link = &buckets_[bucket_of(old.hash)];
      while (*link != i) link = &at(*link).next;
      *link = old.next;
    }
    node_id& first = old.parent == nothing ? first_root_ : at(old.parent).first_child;
    (old.previous_sibling == nothing ? first : at(old.previous_sibling).next_sibling) = old.next_sibling;
    if (old.next_sibling != nothing) at(old.next_sibling).previous_sibling = old.previous_sibling;
    old = {.next = first_free_, .generation = old.generation + 1};
    first_free_ = i;
    --live_;
  }

  std::int32_t block_size_;
  std::int32_t groups_;
  std::uint64_t seed_;
  std::uint64_t mask_;
  std::vector<node> nodes_;
  std::vector<node_id> buckets_;               // as many as nodes
  std::unique_ptr<std::int32_t[]> tokens_;     // [nodes, block_size]
  std::unique_ptr<block_id[]> blocks_;         // [nodes, groups]
  std::vector<std::vector<node_id>> node_of_;  // [groups][blocks]
  node_id first_root_ = nothing;               // the nodes of first blocks
  node_id first_free_ = nothing;
  node_id fresh_ = 0;  // records from here on were never used
  node_id first_bare_ = nothing;
  node_id last_bare_ = nothing;
  std::int32_t live_ = 0;
};

inline bool prefix_index::consistent() const {
  std::int32_t live = 0;
  std::int32_t bare = 0;
  for (node_id i = 0; i < fresh_; ++i) {
    const node& x = at(i);
    if (x.tokens == 0) continue;  // free
    ++live;
    bare += x.in_bare_list != 0 ? 1 : 0;
    std::int32_t held = 0;
    for (int group = 0; group < groups_; ++group) {
      const block_id holds = block(i, group);
      held += holds == block_id::none ? 0 : 1;
      if (holds != block_id::none && node_of(group, holds) != i) return false;
    }
    if (held != static_cast<std::int32_t>(x.held) || (held == 0 && x.first_child == nothing)) return false;
    if ((x.in_bare_list != 0) != (held == 0)) return false;
    if (x.tokens < block_size_ && x.first_child != nothing) return false;
    if (x.depth != (x.parent == nothing ? 0 : at(x.parent).depth + 1)) return false;
    node_id child = x.first_child;
    for (node_id last = nothing; child != nothing; last = std::exchange(child, at(child).next_sibling)) {
      if (at(child).parent != i || at(child).previous_sibling != last) return false;
    }
    if (x.tokens < block_size_) continue;
    node_id found = buckets_[bucket_of(x.hash)];
    while (found != nothing && found != i) found = at(found).next;
    if (found != i) return false;
  }
  for (node_id i = first_bare_; i != nothing && bare >= 0; i = links_of(i).next)
    bare -= at(i).in_bare_list != 0 ? 1 : live + 1;
  return live == live_ && bare == 0;
}

}  // namespace pagoda
