// SPDX-License-Identifier: Apache-2.0
/// @file What is checked, and where it is compiled: one file for each quantizer and machine.
#pragma once

#include <pagoda/quantizer/fp8_e4m3.hpp>
#include <pagoda/quantizer/identity.hpp>
#include <pagoda/quantizer/int4_per_token.hpp>
#include <pagoda/quantizer/int8_per_token.hpp>

#include "correctness.hpp"
#include "speed.hpp"

namespace pagoda_check {

using pagoda_test::bf16;
using pagoda_test::f16;
using pagoda_test::f32;
using pagoda_test::fp8;
using pagoda_test::int4;
using pagoda_test::int8;

/// Those with tensor-core kernels, whose speed is measured; float's path is checked only.
using fast_quantizers = pagoda::type_list<f16, bf16, fp8, int8, int4>;
using checked_quantizers = pagoda::type_list<f16, bf16, fp8, int8, int4, f32>;

/// Calls visit(type_tag<T>) for every type of a list.
template <class... Types, class Visit>
void for_each_type(pagoda::type_list<Types...>, Visit&& visit) {
  (visit(pagoda::type_tag<Types>{}), ...);
}

}  // namespace pagoda_check

// Outside every namespace; Machine is a name of pagoda_check, Quantizer one of pagoda_test.
#define PAGODA_CHECK_QUANTIZER(prefix, Machine, Quantizer)                                           \
  prefix template void pagoda_check::check_quantizer<pagoda_check::Machine, pagoda_test::Quantizer>( \
      pagoda_check::Machine&, pagoda_check::check_log&, std::int32_t)
#define PAGODA_MEASURE_QUANTIZER(prefix, Machine, Quantizer)                                      \
  prefix template void pagoda_check::measure_pool<pagoda_check::Machine, pagoda_test::Quantizer>( \
      const pagoda_check::speed_run<pagoda_check::Machine>&, std::int32_t, std::int32_t, pagoda_check::wanted_cells)

/// In the one file that compiles a quantizer's checks for a machine: also the reference that they compare with.
#define PAGODA_DEFINE_CHECK(Machine, Quantizer)                                                                  \
  template void pagoda_test::attend_reference(                                                                   \
      const pagoda::cache_view<pagoda_test::Quantizer, pagoda_test::Quantizer>&,                                 \
      const pagoda::rows_view<const float>&, const pagoda::rows_view<double>&, const pagoda::attention_options&, \
      std::span<double>);                                                                                        \
  PAGODA_CHECK_QUANTIZER(, Machine, Quantizer)
