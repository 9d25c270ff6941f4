// SPDX-License-Identifier: Apache-2.0
// What calls of pagoda::cuda refuse before they launch anything, and which kernels they launch otherwise.
#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <pagoda/cuda/host_backend.hpp>

#include "backend_calls.hpp"

namespace {

struct other_backend : pagoda::cuda::host_backend {
  static constexpr std::string_view name = "other";
};

}  // namespace

template <class KeyQuantizer, class ValueQuantizer>
struct pagoda::cuda::attention_launcher<other_backend, KeyQuantizer, ValueQuantizer> {
  static void launch(const kernels::attention_arguments<KeyQuantizer, ValueQuantizer>&, const device_properties&,
                     stream_ref) {}
};

namespace {

using pagoda::attention_options;
using pagoda::rows_view;
using pagoda::cuda::compute_path;
using pagoda::cuda::host_backend;
using pagoda::cuda::step_limits;
using pagoda_test::case_config;
using pagoda_test::device_case;
using pagoda_test::f16;
using pagoda_test::f32;
using pagoda_test::int8;
using pagoda_test::user_int8;

/// The thread's device, as tests change it, until the end of the test.
class changed_device {
 public:
  changed_device() {
    host_backend::device().record_launches = true;
    host_backend::device().launches.clear();
  }
  changed_device(const changed_device&) = delete;
  changed_device& operator=(const changed_device&) = delete;
  ~changed_device() {
    host_backend::device().record_launches = false;
    properties() = before_;
    host_backend::device().resident_blocks = 1;
  }
  pagoda::cuda::device_properties& properties() { return host_backend::device().properties; }

  /// The names of the kernels launched since the last call, without their arguments.
  std::vector<std::string> take_launches() {
    std::vector<std::string> names;
    for (const auto& launch : host_backend::device().launches) {
      const std::string name = launch.kernel.substr(0, launch.kernel.find('<'));
      names.push_back(name.substr(name.rfind(':') + 1));
    }
    host_backend::device().launches.clear();
    return names;
  }

