// SPDX-License-Identifier: Apache-2.0
// Host attention over every quantizer of the library, as keys and values, and over pairs of different ones: one query,
// a few, and so many that they are computed as a matrix product.
#include <cstdint>
#include <tuple>

#include <doctest/doctest.h>
#include <pagoda/quantizer/built_in.hpp>

#include "attention_case.hpp"

namespace {

using pagoda_test::attention_case;
using pagoda_test::attention_error;
using pagoda_test::bound_of;
using pagoda_test::case_config;

/// A sequence and its queries. Times query_group rows of a kv head: 4, 12 and 36.
struct shape_of_call {
  std::int32_t context;
  std::int32_t new_tokens;
  std::int32_t queries;
  bool causal;
};
constexpr std::int32_t query_group = 4;
constexpr shape_of_call calls[] = {{1, 1, 1, true},    {577, 1, 1, true},   {70, 3, 3, true},
                                   {150, 3, 3, false}, {131, 9, 9, true},   {64, 64, 9, true},
                                   {100, 0, 9, false}, {520, 7, 11, false}, {12, 12, 12, true}};

template <class Keys, class Values>
void check_calls(std::int32_t key_dim, std::int32_t value_dim) {
  CAPTURE(Keys::name);
  CAPTURE(Values::name);
  CAPTURE(key_dim);
  CAPTURE(value_dim);
  for (const shape_of_call& call : calls) {
    CAPTURE(call.context);
    CAPTURE(call.queries);
    CAPTURE(call.causal);
    const attention_case<Keys, Values> batch(
        {.shape = {.kv_heads = 2, .head_dim = key_dim, .value_head_dim = value_dim},
         .query_group = query_group,
         .batch = {{call.context, call.new_tokens, call.queries, 11}}});
    const attention_error error = batch.error({.causal = call.causal});
    CHECK(error.output < (attention_case<Keys, Values>::bound));
    CHECK(error.lse < bound_of<Keys>);
  }
}

/// A list's types as those of a tuple, which TEST_CASE_TEMPLATE_APPLY wants.
template <class List>
struct as_tuple;
template <class... Quantizers>
struct as_tuple<pagoda::type_list<Quantizers...>> {
  using type = std::tuple<Quantizers...>;
};
using every_built_in = as_tuple<pagoda::built_in_quantizers>::type;

TEST_CASE_TEMPLATE_DEFINE("every quantizer of the library agrees with the reference", Q, every_quantizer) {
  check_calls<Q, Q>(64, 96);
  check_calls<Q, Q>(96, 64);
  if constexpr (Q::group == 0) check_calls<Q, Q>(80, 80);
}
TEST_CASE_TEMPLATE_APPLY(every_quantizer, every_built_in);

template <class Keys, class Values>
struct of_two {
  using keys = Keys;
  using values = Values;
};

TEST_CASE_TEMPLATE("keys and values of different quantizers agree with the reference", T,
                   of_two<pagoda_test::rotated<pagoda_test::int4>, pagoda_test::int8>,
                   of_two<pagoda_test::f16, pagoda_test::rotated<pagoda_test::int4>>,
                   of_two<pagoda_test::int8g32, pagoda_test::int4>,
                   of_two<pagoda_test::rotated<pagoda_test::int8>, pagoda_test::int4g32>) {
  check_calls<typename T::keys, typename T::values>(64, 96);
  check_calls<typename T::keys, typename T::values>(96, 64);
}

TEST_CASE("the bounds that these tests hold quantizers to are those of host/attention.hpp") {
  CHECK(bound_of<pagoda_test::f16> == 2e-5);
  CHECK(bound_of<pagoda_test::fp8> == 2e-5);
  CHECK(bound_of<pagoda_test::int8g32> == 2e-5);
  CHECK(bound_of<pagoda_test::int8> == 2e-4);
  CHECK(bound_of<pagoda_test::rotated<pagoda_test::int8>> == 2e-4);
  CHECK(bound_of<pagoda_test::int4> == 1e-3);
  CHECK(bound_of<pagoda_test::rotated<pagoda_test::int4>> == 1e-3);
}

}  // namespace
