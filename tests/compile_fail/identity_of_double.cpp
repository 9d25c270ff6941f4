// SPDX-License-Identifier: Apache-2.0
// expected-error: stores float, half or bfloat16
#include <pagoda/pagoda.hpp>

#ifdef PAGODA_CONTROL
using element = float;
#else
using element = double;
#endif
constexpr int bits = pagoda::identity<element>::bits;
