// SPDX-License-Identifier: Apache-2.0
/// @file What the tests of prefix sharing have in common.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <pagoda/block_manager.hpp>
#include <pagoda/eviction/lru.hpp>

#include "manager_support.hpp"

namespace pagoda_test {

using token_list = std::vector<std::int32_t>;

/// first, first + 1, ...
inline token_list rising(std::int32_t count, std::int32_t first = 1) {
  token_list tokens(static_cast<std::size_t>(count));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

inline token_list operator+(token_list a, const token_list& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// How many of the tokens a match finds.
inline std::int64_t found(pagoda::block_manager& manager, const pagoda::token_history& history) {
  return manager.match(history, static_cast<std::int64_t>(history.tokens.size())).tokens();
}
inline std::int64_t found(pagoda::block_manager& manager, const token_list& tokens) {
  return found(manager, pagoda::token_history{.tokens = tokens});
}

/// What an engine does with a prompt: takes what is cached, computes the rest, publishes all of it.
inline pagoda::sequence prefill(pagoda::block_manager& manager, const pagoda::token_history& history,
                                const pagoda::block_advice& advice = {}) {
  const auto tokens = static_cast<std::int64_t>(history.tokens.size());
  pagoda::sequence sequence = manager.make_sequence(manager.match(history, tokens - 1));
  grow(manager, sequence, static_cast<std::int32_t>(tokens - sequence.position()));
  manager.publish(sequence, history, advice);
  return sequence;
}
inline pagoda::sequence prefill(pagoda::block_manager& manager, const token_list& tokens,
                                const pagoda::block_advice& advice = {}) {
  return prefill(manager, pagoda::token_history{.tokens = tokens}, advice);
}

/// The copies of one group's blocks, as pairs of numbers.
inline std::vector<std::pair<std::int32_t, std::int32_t>> block_copies(const pagoda::copy_list& copies, int group = 0) {
  std::vector<std::pair<std::int32_t, std::int32_t>> pairs;
  for (const pagoda::block_copy& copy : copies.blocks(group)) pairs.emplace_back(number(copy.from), number(copy.to));
  return pairs;
}

/// A manager of one group that keeps all tokens, and a storage of token numbers instead of keys and values.
class paper_cache {
 public:
  static constexpr std::int32_t nothing_written = -1;

  template <class Policy = pagoda::lru>
  explicit paper_cache(const pagoda::manager_config& config, pagoda::evict_by_tag<Policy> policy = {})
      : manager(config, policy), block_size_(config.block_size) {
    slots_.assign(static_cast<std::size_t>(config.groups[0].num_blocks * block_size_), nothing_written);
  }

  /// What happens between a plan and its commit.
  void execute(pagoda::step& step, const std::vector<token_list>& new_tokens) {
    perform(step.take_copies(), *this);
    const pagoda::batch_view view = step.batch();
    for (std::size_t i = 0; i < new_tokens.size(); ++i) {
      const auto entry = static_cast<std::int32_t>(i);
      const std::int64_t end = view.context_length(entry);
      std::int64_t t = end - static_cast<std::int64_t>(new_tokens[i].size());
      for (const std::int32_t token : new_tokens[i]) {
        at(view.block(entry, t / block_size_), t % block_size_) = token;
        ++t;
      }
    }
  }

  void append(pagoda::sequence_id id, const token_list& tokens) {
    pagoda::step step = manager.plan({{id, static_cast<std::int32_t>(tokens.size())}});
    execute(step, {tokens});
    step.commit();
  }

  /// Performs block copies from another storage, or this one, to this one.
  void perform(const pagoda::copy_list& copies, const paper_cache& from) {
    const std::vector<std::int32_t> old = from.slots_;
    for (const pagoda::block_copy& copy : copies.blocks(0)) {
      for (std::int64_t slot = 0; slot < block_size_; ++slot) {
        at(copy.to, slot) = old[static_cast<std::size_t>(static_cast<std::int64_t>(copy.from) * block_size_ + slot)];
      }
    }
  }

  /// The first tokens of a sequence, as its blocks hold them.
  token_list read(pagoda::sequence_id id, std::int64_t tokens) {
    token_list result;
    const std::span<const pagoda::block_id> blocks = manager.blocks(id);
    for (std::int64_t t = 0; t < tokens; ++t) {
      result.push_back(at(blocks[static_cast<std::size_t>(t / block_size_)], t % block_size_));
    }
    return result;
  }
  token_list read(const pagoda::sequence& sequence) { return read(sequence, sequence.position()); }

  pagoda::block_manager manager;

 private:
  std::int32_t& at(pagoda::block_id block, std::int64_t slot) {
    return slots_.at(static_cast<std::size_t>(static_cast<std::int64_t>(block) * block_size_ + slot));
  }

  std::int64_t block_size_;
  std::vector<std::int32_t> slots_;
};

/// The message of the exception that a call throws, or "nothing was thrown".
template <class Call>
std::string message_of(Call call) {
  try {
    call();
  } catch (const std::exception& fault) {
    return fault.what();
  }
  return "nothing was thrown";
}

inline bool contains_all(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) {
    if (text.find(part) == std::string::npos) return false;
  }
  return true;
}

}  // namespace pagoda_test
