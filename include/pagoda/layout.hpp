// SPDX-License-Identifier: Apache-2.0
/// @file The layout concept: where the row of (head, slot) lies inside a block.
///
/// A layout is a small struct with two static members:
///
///     struct my_layout {
///       static constexpr std::string_view name = "my_layout";
///       static constexpr pagoda::block_planes place(const pagoda::block_geometry&);
///     };
///     static_assert(pagoda::block_layout<my_layout>);
///
/// A row is cut into chunks of 16 bytes. Chunk c of the key row of (head, slot) begins at
/// keys.offset + head * keys.head + slot * keys.slot + c * keys.chunk; values likewise. All are byte strides and
/// multiples of 16, so that wide loads, cp.async and TMA hold on every layout. The scales follow the rows, per head
/// [key scales | value scales]; no layout moves them.
#pragma once

#include <concepts>
#include <cstdint>
#include <string_view>

#include <pagoda/shape.hpp>

namespace pagoda {

inline constexpr std::int64_t chunk_bytes = 16;

/// What a block holds. Units: bytes for the rows, which are multiples of 16.
struct block_geometry {
  std::int64_t heads;
  std::int64_t slots;  ///< tokens of a block
  std::int64_t key_row_bytes;
  std::int64_t value_row_bytes;  ///< 0 where the values lie in the key rows: nobody then reads `values`
};

/// Where the rows of the keys (or values) of one block lie. Units: bytes.
struct plane {
  std::int64_t offset = 0;
  std::int64_t head = 0;
  std::int64_t slot = 0;
  std::int64_t chunk = chunk_bytes;
  friend constexpr bool operator==(const plane&, const plane&) = default;
};

/// Both planes of a block, and the bytes that their rows take together.
struct block_planes {
  plane keys;
  plane values;
  std::int64_t size_bytes = 0;
  friend constexpr bool operator==(const block_planes&, const block_planes&) = default;
};

template <class L>
concept has_place = requires(const block_geometry& geometry) {
  { L::place(geometry) } -> std::same_as<block_planes>;
};

/// A policy that places rows inside a block.
template <class L>
concept block_layout = has_place<L> && requires {
  { L::name } -> std::convertible_to<std::string_view>;
};

/// Whether a type means to be a layout.
template <class L>
concept layout_like = requires {
  &L::place;
};

/// Fails to compile with the name of the first missing part.
template <class L>
consteval bool require_layout() {
  static_assert(has_place<L>, "pagoda: this layout lacks `static block_planes place(const block_geometry&)`");
  static_assert(block_layout<L>, "pagoda: this layout lacks `static constexpr std::string_view name`");
  return true;
}

}  // namespace pagoda
