// SPDX-License-Identifier: Apache-2.0
// expected-error: hadamard<Q> takes a quantizer that does not rotate
#include <pagoda/pagoda.hpp>

using rotated = pagoda::hadamard<pagoda::int8_per_token>;
#ifdef PAGODA_CONTROL
constexpr auto name = rotated::name;
#else
constexpr auto name = pagoda::hadamard<rotated>::name;
#endif
