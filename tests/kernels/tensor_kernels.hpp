// SPDX-License-Identifier: Apache-2.0
/// @file The tensor-core kernels, compiled once for each quantizer and head dim that tests use.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include <pagoda/kernels/tensor_decode.hpp>
#include <pagoda/kernels/tensor_prefill.hpp>
#include <pagoda/simt/host_context.hpp>

#include "kernel_calls.hpp"

namespace pagoda_test {

template <class KeyQuantizer, class ValueQuantizer>
using attention_arguments_of = pagoda::kernels::attention_arguments<KeyQuantizer, ValueQuantizer>;

template <class KeyQuantizer, class ValueQuantizer, int Dim>
void run_tensor_decode(pagoda::simt::host_context& ctx,
                       const attention_arguments_of<KeyQuantizer, ValueQuantizer>& args) {
  if (args.has_extras()) {
    pagoda::kernels::tensor_decode<KeyQuantizer, ValueQuantizer, Dim, true>::run(ctx, args);
  } else {
    pagoda::kernels::tensor_decode<KeyQuantizer, ValueQuantizer, Dim, false>::run(ctx, args);
  }
}

template <class KeyQuantizer, class ValueQuantizer, int Dim>
void run_tensor_prefill(pagoda::simt::host_context& ctx,
                        const attention_arguments_of<KeyQuantizer, ValueQuantizer>& args) {
  if (args.has_extras()) {
    pagoda::kernels::tensor_prefill<KeyQuantizer, ValueQuantizer, Dim, true>::run(ctx, args);
  } else {
    pagoda::kernels::tensor_prefill<KeyQuantizer, ValueQuantizer, Dim, false>::run(ctx, args);
  }
}

/// Both forms of a kernel as one, with its body elsewhere: as a launcher chooses, by the call's options.
template <template <class, class, int, bool> class Kernel, class KeyQuantizer, class ValueQuantizer, int Dim>
struct both_forms {
  using plain = Kernel<KeyQuantizer, ValueQuantizer, Dim, false>;
  using extras = Kernel<KeyQuantizer, ValueQuantizer, Dim, true>;
  using arguments = typename plain::arguments;
  static constexpr int threads = plain::threads;
  static constexpr int shared_bytes = std::max(plain::shared_bytes, extras::shared_bytes);
  static std::int64_t max_units(const arguments& args, std::int64_t sequences, std::int64_t queries,
                                std::int64_t items) {
    return args.has_extras() ? extras::max_units(args, sequences, queries, items)
                             : plain::max_units(args, sequences, queries, items);
  }
};

template <class KeyQuantizer, class ValueQuantizer, int Dim>
struct decode_kernel : both_forms<pagoda::kernels::tensor_decode, KeyQuantizer, ValueQuantizer, Dim> {
  static void run(pagoda::simt::host_context& ctx, const attention_arguments_of<KeyQuantizer, ValueQuantizer>& args) {
    run_tensor_decode<KeyQuantizer, ValueQuantizer, Dim>(ctx, args);
  }
};

template <class KeyQuantizer, class ValueQuantizer, int Dim>
struct prefill_kernel : both_forms<pagoda::kernels::tensor_prefill, KeyQuantizer, ValueQuantizer, Dim> {
  static void run(pagoda::simt::host_context& ctx, const attention_arguments_of<KeyQuantizer, ValueQuantizer>& args) {
    run_tensor_prefill<KeyQuantizer, ValueQuantizer, Dim>(ctx, args);
  }
};

/// run_kernels with the tensor-core kernels of a head dim.
template <int Dim, class Case>
attention_result run_tensor(const Case& batch, const pagoda::attention_options& options,
                            pagoda::simt::host_machine& machine, std::int64_t max_grid = 5) {
  using keys = typename Case::view_type::key_quantizer;
  using values = typename Case::view_type::value_quantizer;
  return run_kernels<decode_kernel<keys, values, Dim>, prefill_kernel<keys, values, Dim>>(batch, options, machine,
                                                                                          max_grid);
}

/// How far the kernels' result lies from the reference.
template <int Dim, class Case>
attention_error tensor_error(const Case& batch, const pagoda::attention_options& options = {}) {
  pagoda::simt::host_machine machine;
  return compare(run_tensor<Dim>(batch, options, machine), batch.reference(options), Dim);
}

/// Queries and weights are rounded to the element type of the products: a row's relative error stays below four such
/// roundings for the scores of these tests, eight where a row's offset is subtracted from what its codes add up to.
template <class Quantizer>
inline constexpr double tensor_bound_of = std::is_same_v<Quantizer, bf16>   ? 4 * 0x1p-8
                                          : std::is_same_v<Quantizer, int4> ? 8 * 0x1p-11
                                                                            : 4 * 0x1p-11;
template <class KeyQuantizer, class ValueQuantizer = KeyQuantizer>
inline constexpr double tensor_bound = std::max(tensor_bound_of<KeyQuantizer>, tensor_bound_of<ValueQuantizer>);

#define PAGODA_TEST_FOR_TENSOR_HALF(visit) \
  visit(f16, f16, 64);                     \
  visit(f16, f16, 80);                     \
  visit(f16, f16, 96);                     \
  visit(f16, f16, 112);                    \
  visit(f16, f16, 128);                    \
  visit(f16, f16, 192);                    \
  visit(f16, f16, 256)
#define PAGODA_TEST_FOR_TENSOR_BFLOAT16(visit) \
  visit(bf16, bf16, 64);                       \
  visit(bf16, bf16, 80);                       \
  visit(bf16, bf16, 96);                       \
  visit(bf16, bf16, 128);                      \
  visit(bf16, bf16, 192);                      \
  visit(bf16, bf16, 256)
#define PAGODA_TEST_FOR_TENSOR_INT8(visit) \
  visit(int8, int8, 64);                   \
  visit(int8, int8, 80);                   \
  visit(int8, int8, 96);                   \
  visit(int8, int8, 128);                  \
  visit(int8, int8, 192);                  \
  visit(int8, int8, 256)
#define PAGODA_TEST_FOR_TENSOR_INT4(visit) \
  visit(int4, int4, 64);                   \
  visit(int4, int4, 80);                   \
  visit(int4, int4, 96);                   \
  visit(int4, int4, 128);                  \
  visit(int4, int4, 192);                  \
  visit(int4, int4, 256)
#define PAGODA_TEST_FOR_TENSOR_FP8(visit) \
  visit(fp8, fp8, 64);                    \
  visit(fp8, fp8, 80);                    \
  visit(fp8, fp8, 96);                    \
  visit(fp8, fp8, 128);                   \
  visit(fp8, fp8, 192);                   \
  visit(fp8, fp8, 256)
#define PAGODA_TEST_FOR_TENSOR_MIXED(visit) \
  visit(f16, int8, 64);                     \
  visit(int4, bf16, 64)

#define PAGODA_TEST_DECLARE_TENSOR(K, V, Dim)                                                                          \
  extern template void run_tensor_decode<K, V, Dim>(pagoda::simt::host_context&, const attention_arguments_of<K, V>&); \
  extern template void run_tensor_prefill<K, V, Dim>(pagoda::simt::host_context&, const attention_arguments_of<K, V>&)
#define PAGODA_TEST_DEFINE_TENSOR(K, V, Dim)                                                                    \
  template void run_tensor_decode<K, V, Dim>(pagoda::simt::host_context&, const attention_arguments_of<K, V>&); \
  template void run_tensor_prefill<K, V, Dim>(pagoda::simt::host_context&, const attention_arguments_of<K, V>&)

// Each list is defined in a file of its own: tensor_kernels_*.cpp.
PAGODA_TEST_FOR_TENSOR_HALF(PAGODA_TEST_DECLARE_TENSOR);
PAGODA_TEST_FOR_TENSOR_BFLOAT16(PAGODA_TEST_DECLARE_TENSOR);
PAGODA_TEST_FOR_TENSOR_INT8(PAGODA_TEST_DECLARE_TENSOR);
PAGODA_TEST_FOR_TENSOR_INT4(PAGODA_TEST_DECLARE_TENSOR);
PAGODA_TEST_FOR_TENSOR_FP8(PAGODA_TEST_DECLARE_TENSOR);
PAGODA_TEST_FOR_TENSOR_MIXED(PAGODA_TEST_DECLARE_TENSOR);

}  // namespace pagoda_test
