// SPDX-License-Identifier: Apache-2.0
// expected-error: two eviction policies are named
#include <pagoda/pagoda.hpp>

#ifdef PAGODA_CONTROL
using more = pagoda::block_size<32>;
#else
using more = pagoda::lfu;
#endif
pagoda::cache<pagoda::fifo, more>* cache = nullptr;
