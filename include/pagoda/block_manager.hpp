// SPDX-License-Identifier: Apache-2.0
/// @file block_manager: sequences, block tables and plans. All bookkeeping; it holds no bytes and knows no dtype.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <pagoda/eviction/lru.hpp>
#include <pagoda/prefix_match.hpp>
#include <pagoda/step.hpp>

namespace pagoda {

/// Names the eviction policy of a block manager: block_manager(config, evict_by<lfu>).
template <class Policy>
struct evict_by_tag {
  static_assert(eviction_like<Policy>,
                "pagoda::evict_by<P>: P is no eviction policy: name lru, lfu or one of your own");
};
template <class Policy>
inline constexpr evict_by_tag<Policy> evict_by{};

struct transferred;

/// Gives the tokens of sequences their blocks.
///
///     pagoda::block_manager manager({.groups = {{.num_blocks = 4096}}});
///     auto seq = manager.make_sequence();
///     auto step = manager.plan({{seq, 7}});   // room for 7 tokens, or out_of_blocks and nothing has changed
///     ...                                     // copies, append, attention on views made from the step
///     step.commit();
///
/// Sequences with a common beginning share its blocks: match() finds what publish() entered.
///
///     auto hit = manager.match({.tokens = prompt}, prompt.size() - 1);   // the last token is computed, for its logits
///     auto seq = manager.make_sequence(std::move(hit));                  // begins at position hit.tokens()
///     ...                                                                // plan, compute and commit the rest
///     manager.publish(seq, {.tokens = prompt});                          // now, or whenever there is time
///
/// Blocks that nobody holds stay in the index until a plan needs them; the eviction policy says which goes first.
/// Two managers given the same calls return the same block ids. A manager and its handles are used by one thread at a
/// time. A sequence is in at most one open step.
/// Complexity: O(1) for each block given or taken, and what the eviction policy adds for each cached one; when a window
///             drops one, a move of its table row, of at most (sinks + window) / block_size entries; plan and commit
///             are O(batch * groups) besides. The steady state allocates no memory.
/// Source:     block tables and copy-on-write: PagedAttention (Kwon et al. 2023), section 4. Prefixes in a tree:
///             RadixAttention (Zheng et al. 2024), section 3.
class block_manager {
 public:
  /// Throws: invalid_argument for capacities below 1, a block size that is no power of two, a layer in two groups, a
  ///         window without room for the query's own token; size_overflow if the block tables cannot be addressed.
  explicit block_manager(manager_config config) : block_manager(std::move(config), evict_by<lru>) {}

  /// The same, with another eviction policy than lru: each layer group has one of its own.
  template <class Policy>
  block_manager(manager_config config, evict_by_tag<Policy>)
      : core_(new manager_core(std::move(config), detail::eviction_choice_of<Policy>)) {}

  block_manager(block_manager&& other) noexcept : core_(std::exchange(other.core_, nullptr)) {}
  block_manager& operator=(block_manager&& other) noexcept {
    std::swap(core_, other.core_);
    return *this;
  }
  ~block_manager() {
    if (core_ == nullptr) return;
    core_->close();
    core_->drop_handle();
  }

  /// A new, empty sequence. Throws: capacity_exceeded if max_sequences are alive.
  sequence make_sequence() { return {core(), core().make_sequence()}; }

  /// A sequence that begins with the tokens that were found; it holds their blocks together with others.
  /// Throws: logic_error for a match that was moved from; invalid_argument for a match of another manager.
  sequence make_sequence(prefix_match&& match) {
    if (match.sequence_.core_ == nullptr) {
      detail::fail<logic_error>("make_sequence of a prefix match that was used already or moved from: match again");
    }
    if (match.sequence_.core_ != &core()) {
      detail::fail("make_sequence of a prefix match that another manager made: match here");
    }
    return std::move(match.sequence_);
  }

  /// A sequence with the same committed tokens, sharing their blocks; whoever first writes into a shared block gets a
  /// copy of it from its next plan.
  /// Throws:     invalid_argument for an id that names no living sequence; logic_error while it is in an open step;
  ///             capacity_exceeded if max_sequences are alive.
  /// Complexity: O(blocks of the sequence).
  sequence fork(sequence_id parent) { return {core(), core().fork(parent)}; }

  /// Drops the tokens from `tokens` on.
  /// Throws: invalid_argument for an unknown id, for more tokens than are committed, and where a window has already
  ///         dropped tokens that the shorter sequence would need; logic_error while it is in an open step.
  void truncate(sequence_id id, std::int64_t tokens) { core().truncate(id, tokens); }

