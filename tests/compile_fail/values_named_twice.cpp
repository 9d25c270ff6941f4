// SPDX-License-Identifier: Apache-2.0
// expected-error: the values are named twice: leave one values<Q> or values_in_keys<N>
#include <pagoda/pagoda.hpp>

#ifdef PAGODA_CONTROL
using more = pagoda::block_size<32>;
#else
using more = pagoda::values<pagoda::int8_per_token>;
#endif
pagoda::cache<pagoda::values_in_keys<512>, more>* cache = nullptr;
