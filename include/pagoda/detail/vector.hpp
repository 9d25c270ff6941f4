// SPDX-License-Identifier: Apache-2.0
/// @file Fixed-width float vectors on GCC's vector extensions: from memory and back, from every element type.
///
/// Results are the same in every build except for the bits of a NaN. Vectors are returned by value. In a build without
/// AVX, clang++ notes the ABI of that (-Wpsabi) at the call, although nothing is left to call: a file that uses these
/// functions silences the note around its own bodies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include <pagoda/config.hpp>
#include <pagoda/dtype.hpp>

#if PAGODA_HAS_AVX2
#include <immintrin.h>
#endif

#if PAGODA_HAS_AVX2 || defined(__clang__)
#pragma GCC diagnostic push
#endif
#pragma GCC diagnostic ignored "-Wpsabi"

namespace pagoda::detail {
inline namespace PAGODA_ISA {

// A class, so that W is never deduced: every call names it.
template <class T, int W>
struct vector_of {
  typedef T type __attribute__((vector_size(sizeof(T) * W)));
};

/// W elements of T; arithmetic, comparisons and subscripts work lane by lane.
template <class T, int W>
using vec = typename vector_of<T, W>::type;

/// The widths that the operations below come in.
template <int W>
inline constexpr bool is_vector_width = W == 8 || W == 16;

/// Returns a vector with every lane set to the value.
template <int W>
PAGODA_ALWAYS_INLINE vec<float, W> broadcast(float value) {
  static_assert(is_vector_width<W>, "W is 8 or 16");
#if PAGODA_HAS_AVX512
  if constexpr (W == 16) return vec<float, W>(_mm512_set1_ps(value));
#endif
#if PAGODA_HAS_AVX2
  if constexpr (W == 8) return vec<float, W>(_mm256_set1_ps(value));
#endif
  vec<float, W> result{};
  for (int i = 0; i < W; ++i) result[i] = value;
  return result;
}

// ---- Memory: from and to need the alignment of their element only.
// The 512-bit forms are the masked ones: g++ 12 warns about the undefined source operand of the plain ones.

template <int W>
PAGODA_ALWAYS_INLINE void load_float(const float* from, vec<float, W>& to) {
  static_assert(is_vector_width<W>, "W is 8 or 16");
  std::memcpy(&to, from, sizeof(to));
}

template <int W>
PAGODA_ALWAYS_INLINE void store_float(const vec<float, W>& from, float* to) {
  static_assert(is_vector_width<W>, "W is 8 or 16");
  std::memcpy(to, &from, sizeof(from));
}

/// Widens W halves exactly; a NaN stays a NaN, its payload depends on the instruction set.
template <int W>
PAGODA_ALWAYS_INLINE void load_float(const half* from, vec<float, W>& to) {
  static_assert(is_vector_width<W>, "W is 8 or 16");
#if PAGODA_HAS_AVX2
#if PAGODA_HAS_AVX512
  if constexpr (W == 16) {
    to = vec<float, W>(_mm512_maskz_cvtph_ps(0xffff, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from))));
  } else
#endif
  {
    float lanes[static_cast<std::size_t>(W)];
    for (int i = 0; i < W; i += 8) {
      _mm256_storeu_ps(lanes + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i))));
    }
    std::memcpy(&to, lanes, sizeof(to));
  }
#else
  float lanes[static_cast<std::size_t>(W)];
  for (int i = 0; i < W; ++i) lanes[i] = to_float(from[i]);
  std::memcpy(&to, lanes, sizeof(to));
#endif
}

/// Widens W bfloat16 exactly, NaN payloads included.
template <int W>
PAGODA_ALWAYS_INLINE void load_float(const bfloat16* from, vec<float, W>& to) {
  static_assert(is_vector_width<W>, "W is 8 or 16");
#if PAGODA_HAS_AVX512
  if constexpr (W == 16) {
    const __m256i codes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
    const __m512i bits = _mm512_maskz_slli_epi32(0xffff, _mm512_maskz_cvtepu16_epi32(0xffff, codes), 16);
    std::memcpy(&to, &bits, sizeof(to));
  } else
#endif
  {
    std::uint32_t lanes[static_cast<std::size_t>(W)];
#if PAGODA_HAS_AVX2
    for (int i = 0; i < W; i += 8) {
      const __m128i codes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(lanes + i), _mm256_slli_epi32(_mm256_cvtepu16_epi32(codes), 16));
    }
#else
    for (int i = 0; i < W; ++i) lanes[i] = static_cast<std::uint32_t>(from[i].bits) << 16;
#endif
    std::memcpy(&to, lanes, sizeof(to));
  }
}

