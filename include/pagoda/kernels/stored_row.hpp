// SPDX-License-Identifier: Apache-2.0
/// @file How a kernel reads stored rows of any quantizer: whole 16-byte chunks of codes, and scales.
#pragma once

#include <cstddef>
#include <cstdint>

#include <pagoda/quantizer.hpp>
#include <pagoda/simt/execution_context.hpp>

namespace pagoda::kernels {

/// The codes of elements 8 * unit to 8 * unit + 7 of a row, as the chunks that hold them: two of 32-bit codes, else
/// one, which neighbouring units may share.
template <quantizer Q>
struct stored_eight {
  static constexpr int chunks = Q::bits == 32 ? 2 : 1;
  static constexpr int units_per_chunk = Q::bits == 32 ? 1 : 16 / Q::bits;

  simt::words4 chunk[static_cast<std::size_t>(chunks)];

  template <class Context>
  PAGODA_KERNEL_FUNCTION void load(Context& ctx, const std::byte* row, std::int64_t chunk_stride, std::int32_t unit) {
    const std::byte* first = row + std::int64_t{unit / units_per_chunk * chunks} * chunk_stride;
    PAGODA_KERNEL_UNROLL
    for (int c = 0; c < chunks; ++c) {
      chunk[c] = ctx.ldg(reinterpret_cast<const simt::words4*>(first + c * chunk_stride));
    }
  }

  PAGODA_KERNEL_FUNCTION void clear() {
    PAGODA_KERNEL_UNROLL
    for (int c = 0; c < chunks; ++c) chunk[c] = {};
  }

  /// The eight codewords, with no scale applied.
  PAGODA_KERNEL_FUNCTION void codewords(std::int32_t unit, float (&values)[8]) const {
    if constexpr (Q::bits == 32) {
      PAGODA_KERNEL_UNROLL
      for (int i = 0; i < 8; ++i) values[i] = Q::codeword(chunk[i / 4].w[i % 4]);
    } else if constexpr (Q::bits == 16) {
      PAGODA_KERNEL_UNROLL
      for (int i = 0; i < 8; ++i) values[i] = Q::codeword(chunk[0].w[i / 2] >> (16 * (i % 2)) & 0xffffu);
    } else if constexpr (Q::bits == 8) {
      const bool upper = (unit & 1) != 0;
      const std::uint32_t words[2] = {upper ? chunk[0].w[2] : chunk[0].w[0], upper ? chunk[0].w[3] : chunk[0].w[1]};
      PAGODA_KERNEL_UNROLL
      for (int i = 0; i < 8; ++i) values[i] = Q::codeword(words[i / 4] >> (8 * (i % 4)) & 0xffu);
    } else {
      const std::uint32_t low = (unit & 1) != 0 ? chunk[0].w[1] : chunk[0].w[0];
      const std::uint32_t high = (unit & 1) != 0 ? chunk[0].w[3] : chunk[0].w[2];
      const std::uint32_t word = (unit & 2) != 0 ? high : low;
      PAGODA_KERNEL_UNROLL
      for (int i = 0; i < 8; ++i) values[i] = Q::codeword(word >> (4 * i) & 0xfu);
    }
  }
};

/// What Q stores beside the codes: nothing, one scale of the whole row, or one of each group.
template <quantizer Q>
struct scale_traits {
  using scale_type = typename Q::scale_type;
  static constexpr bool of_row = has_scale_v<scale_type> && Q::group == 0;
  static constexpr bool of_group = has_scale_v<scale_type> && Q::group > 0;
  static constexpr bool row_offset = of_row && requires(scale_type scale) { scale.offset; };
};

/// Turns eight codewords into values.
template <class Scale>
PAGODA_KERNEL_FUNCTION void apply_scale(const Scale& scale, float (&values)[8]) {
  PAGODA_KERNEL_UNROLL
  for (int i = 0; i < 8; ++i) values[i] = scale_of(scale) * values[i] + offset_of(scale);
}

/// The alignment of scales in a block of that pair. Units: bytes. Keys' and values' scales lie behind one another, so
/// the narrower of them decides.
template <quantizer KeyQuantizer, quantizer ValueQuantizer>
inline constexpr std::int64_t scale_alignment_v = [] {
  constexpr std::int64_t key = scale_bytes_v<typename KeyQuantizer::scale_type>;
  constexpr std::int64_t value = scale_bytes_v<typename ValueQuantizer::scale_type>;
  return key == 0 ? value : value == 0 || key < value ? key : value;
}();

/// Scale number `index` of the row whose scales begin at `scales`, which is aligned to Alignment bytes.
template <quantizer Q, std::int64_t Alignment, class Context>
PAGODA_KERNEL_FUNCTION typename Q::scale_type load_scale(Context& ctx, const std::byte* scales, std::int32_t index) {
  using scale_type = typename Q::scale_type;
  if constexpr (!has_scale_v<scale_type>) {
    return {};
  } else {
    constexpr auto bytes = static_cast<std::int64_t>(sizeof(scale_type));
    const std::byte* from = scales + index * bytes;
    if constexpr (bytes <= Alignment) {
      return ctx.ldg(reinterpret_cast<const scale_type*>(from));
    } else if constexpr (bytes == 4) {
      const auto* half_words = reinterpret_cast<const std::uint16_t*>(from);
      const std::uint32_t word = ctx.ldg(half_words) | std::uint32_t{ctx.ldg(half_words + 1)} << 16;
      return __builtin_bit_cast(scale_type, word);
    } else {
      static_assert(bytes == 8);
      using part = affine_scale<std::uint16_t>;  // 4 bytes
      struct parts {
        part scale;
        part offset;
      };
      const auto read = [&](const std::byte* p) -> part {
        if constexpr (Alignment >= 4) return ctx.ldg(reinterpret_cast<const part*>(p));
        const auto* half_words = reinterpret_cast<const std::uint16_t*>(p);
        return {ctx.ldg(half_words), ctx.ldg(half_words + 1)};
      };
      return __builtin_bit_cast(scale_type, (parts{read(from), read(from + 4)}));
    }
  }
}

}  // namespace pagoda::kernels
