// SPDX-License-Identifier: Apache-2.0
// expected-error: takes a multiple of 8 from 8 to 576
#include <pagoda/pagoda.hpp>

#ifdef PAGODA_CONTROL
constexpr int elements = 512;
#else
constexpr int elements = 0;
#endif
using mla_cache = pagoda::cache<pagoda::values_in_keys<elements>>;
constexpr auto block_size = mla_cache::block_size;
