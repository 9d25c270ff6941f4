// SPDX-License-Identifier: Apache-2.0
// expected-error: both storages must have the same quantizers of keys and values
#include <pagoda/pagoda.hpp>

#ifdef PAGODA_CONTROL
using values = pagoda::int8_per_token;
#else
using values = pagoda::identity<pagoda::half>;
#endif

void move(const pagoda::block_storage<pagoda::int8_per_token>& from,
          pagoda::block_storage<pagoda::int8_per_token, values>& to, const pagoda::copy_list& copies) {
  pagoda::host::execute(from, to, copies);
}
