// SPDX-License-Identifier: Apache-2.0
/// @file The loops of row_codec over the elements of a row.
///
/// Where a policy has the wide hooks, they are its vector code. A policy without them is called for 16 elements at a
/// time, in loops of a constant length over local arrays: its scalar functions have no side effects, and compilers put
/// such loops into vector registers from -O2 on, as far as they can.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include <pagoda/detail/store_codes.hpp>
#include <pagoda/detail/vector.hpp>
#include <pagoda/detail/vector_math.hpp>
#include <pagoda/dtype.hpp>
#include <pagoda/quantizer.hpp>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"

namespace pagoda::detail {
inline namespace PAGODA_ISA {

/// Elements that a scalar policy is called for at once.
inline constexpr int row_lanes = 16;

/// Keeps g++ from taking a short loop apart before its vectoriser has seen it.
#if defined(__clang__) || defined(__CUDACC__)
#define PAGODA_ROW_LOOP
#else
#define PAGODA_ROW_LOOP _Pragma("GCC unroll 1")
#endif

/// An unsigned integer that holds one code; a 4-bit code has a byte to itself until it is packed.
template <class Q>
using code_of =
    std::conditional_t<Q::bits == 32, std::uint32_t, std::conditional_t<Q::bits == 16, std::uint16_t, std::uint8_t>>;

/// find_stats where the smallest or largest element is zero, whose sign counts: of a zero and a minus zero it takes the
/// first, in the order of 16 accumulators. Number n takes every 16th element from n on; the first takes what is left
/// over, too.
template <class T>
[[gnu::noinline, gnu::cold]] row_stats find_signed_stats(const T* row, std::int64_t size) noexcept {
  const std::int64_t full = size / row_lanes * row_lanes;
  row_stats found{to_float(row[0]), to_float(row[0])};
  const auto add = [&](std::int64_t i) {
    const float x = to_float(row[i]);
    found = {x < found.min ? x : found.min, x > found.max ? x : found.max};
  };
  for (std::int64_t lane = 0; lane < row_lanes; ++lane) {
    for (std::int64_t i = lane; i < full; i += row_lanes) add(i);
    for (std::int64_t i = full; lane == 0 && i < size; ++i) add(i);
  }
  return found;
}

/// The smallest and largest element; both NaN if any is. If `values` is given, the row is copied to it as floats.
template <class T>
row_stats find_stats(const T* row, std::int64_t size, float* values) noexcept {
  constexpr int width = PAGODA_HAS_AVX512 ? 16 : 8;
  using lanes = vec<float, width>;
  lanes low = broadcast<width>(to_float(row[0]));
  lanes high = low;
  vec<std::int32_t, width> is_nan{};
  const auto add = [&](const lanes& x) __attribute__((always_inline)) {
    low = smaller_of<width>(x, low);
    high = larger_of<width>(x, high);
    is_nan |= x != x;
  };
  std::int64_t i = 0;
  for (; i + width <= size; i += width) {
    lanes x;
    load_float<width>(row + i, x);
    if (values != nullptr) store_float<width>(x, values + i);
    add(x);
  }
  if constexpr (width == 16) {
    if (i + 8 <= size) {
      vec<float, 8> eight;
      load_float<8>(row + i, eight);
      if (values != nullptr) store_float<8>(eight, values + i);
      add(__builtin_shufflevector(eight, eight, 0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7));
      i += 8;
    }
  }
  for (; i < size; ++i) {
    const float scalar = to_float(row[i]);
    if (values != nullptr) values[i] = scalar;
    add(broadcast<width>(scalar));
  }
  const auto nans = __builtin_bit_cast(vec<std::uint64_t, width / 2>, is_nan);
  std::uint64_t any_nan = 0;
  PAGODA_UNROLL
  for (int lane = 0; lane < width / 2; ++lane) any_nan |= nans[lane];
  if (any_nan != 0) return {float_from_bits(canonical_nan_bits), float_from_bits(canonical_nan_bits)};
  const row_stats found{-horizontal_max(-low), horizontal_max(high)};
  return found.min == 0.0f || found.max == 0.0f ? find_signed_stats(row, size) : found;
}

/// Copies a row as floats.
template <class T>
void widen(const T* row, std::int64_t size, float* values) noexcept {
  if constexpr (std::is_same_v<T, float>) {
    std::memcpy(values, row, static_cast<std::size_t>(size) * sizeof(float));
  } else {
    const std::int64_t full = size / 8 * 8;
    for (std::int64_t i = 0; i < full; i += 8) {
      vec<float, 8> x;
      load_float<8>(row + i, x);
      store_float<8>(x, values + i);
    }
    for (std::int64_t i = full; i < size; ++i) values[i] = to_float(row[i]);
  }
}

/// The optional wide coding of a policy.
template <class Q>
concept has_store_float = requires(const vec<float, 8>& values, const typename Q::scale_type& scale, std::byte* codes) {
  Q::template store_float<8>(values, scale, codes);
};

/// Codes N elements by the policy's scalar function. 4-bit codes are packed, the even element in the low half of a
/// byte.
template <class Q, int N>
PAGODA_ALWAYS_INLINE void encode_each(const float* row, typename Q::scale_type scale, std::byte* codes) {
  constexpr auto size = static_cast<std::size_t>(N);
  float values[size];
  std::memcpy(values, row, sizeof(values));
  code_of<Q> narrow[size];
  PAGODA_ROW_LOOP
  for (std::size_t i = 0; i < size; ++i) narrow[i] = static_cast<code_of<Q>>(Q::encode(values[i], scale));
  if constexpr (Q::bits == 4) {
    std::uint8_t packed[size / 2];
    PAGODA_ROW_LOOP
    for (std::size_t i = 0; i < size / 2; ++i) packed[i] = pack_int4(narrow[2 * i], narrow[2 * i + 1]);
    std::memcpy(codes, packed, sizeof(packed));
  } else {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Warray-bounds"  // g++ 12 -O3 merges the stores of a row and then doubts their place
    std::memcpy(codes, narrow, sizeof(narrow));
#pragma GCC diagnostic pop
  }
}

template <class Q>
PAGODA_ALWAYS_INLINE void encode_each(const float* row, std::int64_t begin, std::int64_t size,
                                      typename Q::scale_type scale, std::byte* codes) {
  const std::int64_t full = begin + (size - begin) / row_lanes * row_lanes;
  for (std::int64_t i = begin; i < full; i += row_lanes) {
    encode_each<Q, row_lanes>(row + i, scale, codes + i * Q::bits / 8);
  }
  constexpr int step = Q::bits == 4 ? 2 : 1;
  for (std::int64_t i = full; i < size; i += step) encode_each<Q, step>(row + i, scale, codes + i * Q::bits / 8);
}

/// Codes `size` elements. Requires: an even size where two codes share a byte.
template <class Q>
void encode_loop(const float* row, std::int64_t size, typename Q::scale_type scale, std::byte* codes) noexcept {
  std::int64_t i = 0;
  if constexpr (has_store_float<Q>) {
    const auto store = [&]<int W>(std::integral_constant<int, W>) {
      for (; i + W <= size; i += W) {
        vec<float, W> values;
        load_float<W>(row + i, values);
        Q::template store_float<W>(values, scale, codes + i * Q::bits / 8);
      }
    };
#if PAGODA_HAS_AVX512
    store(std::integral_constant<int, 16>{});
#endif
    store(std::integral_constant<int, 8>{});
    encode_each<Q>(row, i, size, scale, codes);
  } else if (scale_of(scale) > 0) {
    // Policies tell a scale of 0 apart, as one cannot divide by it: known here, the test leaves the loop.
    encode_each<Q>(row, 0, size, scale, codes);
  } else {
    encode_each<Q>(row, 0, size, scale, codes);
  }
}

/// The codewords of N codes by the policy's scalar function.
template <class Q, int N>
PAGODA_ALWAYS_INLINE void decode_each(const std::byte* codes, float* row) {
  constexpr auto size = static_cast<std::size_t>(N);
  code_of<Q> narrow[size];
  if constexpr (Q::bits == 4) {
    std::uint8_t packed[size / 2];
    std::memcpy(packed, codes, sizeof(packed));
    for (std::size_t i = 0; i < size; ++i) {
      narrow[i] = static_cast<std::uint8_t>(unpack_int4(packed, static_cast<std::int64_t>(i)));
    }
  } else {
    std::memcpy(narrow, codes, sizeof(narrow));
  }
  float values[size];
  PAGODA_ROW_LOOP
  for (std::size_t i = 0; i < size; ++i) values[i] = Q::codeword(narrow[i]);
  std::memcpy(row, values, sizeof(values));
}

/// The codewords of `size` codes. Requires: an even size where two codes share a byte.
template <class Q>
void decode_loop(const std::byte* codes, std::int64_t size, float* row) noexcept {
  constexpr std::int64_t at_once = has_load_float<Q> ? 8 : row_lanes;
  const std::int64_t full = size / at_once * at_once;
  for (std::int64_t i = 0; i < full; i += at_once) {
    if constexpr (has_load_float<Q>) {
      vec<float, 8> values{};
      Q::template load_float<8>(codes + i * Q::bits / 8, values);
      store_float<8>(values, row + i);
    } else {
      decode_each<Q, row_lanes>(codes + i * Q::bits / 8, row + i);
    }
  }
  constexpr int step = Q::bits == 4 ? 2 : 1;
  for (std::int64_t i = full; i < size; i += step) decode_each<Q, step>(codes + i * Q::bits / 8, row + i);
}

#undef PAGODA_ROW_LOOP

}  // namespace PAGODA_ISA
}  // namespace pagoda::detail

#pragma GCC diagnostic pop
