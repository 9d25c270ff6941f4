// SPDX-License-Identifier: Apache-2.0
/// @file A slow and simple model of the prefix index: a list of contents, searched from end to end.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <pagoda/manager_config.hpp>

#include "text_model.hpp"

namespace pagoda_test {

/// What one block of a text holds: its identity, but for what stands before it.
struct piece {
  std::vector<std::int32_t> tokens{};
  std::vector<pagoda::content_tag> tags{};  // positions relative to the block; those that overlap it
  int domain = 0;                           // of the first block
  std::vector<std::uint64_t> rows{};

  std::int32_t size() const { return static_cast<std::int32_t>(tokens.size()); }
};

/// The piece of a text's block as if the text ended at `limit`; its contents keep their full lengths.
inline piece piece_of(const text& from, std::int64_t block, std::int64_t block_size, std::int64_t limit) {
  piece result;
  const std::int64_t begin = block * block_size;
  const std::int64_t end = std::min(begin + block_size, limit);
  for (std::int64_t t = begin; t < end; ++t) {
    result.tokens.push_back(from.tokens()[static_cast<std::size_t>(t)]);
    result.rows.push_back(from.row(t));
  }
  for (const pagoda::content_tag& tag : from.tags()) {
    if (tag.begin < end && tag.end > begin)
      result.tags.push_back({tag.begin - begin, tag.end - begin, tag.fingerprint});
  }
  if (block == 0) result.domain = from.domain();
  return result;
}

class index_model {
 public:
  using id = std::int64_t;  // rises with every new content; never used again
  static constexpr id nothing = 0;

  struct content {
    id name = nothing;
    id before = nothing;
    std::int32_t depth = 0;
    piece part{};
    std::vector<std::int32_t> blocks{};  // of each group; -1: none
    pagoda::block_advice advice{};
    std::uint64_t bare_since = 0;  // 0: it has a block, or nothing behind it
    std::uint32_t hits = 0;        // since it was stored
    std::int64_t last_use = 0;     // in lookups
  };

  struct holding {
    std::size_t group;
    std::int32_t block;
    std::int32_t depth;
    bool full;
  };

  index_model(std::size_t groups, std::int32_t block_size, std::size_t capacity)
      : groups_(groups), block_size_(block_size), capacity_(capacity) {}

  const std::vector<content>& contents() const { return contents_; }
  bool full() const { return contents_.size() == capacity_; }
  bool lives(id name) const { return search(name) != nullptr; }
  const content& at(id name) const { return *search(name); }
  void advise(id name, const pagoda::block_advice& advice) { edit(name).advice = advice; }

  bool has_followers(id name) const {
    return std::any_of(contents_.begin(), contents_.end(), [&](const content& c) { return c.before == name; });
  }

  bool is_behind(id name, id ancestor) const {
    while (name != nothing && name != ancestor) name = at(name).before;
    return name == ancestor;
  }

  /// Every content has a block in every group: nothing is out of reach.
  bool all_held() const {
    return std::all_of(contents_.begin(), contents_.end(),
                       [](const content& c) { return std::count(c.blocks.begin(), c.blocks.end(), -1) == 0; });
  }

  id find(id before, const piece& wanted) const {
    for (const content& c : contents_) {
      if (c.before == before && c.part.tokens == wanted.tokens && c.part.tags == wanted.tags &&
          c.part.domain == wanted.domain) {
        return c.name;
      }
    }
    return nothing;
  }

  /// How many tokens from the first are the same in both, contents included.
  static std::int32_t agreement(const piece& a, const piece& b) {
    if (a.domain != b.domain) return 0;
    const auto covers = [](const piece& p, std::int32_t t) -> const pagoda::content_tag* {
      for (const pagoda::content_tag& tag : p.tags) {
        if (tag.begin <= t && t < tag.end) return &tag;
      }
      return nullptr;
    };
    std::int32_t count = 0;
    for (; count < std::min(a.size(), b.size()); ++count) {
      if (a.tokens[static_cast<std::size_t>(count)] != b.tokens[static_cast<std::size_t>(count)]) break;
      const pagoda::content_tag* x = covers(a, count);
      const pagoda::content_tag* y = covers(b, count);
      if ((x == nullptr) != (y == nullptr) || (x != nullptr && *x != *y)) break;
    }
    return count;
  }