/// Converts W signed bytes exactly.
template <int W>
PAGODA_ALWAYS_INLINE void load_float(const std::int8_t* from, vec<float, W>& to) {
  static_assert(is_vector_width<W>, "W is 8 or 16");
#if PAGODA_HAS_AVX512
  if constexpr (W == 16) {
    const __m128i codes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    to = vec<float, W>(_mm512_maskz_cvtepi32_ps(0xffff, _mm512_maskz_cvtepi8_epi32(0xffff, codes)));
  } else
#endif
  {
    float lanes[static_cast<std::size_t>(W)];
#if PAGODA_HAS_AVX2
    for (int i = 0; i < W; i += 8) {
      const __m128i codes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from + i));
      _mm256_storeu_ps(lanes + i, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(codes)));
    }
#else
    for (int i = 0; i < W; ++i) lanes[i] = static_cast<float>(from[i]);
#endif
    std::memcpy(&to, lanes, sizeof(to));
  }
}

/// Converts W bytes that count from 128, as 0 to 255 stand for -128 to 127, exactly.
template <int W>
PAGODA_ALWAYS_INLINE void load_biased_int8(const std::byte* from, vec<float, W>& to) {
  static_assert(is_vector_width<W>, "W is 8 or 16");
  // 2^23 + code, whose last mantissa bit counts 1: integer ports set the bits, where a conversion takes those of FMA.
  using words = vec<std::uint32_t, W>;
  words codes;
#if PAGODA_HAS_AVX512
  if constexpr (W == 16) {
    codes = words(_mm512_maskz_cvtepu8_epi32(0xffff, _mm_loadu_si128(reinterpret_cast<const __m128i*>(from))));
  } else
#endif
  {
#if PAGODA_HAS_AVX2
    for (int i = 0; i < W; i += 8) {
      const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from + i));
      const __m256i eight = _mm256_cvtepu8_epi32(bytes);
      std::memcpy(reinterpret_cast<std::byte*>(&codes) + 4 * i, &eight, sizeof(eight));
    }
#else
    for (int i = 0; i < W; ++i) codes[i] = static_cast<std::uint32_t>(from[i]);
#endif
  }
  to = __builtin_bit_cast(vec<float, W>, codes | 0x4b000000u) - (8388608.0f + 128.0f);
}

/// Widens W codes of fp8_e4m3 exactly; the codes of NaN read as +-480.
template <int W>
PAGODA_ALWAYS_INLINE void load_float8_e4m3(const std::byte* from, vec<float, W>& to) {
  static_assert(is_vector_width<W>, "W is 8 or 16");
  // The bits of a code, put at bit 7 of a half behind its sign, read as 2^-8 of its value.
#if PAGODA_HAS_AVX2
  constexpr auto kept = static_cast<short>(0xbf80);
#if PAGODA_HAS_AVX512
  if constexpr (W == 16) {
    const __m128i codes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    const __m256i halves = _mm256_and_si256(_mm256_slli_epi16(_mm256_cvtepi8_epi16(codes), 7), _mm256_set1_epi16(kept));
    to = vec<float, W>(_mm512_maskz_cvtph_ps(0xffff, halves)) * 256.0f;
  } else
#endif
  {
    float lanes[static_cast<std::size_t>(W)];
    for (int i = 0; i < W; i += 8) {
      const __m128i codes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from + i));
      const __m128i halves = _mm_and_si128(_mm_slli_epi16(_mm_cvtepi8_epi16(codes), 7), _mm_set1_epi16(kept));
      _mm256_storeu_ps(lanes + i, _mm256_cvtph_ps(halves));
    }
    std::memcpy(&to, lanes, sizeof(to));
    to *= 256.0f;
  }
