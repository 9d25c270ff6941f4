// SPDX-License-Identifier: Apache-2.0
// expected-error: two layouts are named
#include <pagoda/pagoda.hpp>

#ifdef PAGODA_CONTROL
using more = pagoda::block_size<32>;
#else
using more = pagoda::tokens_heads_dim;
#endif
pagoda::cache<pagoda::heads_tokens_dim, more>* cache = nullptr;
