// SPDX-License-Identifier: Apache-2.0
// kernels::append on the host context: the bytes of host::append, for every policy, and not one byte besides.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <tuple>
#include <vector>

#include <doctest/doctest.h>
#include <pagoda/block_manager.hpp>
#include <pagoda/kernels/append.hpp>
#include <pagoda/simt/host_context.hpp>

#include "append_case.hpp"
#include "attention_case.hpp"
#include "policy_products.hpp"

namespace {

using pagoda::bfloat16;
using pagoda::half;
using pagoda::num_blocks;
using pagoda::pool_order;
using pagoda::simt::host_machine;
using pagoda_test::append_on;
using pagoda_test::bytes_of;
using pagoda_test::count_differences;
using pagoda_test::spread_rows;

constexpr pagoda::storage_shape shape{.layers = 2, .kv_heads = 3, .head_dim = 48, .value_head_dim = 80};

constexpr std::int32_t blocks_for(std::int32_t block_size) {
  return 128 / block_size + 8;
}

pagoda::block_manager make_manager(std::int32_t block_size) {
  return pagoda::block_manager(
      {.groups = {{.num_blocks = blocks_for(block_size)}}, .block_size = block_size, .max_sequences = 64});
}

/// Bell-shaped numbers that depend on the arguments alone.
float normal(std::uint64_t seed, std::int64_t token, std::int64_t head, std::int64_t d) {
  return pagoda_test::noise(seed, 0, token, head, d);
}

/// Appends the same rows to two storages, by host::append and by the kernel, and counts the bytes that differ.
template <class K, class V, class View>
std::size_t differences(host_machine& machine, const View& by_host, std::span<const std::byte> host_bytes,
                        const View& by_kernel, std::span<const std::byte> kernel_bytes) {
  const std::int64_t tokens = by_host.batch.total_new_tokens();
  const spread_rows<K> keys(tokens, 3, by_host.kv_heads, by_host.key_dim, [](auto... at) { return normal(1, at...); });
  const spread_rows<V> values(tokens, 3, by_host.kv_heads, by_host.value_dim,
                              [](auto... at) { return normal(2, at...); });
  pagoda::host::append(by_host, keys.rows(), values.rows());
  pagoda_test::clear_row_padding(by_host);
  append_on(machine, by_kernel, keys.erased(), values.erased());
  return count_differences(host_bytes, kernel_bytes);
}

TEST_CASE_TEMPLATE_DEFINE("a ragged batch: the bytes of host::append, over strided and padded rows", T, same_bytes) {
  host_machine machine;
  for (const std::int32_t block_size : pagoda_test::block_sizes) {
    for (const pool_order order : {pool_order::by_layer, pool_order::by_block}) {
      const typename T::storage by_host(shape, block_size, num_blocks{blocks_for(block_size)}, order);
      const typename T::storage by_kernel(shape, block_size, num_blocks{blocks_for(block_size)}, order);
      pagoda_test::fill(bytes_of(by_host), pagoda_test::poison::ones);
      pagoda_test::fill(bytes_of(by_kernel), pagoda_test::poison::ones);
      pagoda::block_manager manager = make_manager(block_size);
      const pagoda::sequence s[] = {manager.make_sequence(), manager.make_sequence(), manager.make_sequence(),
                                    manager.make_sequence()};
      manager.plan({{s[1], 21}, {s[0], 5}}).commit();
      const pagoda::step step = manager.plan({{s[0], 17}, {s[1], 1}, {s[2], 0}, {s[3], 9}});
      const auto compare = [&](auto key, auto value) {
        return differences<decltype(key), decltype(value)>(machine, by_host.view(1, step), bytes_of(by_host),
                                                           by_kernel.view(1, step), bytes_of(by_kernel));
      };
      CHECK(count_differences(bytes_of(by_host), bytes_of(by_kernel)) == 0);
      CHECK((block_size == 1    ? compare(float{}, half{})
             : block_size == 16 ? compare(half{}, bfloat16{})
                                : compare(bfloat16{}, float{})) == 0);
    }
  }
}
TEST_CASE_TEMPLATE_APPLY(same_bytes, pagoda_test::all_products);

/// A quantizer for codes and scales of any size: linear codes between the row's smallest and largest element.
template <int Bits, int Group, class Scale>
struct sized {
  using scale_type = Scale;
  static constexpr std::string_view name = "sized";
  static constexpr int bits = Bits;
  static constexpr int group = Group;
  static constexpr float levels = Bits == 4 ? 15.0f : 255.0f;

