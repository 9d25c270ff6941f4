// SPDX-License-Identifier: Apache-2.0
/// @file Histories of made-up tokens, and the numbers that stand for their keys and values.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <pagoda/token_history.hpp>

namespace pagoda_test {

/// Mixes two numbers so that no two inputs are likely to give one output.
inline std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  std::uint64_t x = a * 0x9e3779b97f4a7c15u + b + 0x632be59bd9b4e019u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/// Domains by number; 0 is none. Some of them would read the same if their fields were only put end to end.
inline const pagoda::key_domain* domain(int number) {
  static const std::array<pagoda::key_domain, 3> domains{pagoda::key_domain().add("tenant", "a"),
                                                         pagoda::key_domain().add("tenan", "ta"),
                                                         pagoda::key_domain().add("tenant", "a").add("salt", "")};
  return number == 0 ? nullptr : &domains.at(static_cast<std::size_t>(number - 1));
}
inline constexpr int num_domains = 4;

/// A token history. Each token has a row: the number that its slot must hold, which follows from the token, everything
/// before it, the content that it stands for and the domain.
class text {
 public:
  explicit text(int domain = 0) : domain_(domain) {}

  std::int64_t size() const { return static_cast<std::int64_t>(tokens_.size()); }
  int domain() const { return domain_; }
  std::uint64_t row(std::int64_t t) const { return rows_[static_cast<std::size_t>(t)]; }
  std::uint64_t last() const { return rows_.empty() ? mix(0, static_cast<std::uint64_t>(domain_)) : rows_.back(); }
  const std::vector<std::int32_t>& tokens() const { return tokens_; }
  const std::vector<pagoda::content_tag>& tags() const { return tags_; }

  void push(std::int32_t token) {
    tokens_.push_back(token);
    rows_.push_back(mix(last(), static_cast<std::uint64_t>(token)));
  }

  /// A content of so many tokens; `which` tells contents apart.
  void push_content(std::int64_t tokens, int which) {
    pagoda::content_tag tag{.begin = size(), .end = size() + tokens};
    tag.fingerprint[static_cast<std::size_t>(which)] = std::byte{1};
    tags_.push_back(tag);
    for (std::int64_t i = 0; i < tokens; ++i) {
      tokens_.push_back(0);
      rows_.push_back(mix(last(), static_cast<std::uint64_t>((which + 1) * 1'000'000 + i)));
    }
  }

  /// Whether a cut before token t would go through a content.
  bool inside_content(std::int64_t t) const {
    return std::any_of(tags_.begin(), tags_.end(), [&](const auto& tag) { return tag.begin < t && t < tag.end; });
  }

  /// Drops the tokens from n on. A content that is cut is another content from then on.
  void cut(std::int64_t n) {
    tokens_.resize(static_cast<std::size_t>(n));
    rows_.resize(static_cast<std::size_t>(n));
    while (!tags_.empty() && tags_.back().begin >= n) tags_.pop_back();
    if (!tags_.empty()) tags_.back().end = std::min(tags_.back().end, n);
  }

  /// The same tokens and contents in another domain, with token `changed` another one; -1: none.
  text copy_in(int domain, std::int64_t changed = -1) const {
    text copy(domain);
    auto tag = tags_.begin();
    while (copy.size() < size()) {
      if (tag != tags_.end() && tag->begin == copy.size()) {
        const int which = tag->fingerprint[0] == std::byte{1} ? 0 : 1;
        const bool differs = tag->begin <= changed && changed < tag->end;
        copy.push_content(tag->end - tag->begin, differs ? 1 - which : which);
        ++tag;
      } else {
        const std::int32_t token = tokens_[static_cast<std::size_t>(copy.size())];
        copy.push(copy.size() == changed ? token + 1 : token);
      }
    }
    return copy;
  }

  /// The first n tokens as a history. Requires: the cut goes through no content.
  pagoda::token_history history(std::int64_t n) const {
    std::size_t tags = tags_.size();
    while (tags > 0 && tags_[tags - 1].begin >= n) --tags;
    return {.tokens = std::span(tokens_).first(static_cast<std::size_t>(n)),
            .tags = std::span(tags_).first(tags),
            .domain = pagoda_test::domain(domain_)};
  }
  pagoda::token_history history() const { return history(size()); }

 private:
  int domain_;
  std::vector<std::int32_t> tokens_;
  std::vector<pagoda::content_tag> tags_;
  std::vector<std::uint64_t> rows_;
};

}  // namespace pagoda_test
