// SPDX-License-Identifier: Apache-2.0
// The tokenizer against its definition, written down plainly, and on spoilt files.
#include <cstring>
#include <exception>
#include <limits>
#include <random>
#include <stdexcept>
#include <string>

#include <doctest/doctest.h>

#include "refusal.hpp"
#include "tiny_files.hpp"
#include "tokenizer.hpp"

namespace {

std::string refusal(std::span<const std::byte> file, std::int32_t vocabulary = 300) {
  return refusal_of([&] { tokenizer(file, vocabulary); });
}

std::string decode_all(const tokenizer& words, std::span<const std::int32_t> tokens) {
  std::string text;
  std::int32_t previous = tokenizer::beginning;
  for (const std::int32_t token : tokens) {
    text += words.decode(previous, token);
    previous = token;
  }
  return text;
}

/// The definition: while some neighbours join to a token, join the leftmost pair of the best score.
std::vector<std::int32_t> join_plainly(std::vector<std::int32_t> tokens) {
  const std::vector<std::string> pieces = tiny::pieces();
  while (true) {
    std::size_t best = tokens.size();
    std::size_t result = 0;
    for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
      const std::string joined =
          pieces[static_cast<std::size_t>(tokens[i])] + pieces[static_cast<std::size_t>(tokens[i + 1])];
      const auto found = static_cast<std::size_t>(std::find(pieces.begin(), pieces.end(), joined) - pieces.begin());
      if (found == pieces.size()) continue;
      if (best == tokens.size() || tiny::score(found) > tiny::score(result)) {
        best = i;
        result = found;
      }
    }
    if (best == tokens.size()) return tokens;
    tokens[best] = static_cast<std::int32_t>(result);
    tokens.erase(tokens.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

}  // namespace

TEST_CASE("characters become tokens, or bytes where they are none") {
  const tokenizer words(tiny::tokenizer_file(), 300);
  using ids = std::vector<std::int32_t>;
  CHECK(words.encode("").empty());
  CHECK(words.encode("c") == ids{259, 262});
  CHECK(words.encode("a") == ids{267});                             // " a"
  CHECK(words.encode("\xc3\xa9") == ids{259, 263});                 // a character of two bytes that is a token
  CHECK(words.encode("\xc3\xa8") == ids{259, 3 + 0xc3, 3 + 0xa8});  // and one that is none
  CHECK(words.encode("\xa9z\xff") == ids{259, 3 + 0xa9, 3 + 'z', 3 + 0xff});
  const std::string zeros("\0b", 2);
  CHECK(words.encode(zeros) == ids{259, 3, 261});
}

TEST_CASE("pieces print as text, bytes as bytes, and one space is dropped at the beginning") {
  const tokenizer words(tiny::tokenizer_file(), 300);
  CHECK(words.decode(tokenizer::beginning, 267) == "a");
  CHECK(words.decode(5, 267) == " a");
  CHECK(words.decode(tokenizer::beginning, 260) == "a");
  CHECK(words.decode(tokenizer::beginning, 3 + ' ') == " ");
  CHECK(words.decode(5, 3 + 0xff) == "\xff");
  CHECK(words.decode(5, 3) == std::string_view("\0", 1));
  CHECK(words.decode(5, 0) == "<unk>");
}

TEST_CASE("joins follow the definition, and every text comes back") {
  struct letter {
    std::string text;
    std::vector<std::int32_t> tokens;
  };
  const letter alphabet[] = {{"a", {260}},
                             {"a", {260}},
                             {"b", {261}},
                             {"c", {262}},
                             {" ", {259}},
                             {"\xc3\xa9", {263}},
                             {"\xc3\xa8", {3 + 0xc3, 3 + 0xa8}},
                             {"?", {3 + '?'}}};
  const tokenizer words(tiny::tokenizer_file(), 300);
  std::mt19937 random(5);
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    std::vector<std::int32_t> characters;
    for (auto length = random() % 30; length > 0; --length) {
      const letter& next = alphabet[random() % std::size(alphabet)];
      if (characters.empty()) characters.push_back(259);  // the space in front
      text += next.text;
      characters.insert(characters.end(), next.tokens.begin(), next.tokens.end());
    }
    const std::vector<std::int32_t> tokens = words.encode(text);
    CHECK(decode_all(words, tokens) == text);
    CHECK(tokens == join_plainly(characters));
  }
}

TEST_CASE("a long text is joined in a moment") {
  const tokenizer words(tiny::tokenizer_file(), 300);
  const std::string text(1 << 20, 'a');
  const std::vector<std::int32_t> tokens = words.encode(text);
  CHECK(tokens.size() < text.size());
  CHECK(decode_all(words, tokens) == text);
}

TEST_CASE("a byte without a token is refused") {
  const tokenizer words(tiny::tokenizer_file(60), 60);
  CHECK(words.encode("!").size() == 2);
  CHECK_THROWS_WITH_AS(words.encode("z"), doctest::Contains("byte 122"), std::runtime_error);
}

TEST_CASE("spoilt tokenizer files are refused, with the number at fault") {
  const tiny::bytes good = tiny::tokenizer_file();
  const auto with = [&](std::size_t offset, auto value) {
    tiny::bytes file = good;
    std::memcpy(file.data() + offset, &value, sizeof(value));
    return refusal(file);
  };
  CHECK(refusal(good).empty());
  CHECK(contains(refusal(good, 299), "299 tokens"));
  CHECK(contains(refusal(good, 301), "truncated"));
  CHECK(contains(refusal(tiny::tokenizer_file(1), 1), "beginning"));
  CHECK(contains(with(0, std::int32_t{0}), "max_token_length 0"));
  CHECK(contains(with(4, std::numeric_limits<float>::quiet_NaN()), "finite"));
  CHECK(contains(with(8, std::int32_t{-1}), "length -1"));
  CHECK(contains(with(8, std::int32_t{7}), "length 7"));
  for (std::size_t size = 0; size < good.size(); ++size) {
    CHECK(contains(refusal(std::span(good).first(size)), "truncated"));
  }
}

TEST_CASE("a spoilt tokenizer file is refused in words, or works") {
  const tiny::bytes good = tiny::tokenizer_file();
  std::mt19937 random(6);
  int worked = 0;
  for (int i = 0; i < 3000; ++i) {
    tiny::bytes file = good;
    for (auto flips = 1 + random() % 3; flips > 0; --flips) {
      file[random() % file.size()] = static_cast<std::byte>(random() % 256);
    }
    if (!refusal(file).empty()) continue;
    ++worked;
    const tokenizer words(file, 300);
    for (const std::int32_t token : words.encode("a b c\xc3\xa9")) CHECK(token < 300);
  }
  CHECK(worked > 100);
}
