// SPDX-License-Identifier: Apache-2.0
// expected-error: compile its files without -ffast-math
#ifndef PAGODA_CONTROL
#undef __FINITE_MATH_ONLY__
#define __FINITE_MATH_ONLY__ 1  // as -ffast-math does
#endif
#include <pagoda/shape.hpp>

constexpr pagoda::num_blocks blocks{1};
