// SPDX-License-Identifier: Apache-2.0
/// @file row_codec<Q>: one head vector to packed codes and scales, and back, for any quantizer.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include <pagoda/dtype.hpp>
#include <pagoda/quantizer.hpp>

namespace pagoda {

/// Codes and decodes whole rows. Codes are packed in order, little-endian; two 4-bit codes share a byte, the even
/// element in its low half. Scales follow the groups in order.
/// Requires:   check_row<Q>(dim) has passed.
/// Complexity: O(dim) each; no allocation.
template <quantizer Q>
struct row_codec {
  using scale_type = typename Q::scale_type;

  /// The elements that share scale number `index`.
  static constexpr std::int64_t group_size(std::int64_t dim) noexcept { return Q::group == 0 ? dim : Q::group; }

  /// Writes code_bytes<Q>(dim) bytes at `codes` and row_scale_bytes<Q>(dim) at `scales`.
  static void encode(const float* row, std::int64_t dim, std::byte* codes, std::byte* scales) noexcept {
    const std::int64_t size = group_size(dim);
    for (std::int64_t begin = 0; begin < dim; begin += size) {
      scale_type scale{};
      if constexpr (has_scale_v<scale_type>) {
        scale = Q::fit(stats(row + begin, size));
        std::memcpy(scales + begin / size * scale_bytes_v<scale_type>, &scale, sizeof(scale));
      }
      encode_group(row + begin, size, scale, codes + code_bytes<Q>(begin));
    }
  }

  /// Writes dim values: scale * codeword + offset.
  static void decode(const std::byte* codes, const std::byte* scales, std::int64_t dim, float* row) noexcept {
    const std::int64_t size = group_size(dim);
    codewords(codes, dim, row);
    if constexpr (has_scale_v<scale_type>) {
      for (std::int64_t begin = 0; begin < dim; begin += size) {
        const scale_type scale = load_scale(scales, begin / size);
        for (std::int64_t i = begin; i < begin + size; ++i) row[i] = scale_of(scale) * row[i] + offset_of(scale);
      }
    }
  }

  /// Writes dim codewords, with no scale applied.
  static void codewords(const std::byte* codes, std::int64_t dim, float* row) noexcept {
    for (std::int64_t i = 0; i < dim; ++i) row[i] = Q::codeword(load_code(codes, i));
  }

  static scale_type load_scale(const std::byte* scales, std::int64_t index) noexcept {
    scale_type scale{};
    if constexpr (has_scale_v<scale_type>) {
      std::memcpy(&scale, scales + index * scale_bytes_v<scale_type>, sizeof(scale));
    }
    return scale;
  }

  static std::uint32_t load_code(const std::byte* codes, std::int64_t index) noexcept {
    if constexpr (Q::bits == 4) {
      return unpack_int4(reinterpret_cast<const std::uint8_t*>(codes), index);
    } else {
      code_type code;
      std::memcpy(&code, codes + index * static_cast<std::int64_t>(sizeof(code)), sizeof(code));
      return code;
    }
  }

  /// The smallest and largest element; both NaN if any is. The loop keeps 16 lanes apart so that it vectorises.
  static row_stats stats(const float* row, std::int64_t size) noexcept {
    constexpr std::int64_t lanes = 16;
    std::array<float, lanes> low;
    std::array<float, lanes> high;
    low.fill(row[0]);
    high.fill(row[0]);
    float poison = 0;  // becomes NaN with the first NaN, whatever the comparisons make of it
    std::array<float, lanes> zero{};
    const std::int64_t full = size / lanes * lanes;
    for (std::int64_t i = 0; i < full; i += lanes) {
      for (std::int64_t j = 0; j < lanes; ++j) {
        const auto lane = static_cast<std::size_t>(j);
        const float x = row[i + j];
        low[lane] = x < low[lane] ? x : low[lane];
        high[lane] = x > high[lane] ? x : high[lane];
        zero[lane] = x == x ? zero[lane] : x;
      }
    }
    for (std::int64_t i = full; i < size; ++i) {
      low[0] = row[i] < low[0] ? row[i] : low[0];
      high[0] = row[i] > high[0] ? row[i] : high[0];
      poison = row[i] == row[i] ? poison : row[i];
    }
    row_stats result{low[0], high[0]};
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      result.min = low[lane] < result.min ? low[lane] : result.min;
      result.max = high[lane] > result.max ? high[lane] : result.max;
      poison = zero[lane] == zero[lane] ? poison : zero[lane];
    }
    return poison == poison ? result : row_stats{poison, poison};
  }

 private:
  using code_type =
      std::conditional_t<Q::bits == 32, std::uint32_t, std::conditional_t<Q::bits == 16, std::uint16_t, std::uint8_t>>;

  static void encode_group(const float* row, std::int64_t size, scale_type scale, std::byte* codes) noexcept {
    if constexpr (Q::bits == 4) {
      for (std::int64_t i = 0; i < size; i += 2) {
        codes[i / 2] = static_cast<std::byte>(pack_int4(Q::encode(row[i], scale), Q::encode(row[i + 1], scale)));
      }
    } else {
      for (std::int64_t i = 0; i < size; ++i) {
        const auto code = static_cast<code_type>(Q::encode(row[i], scale));
        std::memcpy(codes + i * static_cast<std::int64_t>(sizeof(code)), &code, sizeof(code));
      }
    }
  }
};

}  // namespace pagoda
