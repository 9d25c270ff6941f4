// SPDX-License-Identifier: Apache-2.0
// expected-error: this option is no policy: name a quantizer
#include <pagoda/pagoda.hpp>

#ifdef PAGODA_CONTROL
using option = pagoda::int8_per_token;
#else
struct option {};
#endif
pagoda::cache<pagoda::block_size<32>, option>* cache = nullptr;
