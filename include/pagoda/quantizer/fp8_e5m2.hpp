// SPDX-License-Identifier: Apache-2.0
/// @file fp8_e5m2: 8-bit floats of five exponent bits with one float scale for each head vector.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include <pagoda/detail/half2.hpp>
#include <pagoda/detail/store_codes.hpp>
#include <pagoda/detail/vector.hpp>
#include <pagoda/quantizer.hpp>

#if PAGODA_HAS_AVX2
#include <immintrin.h>
#endif

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"  // clang++ without AVX, at calls that are inlined

namespace pagoda {

namespace detail {
inline namespace PAGODA_ISA {

/// Reads W E5M2 codes: each is the upper byte of a half.
template <int W>
PAGODA_ALWAYS_INLINE void load_float8_e5m2(const std::byte* from, vec<float, W>& to) {
  static_assert(is_vector_width<W>, "W is 8 or 16");
#if PAGODA_HAS_AVX512
  if constexpr (W == 16) {
    const __m256i codes = _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
    to = vec<float, W>(_mm512_maskz_cvtph_ps(0xffff, _mm256_slli_epi16(codes, 8)));
  } else
#endif
  {
    float lanes[static_cast<std::size_t>(W)];
#if PAGODA_HAS_AVX2
    for (int i = 0; i < W; i += 8) {
      const __m128i codes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from + i));
      _mm256_storeu_ps(lanes + i, _mm256_cvtph_ps(_mm_unpacklo_epi8(_mm_setzero_si128(), codes)));
    }
#else
    for (int i = 0; i < W; ++i) lanes[i] = to_float(float8_e5m2{static_cast<std::uint8_t>(from[i])});
#endif
    std::memcpy(&to, lanes, sizeof(to));
  }
}

}  // namespace PAGODA_ISA
}  // namespace detail

/// Stores each element as an E5M2 float and one float scale a row: scale = amax / 57344, so that the largest element
/// has the largest code. Fewer digits than fp8_e4m3 and a wider range within the row: small elements keep theirs.
///
/// Error: half a unit in the last of 3 binary digits, |x| / 8, and no more than amax / 14 (the codes from 32768 to
/// 57344 are 8192 apart). Elements below amax / (57344 * 2^14) are multiples of amax / (57344 * 2^16). A row of zeros
/// is exact. A row that holds an infinity or a NaN decodes to values that are not finite, and touches no other row.
/// Rows of denormals (amax < 57344 * 2^-126) decode to within amax.
/// Codes 0x7c to 0x7f and 0xfc to 0xff, infinities and NaN in E5M2, are never stored.
/// Source: FP8 formats for deep learning (Micikevicius et al. 2022), with a scale per token.
struct fp8_e5m2 {
  using scale_type = linear_scale<float>;
  static constexpr std::string_view name = "fp8_e5m2";
  static constexpr int bits = 8;
  static constexpr int group = 0;

  PAGODA_HOST_DEVICE static constexpr scale_type fit(row_stats stats) noexcept { return {stats.amax() / 57344.0f}; }

  PAGODA_HOST_DEVICE static constexpr std::uint32_t encode(float value, scale_type scale) noexcept {
    // The conversion saturates. Infinity over infinity must not become a code of NaN.
    const float level = scale.scale > 0 ? value / scale.scale : 0.0f;
    return from_float<float8_e5m2>(level == level ? level : 57344.0f).bits;
  }

  PAGODA_HOST_DEVICE static constexpr float codeword(std::uint32_t code) noexcept {
    return to_float(float8_e5m2{static_cast<std::uint8_t>(code)});
  }

  static constexpr float error_bound(row_stats stats) noexcept {
    return stats.amax() < 57344 * 0x1p-126f ? stats.amax() : stats.amax() * (1.0f / 14.0f + 0x1p-22f);
  }

  template <int W>
  PAGODA_ALWAYS_INLINE static void load_float(const std::byte* codes, vec<float, W>& values) {
    detail::load_float8_e5m2<W>(codes, values);
  }

  template <int W>
  PAGODA_ALWAYS_INLINE static void store_float(const vec<float, W>& values, const scale_type& scale, std::byte* codes) {
    detail::store_float8<W, 2, 15>(values, scale.scale, 57344.0f, codes);
  }

  using half2_type = half;
  static constexpr int half2_pairs = 2;
  static constexpr float codeword_limit = 57344;

  PAGODA_HOST_DEVICE static constexpr int half2_exponent(int) noexcept { return 0; }

  PAGODA_HOST_DEVICE static constexpr void unpack_half2(std::uint32_t word, std::uint32_t (&pairs)[2]) noexcept {
    pairs[0] = detail::byte_permute(word, 0, 0x2404);
    pairs[1] = detail::byte_permute(word, 0, 0x3414);
  }
};

static_assert(quantizer<fp8_e5m2> && is_tensor_core_v<fp8_e5m2>);

}  // namespace pagoda

#pragma GCC diagnostic pop
