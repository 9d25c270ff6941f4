// SPDX-License-Identifier: Apache-2.0
/// @file The eviction concept: which block that nobody holds is reclaimed first.
///
/// A policy ranks the blocks of one layer group that no sequence holds and that the prefix index still knows: they are
/// cached. It never hears of a block's bytes, and a block in use is not among those that it may choose from.
// clang-format off
///
///     struct my_eviction {
///       static constexpr std::string_view name = "my_eviction";     // for flags and errors
///       explicit my_eviction(std::int32_t num_blocks);              // ids are 0 to num_blocks - 1; may allocate
///       void insert(const pagoda::cached_block& block) noexcept;    // nobody holds the block any more
///       void erase(pagoda::block_id id) noexcept;                   // it is held again, or leaves the index
///       pagoda::block_id evict() noexcept;                          // takes out the block that goes first, or none
///       std::int32_t size() const noexcept;                         // blocks that evict() would give, one by one
///     };
///     static_assert(pagoda::eviction_policy<my_eviction>);
///
// clang-format on
/// insert and erase alternate for each block, and evict stands for an erase. When the advice about a cached block
/// changes, it is erased and inserted anew. evict() gives block_id::none exactly when size() is 0, which may be while
/// blocks are cached: those are then kept. The same calls give the same blocks: clocks, addresses and random devices
/// decide nothing. Nothing allocates after construction. Three members are optional:
// clang-format off
///
///       void stored(pagoda::block_id id) noexcept;      // the block entered the index, as a rule while it is held
///       void forgotten(pagoda::block_id id) noexcept;   // it left the index, and not by evict(); an erase went before
///                                                       // if it was cached
///       void advance(std::int64_t now) noexcept;        // the caller's logical time: from 0, never falling
///
// clang-format on
/// eviction/block_list.hpp and eviction/block_heap.hpp are what the built-in policies are made of;
/// conformance::check_eviction<my_eviction>() checks one of your own.
#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <string_view>
#include <type_traits>

#include <pagoda/shape.hpp>

namespace pagoda {

/// Priorities of cached blocks: 0 goes first, highest_priority last.
inline constexpr std::int32_t default_priority = 50;
inline constexpr std::int32_t highest_priority = 100;

/// The expiry of a block that keeps its priority for ever.
inline constexpr std::int64_t never_expires = std::numeric_limits<std::int64_t>::max();

/// What a policy may know of a cached block.
struct cached_block {
  block_id id = block_id::none;
  std::int32_t depth = 0;                    ///< blocks before it in its prefix
  std::uint32_t hits = 0;                    ///< times that a match took it since it was stored
  std::int32_t priority = default_priority;  ///< 0 to highest_priority
  std::int64_t expires = never_expires;      ///< logical time from which it counts as priority 0

  friend constexpr bool operator==(const cached_block&, const cached_block&) = default;
};

// The parts of the concept, one by one, so that a compiler can name the one that is missing. clang-format 14 does not
// know `noexcept` there.
// clang-format off

template <class P>
concept has_insert = requires(P& policy, const cached_block& block) {
  { policy.insert(block) } noexcept -> std::same_as<void>;
};
template <class P>
concept has_erase = requires(P& policy, block_id id) {
  { policy.erase(id) } noexcept -> std::same_as<void>;
};
template <class P>
concept has_evict = requires(P& policy) {
  { policy.evict() } noexcept -> std::same_as<block_id>;
};
template <class P>
concept has_evictable_size = requires(const P& policy) {
  { policy.size() } noexcept -> std::same_as<std::int32_t>;
};

// The optional members.

template <class P>
concept has_stored = requires(P& policy, block_id id) {
  { policy.stored(id) } noexcept -> std::same_as<void>;
};
template <class P>
concept has_forgotten = requires(P& policy, block_id id) {
  { policy.forgotten(id) } noexcept -> std::same_as<void>;
};
template <class P>
concept has_advance = requires(P& policy, std::int64_t now) {
  { policy.advance(now) } noexcept -> std::same_as<void>;
};

// clang-format on

/// Whether each optional member that a type names can be called: one of another signature is never passed over.
template <class P>
concept has_eviction_hooks_or_none = (has_stored<P> || !requires { &P::stored; }) &&
                                     (has_forgotten<P> || !requires { &P::forgotten; }) &&
                                     (has_advance<P> || !requires { &P::advance; });

template <class P>
concept has_eviction_name = requires {
  { P::name } -> std::convertible_to<std::string_view>;
};

/// A policy that says which cached block is reclaimed first. See the file's head for its members.
template <class P>
concept eviction_policy =
    has_insert<P> && has_erase<P> && has_evict<P> && has_evictable_size<P> && has_eviction_hooks_or_none<P> &&
    has_eviction_name<P> && std::constructible_from<P, std::int32_t> && std::is_nothrow_move_constructible_v<P>;

/// Whether a type means to be an eviction policy: it has one of the members that only eviction policies have.
template <class P>
concept eviction_like = requires(P& policy) {
  policy.evict();
}
|| requires(P& policy, const cached_block& block) {
  policy.insert(block);
};

/// Fails to compile with the name of each missing part. static_assert(require_eviction_policy<P>()) says more than
/// static_assert(eviction_policy<P>).
template <class P>
consteval bool require_eviction_policy() {
  static_assert(std::constructible_from<P, std::int32_t>,
                "pagoda: this eviction policy lacks a constructor from `std::int32_t num_blocks`");
  static_assert(std::is_nothrow_move_constructible_v<P>, "pagoda: this eviction policy must be nothrow movable");
  static_assert(has_insert<P>, "pagoda: this eviction policy lacks `void insert(const cached_block&) noexcept`");
  static_assert(has_erase<P>, "pagoda: this eviction policy lacks `void erase(block_id) noexcept`");
  static_assert(has_evict<P>, "pagoda: this eviction policy lacks `block_id evict() noexcept`");
  static_assert(has_evictable_size<P>, "pagoda: this eviction policy lacks `std::int32_t size() const noexcept`");
  static_assert(has_eviction_hooks_or_none<P>,
                "pagoda: an optional member of this eviction policy has another signature than "
                "`void stored(block_id) noexcept`, `void forgotten(block_id) noexcept` or "
                "`void advance(std::int64_t) noexcept`");
  static_assert(has_eviction_name<P>, "pagoda: this eviction policy lacks `static constexpr std::string_view name`");
  return true;
}

}  // namespace pagoda
