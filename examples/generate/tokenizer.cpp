// SPDX-License-Identifier: Apache-2.0
#include "tokenizer.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <queue>

#include "byte_reader.hpp"

namespace {

constexpr std::int32_t no_token = -1;
constexpr std::int32_t first_byte_token = 3;  // after <unk>, the beginning and the end

/// The byte that "<0xNN>" stands for; every other piece is printed as it is.
std::string printed_form(const std::string& piece) {
  if (piece.size() == 6 && piece.starts_with("<0x") && piece.back() == '>') {
    unsigned value = 0;
    const char* end = piece.data() + 5;
    const auto [stop, error] = std::from_chars(piece.data() + 3, end, value, 16);
    if (error == std::errc() && stop == end) return {static_cast<char>(value)};
  }
  return piece;
}

bool continues_character(char c) {
  return (static_cast<unsigned char>(c) & 0xC0u) == 0x80u;
}

}  // namespace

tokenizer::tokenizer(std::span<const std::byte> bytes, std::int32_t vocabulary) {
  byte_reader file(bytes, "tokenizer file (for the model's " + std::to_string(vocabulary) + " tokens)");
  const auto longest = file.number<std::int32_t>("the longest length");
  if (longest < 1) {
    refuse("the tokenizer file has max_token_length ", longest,
           ", but it must be at least 1: this is no tokenizer file");
  }
  for (std::int32_t id = 0; id < vocabulary; ++id) {
    const auto score = file.number<float>("a score");
    if (!std::isfinite(score)) {
      refuse("token ", id, " of the tokenizer file has score ", score,
             ", but scores must be finite: download it again");
    }
    const auto length = file.number<std::int32_t>("a length");
    if (length < 0 || length > longest) {
      refuse("token ", id, " of the tokenizer file has length ", length, ", but it must lie between 0 and the file's ",
             "max_token_length ", longest, ": download it again");
    }
    const auto piece = file.take(length, "a token");
    pieces_.emplace_back(reinterpret_cast<const char*>(piece.data()), piece.size());
    printed_.push_back(printed_form(pieces_.back()));
    scores_.push_back(score);
    ids_.emplace(pieces_.back(), id);
  }
  if (file.remaining() != 0) {
    refuse("the tokenizer file has ", file.remaining(), " bytes after the model's ", vocabulary,
           " tokens: pass the tokenizer that the model was trained with");
  }
  if (vocabulary <= beginning) {
    refuse("a vocabulary of ", vocabulary, " tokens has no beginning token, which is ", beginning,
           ": pass a model with at least ", beginning + 1, " tokens");
  }
}

std::int32_t tokenizer::find(std::string_view piece) const {
  const auto found = ids_.find(std::string(piece));
  return found == ids_.end() ? no_token : found->second;
}

void tokenizer::append_character(std::string_view character, std::vector<std::int32_t>& tokens) const {
  if (const std::int32_t token = find(character); token != no_token) {
    tokens.push_back(token);
    return;
  }
  for (const char c : character) {
    const std::int32_t token = first_byte_token + static_cast<unsigned char>(c);
    if (token >= vocabulary()) {
      refuse("byte ", int{static_cast<unsigned char>(c)}, " of the prompt has no token in a vocabulary of ",
             vocabulary(), ": pass other text, or a tokenizer with all 256 bytes");
    }
    tokens.push_back(token);
  }
}

std::vector<std::int32_t> tokenizer::encode(std::string_view text) const {
  if (text.empty()) return {};
  std::vector<std::int32_t> tokens;
  append_character(" ", tokens);
  for (std::size_t begin = 0, end = 0; begin < text.size(); begin = end) {
    end = begin + 1;
    while (end < text.size() && end - begin < 4 && continues_character(text[end])) ++end;
    append_character(text.substr(begin, end - begin), tokens);
  }

  // A list of what is left, and a heap of the joins that it allows. A join is stale once either side has changed.
  struct join {
    float score;
    std::size_t left;
    std::size_t right;
    std::int32_t left_token;
    std::int32_t right_token;
    std::int32_t result;
    bool operator<(const join& other) const { return score != other.score ? score < other.score : left > other.left; }
  };
  const std::size_t none = tokens.size();
  std::vector<std::size_t> next(tokens.size());
  std::vector<std::size_t> previous(tokens.size());
  std::priority_queue<join> joins;
  const auto offer = [&](std::size_t left, std::size_t right) {
    if (left == none || right == none) return;
    const auto id = [&](std::size_t at) { return static_cast<std::size_t>(tokens[at]); };
    const std::int32_t result = find(pieces_[id(left)] + pieces_[id(right)]);
    if (result == no_token) return;
    joins.push({scores_[static_cast<std::size_t>(result)], left, right, tokens[left], tokens[right], result});
  };
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    previous[i] = i == 0 ? none : i - 1;
    next[i] = i + 1;
  }
  for (std::size_t i = 0; i + 1 < tokens.size(); ++i) offer(i, i + 1);
  while (!joins.empty()) {
    const join best = joins.top();
    joins.pop();
    if (tokens[best.left] != best.left_token || tokens[best.right] != best.right_token ||
        next[best.left] != best.right) {
      continue;
    }
    tokens[best.left] = best.result;
    tokens[best.right] = no_token;
    next[best.left] = next[best.right];
    if (next[best.left] != none) previous[next[best.left]] = best.left;
    offer(previous[best.left], best.left);
    offer(best.left, next[best.left]);
  }
  std::erase(tokens, no_token);
  return tokens;
}

std::string_view tokenizer::decode(std::int32_t previous, std::int32_t token) const {
  std::string_view piece = printed_[static_cast<std::size_t>(token)];
  if (previous == beginning && pieces_[static_cast<std::size_t>(token)].starts_with(' ')) piece.remove_prefix(1);
  return piece;
}
