// SPDX-License-Identifier: Apache-2.0
#include "support/decode_case.hpp"

[[maybe_unused]] static const bool registered = pagoda_bench::add_decodes_of_part<3>();
