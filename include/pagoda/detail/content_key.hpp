// SPDX-License-Identifier: Apache-2.0
/// @file content_key: what identifies a block's content beyond its tokens, and comparisons of contents.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <pagoda/token_history.hpp>

namespace pagoda::detail {

/// Most contents have none: no tags, and no domain or one that the block before says.
struct content_key {
  std::string domain;             // of the first block
  std::vector<content_tag> tags;  // positions relative to the block
};

/// A content as the index keeps it.
struct stored_content {
  std::span<const std::int32_t> tokens;
  const content_key* key;  // may be null

  bool in_domain(std::string_view domain) const noexcept {
    return key == nullptr ? domain.empty() : key->domain == domain;
  }

  bool equals(const block_content& other) const noexcept {
    if (!std::equal(tokens.begin(), tokens.end(), other.tokens.begin(), other.tokens.end())) return false;
    if (!in_domain(other.domain)) return false;
    if ((key == nullptr ? 0 : key->tags.size()) != other.tags.size()) return false;
    for (std::size_t t = 0; t < other.tags.size(); ++t) {
      if (key->tags[t] != other.relative_tag(t)) return false;
    }
    return true;
  }

  /// How many tokens from the first are the same, tags and domain included.
  std::int32_t agreeing(const block_content& other) const noexcept {
    if (!in_domain(other.domain)) return 0;
    const std::size_t most = std::min(tokens.size(), other.tokens.size());
    std::int64_t count = 0;
    while (count < static_cast<std::int64_t>(most) &&
           tokens[static_cast<std::size_t>(count)] == other.tokens[static_cast<std::size_t>(count)]) {
      ++count;
    }
    const std::size_t tags = key == nullptr ? 0 : key->tags.size();
    for (std::size_t t = 0; t < std::max(tags, other.tags.size()); ++t) {
      const bool here = t < tags;
      const bool there = t < other.tags.size();
      if (here && there && key->tags[t] == other.relative_tag(t)) continue;
      // The first tag that differs: nothing from its begin on is the same.
      if (here) count = std::min(count, key->tags[t].begin);
      if (there) count = std::min(count, other.relative_tag(t).begin);
      break;
    }
    return static_cast<std::int32_t>(std::max<std::int64_t>(count, 0));
  }
};

/// The key of one block of a history.
struct key_part {
  std::int64_t block;
  std::unique_ptr<const content_key> key;
};

/// The keys of the blocks [first, end) of a history that ends at `limit`, for those that have one.
inline std::vector<key_part> key_parts(const token_history& history, std::int32_t block_size, std::int64_t first,
                                       std::int64_t end, std::int64_t limit) {
  std::vector<key_part> parts;
  if (history.tags.empty() && (first > 0 || history.domain_bytes().empty())) return parts;
  history_blocks walk(history, block_size, first);
  for (std::int64_t block = first; block < end; ++block) {
    const block_content content = walk.next(limit);
    if (content.tags.empty() && content.domain.empty()) continue;
    auto key = std::make_unique<content_key>();
    key->domain = content.domain;
    for (std::size_t t = 0; t < content.tags.size(); ++t) key->tags.push_back(content.relative_tag(t));
    parts.push_back({block, std::move(key)});
  }
  return parts;
}

}  // namespace pagoda::detail
