// SPDX-License-Identifier: Apache-2.0
// expected-error: both storages must have the same layout
#include <pagoda/pagoda.hpp>

#ifdef PAGODA_CONTROL
using layout = pagoda::heads_tokens_dim;
#else
using layout = pagoda::tokens_heads_dim;
#endif

void move(const pagoda::cache<>& from, pagoda::cache<layout>& to, const pagoda::copy_list& copies) {
  pagoda::host::execute(from, to, copies);
}