  /// The longest beginning of the history that blocks still hold, of at most `at_most` tokens: whole blocks, and of the
  /// next one as many tokens as agree. Of a window it needs only the blocks that will be read. What it finds is pinned;
  /// a match counts as a sequence until it dies. An engine that needs logits asks for one token less than it has. To go
  /// on from within a block takes a block more, for its copy, than to compute that block's tokens: where there is none,
  /// truncate the sequence to a multiple of the block size.
  /// Throws:     invalid_argument for tags out of order or outside the tokens and for a negative at_most;
  ///             capacity_exceeded if max_sequences are alive.
  /// Complexity: O(tokens found), O(tokens of a block) for each of 64 continuations at most behind them; and where a
  ///             window finds blocks missing, O(blocks found * blocks of the window) at worst.
  prefix_match match(const token_history& history, std::int64_t at_most) {
    return prefix_match(sequence(core(), core().match(history, at_most)));
  }

  /// Enters a sequence's committed tokens in the prefix index, so that match() finds them, now and after the sequence's
  /// end. The history may go on behind the committed tokens. What is published already stays as it is, and a content
  /// that another block holds is not entered twice: the sequence keeps its own block. The last block may be part full;
  /// it can be written on, since writing behind what was published changes nothing of it. Not entered are what a window
  /// has dropped, a last block of which an open step's copy is yet to be taken, and anything of sequences that were
  /// alive when prefixes were cleared. Advice is for the blocks newly entered, and raises that of those before.
  /// Returns:    how many blocks were entered, over all groups.
  /// Throws:     invalid_argument for an unknown id, a history shorter than the sequence or other than the one that the
  ///             sequence's own blocks were entered for, tags out of order or outside the tokens, and advice out of
  ///             range.
  /// Complexity: O(tokens that were not published before, or whose content another block holds).
  std::int64_t publish(sequence_id id, const token_history& history, const block_advice& advice = {}) {
    return core().publish(id, history, manager_core::all_committed, advice);
  }

  /// As publish, but the first `tokens` only. Throws: also invalid_argument for more tokens than are committed.
  std::int64_t publish_first(sequence_id id, std::int64_t tokens, const token_history& history,
                             const block_advice& advice = {}) {
    check_range("tokens to publish", tokens, 0, INT64_MAX, "publish committed tokens only");
    return core().publish(id, history, tokens, advice);
  }

  /// Gives advice about all blocks of a history that the index knows: to pin or unpin them, to demote them, to let them
  /// expire. A beginning that histories share follows the last advice.
  /// Returns: how many tokens of the history are known.
  /// Throws:  invalid_argument for advice out of range and for tags that match() refuses.
  std::int64_t advise(const token_history& history, const block_advice& advice) {
    return core().advise(history, advice);
  }

  /// Forgets all prefixes, as after a change of the weights. Cached blocks become free. Sequences go on, but what they
  /// hold is of the old weights, so publish() does nothing for them.
  void clear_prefixes() { core().clear_prefixes(); }

  /// Sets the logical time that block_advice::expires refers to. Throws: invalid_argument if it falls.
  void advance(std::int64_t now) { core().advance(now); }

  /// Takes the oldest prefix events, as many as there are and fit; returns how many. manager_config::max_events says
  /// how many are kept.
  std::size_t take_events(std::span<prefix_event> out) { return core().take_events(out); }

  /// How many new tokens, at most `want`, one plan could give this sequence now.
  /// Throws: invalid_argument for an unknown id or a negative number; logic_error while it is in an open step.
  std::int64_t growable(sequence_id id, std::int64_t want) const { return core().growable(id, want); }

  /// Blocks of a sequence that nobody else holds: its end would make them free, or cached.
  std::int32_t exclusive_blocks(sequence_id id, int group = only_group) const {
    return core().exclusive_blocks(id, group);
  }

  /// Room for new tokens in every sequence of the batch, in all layer groups, or none of it.
  /// Throws: out_of_blocks if the blocks do not suffice; capacity_exceeded for a batch above max_batch, too many open
  ///         steps or a table that would be too long; invalid_argument for an id that names no living sequence, one
  ///         that comes twice, and negative counts; logic_error for a sequence in an open step.
  step plan(std::span<const growth> batch) {
    std::int32_t index = 0;
    const detail::plan_verdict verdict = core().plan(batch, index);
    if (verdict.why != detail::plan_verdict::fits) core().refuse(verdict, batch);
    return {*core_, index};
  }
  step plan(std::initializer_list<growth> batch) { return plan(std::span<const growth>(batch.begin(), batch.size())); }

