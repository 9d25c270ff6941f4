// SPDX-License-Identifier: Apache-2.0
/// @file built_in_quantizers: every quantizer of the library, for a choice by name at run time.
#pragma once

#include <pagoda/dtype.hpp>
#include <pagoda/policy.hpp>
#include <pagoda/quantizer/fp8_e4m3.hpp>
#include <pagoda/quantizer/fp8_e5m2.hpp>
#include <pagoda/quantizer/hadamard.hpp>
#include <pagoda/quantizer/identity.hpp>
#include <pagoda/quantizer/int4_grouped.hpp>
#include <pagoda/quantizer/int4_per_token.hpp>
#include <pagoda/quantizer/int8_grouped.hpp>
#include <pagoda/quantizer/int8_per_token.hpp>

namespace pagoda {

/// What dispatch(built_in_quantizers{}, name, visitor) chooses from. Rotation is for those that one outlier spoils:
/// hadamard<Q> of the identities exists, but gains nothing.
using built_in_quantizers =
    type_list<identity<float>, identity<half>, identity<bfloat16>, fp8_e4m3, fp8_e5m2, int8_per_token, int4_per_token,
              int8_grouped<32>, int4_grouped<32>, hadamard<fp8_e4m3>, hadamard<fp8_e5m2>, hadamard<int8_per_token>,
              hadamard<int4_per_token>, hadamard<int8_grouped<32>>, hadamard<int4_grouped<32>>>;

}  // namespace pagoda
