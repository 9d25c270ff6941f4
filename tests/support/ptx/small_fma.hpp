// SPDX-License-Identifier: Apache-2.0
/// @file a * b + c for half and bfloat16, rounded once.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

namespace pagoda_test::ptx {

/// Returns a float that rounds to half or bfloat16 as the exact a * b + c does. Requires: the arguments are values of
/// one of these types.
inline float small_fma(float a, float b, float c) {
  const double product = static_cast<double>(a) * b;  // exact
  const double sum = product + c;
  if (!std::isfinite(sum)) return static_cast<float>(sum);
  // Round to odd: where the float is not exact, its last bit is set, so that the second rounding sees no false tie.
  const double part = sum - product;
  const double error = (product - (sum - part)) + (c - part);
  float result = static_cast<float>(sum);
  const double above = (static_cast<double>(result) - sum) - error;  // > 0: the float lies above the exact value
  if (above == 0 || std::isinf(result)) return result;
  std::uint32_t bits = __builtin_bit_cast(std::uint32_t, result);
  if ((bits & 1u) == 0) {
    const float limit = std::numeric_limits<float>::infinity();
    result = std::nextafter(result, above > 0 ? -limit : limit);
  }
  return result;
}

}  // namespace pagoda_test::ptx
