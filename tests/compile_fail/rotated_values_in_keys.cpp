// SPDX-License-Identifier: Apache-2.0
// expected-error: values_in_keys<N> takes the values from the front of a key row, but hadamard keys are rotated
#include <pagoda/pagoda.hpp>

#ifdef PAGODA_CONTROL
using keys = pagoda::int8_per_token;
#else
using keys = pagoda::hadamard<pagoda::int8_per_token>;
#endif
using mla_cache = pagoda::cache<pagoda::keys<keys>, pagoda::values_in_keys<512>>;

std::int64_t bytes() {
  return pagoda::block_storage<keys, pagoda::values_in_keys<512>>::bytes_per_token({.head_dim = 576});
}
