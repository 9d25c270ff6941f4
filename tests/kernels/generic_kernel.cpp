// SPDX-License-Identifier: Apache-2.0
#include "generic_kernel.hpp"

namespace pagoda_test {

PAGODA_TEST_FOR_GENERIC_PAIRS(PAGODA_TEST_DEFINE_GENERIC);

}  // namespace pagoda_test
