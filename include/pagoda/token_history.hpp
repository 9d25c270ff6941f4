// SPDX-License-Identifier: Apache-2.0
/// @file token_history: what identifies the content of a sequence's blocks: tokens, content tags and a key domain.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include <pagoda/shape.hpp>

namespace pagoda {

/// Says that the tokens [begin, end) stand for content that their numbers do not tell: an image, audio, an embedding.
/// Two spans are the same content if they have the same fingerprint, such as a SHA-256 of the bytes.
struct content_tag {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::array<std::byte, 32> fingerprint{};
  friend constexpr bool operator==(const content_tag&, const content_tag&) = default;
};

/// What keys and values depend on besides the content: an adapter, a tenant, a salt. Histories of different domains
/// share nothing. Names are part of the key, and lengths too, so no two lists of fields read the same.
///
///     auto domain = pagoda::key_domain().add("lora", "sql-v2").add("tenant", "acme");
class key_domain {
 public:
  key_domain& add(std::string_view field, std::string_view value) & {
    std::string added;  // the arguments may lie in bytes_
    append(added, field);
    append(added, value);
    bytes_ += added;
    return *this;
  }
  key_domain&& add(std::string_view field, std::string_view value) && {
    return static_cast<key_domain&&>(add(field, value));
  }

  /// The fields in the order of their adding, each a length of 8 bytes and the text.
  std::string_view bytes() const noexcept { return bytes_; }
  friend bool operator==(const key_domain&, const key_domain&) = default;

 private:
  static void append(std::string& bytes, std::string_view text) {
    const std::uint64_t length = text.size();
    std::array<char, 8> prefix{};
    for (std::size_t i = 0; i < prefix.size(); ++i) prefix[i] = static_cast<char>(length >> (8 * i) & 0xff);
    bytes.append(prefix.data(), prefix.size()).append(text);
  }

  std::string bytes_;
};

/// The tokens of a sequence from its first, the contents among them in rising order, and the domain that all of it
/// belongs to; no domain is a domain of its own. It refers to what the caller owns.
struct token_history {
  std::span<const std::int32_t> tokens;
  std::span<const content_tag> tags{};
  const key_domain* domain = nullptr;

