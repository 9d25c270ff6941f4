// SPDX-License-Identifier: Apache-2.0
/// @file Arithmetic on float vectors: multiply-add, sums and maxima over lanes, exp.
///
/// Results are the same in every build except for the bits of a NaN, and for `fma` and `exp`, which use FMA if they
/// can.
#pragma once

#include <cstdint>
#include <cstring>

#include <pagoda/detail/vector.hpp>

#if PAGODA_HAS_AVX2 || defined(__clang__)
#pragma GCC diagnostic push
#endif
#pragma GCC diagnostic ignored "-Wpsabi"

namespace pagoda::detail {
inline namespace PAGODA_ISA {

/// Returns a * b + c: rounded once where the target has FMA, else as the compiler rounds the expression.
PAGODA_ALWAYS_INLINE vec<float, 8> fma(const vec<float, 8>& a, const vec<float, 8>& b, const vec<float, 8>& c) {
#if PAGODA_HAS_AVX2
  return vec<float, 8>(_mm256_fmadd_ps(__m256(a), __m256(b), __m256(c)));
#else
  return a * b + c;
#endif
}

PAGODA_ALWAYS_INLINE vec<float, 16> fma(const vec<float, 16>& a, const vec<float, 16>& b, const vec<float, 16>& c) {
#if PAGODA_HAS_AVX512
  return vec<float, 16>(_mm512_fmadd_ps(__m512(a), __m512(b), __m512(c)));
#elif PAGODA_HAS_AVX2
  vec<float, 8> as[2];
  vec<float, 8> bs[2];
  vec<float, 8> cs[2];
  std::memcpy(as, &a, sizeof(a));
  std::memcpy(bs, &b, sizeof(b));
  std::memcpy(cs, &c, sizeof(c));
  for (int i = 0; i < 2; ++i) cs[i] = fma(as[i], bs[i], cs[i]);
  vec<float, 16> result;
  std::memcpy(&result, cs, sizeof(result));
  return result;
#else
  return a * b + c;
#endif
}

/// The first and the last 8 of 16 lanes.
PAGODA_ALWAYS_INLINE vec<float, 8> lower(const vec<float, 16>& v) {
  return __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7);
}
PAGODA_ALWAYS_INLINE vec<float, 8> upper(const vec<float, 16>& v) {
  return __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15);
}

