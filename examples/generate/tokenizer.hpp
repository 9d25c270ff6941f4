// SPDX-License-Identifier: Apache-2.0
/// @file The byte-pair tokenizer of a Llama model and its file: llama2.c's tokenizer format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

/// Maps text to tokens and back.
class tokenizer {
 public:
  /// Begins every sequence; as a prediction it ends the text.
  static constexpr std::int32_t beginning = 1;

  /// Reads the bytes of a tokenizer file: the longest token's length, then score, length and bytes of each token.
  /// Throws: std::exception unless the file holds exactly `vocabulary` well-formed tokens.
  tokenizer(std::span<const std::byte> file, std::int32_t vocabulary);

  std::int32_t vocabulary() const { return static_cast<std::int32_t>(pieces_.size()); }

  /// The tokens of a text, without the beginning token; none for an empty text.
  ///
  /// A space is put in front. Every UTF-8 character that is a token becomes it; every other one becomes a token for
  /// each of its bytes. Then the neighbours whose join is the token of best score are joined, the leftmost of equals
  /// first, until none can be. Throws:     std::runtime_error for a byte that has no token. Complexity: O(n log n) in
  /// the bytes of the text.
  std::vector<std::int32_t> encode(std::string_view text) const;

  /// What a token prints. One leading space is dropped right after the beginning token; the token <0xNN> is that byte.
  /// Requires: 0 <= token < vocabulary().
  std::string_view decode(std::int32_t previous, std::int32_t token) const;

 private:
  std::int32_t find(std::string_view piece) const;
  void append_character(std::string_view character, std::vector<std::int32_t>& tokens) const;

  std::vector<std::string> pieces_;   // as in the file
  std::vector<std::string> printed_;  // what decode gives
  std::vector<float> scores_;
  std::unordered_map<std::string, std::int32_t> ids_;
};
