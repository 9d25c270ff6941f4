// SPDX-License-Identifier: Apache-2.0
// Named options resolve to one canonical type in any order; a type is chosen by name at run time.
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include <doctest/doctest.h>
#include <pagoda/cache.hpp>
#include <pagoda/layout/tokens_heads_dim.hpp>
#include <pagoda/memory/borrowed.hpp>
#include <pagoda/quantizer/fp8_e4m3.hpp>
#include <pagoda/quantizer/int4_per_token.hpp>
#include <pagoda/quantizer/int8_per_token.hpp>

#include "policy_products.hpp"

namespace {

using namespace pagoda;
using pagoda_test::user_chunked;
using pagoda_test::user_int4;

TEST_CASE("options in any order are the same type") {
  using canonical = basic_cache<int8_per_token, int8_per_token, tokens_heads_dim, block_size<32>, borrowed_memory>;
  CHECK(std::is_same_v<cache<int8_per_token, tokens_heads_dim, block_size<32>, borrowed_memory>, canonical>);
  CHECK(std::is_same_v<cache<borrowed_memory, block_size<32>, tokens_heads_dim, int8_per_token>, canonical>);
  CHECK(std::is_same_v<cache<tokens_heads_dim, borrowed_memory, int8_per_token, block_size<32>>, canonical>);
  CHECK(std::is_same_v<
        cache<keys<int8_per_token>, values<int8_per_token>, block_size<32>, borrowed_memory, tokens_heads_dim>,
        canonical>);
}

TEST_CASE("what is not named takes its default") {
  CHECK(std::is_same_v<cache<>, basic_cache<>>);
  CHECK(std::is_same_v<cache<>,
                       basic_cache<identity<half>, identity<half>, heads_tokens_dim, block_size<16>, host_memory>>);
  CHECK(std::is_same_v<cache<block_size<64>>,
                       basic_cache<identity<half>, identity<half>, heads_tokens_dim, block_size<64>, host_memory>>);
  CHECK(std::is_same_v<block_storage<>, cache<>::storage_type>);
}

TEST_CASE("keys and values may be named apart, alone or beside a quantizer for both") {
  using apart = basic_cache<int8_per_token, user_int4>;
  CHECK(std::is_same_v<cache<keys<int8_per_token>, values<user_int4>>, apart>);
  CHECK(std::is_same_v<cache<values<user_int4>, keys<int8_per_token>>, apart>);
  CHECK(std::is_same_v<cache<values<user_int4>, int8_per_token>, apart>);
  CHECK(std::is_same_v<cache<user_int4, keys<int8_per_token>>, apart>);
  CHECK(std::is_same_v<cache<keys<int8_per_token>>, basic_cache<int8_per_token, identity<half>>>);
  CHECK(std::is_same_v<cache<values<int8_per_token>>, basic_cache<identity<half>, int8_per_token>>);
  CHECK_FALSE(std::is_same_v<cache<keys<user_int4>, values<int8_per_token>>, apart>);
}

TEST_CASE("a user's own policies are options like the built-in ones") {
  CHECK(std::is_same_v<cache<user_chunked, user_int4>, basic_cache<user_int4, user_int4, user_chunked>>);
  CHECK(cache<user_chunked, block_size<1>>::block_size == 1);
}

using dtypes =
    type_list<identity<float>, identity<half>, identity<bfloat16>, fp8_e4m3, int8_per_token, int4_per_token, user_int4>;

TEST_CASE("every quantizer and layout has a stable name") {
  CHECK(identity<float>::name == "float");
  CHECK(identity<half>::name == "half");
  CHECK(identity<bfloat16>::name == "bfloat16");
  CHECK(int8_per_token::name == "int8");
  CHECK(int4_per_token::name == "int4");
  CHECK(fp8_e4m3::name == "fp8_e4m3");
  CHECK(heads_tokens_dim::name == "heads_tokens_dim");
  CHECK(tokens_heads_dim::name == "tokens_heads_dim");
  CHECK(dtypes::size == 7);
  CHECK(type_list<>::size == 0);
}

TEST_CASE("dispatch visits the type of the given name, and returns what the visitor returns") {
  const auto bits_of = [](std::string_view name) {
    return dispatch(dtypes{}, name, [](auto tag) { return int{decltype(tag)::type::bits}; });
  };
  CHECK(bits_of("float") == 32);
  CHECK(bits_of("bfloat16") == 16);
  CHECK(bits_of("int8") == 8);
  CHECK(bits_of("int4") == 4);
  CHECK(bits_of("fp8_e4m3") == 8);
  CHECK(bits_of("user_int4") == 4);
  int calls = 0;
  dispatch(dtypes{}, "half", [&]<class T>(type_tag<T>) {
    ++calls;
    CHECK(std::is_same_v<T, identity<half>>);
  });
  CHECK(calls == 1);
}

TEST_CASE("a name that no type has is refused with all the names") {
  for (const char* name : {"fp8", "", "Half", "int8 "}) {
    CHECK_THROWS_WITH_AS(dispatch(dtypes{}, name, [](auto) {}),
                         doctest::Contains(("no type is named \"" + std::string(name) +
                                            "\": choose one of float, half, bfloat16, fp8_e4m3, int8, int4, user_int4")
                                               .c_str()),
                         pagoda::invalid_argument);
  }
}

}  // namespace
