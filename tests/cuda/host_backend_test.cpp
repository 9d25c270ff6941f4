// SPDX-License-Identifier: Apache-2.0
// The CUDA part end to end on a CPU: launchers, tables and kernels, against the host's own and the reference.
#include <pagoda/cuda/host_backend.hpp>

#include "backend_cases.hpp"

namespace {

using pagoda::cuda::host_backend;
using pagoda_test::f16;
using pagoda_test::f32;
using pagoda_test::int8;
using pagoda_test::user_int8;

TEST_CASE("attention on tensor cores") {
  pagoda_test::check_attention_shapes<host_backend, f16>(64);
  pagoda_test::check_attention_shapes<host_backend, int8>(64);
}

TEST_CASE("attention on CUDA cores") {
  pagoda_test::check_attention_shapes<host_backend, f32>(64);
  pagoda_test::check_attention_shapes<host_backend, user_int8>(40);
  pagoda_test::check_attention_shapes<host_backend, f16>(72);  // not a multiple of 16
}

TEST_CASE("every option reaches the kernels") {
  pagoda_test::check_attention_options<host_backend, f16>(64);
  pagoda_test::check_attention_options<host_backend, f32>(32);
}

TEST_CASE("limits and tensors may be larger than the step") {
  pagoda_test::check_padding<host_backend, f16>(64);
  pagoda_test::check_padding<host_backend, f32>(32);
}

TEST_CASE("append writes the host's bytes") {
  pagoda_test::check_append<host_backend, float, f16>(64);
  pagoda_test::check_append<host_backend, pagoda::half, int8>(48);
  pagoda_test::check_append<host_backend, pagoda::bfloat16, user_int8>(40);
}

TEST_CASE("execute moves the host's bytes") {
  for (const auto order : {pagoda::pool_order::by_layer, pagoda::pool_order::by_block}) {
    pagoda_test::check_execute<host_backend, f16>(order);
    pagoda_test::check_execute<host_backend, int8>(order);
    pagoda_test::check_execute<host_backend, pagoda_test::rotated<pagoda_test::int4>, pagoda_test::int8g32>(order);
  }
}

TEST_CASE("steps within the limits launch the same kernels on the same grids") {
  auto& device = host_backend::device();
  const auto check = [&]<class Quantizer>(std::type_identity<Quantizer>) {
    device.record_launches = true;
    std::vector<host_backend::launch_record> first;
    pagoda_test::check_growing_steps<host_backend, Quantizer>(64, [&] {
      if (first.empty()) first = device.launches;
      CHECK(device.launches == first);
      device.launches.clear();
    });
    CHECK(first.size() > 2);
    device.record_launches = false;
  };
  check(std::type_identity<f16>());
  check(std::type_identity<f32>());
  check(std::type_identity<pagoda_test::rotated<f32>>());
}

}  // namespace
