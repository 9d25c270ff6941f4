// SPDX-License-Identifier: Apache-2.0
#include "tensor_kernels.hpp"

namespace pagoda_test {

PAGODA_TEST_FOR_TENSOR_FP8(PAGODA_TEST_DEFINE_TENSOR);

}  // namespace pagoda_test
