// SPDX-License-Identifier: Apache-2.0
/// @file PTX's minimum and maximum of floats.
#pragma once

#include <cmath>

namespace pagoda_test::ptx {

/// A NaN gives way to a number, and -0 is less than +0.
template <class T>
T least(T a, T b) {
  if (a != a) return b;
  if (b != b) return a;
  return a < b || (a == b && std::signbit(a)) ? a : b;
}
template <class T>
T greatest(T a, T b) {
  if (a != a) return b;
  if (b != b) return a;
  return a > b || (a == b && !std::signbit(a)) ? a : b;
}

/// The forms with .NaN: a NaN prevails.
template <class T>
T least_nan(T a, T b) {
  return a != a ? a : b != b ? b : least(a, b);
}
template <class T>
T greatest_nan(T a, T b) {
  return a != a ? a : b != b ? b : greatest(a, b);
}

}  // namespace pagoda_test::ptx
