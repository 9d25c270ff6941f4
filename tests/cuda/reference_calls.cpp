// SPDX-License-Identifier: Apache-2.0
// The reference for each pair of quantizers that these tests use, compiled once.
#include "attention_calls.hpp"

namespace pagoda_test {

#define DEFINE_REFERENCE(Q)                                                                              \
  template void attend_reference(const pagoda::cache_view<Q, Q>&, const pagoda::rows_view<const float>&, \
                                 const pagoda::rows_view<double>&, const pagoda::attention_options&,     \
                                 std::span<double>)

DEFINE_REFERENCE(f32);
DEFINE_REFERENCE(f16);
DEFINE_REFERENCE(int8);
DEFINE_REFERENCE(user_int8);

}  // namespace pagoda_test
