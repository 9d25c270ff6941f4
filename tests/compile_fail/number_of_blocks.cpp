// SPDX-License-Identifier: Apache-2.0
// expected-error: no matching (function for call to|constructor for initialization of)
#include <pagoda/pagoda.hpp>

void make() {
#ifdef PAGODA_CONTROL
  pagoda::cache<> cache({.head_dim = 64}, pagoda::num_blocks{16});
#else
  pagoda::cache<> cache({.head_dim = 64}, 16);
#endif
}
