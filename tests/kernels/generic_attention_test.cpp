// SPDX-License-Identifier: Apache-2.0
// The generic attention kernel against the reference: every quantizer; lengths, groups, block sizes, dims, layouts.
#include <cstdint>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "generic_kernel.hpp"

namespace {

using pagoda_test::attention_case;
using pagoda_test::attention_error;
using pagoda_test::batch_entry;
using pagoda_test::case_config;
using pagoda_test::generic_error;

template <class Case>
void check_within_bound(const Case& batch, const pagoda::attention_options& options = {}) {
  const attention_error error = generic_error(batch, options);
  CHECK(error.output < Case::bound);
  CHECK(error.lse < Case::bound);
}

template <class Keys, class Values, std::int32_t KeyDim, std::int32_t ValueDim, class Layout>
struct pair {
  using type = attention_case<Keys, Values, Layout>;
  static constexpr pagoda::storage_shape shape{.kv_heads = 2, .head_dim = KeyDim, .value_head_dim = ValueDim};
};
template <class Quantizer, std::int32_t KeyDim, std::int32_t ValueDim, class Layout>
using alike = pair<Quantizer, Quantizer, KeyDim, ValueDim, Layout>;

#define EVERY_PAIR                                                                        \
  alike<pagoda_test::f32, 128, 128, pagoda::heads_tokens_dim>,                            \
      alike<pagoda_test::f16, 128, 40, pagoda::tokens_heads_dim>,                         \
      alike<pagoda_test::bf16, 72, 72, pagoda_test::user_chunked>,                        \
      alike<pagoda_test::int8, 40, 128, pagoda::heads_tokens_dim>,                        \
      alike<pagoda_test::int4, 96, 80, pagoda_test::user_chunked>,                        \
      alike<pagoda_test::fp8, 64, 64, pagoda::tokens_heads_dim>,                          \
      alike<pagoda_test::user_int8, 8, 24, pagoda::tokens_heads_dim>,                     \
      alike<pagoda_test::user_int4, 64, 40, pagoda_test::user_chunked>,                   \
      alike<pagoda_test::user_int8_grouped, 96, 48, pagoda::heads_tokens_dim>,            \
      pair<pagoda_test::int8, pagoda_test::f16, 96, 64, pagoda_test::user_chunked>,       \
      pair<pagoda_test::user_int4, pagoda_test::bf16, 40, 128, pagoda::heads_tokens_dim>, \
      alike<pagoda_test::user_wide_scale, 64, 32, pagoda::tokens_heads_dim>,              \
      pair<pagoda_test::user_narrow_scale, pagoda_test::user_wide_scale, 72, 48, pagoda::heads_tokens_dim>

TEST_CASE_TEMPLATE("decode agrees with the reference at every edge of block and chunk", T, EVERY_PAIR) {
  case_config config{.shape = T::shape, .query_group = 2, .batch = {{0, 0, 1}}};
  for (const std::int32_t length : {1, 15, 16, 17, 31, 33, 511, 512, 513, 1025}) {
    config.batch.push_back({length, 1, -1, static_cast<std::uint64_t>(length)});
  }
  check_within_bound(typename T::type(config));
}

TEST_CASE_TEMPLATE("decode of several queries, prefill, cross-attention and empty sequences agree in one batch", T,
                   EVERY_PAIR) {
  const std::vector<batch_entry> batch{{515, 9, -1, 1}, {0, 0, 2, 2},  {50, 50, 3, 3},  {1, 1, -1, 4}, {30, 30, -1, 5},
                                       {530, 0, 7, 6},  {48, 5, 0, 7}, {60, 20, 25, 8}, {0, 0, 12, 9}};
  for (const std::int32_t block_size : {1, 16, 64}) {
    CAPTURE(block_size);
    const case_config config{.shape = T::shape, .block_size = block_size, .query_group = 3, .batch = batch};
    check_within_bound(typename T::type(config), {.causal = block_size != 16});
  }
}

TEST_CASE_TEMPLATE("every group size agrees with the reference", T, EVERY_PAIR) {
  for (const std::int32_t group : {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 32}) {
    CAPTURE(group);
    const case_config config{.shape = T::shape, .query_group = group, .batch = {{40, 3, -1, 1}, {17, 1, -1, 2}}};
    check_within_bound(typename T::type(config));
  }
}

TEST_CASE("every dim agrees with the reference, of keys and of values") {
  for (std::int32_t dim = 8; dim <= 576; dim += dim < 80 ? 8 : 8 * (dim % 5 + 4)) {
    CAPTURE(dim);
    for (const auto& [key_dim, value_dim] : {std::pair{dim, 16}, std::pair{24, dim}, std::pair{dim, dim}}) {
      const case_config config{.shape = {.kv_heads = 1, .head_dim = key_dim, .value_head_dim = value_dim},
                               .query_group = 5,
                               .batch = {{70, 1, -1, 1}}};
      check_within_bound(attention_case<pagoda_test::f32>(config));
      check_within_bound(attention_case<pagoda_test::int4>(config));
    }
  }
  // Where the kernel changes from one way to hold rows in registers to the other.
  for (const auto& [key_dim, value_dim] :
       {std::pair{256, 256}, std::pair{264, 256}, std::pair{256, 264}, std::pair{576, 576}}) {
    const case_config config{.shape = {.kv_heads = 1, .head_dim = key_dim, .value_head_dim = value_dim},
                             .query_group = 11,
                             .batch = {{40, 2, -1, 1}, {560, 1, -1, 2}, {30, 12, -1, 3}}};
    check_within_bound(attention_case<pagoda_test::f16>(config));
    check_within_bound(attention_case<pagoda_test::f32>(config));
    check_within_bound(attention_case<pagoda_test::user_int8>(config));
  }
}

/// Latent attention: one kv head of 576 elements, of which the first 512 are the values.
template <class Quantizer>
void check_values_in_keys(std::int32_t group) {
  attention_case<Quantizer> batch({.shape = {.kv_heads = 1, .head_dim = 576, .value_head_dim = 512},
                                   .query_group = group,
                                   .batch = {{45, 1, -1, 1}, {520, 2, -1, 2}, {13, 13, -1, 3}}});
  batch.view.values = batch.view.keys;
  batch.view.value_scales = batch.view.key_scales;
  check_within_bound(batch);
}

TEST_CASE("values may be the beginning of the keys") {
  check_values_in_keys<pagoda_test::f16>(16);
  check_values_in_keys<pagoda_test::f32>(3);
  check_values_in_keys<pagoda_test::int8>(1);
  check_values_in_keys<pagoda_test::user_int8_grouped>(2);
}

TEST_CASE("any block size agrees, and any number of blocks of the grid gives the same bits") {
  const std::vector<batch_entry> batch{{530, 2, -1, 1}, {40, 12, -1, 2}, {17, 1, -1, 3}};
  pagoda::simt::host_machine machine;
  for (const std::int32_t block_size : {1, 2, 4, 8, 32, 128, 1024, 65536}) {
    CAPTURE(block_size);
    const attention_case<pagoda_test::user_int8> one(
        {.shape = {.kv_heads = 2, .head_dim = 16}, .block_size = block_size, .query_group = 2, .batch = batch});
    check_within_bound(one);
    const pagoda_test::attention_result expected = pagoda_test::run_generic(one, {}, machine);
    for (const std::int64_t grid : {1, 2, 3, 7, 1000})
      CHECK(pagoda_test::run_generic(one, {}, machine, grid) == expected);
  }
}

}  // namespace
