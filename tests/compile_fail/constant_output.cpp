// SPDX-License-Identifier: Apache-2.0
// expected-error: no matching function for call to .*attention
#include <vector>

#include <pagoda/pagoda.hpp>

#ifdef PAGODA_CONTROL
using element = float;
#else
using element = const float;
#endif

void attend(const pagoda::cache<>::view_type& view, pagoda::rows_view<const float> queries,
            pagoda::rows_view<element> output) {
  pagoda::host::attention(view, queries, output);
}
