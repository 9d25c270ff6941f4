// SPDX-License-Identifier: Apache-2.0
// The calls of host_backend_test.cpp on a GPU. Without one, every case is skipped, visibly.
#include <cstdio>
#include <string>

#include <doctest/doctest.h>

#include "../backend_cases.hpp"
#include "../transfer_cases.hpp"
#include "has_device.hpp"

namespace {

using pagoda::cuda::device_backend;
using pagoda_test::f16;
using pagoda_test::f32;
using pagoda_test::int8;

bool skipped() {
  const std::string why = pagoda_test::why_no_device();
  if (!why.empty()) std::printf("[SKIPPED] %s\n", why.c_str());
  return !why.empty();
}

TEST_CASE("attention") {
  if (skipped()) return;
  pagoda_test::check_attention_shapes<device_backend, f16>(64);
  pagoda_test::check_attention_shapes<device_backend, int8>(64);
  pagoda_test::check_attention_shapes<device_backend, f32>(64);
  pagoda_test::check_attention_shapes<device_backend, f16>(72);
}

TEST_CASE("rotated keys and values") {
  if (skipped()) return;
  pagoda_test::check_attention_shapes<device_backend, pagoda_test::rotated<int8>>(64);
  pagoda_test::check_append<device_backend, pagoda::half, pagoda_test::rotated<int8>>(48);
}

TEST_CASE("options") {
  if (skipped()) return;
  pagoda_test::check_attention_options<device_backend, f16>(64);
  pagoda_test::check_attention_options<device_backend, f32>(32);
}

TEST_CASE("padding") {
  if (skipped()) return;
  pagoda_test::check_padding<device_backend, f16>(64);
  pagoda_test::check_padding<device_backend, f32>(32);
}

TEST_CASE("append") {
  if (skipped()) return;
  pagoda_test::check_append<device_backend, float, f16>(64);
  pagoda_test::check_append<device_backend, pagoda::half, int8>(48);
  pagoda_test::check_append<device_backend, pagoda::bfloat16, f32>(40);
}

TEST_CASE("execute") {
  if (skipped()) return;
  for (const auto order : {pagoda::pool_order::by_layer, pagoda::pool_order::by_block}) {
    pagoda_test::check_execute<device_backend, f16>(order);
    pagoda_test::check_execute<device_backend, int8>(order);
  }
}

TEST_CASE("transfers between device and pinned memory") {
  if (skipped()) return;
  for (const auto order : {pagoda::pool_order::by_layer, pagoda::pool_order::by_block}) {
    pagoda_test::check_transfer<device_backend, f16>(order);
    pagoda_test::check_transfer<device_backend, int8>(order);
  }
  pagoda_test::check_parked<device_backend, f16>(64);
  pagoda_test::check_parked<device_backend, int8>(64);
}

TEST_CASE("growing steps") {
  if (skipped()) return;
  pagoda_test::check_growing_steps<device_backend, f16>(64, [] {});
  pagoda_test::check_growing_steps<device_backend, f32>(64, [] {});
}

TEST_CASE("a head_dim that was not compiled") {
  if (skipped()) return;
  pagoda_test::device_case<device_backend, f16> batch(
      {.shape = {.head_dim = 128}, .query_group = 1, .batch = {{20, 1, 1, 1}}});
  CHECK_THROWS_WITH_AS(batch.run(), doctest::Contains("head_dim 128 of half keys and half values was not compiled"),
                       pagoda::invalid_argument);
}

}  // namespace
