// SPDX-License-Identifier: Apache-2.0
#include "host_machine.hpp"
#include "quantizers.hpp"

PAGODA_DEFINE_CHECK(host_machine, fp8);
PAGODA_MEASURE_QUANTIZER(, host_machine, fp8);
