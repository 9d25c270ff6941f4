// SPDX-License-Identifier: Apache-2.0
// expected-error: (deleted|implicitly-deleted)
#include <utility>

#include <pagoda/pagoda.hpp>

pagoda::sequence second(pagoda::sequence& first) {
#ifdef PAGODA_CONTROL
  return std::move(first);
#else
  return first;
#endif
}