  std::string_view domain_bytes() const noexcept { return domain == nullptr ? std::string_view() : domain->bytes(); }
};

/// Throws:     invalid_argument unless the tags are not empty, rise without overlap and lie inside the tokens.
/// Complexity: O(tags).
inline void check_history(const token_history& history) {
  const auto tokens = static_cast<std::int64_t>(history.tokens.size());
  check_range("tokens of the history", tokens, 0, INT32_MAX);
  std::int64_t last = 0;
  for (std::size_t i = 0; i < history.tags.size(); ++i) {
    const content_tag& tag = history.tags[i];
    if (tag.begin < 0 || tag.end <= tag.begin || tag.end > tokens) {
      detail::fail("content tag ", i, " covers the tokens from ", tag.begin, " to before ", tag.end,
                   ", but must cover one or more of the ", tokens, " tokens of the history: mend its begin and end");
    }
    if (tag.begin < last) {
      detail::fail("content tag ", i, " begins at token ", tag.begin, ", before the last one's end at ", last,
                   ": sort the tags, and let none overlap");
    }
    last = tag.end;
  }
}

namespace detail {

/// The product of two words, folded to one.
inline std::uint64_t fold_multiply(std::uint64_t a, std::uint64_t b) noexcept {
  __extension__ using wide = unsigned __int128;
  const wide product = static_cast<wide>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

inline constexpr std::uint64_t hash_prime_0 = 0x9e3779b97f4a7c15;
inline constexpr std::uint64_t hash_prime_1 = 0xbf58476d1ce4e5b9;
inline constexpr std::uint64_t hash_prime_2 = 0x94d049bb133111eb;

/// A fast hash of bytes that begins from another hash. Not for secrets: a hit is always confirmed by comparison.
inline std::uint64_t hash_bytes(std::uint64_t state, const void* data, std::size_t size) noexcept {
  const auto* bytes = static_cast<const unsigned char*>(data);
  state = fold_multiply(state ^ hash_prime_0, size ^ hash_prime_1);
  const auto word = [&](std::size_t offset) {
    std::uint64_t value = 0;
    std::memcpy(&value, bytes + offset, 8);
    return value;
  };
  std::size_t i = 0;
  for (; i + 16 <= size; i += 16) state = fold_multiply(word(i) ^ state, word(i + 8) ^ hash_prime_2);
  if (i < size) {
    std::uint64_t rest[2] = {0, 0};
    std::memcpy(rest, bytes + i, size - i);
    state = fold_multiply(rest[0] ^ state, rest[1] ^ hash_prime_2);
  }
  return state;
}

/// The part of a history that one block holds.
struct block_content {
  std::span<const std::int32_t> tokens;
  std::span<const content_tag> tags;  ///< those that overlap the block, positions as in the history
  std::int64_t begin = 0;             ///< position of the block's first token
  std::string_view domain;            ///< of the first block; the others inherit it from the block before

  /// A tag of this block as a block remembers it: positions relative to its first token.
  content_tag relative_tag(std::size_t i) const noexcept {
    return {tags[i].begin - begin, tags[i].end - begin, tags[i].fingerprint};
  }
};

/// Walks a history block by block.
class history_blocks {
 public:
  history_blocks(const token_history& history, std::int64_t block_size, std::int64_t first_block = 0) noexcept
      : history_(history), block_size_(block_size), begin_(first_block * block_size) {}

  /// The next block, of fewer tokens at the history's end, none behind it. `limit`: as if the history ended there.
  block_content next(std::int64_t limit) noexcept {
    const std::int64_t end = begin_ + block_size_ < limit ? begin_ + block_size_ : limit;
    block_content content;
    content.begin = begin_;
    if (begin_ == 0) content.domain = history_.domain_bytes();
    if (end > begin_) {
      content.tokens =
          history_.tokens.subspan(static_cast<std::size_t>(begin_), static_cast<std::size_t>(end - begin_));
      if (!history_.tags.empty()) content.tags = overlapping(end);
    }
    begin_ += block_size_;
    return content;
  }

 private:
  std::span<const content_tag> overlapping(std::int64_t end) noexcept {
    while (first_tag_ < history_.tags.size() && history_.tags[first_tag_].end <= begin_) ++first_tag_;
    std::size_t last = first_tag_;
    while (last < history_.tags.size() && history_.tags[last].begin < end) ++last;
    return history_.tags.subspan(first_tag_, last - first_tag_);
  }

  token_history history_;
  std::int64_t block_size_;
  std::int64_t begin_;
  std::size_t first_tag_ = 0;
};

/// The hash of everything up to and with this block, from the hash up to the one before; of the first block, from the
/// seed.
inline std::uint64_t hash_block(std::uint64_t before, const block_content& content) noexcept {
  std::uint64_t state = hash_bytes(before, content.tokens.data(), content.tokens.size_bytes());
  if (!content.domain.empty()) state = hash_bytes(state ^ 1, content.domain.data(), content.domain.size());
  for (std::size_t i = 0; i < content.tags.size(); ++i) {
    const content_tag tag = content.relative_tag(i);
    state = hash_bytes(state ^ 2, &tag.begin, sizeof tag.begin);
    state = hash_bytes(state, &tag.end, sizeof tag.end);
    state = hash_bytes(state, tag.fingerprint.data(), tag.fingerprint.size());
  }
  return state;
}

}  // namespace detail

/// The numbers under which a manager's events name the full blocks of a history: hashes[i] stands for the tokens up to
/// the end of block i, their tags and their domain. For routers that send a request to where its prefix lies.
/// Throws:     invalid_argument for tags as check_history refuses them, and unless there is room for each full block.
/// Complexity: O(tokens + tags).
inline std::size_t prefix_hashes(const token_history& history, std::int32_t block_size, std::uint64_t seed,
                                 std::span<std::uint64_t> hashes) {
  check_block_size(block_size);
  check_history(history);
  const std::size_t blocks = history.tokens.size() / static_cast<std::size_t>(block_size);
  if (hashes.size() < blocks) {
    detail::fail("prefix_hashes has room for ", hashes.size(), " numbers, but the history has ", blocks,
                 " full blocks of ", block_size, " tokens: pass a longer span");
  }
  detail::history_blocks walk(history, block_size);
  std::uint64_t hash = seed;
  for (std::size_t i = 0; i < blocks; ++i) {
    hash = detail::hash_block(hash, walk.next(static_cast<std::int64_t>(history.tokens.size())));
    hashes[i] = hash;
  }
  return blocks;
}

}  // namespace pagoda
