// SPDX-License-Identifier: Apache-2.0
/// @file The memory concept: where the bytes of a storage live.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <pagoda/shape.hpp>

namespace pagoda {

/// Every storage starts on such a boundary: a block never shares a cache line or a DMA burst with a stranger.
inline constexpr std::int64_t storage_alignment = 256;

/// A policy that holds one range of bytes: movable, aligned to storage_alignment, its size fixed.
template <class M>
concept block_memory = std::is_nothrow_move_constructible_v<M> && requires(const M& memory) {
  { memory.data() } -> std::same_as<std::byte*>;
  { memory.size_bytes() } -> std::same_as<std::int64_t>;
};

/// A memory that makes its own bytes from a size.
template <class M>
concept allocating_memory = block_memory<M> && std::constructible_from<M, std::int64_t>;

/// Whether code of the host may read the bytes. A memory of a device says `static constexpr bool host_accessible =
/// false`.
template <class M>
inline constexpr bool is_host_accessible_v = !requires {
  requires !M::host_accessible;
};

/// Whether a type means to be a memory policy.
template <class M>
concept memory_like = requires(const M& memory) {
  memory.data();
  memory.size_bytes();
};

/// Fails to compile with the name of the missing part.
template <class M>
consteval bool require_memory() {
  static_assert(std::is_nothrow_move_constructible_v<M>, "pagoda: this memory policy must be nothrow movable");
  static_assert(block_memory<M>,
                "pagoda: this memory policy lacks `std::byte* data() const` or "
                "`std::int64_t size_bytes() const`");
  return true;
}

}  // namespace pagoda
