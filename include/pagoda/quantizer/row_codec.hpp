// SPDX-License-Identifier: Apache-2.0
/// @file row_codec<Q>: one head vector to packed codes and scales, and back, for any quantizer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include <pagoda/detail/hadamard.hpp>
#include <pagoda/detail/row_loops.hpp>
#include <pagoda/dtype.hpp>
#include <pagoda/quantizer.hpp>

namespace pagoda {
inline namespace PAGODA_ISA {

/// Codes and decodes whole rows. A rotating quantizer's codes are those of the rotated row, and so are codewords();
/// decode() rotates back. Codes are packed in order, little-endian; two 4-bit codes share a byte, the even
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
    if constexpr (is_rotated_v<Q>) {
      alignas(64) float rotated[max_head_dim];
      fit(row, dim, rotated, scales);
      encode_fitted(rotated, dim, scales, codes);
    } else {
      fit(row, dim, nullptr, scales);
      encode_fitted(row, dim, scales, codes);
    }
  }

  /// The first half of encode, from float, half or bfloat16: copies the row to `values`, rotated if Q rotates, and
  /// writes its scales. Without `values` there is no copy. Requires: `values` if Q rotates.
  template <class T>
  static void fit(const T* row, std::int64_t dim, float* values, std::byte* scales) noexcept {
    if constexpr (is_rotated_v<Q>) {
      detail::widen(row, dim, values);
      detail::rotate(values, dim);
      row_codec<unrotated_t<Q>>::fit(values, dim, nullptr, scales);
    } else if constexpr (has_scale_v<scale_type>) {
      const std::int64_t size = group_size(dim);
      for (std::int64_t begin = 0; begin < dim; begin += size) {
        const row_stats found = detail::find_stats(row + begin, size, values == nullptr ? nullptr : values + begin);
        const scale_type scale = Q::fit(found);
        std::memcpy(scales + begin / size * scale_bytes_v<scale_type>, &scale, sizeof(scale));
      }
    } else if (values != nullptr) {
      detail::widen(row, dim, values);
    }
  }

  /// The second half: writes the codes of a row, given what fit has made of it.
  static void encode_fitted(const float* values, std::int64_t dim, const std::byte* scales, std::byte* codes) noexcept {
    const std::int64_t size = group_size(dim);
    for (std::int64_t begin = 0; begin < dim; begin += size) {
      encode_group(values + begin, size, load_scale(scales, begin / size), codes + code_bytes<Q>(begin));
    }
  }

  /// Writes dim values: scale * codeword + offset, rotated back if Q rotates.
  static void decode(const std::byte* codes, const std::byte* scales, std::int64_t dim, float* row) noexcept {
    const std::int64_t size = group_size(dim);
    codewords(codes, dim, row);
    if constexpr (has_scale_v<scale_type>) {
      for (std::int64_t begin = 0; begin < dim; begin += size) {
        const scale_type scale = load_scale(scales, begin / size);
        const float factor = scale_of(scale);
        const float offset = offset_of(scale);
        for (std::int64_t i = begin; i < begin + size; ++i) row[i] = factor * row[i] + offset;
      }
    }
    if constexpr (is_rotated_v<Q>) detail::rotate_back(row, dim);
  }

  /// Writes dim codewords, with no scale applied.
  static void codewords(const std::byte* codes, std::int64_t dim, float* row) noexcept {
    detail::decode_loop<Q>(codes, dim, row);
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

  /// The smallest and largest element; both NaN if any is.
  static row_stats stats(const float* row, std::int64_t size) noexcept {
    return detail::find_stats(row, size, nullptr);
  }

 private:
  using code_type = detail::code_of<Q>;

  static void encode_group(const float* row, std::int64_t size, scale_type scale, std::byte* codes) noexcept {
    detail::encode_loop<Q>(row, size, scale, codes);
  }
};

}  // namespace PAGODA_ISA
}  // namespace pagoda
