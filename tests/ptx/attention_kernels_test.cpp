// SPDX-License-Identifier: Apache-2.0
// The attention kernels as nvcc compiled them, against the reference.
#include <cstdint>
#include <iostream>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <pagoda/kernels/generic_attention.hpp>
#include <pagoda/kernels/tensor_decode.hpp>
#include <pagoda/kernels/tensor_prefill.hpp>

#include "../kernels/tensor_kernels.hpp"
#include "ptx/machine.hpp"

namespace {

namespace ptx = pagoda_test::ptx;
using pagoda_test::attention_case;
using pagoda_test::batch_entry;
using pagoda_test::case_config;

/// Launches kernels from PTX.
class ptx_launcher {
 public:
  explicit ptx_launcher(const ptx::module& from) : module_(from) {}
  template <class Kernel>
  void launch(pagoda::simt::index3 grid, const typename Kernel::arguments& arguments) {
    ptx::launch<Kernel>(module_, grid, arguments);
  }

 private:
  const ptx::module& module_;
};

const std::vector<ptx::module>& modules() {
  static const std::vector<ptx::module> loaded = [] {
    std::vector<ptx::module> result;
#if defined(PAGODA_PTX_DIRECTORY)
    for (const char* target : {"compute_80", "compute_90"}) {
      result.push_back(ptx::module::load(std::string(PAGODA_PTX_DIRECTORY) + "/attention_kernels." + target + ".ptx"));
    }
#else
    std::cout << "[SKIPPED] nvcc was not found: its PTX is not run\n";
#endif
    return result;
  }();
  return loaded;
}

template <class Decode, class Prefill = void, class Case>
void check(const Case& batch, double bound, const pagoda::attention_options& options = {}) {
  for (const ptx::module& module : modules()) {
    ptx_launcher launcher(module);
    const pagoda_test::attention_error error =
        pagoda_test::compare(pagoda_test::run_kernels<Decode, Prefill>(batch, options, launcher),
                             batch.reference(options), batch.output_shape().dim);
    CHECK(error.output < bound);
    CHECK(error.lse < bound);
  }
}

const std::vector<batch_entry> ragged{{37, 1, -1, 1}, {0, 0, 1, 2}, {16, 2, -1, 3}, {40, 20, -1, 4}, {517, 1, -1, 5}};

template <class Quantizer, int Dim>
void check_tensor() {
  const attention_case<Quantizer> batch({.shape = {.kv_heads = 2, .head_dim = Dim}, .query_group = 3, .batch = ragged});
  check<pagoda::kernels::tensor_decode<Quantizer, Quantizer, Dim, false>,
        pagoda::kernels::tensor_prefill<Quantizer, Quantizer, Dim, false>>(batch, pagoda_test::tensor_bound<Quantizer>);
}

TEST_CASE("half") {
  check_tensor<pagoda_test::f16, 64>();
  check_tensor<pagoda_test::f16, 128>();
}
TEST_CASE("bfloat16") {
  check_tensor<pagoda_test::bf16, 64>();
}
TEST_CASE("int8") {
  check_tensor<pagoda_test::int8, 64>();
  check_tensor<pagoda_test::int8, 80>();
}
TEST_CASE("int4") {
  check_tensor<pagoda_test::int4, 64>();
}
TEST_CASE("fp8") {
  check_tensor<pagoda_test::fp8, 64>();
}

TEST_CASE("soft cap, ALiBi, sink logits, and a window with sinks") {
  using f16 = pagoda_test::f16;
  const attention_case<f16> batch({.shape = {.kv_heads = 2, .head_dim = 64}, .query_group = 3, .batch = ragged});
  const std::vector<float> numbers{0.5f, -1.0f, 0.25f, 0.0f, 0.125f, 1.0f};
  check<pagoda::kernels::tensor_decode<f16, f16, 64, true>, pagoda::kernels::tensor_prefill<f16, f16, 64, true>>(
      batch, pagoda_test::tensor_bound<f16>,
      {.window = 20, .sinks = 3, .sink_logits = numbers, .soft_cap = 3.0f, .alibi_slopes = numbers});
}

TEST_CASE("the generic kernel") {
  using f32 = pagoda_test::f32;
  using int4 = pagoda_test::int4;
  const attention_case<f32> floats(
      {.shape = {.kv_heads = 1, .head_dim = 40}, .block_size = 4, .query_group = 3, .batch = ragged});
  check<pagoda::kernels::generic_attention<f32, f32>>(floats, decltype(floats)::bound);
  const attention_case<int4> codes(
      {.shape = {.kv_heads = 1, .head_dim = 72, .value_head_dim = 24}, .query_group = 2, .batch = ragged});
  check<pagoda::kernels::generic_attention<int4, int4>>(codes, decltype(codes)::bound);
}

}  // namespace
