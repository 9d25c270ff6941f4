// SPDX-License-Identifier: Apache-2.0
/// @file Two 16-bit floats in a 32-bit register: one instruction on the device, the same bits on the host.
///
/// The low 16 bits are the first element. A NaN result is 0x7fff, as the device gives it.
#pragma once

#include <cstdint>

#include <pagoda/config.hpp>
#include <pagoda/dtype.hpp>

namespace pagoda::detail {

PAGODA_HOST_DEVICE constexpr half low_half(std::uint32_t pair) {
  return half{static_cast<std::uint16_t>(pair & 0xffffu)};
}
PAGODA_HOST_DEVICE constexpr half high_half(std::uint32_t pair) {
  return half{static_cast<std::uint16_t>(pair >> 16)};
}

/// The two elements of a pair of halves, or of a pair of bfloat16.
PAGODA_HOST_DEVICE constexpr float half2_low(std::uint32_t pair) {
  return to_float(low_half(pair));
}
PAGODA_HOST_DEVICE constexpr float half2_high(std::uint32_t pair) {
  return to_float(high_half(pair));
}
PAGODA_HOST_DEVICE constexpr float bfloat162_low(std::uint32_t pair) {
  return float_from_bits(pair << 16);
}
PAGODA_HOST_DEVICE constexpr float bfloat162_high(std::uint32_t pair) {
  return float_from_bits(pair & 0xffff0000u);
}

/// Byte i of the result is the byte of b:a (a has bytes 0..3, b has 4..7) that nibble i of the selector names; with
/// the nibble's bit 3 set, that byte's sign bit fills all eight bits.
PAGODA_HOST_DEVICE constexpr std::uint32_t byte_permute(std::uint32_t a, std::uint32_t b, std::uint32_t selector) {
#ifdef __CUDA_ARCH__
  if (!__builtin_is_constant_evaluated()) {
    std::uint32_t result;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(selector));
    return result;
  }
#endif
  const std::uint64_t bytes = (static_cast<std::uint64_t>(b) << 32) | a;
  std::uint32_t result = 0;
  for (std::uint32_t i = 0; i < 4; ++i) {
    const std::uint32_t choice = selector >> (4 * i);
    std::uint32_t byte = static_cast<std::uint32_t>(bytes >> (8 * (choice & 7u))) & 0xffu;
    if ((choice & 8u) != 0) byte = (byte & 0x80u) != 0 ? 0xffu : 0u;
    result |= byte << (8 * i);
  }
  return result;
}

/// (a & mask) | bits: one instruction, where a compiler makes two of an expression with two constants.
PAGODA_HOST_DEVICE constexpr std::uint32_t and_or(std::uint32_t a, std::uint32_t mask, std::uint32_t bits) {
#ifdef __CUDA_ARCH__
  if (!__builtin_is_constant_evaluated()) {
    std::uint32_t result;
    asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(result) : "r"(a), "r"(mask), "r"(bits));
    return result;
  }
#endif
  return (a & mask) | bits;
}

/// Rounds to nearest even; overflows to infinity.
PAGODA_HOST_DEVICE constexpr std::uint32_t pack_half2(float low, float high) {
#ifdef __CUDA_ARCH__
  if (!__builtin_is_constant_evaluated()) {
    std::uint32_t result;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(high), "f"(low));
    return result;
  }
#endif
  return narrow_half(low).bits | (static_cast<std::uint32_t>(narrow_half(high).bits) << 16);
}

/// Rounds to nearest even; overflows to infinity.
PAGODA_HOST_DEVICE constexpr std::uint32_t pack_bfloat162(float low, float high) {
#ifdef __CUDA_ARCH__
  if (!__builtin_is_constant_evaluated()) {
    std::uint32_t result;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(high), "f"(low));
    return result;
  }
#endif
  return narrow_bfloat16(low).bits | (static_cast<std::uint32_t>(narrow_bfloat16(high).bits) << 16);
}

/// a - b in each half, rounded once. On the host, a float's 24 bits are enough to round a sum of halves twice.
PAGODA_HOST_DEVICE constexpr std::uint32_t half2_sub(std::uint32_t a, std::uint32_t b) {
#ifdef __CUDA_ARCH__
  if (!__builtin_is_constant_evaluated()) {
    std::uint32_t result;
    asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
    return result;
  }
#endif
  return pack_half2(half2_low(a) - half2_low(b), half2_high(a) - half2_high(b));
}

/// a * b in each half, rounded once: a float holds the product of two halves exactly.
PAGODA_HOST_DEVICE constexpr std::uint32_t half2_mul(std::uint32_t a, std::uint32_t b) {
#ifdef __CUDA_ARCH__
  if (!__builtin_is_constant_evaluated()) {
    std::uint32_t result;
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
    return result;
  }
#endif
  return pack_half2(half2_low(a) * half2_low(b), half2_high(a) * half2_high(b));
}

/// product + c for a product of two halves and a half c, such that rounding it to half is rounding the exact sum: an
/// inexact sum becomes the neighbour whose last bit is 1, which lies on no tie of the narrower format.
PAGODA_HOST_DEVICE constexpr float add_to_odd(float product, float c) {
  const float sum = product + c;
  if (sum - sum != 0) return sum;  // infinite or NaN
  const float c_part = sum - product;
  const float error = (product - (sum - c_part)) + (c - c_part);
  const std::uint32_t bits = float_bits(sum);
  if (error == 0 || (bits & 1u) != 0) return sum;
  const bool outward = (error > 0) == (sum > 0);  // an inexact sum is not 0
  return float_from_bits(outward ? bits + 1 : bits - 1);
}

/// a * b + c in each half, rounded once.
PAGODA_HOST_DEVICE constexpr std::uint32_t half2_fma(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
#ifdef __CUDA_ARCH__
  if (!__builtin_is_constant_evaluated()) {
    std::uint32_t result;
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(c));
    return result;
  }
#endif
  return pack_half2(add_to_odd(half2_low(a) * half2_low(b), half2_low(c)),
                    add_to_odd(half2_high(a) * half2_high(b), half2_high(c)));
}

/// Two e4m3 codes, the low byte first, as halves: exact. A NaN code becomes 0x7fff.
PAGODA_HOST_DEVICE constexpr std::uint32_t half2_from_e4m3x2(std::uint16_t codes) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  if (!__builtin_is_constant_evaluated()) {
    std::uint32_t result;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(result) : "h"(codes));
    return result;
  }
#endif
  // A code's seven magnitude bits, put at bit 7 of a half, read as 2^-8 of its value, subnormals included.
  const std::uint32_t spread = byte_permute(codes, 0, 0x1404);  // each code in the upper byte of its half
  const std::uint32_t magnitude = (spread >> 1) & 0x3f803f80u;
  const std::uint32_t value = half2_mul((spread & 0x80008000u) | magnitude, 0x5c005c00u);  // 256
  const std::uint32_t is_nan = ((magnitude + 0x00800080u) >> 14) & 0x00010001u;
  return (value & ~(is_nan * 0xffffu)) | (is_nan * 0x7fffu);
}

}  // namespace pagoda::detail
