// SPDX-License-Identifier: Apache-2.0
// hadamard<Q>, groups and fp8_e5m2 through the launchers, on the host context: against the reference and host::append.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <pagoda/cuda/host_backend.hpp>

#include "backend_cases.hpp"

namespace {

using namespace pagoda_test;
using pagoda::cuda::attention_path;
using pagoda::cuda::compute_path;
using pagoda::cuda::host_backend;

}  // namespace

// Head dims beside the default ones.
template <>
struct pagoda::cuda::head_dims_of<host_backend, rotated<int8>, rotated<int8>> : head_dim_list<64, 96> {};

namespace {

TEST_CASE("rotated keys and values on tensor cores and CUDA cores, alone and with others") {
  check_attention_shapes<host_backend, rotated<int8>>(64);
  check_attention_shapes<host_backend, rotated<f32>>(40);
  check_attention_shapes<host_backend, rotated<int8>, f16>(64);
  check_attention_shapes<host_backend, f32, rotated<f16>>(72);
  check_attention_options<host_backend, rotated<f32>>(32);
  check_attention<host_backend, rotated<int8>>(
      {.shape = {.kv_heads = 1, .head_dim = 96}, .query_group = 5, .batch = {{20, 3, 3, 1}, {50, 1, 1, 2}}});
  check_attention<host_backend, rotated<int8>, rotated<f32>>(
      {.shape = {.kv_heads = 2, .head_dim = 24, .value_head_dim = 160}, .query_group = 2, .batch = {{70, 4, 4, 1}}});
}

TEST_CASE("groups on CUDA cores, fp8_e5m2 on tensor cores") {
  check_attention_shapes<host_backend, int8g32>(64);
  check_attention_shapes<host_backend, rotated<int4g32>>(96);
  check_attention_shapes<host_backend, e5m2>(64);
}

TEST_CASE("fp8_e5m2: scales of small values do not sink below a half's normal numbers") {
  device_case<host_backend, e5m2> on_device(
      {.shape = {.kv_heads = 1, .head_dim = 64}, .query_group = 1, .batch = {{40, 40, 1, 5}}});
  std::vector<float> rows[2];
  for (std::int64_t i = 0; i < 40 * 64; ++i) {
    rows[0].push_back(noise(1, 1, i, 0, 0));
    rows[1].push_back(noise(1, 2, i, 0, 0) * 1e-3f);  // scales of about 5e-8
  }
  pagoda::host::append(on_device.host.view, pagoda::rows_view(rows[0], {40, 1, 64}),
                       pagoda::rows_view(rows[1], {40, 1, 64}));
  const auto keys = to_device<host_backend>(rows[0]);
  const auto values = to_device<host_backend>(rows[1]);
  pagoda::cuda::append<host_backend>(on_device.view, pagoda::rows_view(keys.span(), {40, 1, 64}),
                                     pagoda::rows_view(values.span(), {40, 1, 64}));
  const attention_error error = compare(on_device.run(), on_device.host.reference(), 64);
  CHECK(error.output < device_bound<e5m2, e5m2>);
}

TEST_CASE("limits and tensors may be larger than the step, and outputs of any type") {
  const case_config config{
      .shape = {.kv_heads = 2, .head_dim = 64}, .query_group = 2, .batch = {{33, 1, 1, 1}, {70, 2, 2, 2}}};
  device_case<host_backend, rotated<f32>> on_device(config);
  const attention_result expected = on_device.run();
  device_case<host_backend, rotated<f32>> wide(config, [](pagoda::cuda::step_limits& limits) {
    limits.queries = 20;
    limits.query_heads = 9;
    limits.value_head_dim = 128;
    limits.rotated_head_dim = 576;
  });
  const auto queries = to_device<host_backend>(std::vector<float>(9 * 4 * 64, std::nanf("")));
  host_backend::copy(queries.span().data(), wide.host.queries.data(),
                     static_cast<std::int64_t>(wide.host.queries.size() * sizeof(float)), {});
  const auto output = to_device<host_backend>(std::vector<pagoda::half>(9 * 4 * 64, pagoda::half{0x5555}));
  pagoda::cuda::attention<host_backend>(wide.view, pagoda::rows_view(queries.span(), {9, 4, 64}),
                                        pagoda::rows_view(output.span(), {9, 4, 64}));
  const std::vector<pagoda::half> got = output.read();
  for (std::size_t i = 0; i < got.size(); ++i) {
    const bool is_row = i < expected.output.size();
    CHECK(got[i] == (is_row ? pagoda::from_float<pagoda::half>(expected.output[i]) : pagoda::half{0x5555}));
  }
}

TEST_CASE("an output row without keys is zero") {
  device_case<host_backend, rotated<f32>> on_device({.shape = {.kv_heads = 1, .head_dim = 32},
                                                     .query_group = 2,
                                                     .batch = {{0, 0, 1, 1}, {3, 1, 1, 2}, {0, 0, 12, 3}}},
                                                    [](pagoda::cuda::step_limits&) {});
  const attention_result result = on_device.run({.causal = false});
  for (std::size_t i = 0; i < result.output.size(); ++i) {
    CHECK((result.output[i] == 0.0f) == (i / 64 != 1));
  }
}

TEST_CASE("append rotates: the host's bytes") {
  check_append<host_backend, float, rotated<int8>>(48);
  check_append<host_backend, pagoda::half, rotated<int4>>(64);
  check_append<host_backend, pagoda::bfloat16, rotated<int4g32>, int8g32>(96);
  check_append<host_backend, float, f16, rotated<fp8>>(80);
  check_append<host_backend, float, rotated<f16>, e5m2>(112);
}

template <class K, class V = K>
compute_path path_of(std::int32_t dim) {
  const pagoda::block_storage<K, V> storage({.head_dim = dim}, 16, pagoda::num_blocks{1});
  return attention_path(storage.layer_view(0));
}

TEST_CASE("attention_path says which kernels serve a quantizer") {
  CHECK(path_of<e5m2>(64) == compute_path::tensor_cores);
  CHECK(path_of<rotated<int4>>(128) == compute_path::tensor_cores);
  CHECK(path_of<rotated<fp8>, f16>(128) == compute_path::tensor_cores);
  CHECK(path_of<rotated<int8>>(72) == compute_path::cuda_cores);
  CHECK(path_of<int8g32>(128) == compute_path::cuda_cores);
  CHECK(path_of<int4g32, int8>(128) == compute_path::cuda_cores);
  CHECK(path_of<rotated<int8g32>>(128) == compute_path::cuda_cores);
}

TEST_CASE("the kernels are those of the quantizer inside, and two that rotate; others launch neither") {
  auto& device = host_backend::device();
  const auto launched = [&]<class Quantizer>(std::type_identity<Quantizer>) {
    device_case<host_backend, Quantizer> on_device(
        {.shape = {.kv_heads = 1, .head_dim = 64}, .query_group = 1, .batch = {{20, 1, 1, 1}}});
    device.launches.clear();
    device.record_launches = true;
    on_device.run();
    device.record_launches = false;
    std::vector<std::string> names;
    for (const auto& launch : device.launches) names.push_back(launch.kernel);
    return names;
  };
  const std::vector<std::string> plain = launched(std::type_identity<int8>());
  std::vector<std::string> turned = launched(std::type_identity<rotated<int8>>());
  REQUIRE(turned.size() == plain.size() + 2);
  CHECK(turned.front().find("rotate_rows") != std::string::npos);
  CHECK(turned.back() == turned.front());
  CHECK(std::vector<std::string>(turned.begin() + 1, turned.end() - 1) == plain);
}

TEST_CASE("work memory for rotated rows is asked for, and costs nothing where it is not") {
  const pagoda::block_manager manager({.groups = {{.num_blocks = 9}}, .block_size = 16});
  const pagoda::cuda::step_limits plain{
      .sequences = 2, .queries = 5, .new_tokens = 7, .blocks = 9, .query_heads = 4, .value_head_dim = 64};
  pagoda::cuda::step_limits turned = plain;
  turned.rotated_head_dim = 64;
  using tables = pagoda::cuda::basic_step_tables<host_backend>;
  CHECK(tables::size_bytes(manager, turned) - tables::size_bytes(manager, plain) == 2 * 7 * 4 * 64 * 4);
  turned.rotated_head_dim = 584;
  CHECK_THROWS_WITH_AS(tables(manager, turned), doctest::Contains("step_limits::rotated_head_dim is 584"),
                       pagoda::invalid_argument);
}

template <class Quantizer, class ValueQuantizer = Quantizer>
void check_refused(const pagoda::cuda::step_limits& change, std::int32_t dim, const char* of_attention,
                   const char* of_append) {
  device_case<host_backend, Quantizer, ValueQuantizer> on_device(
      {.shape = {.kv_heads = 1, .head_dim = dim}, .query_group = 1, .batch = {{5, 1, 1, 1}}},
      [&](pagoda::cuda::step_limits& limits) { limits.rotated_head_dim = change.rotated_head_dim; });
  host_backend::device().launches.clear();
  host_backend::device().record_launches = true;
  CHECK_THROWS_WITH_AS(on_device.run(), doctest::Contains(of_attention), pagoda::invalid_argument);
  CHECK_THROWS_WITH_AS(
      pagoda::cuda::append<host_backend>(on_device.view, on_device.query_rows(), on_device.query_rows()),
      doctest::Contains(of_append), pagoda::invalid_argument);
  CHECK(host_backend::device().launches.empty());
  host_backend::device().record_launches = false;
}

TEST_CASE("calls without enough work memory are refused before anything is launched") {
  check_refused<rotated<int8>>(
      {.rotated_head_dim = 0}, 64,
      "attention: quantizer hadamard-int8 rotates rows of 64 elements, but the tables have work memory for 0: raise "
      "step_limits::rotated_head_dim to 64",
      "append: quantizer hadamard-int8 rotates rows of 64 elements");
  check_refused<f16, rotated<int8>>({.rotated_head_dim = 32}, 64,
                                    "attention: quantizer hadamard-int8 rotates rows of 64 elements, but the tables "
                                    "have work memory for 32",
                                    "append: quantizer hadamard-int8");
  device_case<host_backend, rotated<int8>> narrow(
      {.shape = {.kv_heads = 2, .head_dim = 64}, .query_group = 1, .batch = {{5, 1, 1, 1}}},
      [](pagoda::cuda::step_limits& limits) { limits.query_heads = 1; });
  CHECK_THROWS_WITH_AS(pagoda::cuda::append<host_backend>(narrow.view, narrow.query_rows(), narrow.query_rows()),
                       doctest::Contains("append: rows of 2 heads are to be rotated, but the tables were made for 1"),
                       pagoda::invalid_argument);
}

TEST_CASE("a head_dim that was not compiled is refused under the pair's own name, before anything is launched") {
  device_case<host_backend, rotated<int8>> on_device(
      {.shape = {.kv_heads = 1, .head_dim = 128}, .query_group = 1, .batch = {{5, 1, 1, 1}}});
  host_backend::device().launches.clear();
  host_backend::device().record_launches = true;
  CHECK_THROWS_WITH_AS(
      on_device.run(),
      doctest::Contains("head_dim 128 of hadamard-int8 keys and hadamard-int8 values was not compiled; "
                        "these were: 64, 96"),
      pagoda::invalid_argument);
  CHECK(host_backend::device().launches.empty());
  host_backend::device().record_launches = false;
}

}  // namespace