 private:
  pagoda::cuda::device_properties before_ = host_backend::device().properties;
};

case_config one_sequence(std::int32_t head_dim = 64, std::int32_t context = 20, std::int32_t queries = 1) {
  return {.shape = {.kv_heads = 2, .head_dim = head_dim}, .query_group = 2, .batch = {{context, queries, queries, 1}}};
}

template <class Call>
void refused(Call&& call, const char* message) {
  changed_device device;
  CHECK_THROWS_WITH_AS(call(), doctest::Contains(message), pagoda::invalid_argument);
  CHECK(device.take_launches().empty());
}

TEST_CASE("the kernels follow from types, shapes and limits") {
  changed_device device;
  using names = std::vector<std::string>;
  const auto launches = [&]<class Q>(std::type_identity<Q>, const case_config& config, auto adjust) {
    device_case<host_backend, Q> on_device(config, adjust);
    device.take_launches();
    on_device.run();
    return device.take_launches();
  };
  const auto as_needed = [](step_limits&) {};
  const std::type_identity<f16> half;
  CHECK(launches(half, one_sequence(), as_needed) == names{"tensor_decode"});
  CHECK(launches(half, one_sequence(64, 20, 9), as_needed) == names{"tensor_decode", "tensor_prefill"});
  CHECK(launches(half, one_sequence(64, 20, 8), as_needed) == names{"tensor_decode"});
  CHECK(launches(half, one_sequence(64, 513, 1), as_needed) == names{"tensor_decode", "merge_chunks"});
  CHECK(launches(half, one_sequence(), [](step_limits& l) { l.blocks = 33; }) ==
        names{"tensor_decode", "merge_chunks"});
  CHECK(launches(half, one_sequence(), [](step_limits& l) { l.blocks = 32; }) == names{"tensor_decode"});
  case_config windowed = one_sequence();
  windowed.keep = {.window = 30};  // 30 tokens may lie in two chunks
  CHECK(launches(half, windowed, as_needed) == names{"tensor_decode", "merge_chunks"});
  CHECK(launches(std::type_identity<f32>(), one_sequence(), as_needed) == names{"generic_attention"});
  case_config small_blocks = one_sequence();
  small_blocks.block_size = 8;
  CHECK(launches(half, small_blocks, as_needed) == names{"generic_attention"});
}

TEST_CASE("attention_path says which kernels those are") {
  const auto path = []<class K, class V>(std::type_identity<pagoda::block_storage<K, V>>, std::int32_t key_dim,
                                         std::int32_t value_dim, std::int32_t block_size) {
    const pagoda::block_storage<K, V> storage({.head_dim = key_dim, .value_head_dim = value_dim}, block_size,
                                              pagoda::num_blocks{1});
    return pagoda::cuda::attention_path(storage.layer_view(0));
  };
  const std::type_identity<pagoda::block_storage<f16, f16>> half;
  CHECK(path(half, 128, 128, 16) == compute_path::tensor_cores);
  CHECK(path(half, 256, 256, 64) == compute_path::tensor_cores);
  CHECK(path(half, 48, 48, 16) == compute_path::tensor_cores);  // compiled or not
  CHECK(path(half, 128, 128, 8) == compute_path::cuda_cores);
  CHECK(path(half, 128, 64, 16) == compute_path::cuda_cores);
  CHECK(path(half, 72, 72, 16) == compute_path::cuda_cores);
  CHECK(path(half, 512, 512, 16) == compute_path::cuda_cores);
  CHECK(path(std::type_identity<pagoda::block_storage<int8, f16>>(), 64, 64, 16) == compute_path::tensor_cores);
  CHECK(path(std::type_identity<pagoda::block_storage<f32, f32>>(), 64, 64, 16) == compute_path::cuda_cores);
  CHECK(path(std::type_identity<pagoda::block_storage<f16, user_int8>>(), 64, 64, 16) == compute_path::cuda_cores);
  auto far = pagoda::block_storage<f16>({.head_dim = 64}, 16, pagoda::num_blocks{1}).layer_view(0);
  far.keys.slot_stride = std::int64_t{1} << 27;  // the last row of a tile would lie 15 * 128 MiB behind the first
  CHECK(pagoda::cuda::attention_path(far) == compute_path::cuda_cores);
  far.keys.slot_stride = 128;
  far.values.chunk_stride = std::int64_t{1} << 26;
  CHECK(pagoda::cuda::attention_path(far) == compute_path::cuda_cores);
}

TEST_CASE("a grid fits the device and never has more blocks than work") {
  changed_device device;
  device.properties().multiprocessors = 2;
  host_backend::device().resident_blocks = 2;
  device_case<host_backend, f16> few(one_sequence());
  few.run();
  CHECK(host_backend::device().launches.back().blocks == 4);
  device.properties().multiprocessors = 1000;
  few.run();
  CHECK(host_backend::device().launches.back().blocks ==
        2 * pagoda::kernels::max_items(1, few.tables.limits().blocks, 16));
}

TEST_CASE("a head_dim that was not compiled is named, with those that were and the macro") {
  device_case<host_backend, f16> batch(one_sequence(96));
  refused([&] { batch.run(); },
          "head_dim 96 of half keys and half values was not compiled; these were: 64, 128. "
          "Add it to the head dims of PAGODA_INSTANTIATE_CUDA");
}

TEST_CASE("views of the host, of another backend and of another device") {
  device_case<host_backend, f16> batch(one_sequence());
  const auto queries = batch.query_rows();
  std::vector<float> output(batch.host.output_size());
  const rows_view<float> to(output, batch.host.output_shape());
  refused([&] { pagoda::cuda::attention<host_backend>(batch.host.view, queries, to); },
          "attention: the view's tables lie in host memory: make it from cuda::step_tables");
  refused([&] { pagoda::cuda::append<host_backend>(batch.host.view, queries, queries); },
          "append: the view's tables lie in host memory");
  refused([&] { pagoda::cuda::attention<other_backend>(batch.view, queries, to); },
          "the view's tables are of the backend \"host context\", the call is of \"other\"");
  host_backend::device().properties.device = 3;
  refused([&] { pagoda::cuda::attention<host_backend>(batch.view, queries, to); },
          "the view's tables lie on device 0, but the current one is 3");
  host_backend::device().properties.device = 0;
}

TEST_CASE("a device too old, or with too little shared memory") {
  changed_device device;
  device_case<host_backend, f16> batch(one_sequence());
  device.properties().compute_capability = 75;
  CHECK_THROWS_WITH_AS(batch.run(), doctest::Contains("compute capability 7.5, but the kernels need 8.0"),
                       pagoda::invalid_argument);
  device.properties().compute_capability = 80;
  device.properties().shared_bytes = 16 * 1024;
  CHECK_THROWS_WITH_AS(batch.run(),
                       doctest::Contains("bytes of shared memory, but a block of device 0 has at most 16384"),
                       pagoda::invalid_argument);
  device.properties().shared_bytes = 163 * 1024;
  host_backend::device().resident_blocks = 0;
  CHECK_THROWS_WITH_AS(batch.run(), doctest::Contains("does not fit a multiprocessor"), pagoda::invalid_argument);
  CHECK(device.take_launches().empty());
}

TEST_CASE("rows that kernels cannot move 16 bytes at a time") {
  device_case<host_backend, f16> batch(
      {.shape = {.kv_heads = 2, .head_dim = 64}, .query_group = 2, .batch = {{20, 2, 2, 1}}});
  std::vector<float> space(2000);
  auto* base = space.data();
  while (reinterpret_cast<std::uintptr_t>(base) % 16 != 0) ++base;
  const auto rows = [&](std::int64_t offset, pagoda::rows_strides strides) {
    return rows_view<float>(std::span<float>(base + offset, 1500), {2, 4, 64}, strides);
  };
  const auto attend = [&](const rows_view<float>& queries, const rows_view<float>& output) {
    return [&batch, queries, output] { pagoda::cuda::attention<host_backend>(batch.view, queries, output); };
  };
  const rows_view<float> good = rows(0, {256, 64});
  refused(attend(rows(1, {256, 64}), good), "attention: the rows of queries begin 4 bytes past a multiple of 16");
  refused(attend(good, rows(2, {256, 64})), "attention: the rows of output begin 8 bytes past a multiple of 16");
  refused(attend(rows(0, {258, 64}), good), "the rows of queries have strides of (1032, 256) bytes");
  refused(attend(good, rows(0, {300, 66})), "the rows of output have strides of (1200, 264) bytes");
  const rows_view<float> null(std::span<float>(static_cast<float*>(nullptr), 512), {2, 4, 64});
  refused(attend(null, good), "attention: the rows of queries are a null pointer");
  refused(
      [&] {
        pagoda::cuda::append<host_backend>(batch.view, rows_view<float>(std::span<float>(base + 1, 300), {2, 2, 64}),
                                           rows_view<float>(std::span<float>(base, 300), {2, 2, 64}));
      },
      "append: the rows of keys begin 4 bytes past a multiple of 16");
  CHECK_NOTHROW(attend(rows(0, {260, 64}), rows(600, {256, 64}))());
}

TEST_CASE("calls larger than the tables' limits") {
  device_case<host_backend, f16> batch(one_sequence(64, 20, 2));
  std::vector<float> space(4000);
  const auto rows = [&](std::int64_t tokens, std::int64_t heads) {
    return rows_view<float>(space, {tokens, heads, 64});
  };
  const auto attend = [&](std::int64_t tokens, std::int64_t heads) {
    return [&, tokens, heads] {
      pagoda::cuda::attention<host_backend>(batch.view, rows(tokens, heads), rows(tokens, heads));
    };
  };
  refused(attend(3, 4), "there are 3 query rows, but the tables were made for 2: raise step_limits::queries");
  refused(attend(1, 4), "there are 1 query rows, but the step has 2 queries");
  refused(attend(2, 6), "there are 6 query heads, but the tables were made for 4: raise step_limits::query_heads");
  refused([&] { pagoda::cuda::append<host_backend>(batch.view, rows(3, 2), rows(3, 2)); },
          "there are 3 rows of keys, but the tables were made for 2: raise step_limits::new_tokens");
  refused([&] { pagoda::cuda::append<host_backend>(batch.view, rows(1, 2), rows(2, 2)); },
          "there are 1 rows of keys, but the step has 2 new tokens");
  refused([&] { pagoda::cuda::append<host_backend>(batch.view, rows(2, 2), rows(2, 3)); },
          "append: values are [2, 3, 64], but the cache needs [2, 2, 64]: pass a row for each new token and kv head");
  device_case<host_backend, f16> narrow(one_sequence(64, 20, 2), [](step_limits& l) { l.value_head_dim = 32; });
  refused([&] { narrow.run(); }, "values have 64 elements, but the tables were made for 32");
}

TEST_CASE("what the host refuses of a step and its options") {
  case_config dropped = one_sequence(64, 80, 4);
  dropped.block_size = 4;
  dropped.keep = {.window = 20};
  device_case<host_backend, f16> windowed(dropped);
  CHECK_NOTHROW(windowed.run());
  refused([&] { windowed.run({.window = 21}); }, "attention window 21 is wider than the 20 tokens");
  refused([&] { windowed.run({.causal = false}); }, "causal = false over a layer group that keeps a window");

  device_case<host_backend, f16> cross(
      {.shape = {.kv_heads = 2, .head_dim = 64}, .query_group = 2, .batch = {{6, 0, 2, 1}, {3, 0, 5, 2}}});
  refused([&] { cross.run(); },
          "batch entry 1 has 5 queries, more than the 3 tokens of its context, but causal queries are the last of "
          "them: pass causal = false");
  CHECK_NOTHROW(cross.run({.causal = false}));
  const std::vector<std::uint32_t> words(7);
  refused(
      [&] { cross.run({.tree = {.words = words, .words_per_query = 1}}); },
      "batch entry 1 has 5 queries, more than its 0 new tokens, but a tree mask covers its new tokens only: ask for");

  device_case<host_backend, f16> tree(one_sequence(64, 50, 33));
  const std::vector<std::uint32_t> narrow(33);
  refused([&] { tree.run({.tree = {.words = narrow, .words_per_query = 1}}); },
          "32 bits a query, but batch entry 0 has 33 new tokens");
  const std::vector<float> three(3);
  refused([&] { tree.run({.sink_logits = three}); }, "sink_logits has 3 numbers, but there are 4 query heads");
  refused([&] { tree.run({.soft_cap = -1.0f}); }, "soft_cap is -1");
}

TEST_CASE("queries that would read dropped tokens are refused by the last upload") {
  pagoda::block_manager manager({.groups = {{.num_blocks = 64, .keep = {.window = 20}}}, .block_size = 4});
  pagoda::cuda::basic_step_tables<host_backend> tables(manager, {.sequences = 1,
                                                                 .queries = 10,
                                                                 .new_tokens = 10,
                                                                 .blocks = 20,
                                                                 .queries_per_sequence = 10,
                                                                 .query_heads = 2,
                                                                 .value_head_dim = 64});
  pagoda::block_storage<f16, f16, pagoda::heads_tokens_dim, pagoda::cuda::basic_device_memory<host_backend>> storage(
      {.head_dim = 64}, 4, pagoda::num_blocks{64});
  const pagoda::sequence sequence = manager.make_sequence();
  manager.plan({{sequence, 60}}).commit();
  const pagoda::step step = manager.plan({{sequence, 1, 10}});  // nine queries look again at old tokens
  tables.upload(step);
  std::vector<float> rows(10 * 2 * 64);
  const rows_view<float> tensor(rows, {10, 2, 64});
  const auto view = storage.view(0, tables);
  refused([&] { pagoda::cuda::attention<host_backend>(view, tensor, tensor); },
          "the first query of batch entry 0 would read dropped tokens");
  std::vector<float> on_host(10 * 2 * 64);
  pagoda::block_storage<f16> host_storage({.head_dim = 64}, 4, pagoda::num_blocks{64});
  CHECK_THROWS_WITH(pagoda::host::attention(host_storage.view(0, step), tensor, rows_view(on_host, {10, 2, 64})),
                    doctest::Contains("would read dropped tokens"));
  for (std::int64_t window = 1; window <= 20; ++window) {  // both back ends draw the line at the same window
    CAPTURE(window);
    const auto throws = [&](auto&& call) {
      try {
        call();
        return false;
      } catch (const pagoda::invalid_argument&) {
        return true;
      }
    };
    const attention_options options{.window = window};
    CHECK(throws([&] { pagoda::cuda::attention<host_backend>(view, tensor, tensor, options); }) == throws([&] {
            pagoda::host::attention(host_storage.view(0, step), tensor, rows_view(on_host, {10, 2, 64}), options);
          }));
  }
}

TEST_CASE("append takes the rows that the view has") {
  using mla = pagoda::block_storage<f16, pagoda::values_in_keys<32>, pagoda::heads_tokens_dim,
                                    pagoda::cuda::basic_device_memory<host_backend>>;
  const mla latent({.head_dim = 64}, 16, pagoda::num_blocks{64});
  device_case<host_backend, f16> batch(one_sequence(64, 20, 2));
  const auto latent_view = latent.view(0, batch.tables);
  std::vector<float> space(1000);
  const rows_view<float> one(space, {2, 1, 64});
  const rows_view<float> half_rows(space, {2, 1, 32});
  const rows_view<float> two(space, {2, 2, 64});
  refused([&] { pagoda::cuda::append<host_backend>(latent_view, one, half_rows); }, "call append(view, keys)");
  refused([&] { pagoda::cuda::append<host_backend>(batch.view, two); }, "call append(view, keys, values)");
  CHECK_NOTHROW(pagoda::cuda::append<host_backend>(latent_view, one));
  CHECK_NOTHROW(pagoda::cuda::append<host_backend>(batch.view, two, two));
}

TEST_CASE("a table overwritten on the device is reported, and nothing of the block is read") {
  device_case<host_backend, f16> batch(one_sequence(64, 40));
  auto* table = const_cast<pagoda::block_id*>(batch.tables.batch().block_table);
  table[1] = pagoda::block_id{12345};
#if PAGODA_CHECK_TABLES
  CHECK_NOTHROW(batch.run());
  CHECK_THROWS_WITH_AS(batch.tables.check(), doctest::Contains("block 12345 as logical block 1 of batch entry 0"),
                       pagoda::out_of_range);
#endif
}

TEST_CASE("a length advanced past the table is reported, and nothing beyond the table is read or written") {
  case_config config = one_sequence(64, 20);
  config.batch.push_back({20, 1, 1, 2});
  device_case<host_backend, f16> batch(config);
  batch.tables.device_lengths()[0] = 33;  // the first sequence has two blocks; the second's table follows
  batch.tables.plan_on_device();
#if PAGODA_CHECK_TABLES
  CHECK_NOTHROW(batch.run());
  CHECK_THROWS_WITH_AS(batch.tables.check(), doctest::Contains("logical block 2 of batch entry 0, which its table has"),
                       pagoda::out_of_range);
#endif
}

TEST_CASE("options' memory is there and aligned") {
  device_case<host_backend, f16> batch(one_sequence());
  const auto with = [&](const pagoda::attention_options& options) {
    return [&batch, options] {
      pagoda::cuda::attention<host_backend>(batch.view, batch.query_rows(),
                                            pagoda::rows_view<float>(batch.queries.span(), batch.host.output_shape()),
                                            options);
    };
  };
  std::vector<float> numbers(5);
  float* odd = reinterpret_cast<float*>(reinterpret_cast<std::byte*>(numbers.data()) + 2);
  float* null = nullptr;
  refused(with({.lse = std::span<float>(null, 4)}), "lse is a null pointer with a size");
  refused(with({.sink_logits = std::span<const float>(null, 4)}), "sink_logits is a null pointer with a size");
  refused(with({.alibi_slopes = std::span<const float>(null, 4)}), "alibi_slopes is a null pointer with a size");
  refused(with({.lse = std::span<float>(odd, 4)}), "lse does not begin on a multiple of 4 bytes");
}

}  // namespace
