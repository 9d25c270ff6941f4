// SPDX-License-Identifier: Apache-2.0
/// @file How a row is cut into pieces, one for a lane, and how a piece becomes codes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <pagoda/cache_view.hpp>
#include <pagoda/kernels/attention_arguments.hpp>
#include <pagoda/kernels/stored_row.hpp>
#include <pagoda/quantizer.hpp>
#include <pagoda/quantizer/identity.hpp>
#include <pagoda/simt/execution_context.hpp>

namespace pagoda::kernels {

/// The consecutive elements that one lane codes at a time: those of one 16-byte chunk, but at least eight.
template <quantizer Q>
struct row_piece {
  static constexpr int elements = Q::bits >= 16 ? 8 : 128 / Q::bits;
  static constexpr int eights = elements / 8;
  static constexpr int chunks = elements * Q::bits / 128;
  /// Lanes that share a row: so many that 128 elements, the usual head_dim, are one piece for each.
  static constexpr int lanes = 128 / elements;
  /// Elements of a piece that share a scale, parts of a group, and whether its lanes can join what they have seen.
  static constexpr int part_elements = Q::group % elements == 0 ? elements : 16;
  static constexpr int parts = elements / part_elements;
  static constexpr int group_parts = Q::group / part_elements;
  static constexpr bool joins_groups =
      group_parts == 1 || (part_elements == elements && group_parts <= lanes && (group_parts & (group_parts - 1)) == 0);
};

/// The element type whose rows Q stores as they are.
template <class Q>
struct stored_type {
  static constexpr bool is_known = false;
};
template <class T>
struct stored_type<identity<T>> {
  static constexpr bool is_known = true;
  static constexpr element_type value = element_type_v<T>;
};

/// Reads and codes so many eights from `first` on. They go to the front of the codes; what is there moves up.
template <quantizer Q, class Context>
PAGODA_KERNEL_FUNCTION void encode_eights(Context& ctx, element_type type, const std::byte* first, int eights,
                                          typename Q::scale_type scale, simt::words4 (&codes)[row_piece<Q>::chunks]) {
  constexpr int words = 4 * row_piece<Q>::chunks;
  constexpr int words_of_eight = Q::bits / 4;
  constexpr std::uint32_t mask = Q::bits == 32 ? 0xffffffffu : (1u << (Q::bits % 32)) - 1u;
  // From the last eight down: so few values are in registers at a time, all at places known when compiling.
  for (int k = eights - 1; k >= 0; --k) {
    float values[8];
    load_eight(ctx, type, first + 8 * k * element_bytes(type), values);
    PAGODA_KERNEL_UNROLL
    for (int i = words - 1; i >= words_of_eight; --i) {
      codes[i / 4].w[i % 4] = codes[(i - words_of_eight) / 4].w[(i - words_of_eight) % 4];
    }
    PAGODA_KERNEL_UNROLL
    for (int i = 0; i < words_of_eight; ++i) codes[i / 4].w[i % 4] = 0;
    PAGODA_KERNEL_UNROLL
    for (int i = 0; i < 8; ++i) {
      const int bit = i * Q::bits;
      codes[bit / 128].w[bit / 32 % 4] |= (Q::encode(values[i], scale) & mask) << (bit % 32);
    }
  }
}

/// Reads and codes the first `eights` eights of a piece without a scale; the rest of its codes is 0. Rows that are
/// stored as they come are copied.
template <quantizer Q, class Context>
PAGODA_KERNEL_FUNCTION void load_codes(Context& ctx, element_type type, const std::byte* first, int eights,
                                       simt::words4 (&codes)[row_piece<Q>::chunks]) {
  PAGODA_KERNEL_UNROLL
  for (int c = 0; c < row_piece<Q>::chunks; ++c) codes[c] = {};
  if constexpr (stored_type<Q>::is_known) {
    if (type == stored_type<Q>::value) {
      PAGODA_KERNEL_UNROLL
      for (int c = 0; c < row_piece<Q>::chunks; ++c) {
        if (eights > 0) codes[c] = ctx.ldg(reinterpret_cast<const simt::words4*>(first) + c);
      }
      return;
    }
  }
  encode_eights<Q>(ctx, type, first, eights < row_piece<Q>::eights ? eights : row_piece<Q>::eights, {}, codes);
}

/// An unsigned number of 2, 4 or 8 bytes.
template <std::int64_t Bytes>
using scale_word_t =
    std::conditional_t<Bytes == 2, std::uint16_t, std::conditional_t<Bytes == 4, std::uint32_t, std::uint64_t>>;

/// Writes one scale in words of `Alignment` bytes.
template <std::int64_t Alignment, class Context, class Scale>
PAGODA_KERNEL_FUNCTION void store_scale(Context& ctx, std::byte* to, const Scale& scale) {
  using word = scale_word_t<Alignment>;
  constexpr std::size_t count = sizeof(Scale) / sizeof(word);
  struct words {
    word w[count];
  };
  const words parts = __builtin_bit_cast(words, scale);
  PAGODA_KERNEL_UNROLL
  for (std::size_t i = 0; i < count; ++i) ctx.store(reinterpret_cast<word*>(to) + i, parts.w[i]);
}

}  // namespace pagoda::kernels
