// SPDX-License-Identifier: Apache-2.0
// The reference for each pair of quantizers that the tests of kernels use, compiled once.
#include "attention_calls.hpp"
#include "generic_kernel.hpp"

namespace pagoda_test {

#define DEFINE_REFERENCE(K, V)                                                                           \
  template void attend_reference(const pagoda::cache_view<K, V>&, const pagoda::rows_view<const float>&, \
                                 const pagoda::rows_view<double>&, const pagoda::attention_options&,     \
                                 std::span<double>)

PAGODA_TEST_FOR_SAME_QUANTIZERS(DEFINE_REFERENCE);
PAGODA_TEST_FOR_MIXED_QUANTIZERS(DEFINE_REFERENCE);
PAGODA_TEST_FOR_SCALE_WIDTHS(DEFINE_REFERENCE);

}  // namespace pagoda_test