/// Eight lanes, then eight zeros.
PAGODA_ALWAYS_INLINE vec<float, 16> widened(const vec<float, 8>& v) {
  return __builtin_shufflevector(v, vec<float, 8>{}, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}

/// Returns ((v0 + v1) + (v2 + v3)) + ((v4 + v5) + (v6 + v7)), in this order in every build.
PAGODA_ALWAYS_INLINE float horizontal_sum(const vec<float, 8>& v) {
#if PAGODA_HAS_AVX2
  const __m256 lanes = __m256(v);
  const __m128 pairs = _mm_hadd_ps(_mm256_castps256_ps128(lanes), _mm256_extractf128_ps(lanes, 1));
  const __m128 quads = _mm_hadd_ps(pairs, pairs);
  return _mm_cvtss_f32(_mm_add_ss(quads, _mm_movehdup_ps(quads)));
#else
  return ((v[0] + v[1]) + (v[2] + v[3])) + ((v[4] + v[5]) + (v[6] + v[7]));
#endif
}

/// Lane i of the result is horizontal_sum(a[i]), bit for bit.
PAGODA_ALWAYS_INLINE vec<float, 8> horizontal_sum8(const vec<float, 8> (&a)[8]) {
#if PAGODA_HAS_AVX2
  const __m256 pairs01 = _mm256_hadd_ps(__m256(a[0]), __m256(a[1]));
  const __m256 pairs23 = _mm256_hadd_ps(__m256(a[2]), __m256(a[3]));
  const __m256 pairs45 = _mm256_hadd_ps(__m256(a[4]), __m256(a[5]));
  const __m256 pairs67 = _mm256_hadd_ps(__m256(a[6]), __m256(a[7]));
  const __m256 quads0123 = _mm256_hadd_ps(pairs01, pairs23);
  const __m256 quads4567 = _mm256_hadd_ps(pairs45, pairs67);
  const __m256 low = _mm256_permute2f128_ps(quads0123, quads4567, 0x20);   // sums of lanes 0..3
  const __m256 high = _mm256_permute2f128_ps(quads0123, quads4567, 0x31);  // sums of lanes 4..7
  return vec<float, 8>(_mm256_add_ps(low, high));
#else
  vec<float, 8> result;
  for (int i = 0; i < 8; ++i) result[i] = horizontal_sum(a[i]);
  return result;
#endif
}

/// The same for four vectors.
PAGODA_ALWAYS_INLINE vec<float, 4> horizontal_sum4(const vec<float, 8>& a, const vec<float, 8>& b,
                                                   const vec<float, 8>& c, const vec<float, 8>& d) {
#if PAGODA_HAS_AVX2
  const __m256 quads = _mm256_hadd_ps(_mm256_hadd_ps(__m256(a), __m256(b)), _mm256_hadd_ps(__m256(c), __m256(d)));
  return vec<float, 4>(_mm_add_ps(_mm256_castps256_ps128(quads), _mm256_extractf128_ps(quads, 1)));
#else
  return vec<float, 4>{horizontal_sum(a), horizontal_sum(b), horizontal_sum(c), horizontal_sum(d)};
#endif
}

/// Returns the largest lane. A NaN lane may be ignored or returned.
PAGODA_ALWAYS_INLINE float horizontal_max(const vec<float, 8>& v) {
#if PAGODA_HAS_AVX2
  const __m256 lanes = __m256(v);
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(lanes), _mm256_extractf128_ps(lanes, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
#else
  float result = v[0];
  for (int i = 1; i < 8; ++i) result = v[i] > result ? v[i] : result;
  return result;
#endif
}

// ---- The same for 16 lanes.

/// Returns horizontal_sum of the lane-wise sum of both halves.
PAGODA_ALWAYS_INLINE float horizontal_sum(const vec<float, 16>& v) {
  return horizontal_sum(lower(v) + upper(v));
}

/// Lane i of the result is horizontal_sum(a[i]), bit for bit.
PAGODA_ALWAYS_INLINE vec<float, 8> horizontal_sum8(const vec<float, 16> (&a)[8]) {
  vec<float, 8> halves[8];
  for (int i = 0; i < 8; ++i) halves[i] = lower(a[i]) + upper(a[i]);
  return horizontal_sum8(halves);
}

/// The same for four vectors.
PAGODA_ALWAYS_INLINE vec<float, 4> horizontal_sum4(const vec<float, 16>& a, const vec<float, 16>& b,
                                                   const vec<float, 16>& c, const vec<float, 16>& d) {
  return horizontal_sum4(lower(a) + upper(a), lower(b) + upper(b), lower(c) + upper(c), lower(d) + upper(d));
}

PAGODA_ALWAYS_INLINE float horizontal_max(const vec<float, 16>& v) {
  const vec<float, 8> low = lower(v);
  const vec<float, 8> high = upper(v);
  return horizontal_max(low > high ? low : high);
}

/// x = n ln 2 + r with |r| <= ln(2) / 2: returns exp(r). `shifted` receives n, plus 1.5 * 2^23, which leaves n in the
/// low bits of its pattern. Source: ln 2 split as 355/512 plus a rest (Cody and Waite); on that interval 1 + r + r^2
/// q(r), with q of degree 4, is the minimax fit of the relative error (Remez exchange): 3.1e-9.
template <int W>
PAGODA_ALWAYS_INLINE vec<float, W> exp_of_rest(const vec<float, W>& x, vec<float, W>& shifted) {
  const vec<float, W> round = broadcast<W>(12582912.0f);
  shifted = fma(x, broadcast<W>(1.44269504f), round);
  const vec<float, W> n = shifted - round;
  const vec<float, W> high = fma(n, broadcast<W>(-0.693359375f), x);  // n * 355/512 is exact: 8 bits by 9 bits
  const vec<float, W> r = fma(n, broadcast<W>(2.12194440e-4f), high);
  vec<float, W> q = broadcast<W>(0.00138145401f);
  q = fma(q, r, broadcast<W>(0.00836874511f));
  q = fma(q, r, broadcast<W>(0.0416683908f));
  q = fma(q, r, broadcast<W>(0.166665204f));
  q = fma(q, r, broadcast<W>(0.499999934f));
  return fma(r * r, q, r) + 1.0f;
}

/// Natural exponential. Relative error below 3e-7 where the result is a normal float; 0 below -87.33654 (results that
/// would be subnormal are flushed) and for -inf; +inf where the result overflows, from 88.72284 on; a NaN stays a NaN.
template <int W>
PAGODA_ALWAYS_INLINE vec<float, W> exp(const vec<float, W>& x) {
  using words = vec<std::uint32_t, W>;
  vec<float, W> shifted;
  const vec<float, W> mantissa = exp_of_rest<W>(x, shifted);
  // n goes into the exponent field in one step: with n = 128 the mantissa is below 1 for every x that does not
  // overflow.
  const words scaled = __builtin_bit_cast(words, mantissa) + (__builtin_bit_cast(words, shifted) << 23);
  const words above = __builtin_bit_cast(words, x > 88.7228317f);
  const words below = __builtin_bit_cast(words, x < -87.3365402f);
  const words is_nan = __builtin_bit_cast(words, x != x);
  words result = (scaled & ~(above | below | is_nan)) | (above & 0x7f800000u);
  result |= is_nan & (__builtin_bit_cast(words, x) | 0x00400000u);
  return __builtin_bit_cast(vec<float, W>, result);
}

/// exp of what is at most 0, in fewer operations: as exp above, but 0 from -88 down, and right to a subnormal's spacing
/// between the two limits. Requires: no lane is above 0. A NaN stays a NaN.
template <int W>
PAGODA_ALWAYS_INLINE vec<float, W> exp_of_nonpositive(const vec<float, W>& x) {
  using words = vec<std::uint32_t, W>;
  const vec<float, W> limit = broadcast<W>(-88.0f);
  vec<float, W> shifted;
  const vec<float, W> mantissa = exp_of_rest<W>(x < limit ? limit : x, shifted);
  // 2^n, which is 0 for n = -127: a product, so that a NaN survives whatever its bits do to n.
  const words power = (__builtin_bit_cast(words, shifted) << 23) + 0x3f800000u;
  return mantissa * __builtin_bit_cast(vec<float, W>, power);
}

}  // namespace PAGODA_ISA
}  // namespace pagoda::detail

// As at the end of vector.hpp.
#if PAGODA_HAS_AVX2 || defined(__clang__)
#pragma GCC diagnostic pop
#endif