  /// As plan, but returns nothing where plan throws. `why` then tells what is lacking; why->group is -1 if the batch
  /// itself is refused, for a reason that plan names. A batch that needs more than stats().total is a shortage, too.
  std::optional<step> try_plan(std::span<const growth> batch, shortage* why = nullptr) noexcept {
    std::int32_t index = 0;
    detail::plan_verdict verdict{.lack = {.group = -1}};
    if (core_ != nullptr) {
      verdict = core_->plan(batch, index);
      if (verdict.why == detail::plan_verdict::fits) return step(*core_, index);
    }
    if (why != nullptr) *why = verdict.lack;
    return std::nullopt;
  }
  std::optional<step> try_plan(std::initializer_list<growth> batch, shortage* why = nullptr) noexcept {
    return try_plan(std::span<const growth>(batch.begin(), batch.size()), why);
  }

  /// All work of this ticket's step or transfer, and of all before it, is done: what they read may be given out again.
  /// While the copies of a transfer run beside later steps, complete none of these.
  /// Matters under reuse_rule::on_completion only.
  void complete(ticket done) noexcept {
    if (core_ != nullptr) core_->complete(done);
  }

  /// Whether the step was planned here and can still be committed.
  bool owns(const step& step) const noexcept { return core_ != nullptr && step.core_ == core_; }

  /// Counts of one layer group. Complexity: O(1).
  block_stats stats(int group = only_group) const { return core().stats(group); }

  /// All counts. Complexity: O(groups + open steps).
  manager_stats snapshot() const { return core().snapshot(); }

  /// The eviction policy's name.
  std::string_view eviction() const { return core().eviction_name(); }

  /// A sequence's block table in one group, planned blocks included. Valid until the manager's next call.
  std::span<const block_id> blocks(sequence_id id, int group = only_group) const { return core().blocks(id, group); }

  /// The group of a layer of the model, and its place in it. Throws: out_of_range for a layer that no group names.
  layer_location locate(std::int32_t layer) const { return core().locate(layer); }

  const manager_config& config() const { return core().config(); }

  /// Recounts everything and reports what disagrees. Complexity: O(blocks + table entries).
  integrity_report check_integrity() const { return core().check_integrity(); }

 private:
  friend transferred transfer(block_manager& from, std::span<const sequence_id> ids, block_manager& to);

  manager_core& core() const {
    if (core_ == nullptr) detail::fail<logic_error>("this block manager was moved from: use the one that it went to");
    return *core_;
  }

  manager_core* core_;
};

/// What transfer() made.
struct [[nodiscard]] transferred {
  std::vector<sequence> sequences{};  ///< of the manager that they went to, in the order of the ids
  copy_list copies{};                 ///< from blocks of the one to blocks of the other
  ticket read = ticket::none;         ///< to complete() on the manager that they came from when the copies are done,
                                      ///< and with them all work of its steps before
  ticket written = ticket::none;      ///< likewise, on the manager that they went to
};

/// Gives sequences of one manager twins in another one: device to host to make room, and back; or any tiers. What the
/// sequences share, their twins share. Execute the copies from storage to storage, then release the old sequences; the
/// twins go on as if nothing had happened: their steps, and those that find them once they are published, are ordered
/// behind the copies.
///
///     auto [parked, copies, read, written] = transfer(device.manager(), {seq}, host.manager());
///     pagoda::host::execute(device, host, copies);   // or cuda::execute, on a stream
///     seq = {};                                      // its blocks serve others now
///
/// Prefixes do not move: publish the twins where they should be found. Twins of sequences that were alive when prefixes
/// were cleared are not published, either; after a change of the weights, clear the prefixes of both managers.
/// Throws:     invalid_argument for managers that differ in block size, groups, retention or block_bytes, for one
///             manager twice, for ids that name no living sequence and for one named twice; logic_error for a sequence
///             in an open step; capacity_exceeded and out_of_blocks of the manager that they should go to. Nothing has
///             changed then.
/// Effects:    evicts as many cached prefixes of the manager that they go to as plan() would for so many blocks. Under
///             reuse_rule::on_completion nobody writes into the old blocks before `read` is complete: a sequence that
///             shares one, or goes on in one, gets a copy.
/// Complexity: O(n log n) for n ids and table entries of the sequences, and what evictions cost.
inline transferred transfer(block_manager& from, std::span<const sequence_id> ids, block_manager& to) {
  transferred result;
  std::vector<sequence_id> made(ids.size());
  result.sequences.reserve(ids.size());
  manager_core::transfer(from.core(), ids, to.core(), made, result.copies);
  for (const sequence_id id : made) result.sequences.push_back(sequence(to.core(), id));
  result.read = from.core().issued();
  result.written = to.core().issued();
  return result;
}
inline transferred transfer(block_manager& from, std::initializer_list<sequence_id> ids, block_manager& to) {
  return transfer(from, std::span<const sequence_id>(ids.begin(), ids.size()), to);
}

}  // namespace pagoda
