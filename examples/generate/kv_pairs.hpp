// SPDX-License-Identifier: Apache-2.0
/// @file Which types of keys and values the program is built with, and the storage of one such pair.
///
/// Each pair is compiled by itself, attention included. All quantizers of the library are there for keys and values
/// alike; where keys and values differ, some of each.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <type_traits>

#include <pagoda/pagoda.hpp>
#include <pagoda/quantizer/built_in.hpp>

#include "error.hpp"
#include "kv_storage.hpp"

using kv_types = pagoda::built_in_quantizers;

/// Keys that go with values of another type, and those values. Keys need more bits, and it is keys that have outliers.
using keys_apart =
    pagoda::type_list<pagoda::identity<pagoda::half>, pagoda::fp8_e4m3, pagoda::int8_per_token,
                      pagoda::hadamard<pagoda::int8_per_token>, pagoda::hadamard<pagoda::int4_per_token>>;
using values_apart = pagoda::type_list<pagoda::identity<pagoda::half>, pagoda::int8_per_token, pagoda::int4_per_token,
                                       pagoda::int4_grouped<32>>;

using kv_layouts = pagoda::type_list<pagoda::heads_tokens_dim, pagoda::tokens_heads_dim>;

template <class List, class T>
inline constexpr bool contains_v = false;
template <class... Types, class T>
inline constexpr bool contains_v<pagoda::type_list<Types...>, T> = (std::is_same_v<Types, T> || ...);

/// "a, b, c", the names of a list's types.
template <class First, class... Rest>
std::string names_of(pagoda::type_list<First, Rest...>) {
  std::string names(First::name);
  ((names += ", " + std::string(Rest::name)), ...);
  return names;
}

/// The interface over one type of storage.
template <class Keys, class Values, class Layout>
class typed_storage final : public kv_storage {
 public:
  typed_storage(const pagoda::storage_shape& shape, std::int32_t block_size, pagoda::num_blocks blocks)
      : storage_(shape, block_size, blocks) {}

  void execute(const pagoda::copy_list& copies) override { pagoda::host::execute(storage_, copies); }

  void append(std::int32_t layer, const pagoda::step& step, pagoda::rows_view<const float> keys,
              pagoda::rows_view<const float> values, pagoda::host::thread_pool& pool) override {
    pagoda::host::append(storage_.view(layer, step), keys, values, pool);
  }

  void attention(std::int32_t layer, const pagoda::step& step, pagoda::rows_view<const float> queries,
                 pagoda::rows_view<float> output, pagoda::host::thread_pool& pool) const override {
    // Window 0: each query sees what the layer group retains.
    pagoda::host::attention(storage_.view(layer, step), queries, output, {.causal = true, .window = 0}, pool);
  }

  std::int64_t bytes_per_token() const override { return storage_type::bytes_per_token(storage_.shape()); }
  std::int64_t size_bytes() const override { return storage_.size_bytes(); }

 private:
  using storage_type = pagoda::block_storage<Keys, Values, Layout>;
  storage_type storage_;
};

/// The pairs are spread over this many files, kv_storage_part*.cpp, which compile side by side.
inline constexpr int storage_parts = 4;

/// Calls visit(type_tag<Values>) for the values of that name, if they go with the keys.
/// Throws: pagoda::invalid_argument, with the names to choose from, for an unknown one; std::runtime_error for a pair
/// that the program is not built with.
template <class Keys, class Visit>
std::unique_ptr<kv_storage> dispatch_values(std::string_view values, Visit&& visit) {
  return pagoda::dispatch(
      kv_types{}, values, [&]<class Values>(pagoda::type_tag<Values> tag) -> std::unique_ptr<kv_storage> {
        if constexpr (std::is_same_v<Keys, Values> ||
                      (contains_v<keys_apart, Keys> && contains_v<values_apart, Values>)) {
          return visit(tag);
        } else {
          refuse("keys of type \"", Keys::name, "\" with values of type \"", Values::name,
                 "\" are no pair that this program is built with: take the same type for both, or keys of ",
                 names_of(keys_apart{}), " with values of ", names_of(values_apart{}));
        }
      });
}

template <class Keys>
std::unique_ptr<kv_storage> make_typed_storage(const kv_storage_names& names, const pagoda::storage_shape& shape,
                                               std::int32_t block_size, pagoda::num_blocks blocks) {
  return dispatch_values<Keys>(names.values, [&]<class Values>(pagoda::type_tag<Values>) {
    return pagoda::dispatch(
        kv_layouts{}, names.layout, [&]<class Layout>(pagoda::type_tag<Layout>) -> std::unique_ptr<kv_storage> {
          if constexpr (std::is_same_v<Keys, Values> || std::is_same_v<Layout, pagoda::heads_tokens_dim>) {
            return std::make_unique<typed_storage<Keys, Values, Layout>>(shape, block_size, blocks);
          } else {
            refuse("keys and values of different types are built for the layout \"", pagoda::heads_tokens_dim::name,
                   "\" alone, not for \"", names.layout, "\": take that, or one type for both");
          }
        });
  });
}

/// Makes the storages of every storage_parts-th type of keys, from number Part on.
template <int Part>
std::unique_ptr<kv_storage> make_storage_of_part(const kv_storage_names& names, const pagoda::storage_shape& shape,
                                                 std::int32_t block_size, pagoda::num_blocks blocks);

/// The place of a type in a list.
template <class T, class First, class... Rest>
constexpr int index_in(pagoda::type_list<First, Rest...>) {
  if constexpr (std::is_same_v<T, First>) {
    return 0;
  } else {
    return 1 + index_in<T>(pagoda::type_list<Rest...>{});
  }
}
