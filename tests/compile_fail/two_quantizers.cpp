// SPDX-License-Identifier: Apache-2.0
// expected-error: two quantizers are named
#include <pagoda/pagoda.hpp>

#ifdef PAGODA_CONTROL
using more = pagoda::block_size<32>;
#else
using more = pagoda::identity<float>;
#endif
pagoda::cache<pagoda::int8_per_token, more>* cache = nullptr;