  /// The youngest of the contents behind `before` that agree for the most tokens; nothing if none does.
  std::pair<id, std::int32_t> best_tail(id before, const piece& wanted) const {
    std::pair<id, std::int32_t> best{nothing, 0};
    for (const content& c : contents_) {
      const bool held = std::all_of(c.blocks.begin(), c.blocks.end(), [](std::int32_t block) { return block >= 0; });
      if (c.before != before || !held) continue;
      const std::int32_t tokens = agreement(c.part, wanted);
      if (tokens > best.second || (tokens > 0 && tokens == best.second && c.name > best.first)) best = {c.name, tokens};
    }
    return best;
  }

  id add(id before, piece part) {
    content fresh{.name = ++last_name_, .before = before, .part = std::move(part)};
    fresh.depth = before == nothing ? 0 : at(before).depth + 1;
    fresh.blocks.assign(groups_, -1);
    contents_.push_back(std::move(fresh));
    note_bare(before);
    return last_name_;
  }

  void attach(id name, std::size_t group, std::int32_t block, std::int64_t now) {
    edit(name).blocks[group] = block;
    note_bare(name);
    edit(name).last_use = now;
  }

  /// A match took all contents up to this one.
  void count_hits(id name, std::int64_t now) {
    for (; name != nothing; name = at(name).before) {
      if (bare(name)) continue;
      ++edit(name).hits;
      edit(name).last_use = now;
    }
  }

  void detach(id name, std::size_t group, id keep = nothing) {
    edit(name).blocks[group] = -1;
    note_bare(name);
    prune(name, keep);
  }

  /// Takes out what holds nothing and leads nowhere.
  void prune(id name, id keep = nothing) {
    while (name != nothing && name != keep && bare(name) && !has_followers(name)) {
      const id before = at(name).before;
      std::erase_if(contents_, [&](const content& c) { return c.name == name; });
      note_bare(before);
      name = before;
    }
  }

  id oldest_bare() const {
    const content* oldest = nullptr;
    for (const content& c : contents_) {
      if (c.bare_since != 0 && (oldest == nullptr || c.bare_since < oldest->bare_since)) oldest = &c;
    }
    return oldest == nullptr ? nothing : oldest->name;
  }

  /// What a new content is to stand on counts as bare since now.
  void renew_bare(id name) {
    for (; name != nothing; name = at(name).before) {
      if (at(name).bare_since != 0) edit(name).bare_since = ++bare_serial_;
    }
  }

  /// Takes out a content and all behind it; returns the blocks that it held.
  std::vector<holding> drop(id root, id keep) {
    std::vector<holding> held;
    std::vector<id> gone;
    for (const content& c : contents_) {
      if (!is_behind(c.name, root)) continue;
      gone.push_back(c.name);
      for (std::size_t g = 0; g < groups_; ++g) {
        if (c.blocks[g] >= 0) held.push_back({g, c.blocks[g], c.depth, c.part.size() == block_size_});
      }
    }
    const id before = at(root).before;
    std::erase_if(contents_, [&](const content& c) { return std::count(gone.begin(), gone.end(), c.name) > 0; });
    note_bare(before);
    prune(before, keep);
    return held;
  }

  void clear() { contents_.clear(); }

 private:
  const content* search(id name) const {
    for (const content& c : contents_) {
      if (c.name == name) return &c;
    }
    return nullptr;
  }
  content& edit(id name) { return const_cast<content&>(*search(name)); }

  bool bare(id name) const {
    const content& c = at(name);
    return static_cast<std::size_t>(std::count(c.blocks.begin(), c.blocks.end(), -1)) == groups_;
  }

  void note_bare(id name) {
    if (name == nothing) return;
    content& c = edit(name);
    if (!bare(name) || !has_followers(name)) {
      if (c.bare_since != 0) c.hits = 0;
      c.bare_since = 0;
    } else if (c.bare_since == 0) {
      c.bare_since = ++bare_serial_;
    }
  }

  std::size_t groups_;
  std::int32_t block_size_;
  std::size_t capacity_;
  std::vector<content> contents_;
  id last_name_ = nothing;
  std::uint64_t bare_serial_ = 0;
};

}  // namespace pagoda_test
