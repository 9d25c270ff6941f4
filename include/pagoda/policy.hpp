// SPDX-License-Identifier: Apache-2.0
/// @file Named options in any order to one canonical type; lists of types, and the choice among them at run time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <pagoda/error.hpp>
#include <pagoda/fwd.hpp>

namespace pagoda {

/// Option of cache<...>: tokens of a block.
template <std::int32_t Tokens>
struct block_size {
  static_assert(Tokens >= 1 && Tokens <= 65536 && (Tokens & (Tokens - 1)) == 0,
                "pagoda: block_size<N> takes a power of two from 1 to 65536, such as 16 or 32");
  static constexpr std::int32_t value = Tokens;
};

/// Option of cache<...>: the quantizer of the keys alone.
template <class Quantizer>
struct keys {
  using type = Quantizer;
};

/// Option of cache<...>: the quantizer of the values alone.
template <class Quantizer>
struct values {
  using type = Quantizer;
};

/// Option of cache<...>, and value policy of block_storage: the values are the first Elements elements of the key rows,
/// and no value rows are stored. It is how multi-head latent attention keeps 512 latent elements, which are keys and
/// values, and 64 rotary ones in key rows of 576.
template <std::int32_t Elements>
struct values_in_keys {
  static_assert(Elements >= 8 && Elements <= 576 && Elements % 8 == 0,
                "pagoda: values_in_keys<N> takes a multiple of 8 from 8 to 576, such as 512");
  static constexpr std::int32_t value = Elements;
  using type = values_in_keys;
};

template <class... Types>
struct type_list {
  static constexpr int size = static_cast<int>(sizeof...(Types));
};

/// What a visitor of dispatch() receives: `typename decltype(tag)::type` is the chosen type.
template <class T>
struct type_tag {
  using type = T;
};

/// Calls visit(type_tag<T>) for the type of the list whose T::name is `name`, and returns what it returns.
/// Throws: invalid_argument, with all the names, if none fits.
template <class First, class... Rest, class Visitor>
decltype(auto) dispatch(type_list<First, Rest...>, std::string_view name, Visitor&& visit) {
  if (name == First::name) return visit(type_tag<First>{});
  if constexpr (sizeof...(Rest) > 0) {
    if (((name == Rest::name) || ...)) return dispatch(type_list<Rest...>{}, name, std::forward<Visitor>(visit));
  }
  std::string known(First::name);
  ((known += ", " + std::string(Rest::name)), ...);
  detail::fail("no type is named \"", name, "\": choose one of ", known);
}

namespace detail {

template <class T>
inline constexpr bool is_block_size_v = false;
template <std::int32_t N>
inline constexpr bool is_block_size_v<block_size<N>> = true;
template <class T>
inline constexpr bool is_keys_v = false;
template <class Q>
inline constexpr bool is_keys_v<keys<Q>> = true;
template <class T>
inline constexpr bool is_values_v = false;
template <class Q>
inline constexpr bool is_values_v<values<Q>> = true;
template <std::int32_t N>
inline constexpr bool is_values_v<values_in_keys<N>> = true;

/// The quantizer that a storage's values are coded with, and how many elements of a key row they are: 0 if they have
/// rows of their own.
template <class KeyQuantizer, class ValuePolicy>
struct value_policy {
  using quantizer = ValuePolicy;
  static constexpr std::int32_t elements_of_key = 0;
};
template <class KeyQuantizer, std::int32_t N>
struct value_policy<KeyQuantizer, values_in_keys<N>> {
  using quantizer = KeyQuantizer;
  static constexpr std::int32_t elements_of_key = values_in_keys<N>::value;
};

/// The first of Options for which Is<Option> holds, or Default.
template <template <class> class Is, class Default, class... Options>
struct find_option {
  using type = Default;
};
template <template <class> class Is, class Default, class First, class... Rest>
struct find_option<Is, Default, First, Rest...> {
  using type = typename std::conditional_t<Is<First>::value, type_tag<First>, find_option<Is, Default, Rest...>>::type;
};

template <template <class> class Is, class... Options>
inline constexpr int count_options_v = (0 + ... + (Is<Options>::value ? 1 : 0));

}  // namespace detail
}  // namespace pagoda