  static scale_type fit(pagoda::row_stats stats) {
    using element = std::remove_cvref_t<decltype(scale_type{}.scale)>;
    scale_type scale{};
    scale.scale = pagoda::from_float<element>((stats.max - stats.min) / levels);
    if constexpr (requires { scale.offset; }) scale.offset = pagoda::from_float<element>(stats.min);
    return scale;
  }
  static std::uint32_t encode(float value, scale_type scale) {
    const float step = pagoda::scale_of(scale);
    const float level = step > 0 ? (value - pagoda::offset_of(scale)) / step : 0.0f;
    const auto code = static_cast<std::uint32_t>(pagoda_test::nearest_level(level, 0.0f, levels));
    return Bits == 32 ? code * 0x01010101u : Bits == 16 ? code * 0x0101u : code;
  }
  static float codeword(std::uint32_t code) { return static_cast<float>(Bits == 4 ? code & 15u : code & 255u); }
};

using half_scale = pagoda::linear_scale<half>;
using float_scale = pagoda::linear_scale<float>;
using half_pair = pagoda::affine_scale<half>;
using float_pair = pagoda::affine_scale<float>;

template <class Keys, class Values, std::int32_t KeyDim = 288, std::int32_t ValueDim = 576>
struct pair_of {
  using keys = Keys;
  using values = Values;
  static constexpr pagoda::storage_shape shape{.kv_heads = 3, .head_dim = KeyDim, .value_head_dim = ValueDim};
};

// Scales of 2, 4 and 8 bytes beside one another, so that the larger ones are not aligned to their size; groups that
// lanes share, that lie within a lane, that are cut by lanes, and that are longer than 128 elements.
TEST_CASE_TEMPLATE("groups and scales of every size", T, pair_of<sized<4, 16, half_scale>, sized<4, 48, float_pair>>,
                   pair_of<sized<4, 32, float_pair>, sized<4, 96, half_scale>>,
                   pair_of<sized<8, 32, half_pair>, sized<8, 48, half_scale>>,
                   pair_of<sized<8, 16, half_scale>, sized<16, 16, float_pair>>,
                   pair_of<sized<16, 0, float_pair>, sized<16, 32, half_scale>>,
                   pair_of<sized<32, 0, half_scale>, sized<32, 96, float_scale>>,
                   pair_of<sized<8, 288, float_scale>, sized<4, 0, half_scale>>,
                   pair_of<sized<8, 256, float_scale>, sized<16, 256, half_scale>, 256, 512>,
                   pair_of<sized<8, 128, half_pair>, sized<4, 256, half_scale>, 128, 512>,
                   pair_of<pagoda_test::f16, sized<16, 64, half_pair>>,
                   pair_of<sized<8, 96, float_scale>, pagoda_test::bf16>) {
  using storage = pagoda::block_storage<typename T::keys, typename T::values, pagoda_test::user_chunked>;
  host_machine machine;
  for (const std::int32_t block_size : {1, 4}) {
    const storage by_host(T::shape, block_size, num_blocks{40});
    const storage by_kernel(T::shape, block_size, num_blocks{40});
    pagoda_test::fill(bytes_of(by_host), pagoda_test::poison::ones);
    pagoda_test::fill(bytes_of(by_kernel), pagoda_test::poison::ones);
    pagoda::block_manager manager({.groups = {{.num_blocks = 40}}, .block_size = block_size, .max_sequences = 8});
    const pagoda::sequence a = manager.make_sequence();
    const pagoda::sequence b = manager.make_sequence();
    const pagoda::step step = manager.plan({{a, 5}, {b, 2}});
    CHECK(differences<float, half>(machine, by_host.view(0, step), bytes_of(by_host), by_kernel.view(0, step),
                                   bytes_of(by_kernel)) == 0);
  }
}

TEST_CASE_TEMPLATE_DEFINE("head dims from 8 to 576, whole chunks or not", Q, head_dims) {
  host_machine machine;
  for (const std::int32_t dim : {8, 16, 24, 40, 64, 80, 104, 128, 136, 192, 256, 264, 512, 568, 576}) {
    if (Q::group > 0 && dim % 16 != 0) continue;
    const pagoda::storage_shape one{.kv_heads = 1, .head_dim = dim, .value_head_dim = 576 - (dim - 8) / 16 * 16};
    const pagoda::block_storage<Q> by_host(one, 4, num_blocks{8});
    const pagoda::block_storage<Q> by_kernel(one, 4, num_blocks{8});
    pagoda_test::fill(bytes_of(by_host), pagoda_test::poison::ones);
    pagoda_test::fill(bytes_of(by_kernel), pagoda_test::poison::ones);
    pagoda::block_manager manager({.groups = {{.num_blocks = 8}}, .block_size = 4, .max_sequences = 8});
    const pagoda::sequence sequence = manager.make_sequence();
    const pagoda::step step = manager.plan({{sequence, 5}});
    const std::size_t wrong = differences<half, float>(machine, by_host.view(0, step), bytes_of(by_host),
                                                       by_kernel.view(0, step), bytes_of(by_kernel));
    CHECK_MESSAGE(wrong == 0, "head_dim ", dim);
  }
}
TEST_CASE_TEMPLATE_APPLY(head_dims, pagoda_test::all_quantizers);

constexpr float infinity = std::numeric_limits<float>::infinity();

/// Rows that statistics and rounding find hard; `kind` counts them.
constexpr std::int64_t hard_kinds = 16;
float hard_value(std::int64_t kind, std::int64_t dim, std::int64_t d) {
  const float x = normal(3, kind, 0, d);
  switch (kind) {
    case 0:
      return 0.0f;
    case 1:
      return -0.0f;
    case 2:
      return d == 0 ? -0.0f : 0.0f;
    case 3:
      return d == dim - 1 ? -0.0f : 0.0f;
    case 4:
      return d % 3 == 0 ? -0.0f : std::fabs(x);  // the smallest is a zero, and negative
    case 5:
      return d % 5 == 3 ? 0.0f : d == 4 ? -0.0f : -std::fabs(x);  // the largest is a zero
    case 6:
      return d == 17 ? 0.0f : d == 32 ? -0.0f : std::fabs(x);  // of two accumulators
    case 7:
      return x * 0x1p-140f;
    case 8:
      return d == 0 ? 0x1p-149f : 0.0f;
    case 9:
      return x * 0x1p-126f;
    case 10:
      return d % 2 == 0 ? 3.4028235e38f : -3.4028235e38f;
    case 11:
      return d == dim / 2 ? infinity : x;
    case 12:
      return d == dim - 1 ? -infinity : d == 1 ? infinity : x;
    case 13:
      return 2.5f;
    case 14:
      return x * 70000.0f;
    default:
      return d == dim - 3 ? 1e9f : x * 1e-6f;
  }
}

TEST_CASE_TEMPLATE_DEFINE("rows of zeros, denormals, infinities and outliers: the bytes of host::append", Q,
                          hard_rows) {
  host_machine machine;
  for (const std::int32_t dim : {16, 48, 72, 576}) {
    if (Q::group > 0 && dim % 16 != 0) continue;
    const pagoda::storage_shape one{.kv_heads = 1, .head_dim = dim};
    const pagoda::block_storage<Q> by_host(one, 1, num_blocks{hard_kinds});
    const pagoda::block_storage<Q> by_kernel(one, 1, num_blocks{hard_kinds});
    pagoda_test::fill(bytes_of(by_host), pagoda_test::poison::ones);
    pagoda_test::fill(bytes_of(by_kernel), pagoda_test::poison::ones);
    pagoda::block_manager manager({.groups = {{.num_blocks = hard_kinds}}, .block_size = 1, .max_sequences = 2});
    const pagoda::sequence sequence = manager.make_sequence();
    const pagoda::step step = manager.plan({{sequence, hard_kinds}});
    const auto value = [&](std::int64_t token, std::int64_t, std::int64_t d) { return hard_value(token, dim, d); };
    const spread_rows<float> keys(hard_kinds, 0, 1, dim, value);
    const spread_rows<bfloat16> values(hard_kinds, 0, 1, dim, value);
    pagoda::host::append(by_host.view(0, step), keys.rows(), values.rows());
    pagoda_test::clear_row_padding(by_host.view(0, step));
    append_on(machine, by_kernel.view(0, step), keys.erased(), values.erased());
    for (std::int32_t kind = 0; kind < hard_kinds; ++kind) {
      const pagoda::block_id block = manager.blocks(sequence)[static_cast<std::size_t>(kind)];
      CHECK_MESSAGE(pagoda_test::stored_slot(by_host.layer_view(0), block, 0) ==
                        pagoda_test::stored_slot(by_kernel.layer_view(0), block, 0),
                    "rows of kind ", kind, ", head_dim ", dim);
    }
    CHECK(count_differences(bytes_of(by_host), bytes_of(by_kernel)) == 0);
  }
}
TEST_CASE_TEMPLATE_APPLY(hard_rows, pagoda_test::all_quantizers);

/// The values that a slot decodes to, codes of NaN included.
template <class Q>
std::vector<float> decoded(const pagoda::cache_view<Q, Q>& layer, pagoda::block_id block) {
  const std::vector<std::byte> bytes = pagoda_test::stored_slot(layer, block, 0, 0);
  const std::int64_t codes = pagoda::code_bytes<Q>(layer.key_dim);
  std::vector<float> result(static_cast<std::size_t>(layer.key_dim));
  pagoda::row_codec<Q>::decode(bytes.data(), bytes.data() + 2 * codes, layer.key_dim, result.data());
  return result;
}

TEST_CASE_TEMPLATE_DEFINE("a NaN anywhere in a row: NaN where host::append has one, in no other row", Q, nan_rows) {
  constexpr std::int32_t dim = 144;
  constexpr std::int32_t tokens = 7;
  constexpr std::int64_t places[] = {-1, 0, 7, 15, 40, 127, 143};  // of the NaN of each row
  const pagoda::storage_shape one{.kv_heads = 1, .head_dim = dim};
  const pagoda::block_storage<Q> by_host(one, 1, num_blocks{tokens});
  const pagoda::block_storage<Q> by_kernel(one, 1, num_blocks{tokens});
  pagoda::block_manager manager({.groups = {{.num_blocks = tokens}}, .block_size = 1, .max_sequences = 2});
  const pagoda::sequence sequence = manager.make_sequence();
  const pagoda::step step = manager.plan({{sequence, tokens}});
  const auto value = [&](std::int64_t token, std::int64_t, std::int64_t d) {
    return d == places[token] ? std::nanf("") : normal(4, token, 0, d);
  };
  const spread_rows<float> keys(tokens, 0, 1, dim, value);
  const spread_rows<half> values(tokens, 0, 1, dim, value);
  pagoda::host::append(by_host.view(0, step), keys.rows(), values.rows());
  host_machine machine;
  append_on(machine, by_kernel.view(0, step), keys.erased(), values.erased());
  for (std::size_t token = 0; token < tokens; ++token) {
    const pagoda::block_id block = manager.blocks(sequence)[token];
    const std::vector<float> expected = decoded(by_host.layer_view(0), block);
    const std::vector<float> got = decoded(by_kernel.layer_view(0), block);
    std::int64_t nans = 0;
    for (std::size_t d = 0; d < expected.size(); ++d) {
      nans += std::isnan(expected[d]);
      CHECK((got[d] == expected[d] || (std::isnan(got[d]) && std::isnan(expected[d]))));
    }
    CHECK((nans > 0) == (token > 0));
  }
}
TEST_CASE_TEMPLATE_APPLY(nan_rows, pagoda_test::all_quantizers);

}  // namespace
