// SPDX-License-Identifier: Apache-2.0
/// @file prefix_match: what a manager's prefix index holds of a history, pinned.
#pragma once

#include <cstdint>
#include <utility>

#include <pagoda/sequence.hpp>

namespace pagoda {

/// The longest cached prefix of a token history. As long as it lives, nothing of it is evicted: it is a lease, too, for
/// whoever reads the blocks without a sequence, such as a transfer to another machine. make_sequence() turns it into a
/// sequence that begins with these tokens.
class [[nodiscard]] prefix_match {
 public:
  /// Tokens that need not be computed again.
  /// Throws: logic_error if the match was turned into a sequence or moved from, and if the manager has died.
  std::int64_t tokens() const {
    if (sequence_.id() == sequence_id{}) {
      detail::fail<logic_error>(
          "tokens of a prefix match that was used already or moved from: ask the sequence for its ", "position()");
    }
    return sequence_.position();
  }

  /// Names the tokens as a sequence: for block_manager::blocks().
  sequence_id id() const noexcept { return sequence_.id(); }

 private:
  friend class block_manager;

  explicit prefix_match(sequence&& found) noexcept : sequence_(std::move(found)) {}

  sequence sequence_;
};

}  // namespace pagoda
