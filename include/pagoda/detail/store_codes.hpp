// SPDX-License-Identifier: Apache-2.0
/// @file Coding W elements at once: what the quantizers' store_float hooks are made of. Codes are, bit for bit, those
/// of the scalar encode functions, whatever the elements and the scale are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include <pagoda/config.hpp>
#include <pagoda/detail/vector.hpp>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"

namespace pagoda::detail {
inline namespace PAGODA_ISA {

template <int W>
using words = vec<std::uint32_t, W>;

/// a < b ? a : b, and a > b ? a : b: of numbers that are equal or not ordered it is b.
template <int W>
PAGODA_ALWAYS_INLINE vec<float, W> smaller_of(const vec<float, W>& a, const vec<float, W>& b) {
#if PAGODA_HAS_AVX512
  if constexpr (W == 16) return vec<float, W>(_mm512_maskz_min_ps(0xffff, __m512(a), __m512(b)));
#endif
#if PAGODA_HAS_AVX2
  if constexpr (W == 8) return vec<float, W>(_mm256_min_ps(__m256(a), __m256(b)));
#endif
  return a < b ? a : b;
}
template <int W>
PAGODA_ALWAYS_INLINE vec<float, W> larger_of(const vec<float, W>& a, const vec<float, W>& b) {
#if PAGODA_HAS_AVX512
  if constexpr (W == 16) return vec<float, W>(_mm512_maskz_max_ps(0xffff, __m512(a), __m512(b)));
#endif
#if PAGODA_HAS_AVX2
  if constexpr (W == 8) return vec<float, W>(_mm256_max_ps(__m256(a), __m256(b)));
#endif
  return a > b ? a : b;
}

/// value / step where step is above 0, else 0: a division even so, for a product with the reciprocal rounds otherwise.
template <int W>
PAGODA_ALWAYS_INLINE vec<float, W> levels_of(const vec<float, W>& values, float step) {
  const std::uint32_t kept = step > 0 ? 0xffffffffu : 0u;
  return __builtin_bit_cast(vec<float, W>, __builtin_bit_cast(words<W>, values / broadcast<W>(step)) & kept);
}

/// Writes the lowest byte of each word.
template <int W>
PAGODA_ALWAYS_INLINE void store_bytes(const words<W>& codes, std::byte* to) {
#if PAGODA_HAS_AVX512
  if constexpr (W == 16) {
    const __m128i bytes = _mm512_maskz_cvtepi32_epi8(0xffff, __builtin_bit_cast(__m512i, codes));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), bytes);
  } else
#endif
#if PAGODA_HAS_AVX2
      if constexpr (W == 8) {
    const __m256i first_bytes = _mm256_set1_epi32(0x0c080400);
    const __m256i fours = _mm256_shuffle_epi8(__builtin_bit_cast(__m256i, codes), first_bytes);
    const __m128i eight = _mm_unpacklo_epi32(_mm256_castsi256_si128(fours), _mm256_extracti128_si256(fours, 1));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(to), eight);
  } else
#endif
  {
    for (int i = 0; i < W; ++i) to[i] = static_cast<std::byte>(codes[i] & 0xffu);
  }
}

/// Writes the lowest four bits of each word, two a byte, those of the even word first. Requires: every word is
/// below 16.
template <int W>
PAGODA_ALWAYS_INLINE void store_nibbles(const words<W>& codes, std::byte* to) {
  using pairs = vec<std::uint64_t, W / 2>;
  const auto two = __builtin_bit_cast(pairs, codes);
  const pairs packed = two | two >> 28;  // the lowest byte of each pair counts
#if PAGODA_HAS_AVX512
  if constexpr (W == 16) {
    const __m128i bytes = _mm512_maskz_cvtepi64_epi8(0xff, __builtin_bit_cast(__m512i, packed));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(to), bytes);
  } else