#else
  float lanes[static_cast<std::size_t>(W)];
  for (int i = 0; i < W; ++i) {
    const auto code = static_cast<std::uint32_t>(from[i]);
    lanes[i] = to_float(half{static_cast<std::uint16_t>((code & 0x80u) << 8 | (code & 0x7fu) << 7)});
  }
  std::memcpy(&to, lanes, sizeof(to));
  to *= 256.0f;
#endif
}

/// Converts W unsigned 4-bit integers exactly, two from a byte, the lower four bits first.
template <int W>
PAGODA_ALWAYS_INLINE void load_uint4(const std::byte* from, vec<float, W>& to) {
  static_assert(is_vector_width<W>, "W is 8 or 16");
  using words = vec<std::uint32_t, 8>;
  constexpr words places{0, 4, 8, 12, 16, 20, 24, 28};
  float lanes[static_cast<std::size_t>(W)];
  for (int i = 0; i < W; i += 8) {
    std::uint32_t codes;
    std::memcpy(&codes, from + i / 2, sizeof(codes));
    const words spread = ((words{} + codes) >> places) & 15u;
    const vec<float, 8> values =
        __builtin_convertvector(__builtin_bit_cast(vec<std::int32_t, 8>, spread), vec<float, 8>);
    std::memcpy(lanes + i, &values, sizeof(values));
  }
  std::memcpy(&to, lanes, sizeof(to));
}

/// Narrows W floats to half as from_float does; a NaN stays a NaN, its payload depends on the instruction set.
template <int W>
PAGODA_ALWAYS_INLINE void store_float(const vec<float, W>& from, half* to) {
  static_assert(is_vector_width<W>, "W is 8 or 16");
#if PAGODA_HAS_AVX2
#if PAGODA_HAS_AVX512
  if constexpr (W == 16) {
    const __m256i codes = _mm512_maskz_cvtps_ph(0xffff, __m512(from), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), codes);
  } else
#endif
  {
    float lanes[static_cast<std::size_t>(W)];
    std::memcpy(lanes, &from, sizeof(from));
    for (int i = 0; i < W; i += 8) {
      const __m128i codes = _mm256_cvtps_ph(_mm256_loadu_ps(lanes + i), _MM_FROUND_TO_NEAREST_INT);
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i), codes);
    }
  }
#else
  for (int i = 0; i < W; ++i) to[i] = from_float<half>(from[i]);
#endif
}

/// Narrows W floats to bfloat16 as from_float does, NaN included.
template <int W>
PAGODA_ALWAYS_INLINE void store_float(const vec<float, W>& from, bfloat16* to) {
  static_assert(is_vector_width<W>, "W is 8 or 16");
  // Round to nearest even in integers: the hardware's bfloat16 instructions flush subnormals.
  using words = vec<std::uint32_t, W>;
  const words bits = __builtin_bit_cast(words, from);
  const words rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const words is_nan = __builtin_bit_cast(words, (bits & 0x7fffffffu) > 0x7f800000u);
  const words codes = (is_nan & 0x7fffu) | (~is_nan & rounded);
#if PAGODA_HAS_AVX512
  if constexpr (W == 16) {
    const __m256i packed = _mm512_maskz_cvtepi32_epi16(0xffff, __builtin_bit_cast(__m512i, codes));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), packed);
  } else
#endif
  {
    std::uint32_t lanes[static_cast<std::size_t>(W)];
    std::memcpy(lanes, &codes, sizeof(codes));
#if PAGODA_HAS_AVX2
    for (int i = 0; i < W; i += 8) {
      const __m128i low = _mm_loadu_si128(reinterpret_cast<const __m128i*>(lanes + i));
      const __m128i high = _mm_loadu_si128(reinterpret_cast<const __m128i*>(lanes + i + 4));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i), _mm_packus_epi32(low, high));
    }
#else
    for (int i = 0; i < W; ++i) to[i].bits = static_cast<std::uint16_t>(lanes[i]);
#endif
  }
}

}  // namespace PAGODA_ISA
}  // namespace pagoda::detail

// In a build without AVX, g++ reports the ABI of functions that return vectors at the end of the file, although all of
// them are inlined: there the setting has to stay.
#if PAGODA_HAS_AVX2 || defined(__clang__)
#pragma GCC diagnostic pop
#endif
