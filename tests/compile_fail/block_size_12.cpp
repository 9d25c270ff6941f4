// SPDX-License-Identifier: Apache-2.0
// expected-error: takes a power of two from 1 to 65536
#include <pagoda/pagoda.hpp>

#ifdef PAGODA_CONTROL
constexpr int tokens = 16;
#else
constexpr int tokens = 12;
#endif
constexpr int value = pagoda::block_size<tokens>::value;