#endif
#if PAGODA_HAS_AVX2
      if constexpr (W == 8) {
    const __m256i first_bytes = _mm256_set1_epi32(0x0800);
    const __m256i twos = _mm256_shuffle_epi8(__builtin_bit_cast(__m256i, packed), first_bytes);
    const __m128i four = _mm_unpacklo_epi16(_mm256_castsi256_si128(twos), _mm256_extracti128_si256(twos, 1));
    const int bytes = _mm_cvtsi128_si32(four);
    std::memcpy(to, &bytes, sizeof(bytes));
  } else
#endif
  {
    for (int i = 0; i < W / 2; ++i) to[i] = static_cast<std::byte>(packed[i] & 0xffu);
  }
}

/// Codes as int8_per_token::encode does.
template <int W>
PAGODA_ALWAYS_INLINE void store_biased_int8(const vec<float, W>& values, float scale, std::byte* to) {
  const vec<float, W> limit = broadcast<W>(127.0f);
  vec<float, W> level = levels_of<W>(values, scale);
  level = larger_of<W>(smaller_of<W>(level, limit), -limit);
  const vec<float, W> rounded = level + broadcast<W>(12582912.0f + 128.0f);
  store_bytes<W>(__builtin_bit_cast(words<W>, rounded), to);
}

/// Codes as int4_per_token::encode does.
template <int W>
PAGODA_ALWAYS_INLINE void store_uint4(const vec<float, W>& values, float scale, float offset, std::byte* to) {
  const vec<float, W> limit = broadcast<W>(15.0f);
  const vec<float, W> zero{};
  vec<float, W> level = levels_of<W>(values - broadcast<W>(offset), scale);
  level = larger_of<W>(smaller_of<W>(level, limit), zero);
  const vec<float, W> rounded = level + broadcast<W>(8388608.0f);
  store_nibbles<W>(__builtin_bit_cast(words<W>, rounded) & 15u, to);
}

/// Codes as from_float of an 8-bit float does, after the division by the scale; a level of NaN takes the largest code.
/// The parameters are those of narrow_float8, but for the largest value, which has its place in the code.
template <int W, int MantissaBits, int Bias>
PAGODA_ALWAYS_INLINE void store_float8(const vec<float, W>& values, float scale, float largest, std::byte* to) {
  constexpr int dropped = 23 - MantissaBits;
  const vec<float, W> limit = broadcast<W>(largest);
  const vec<float, W> level = larger_of<W>(smaller_of<W>(levels_of<W>(values, scale), limit), -limit);
  const auto bits = __builtin_bit_cast(words<W>, level);
  const words<W> magnitude = bits & 0x7fffffffu;
  // Normal codes: the exponent counts from another bias, and half of what is dropped, less one if even, rounds.
  constexpr std::uint32_t moved = std::uint32_t{127 - Bias} << 23;
  const words<W> odd = (magnitude >> dropped) & 1u;
  const words<W> normal = (magnitude + odd - (moved - ((1u << (dropped - 1)) - 1u))) >> dropped;
  // Subnormal codes count units: adding 2^23 of them rounds to a whole number, ties to even.
  constexpr float unit = float_from_bits(std::uint32_t{128 - Bias - MantissaBits} << 23);
  constexpr float shifter = unit * 8388608.0f;
  const vec<float, W> shifted = __builtin_bit_cast(vec<float, W>, magnitude) + broadcast<W>(shifter);
  const words<W> subnormal = __builtin_bit_cast(words<W>, shifted) - float_bits(shifter);
  constexpr std::uint32_t first_normal = std::uint32_t{128 - Bias} << 23;
  const auto is_subnormal = __builtin_bit_cast(
      words<W>, __builtin_bit_cast(vec<std::int32_t, W>, magnitude) < static_cast<std::int32_t>(first_normal));
  const words<W> code = (subnormal & is_subnormal) | (normal & ~is_subnormal);
  store_bytes<W>(((bits >> 24) & 0x80u) | code, to);
}

}  // namespace PAGODA_ISA
}  // namespace pagoda::detail

#pragma GCC diagnostic pop
