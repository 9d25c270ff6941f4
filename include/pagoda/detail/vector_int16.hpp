// SPDX-License-Identifier: Apache-2.0
/// @file Vectors of 16-bit integers: codes of 4 and 8 bits widened, and products summed in pairs. Exact everywhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include <pagoda/config.hpp>
#include <pagoda/detail/vector.hpp>

#if PAGODA_HAS_AVX2 || defined(__clang__)
#pragma GCC diagnostic push
#endif
#pragma GCC diagnostic ignored "-Wpsabi"

namespace pagoda::detail {
inline namespace PAGODA_ISA {

/// The widths that the operations below come in.
template <int W>
inline constexpr bool is_int16_width = W == 16 || W == 32;

/// Widens W unsigned bytes.
template <int W>
PAGODA_ALWAYS_INLINE void load_uint8(const std::byte* from, vec<std::int16_t, W>& to) {
  static_assert(is_int16_width<W>, "W is 16 or 32");
#if PAGODA_HAS_AVX512
  if constexpr (W == 32) {
    const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
    to = __builtin_bit_cast(vec<std::int16_t, W>, _mm512_maskz_cvtepu8_epi16(0xffffffffu, bytes));
    return;
  }
#endif
#if PAGODA_HAS_AVX2
  if constexpr (W == 16) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    to = __builtin_bit_cast(vec<std::int16_t, W>, _mm256_cvtepu8_epi16(bytes));
    return;
  }
#endif
  for (int i = 0; i < W; ++i) to[i] = static_cast<std::int16_t>(from[i]);
}

/// Widens W unsigned 4-bit integers, two from a byte, the lower four bits first.
template <int W>
PAGODA_ALWAYS_INLINE void load_uint4(const std::byte* from, vec<std::int16_t, W>& to) {
  static_assert(is_int16_width<W>, "W is 16 or 32");
  // A byte b, put into 32 bits twice, 12 bits apart: the lower half holds its lower four bits, the upper half the rest.
#if PAGODA_HAS_AVX512
  if constexpr (W == 32) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    using words = vec<std::uint32_t, 16>;
    const words spread = __builtin_bit_cast(words, _mm512_maskz_cvtepu8_epi32(0xffff, bytes));
    to = __builtin_bit_cast(vec<std::int16_t, W>, (spread | (spread << 12)) & 0x000f000fu);
    return;
  }
#endif
#if PAGODA_HAS_AVX2
  if constexpr (W == 16) {
    const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from));
    using words = vec<std::uint32_t, 8>;
    const words spread = __builtin_bit_cast(words, _mm256_cvtepu8_epi32(bytes));
    to = __builtin_bit_cast(vec<std::int16_t, W>, (spread | (spread << 12)) & 0x000f000fu);
    return;
  }
#endif
  for (int i = 0; i < W; ++i) {
    to[i] = static_cast<std::int16_t>((static_cast<int>(from[i / 2]) >> (i % 2 * 4)) & 15);
  }
}

/// a + b, or a - b, modulo 2^32: partial sums may leave the range when what they end in does not.
template <int W>
PAGODA_ALWAYS_INLINE vec<std::int32_t, W> add_wrapping(const vec<std::int32_t, W>& a, const vec<std::int32_t, W>& b) {
  using words = vec<std::uint32_t, W>;
  return __builtin_bit_cast(vec<std::int32_t, W>, __builtin_bit_cast(words, a) + __builtin_bit_cast(words, b));
}
template <int W>
PAGODA_ALWAYS_INLINE vec<std::int32_t, W> subtract_wrapping(const vec<std::int32_t, W>& a,
                                                            const vec<std::int32_t, W>& b) {
  using words = vec<std::uint32_t, W>;
  return __builtin_bit_cast(vec<std::int32_t, W>, __builtin_bit_cast(words, a) - __builtin_bit_cast(words, b));
}

/// Lane i of the result is a[2 i] * b[2 i] + a[2 i + 1] * b[2 i + 1].
/// Requires: no sum leaves the range of 32 bits.
PAGODA_ALWAYS_INLINE vec<std::int32_t, 8> multiply_pairs(const vec<std::int16_t, 16>& a,
                                                         const vec<std::int16_t, 16>& b) {
#if PAGODA_HAS_AVX2
  return __builtin_bit_cast(vec<std::int32_t, 8>, _mm256_madd_epi16(__m256i(a), __m256i(b)));
#else
  vec<std::int32_t, 8> result;
  for (int i = 0; i < 8; ++i) result[i] = a[2 * i] * b[2 * i] + a[2 * i + 1] * b[2 * i + 1];
  return result;
#endif
}
PAGODA_ALWAYS_INLINE vec<std::int32_t, 16> multiply_pairs(const vec<std::int16_t, 32>& a,
                                                          const vec<std::int16_t, 32>& b) {
#if PAGODA_HAS_AVX512
  return __builtin_bit_cast(vec<std::int32_t, 16>, _mm512_maskz_madd_epi16(0xffff, __m512i(a), __m512i(b)));
#else
  vec<std::int32_t, 16> result;
  for (int i = 0; i < 16; ++i) result[i] = a[2 * i] * b[2 * i] + a[2 * i + 1] * b[2 * i + 1];
  return result;
#endif
}

/// sum + multiply_pairs(a, b), modulo 2^32: one instruction where there is VNNI.
/// Requires: no product of a pair leaves the range of 32 bits.
PAGODA_ALWAYS_INLINE vec<std::int32_t, 8> multiply_add_pairs(const vec<std::int32_t, 8>& sum,
                                                             const vec<std::int16_t, 16>& a,
                                                             const vec<std::int16_t, 16>& b) {
#if PAGODA_HAS_VNNI && !PAGODA_HAS_AVX512
  return __builtin_bit_cast(vec<std::int32_t, 8>, _mm256_dpwssd_avx_epi32(__m256i(sum), __m256i(a), __m256i(b)));
#else
  return add_wrapping<8>(sum, multiply_pairs(a, b));
#endif
}
PAGODA_ALWAYS_INLINE vec<std::int32_t, 16> multiply_add_pairs(const vec<std::int32_t, 16>& sum,
                                                              const vec<std::int16_t, 32>& a,
                                                              const vec<std::int16_t, 32>& b) {
#if PAGODA_HAS_VNNI && PAGODA_HAS_AVX512
  return __builtin_bit_cast(vec<std::int32_t, 16>, _mm512_dpwssd_epi32(__m512i(sum), __m512i(a), __m512i(b)));
#else
  return add_wrapping<16>(sum, multiply_pairs(a, b));
#endif
}

}  // namespace PAGODA_ISA
}  // namespace pagoda::detail

// As at the end of vector.hpp.
#if PAGODA_HAS_AVX2 || defined(__clang__)
#pragma GCC diagnostic pop
#endif
