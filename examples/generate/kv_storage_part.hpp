// SPDX-License-Identifier: Apache-2.0
/// @file The body of make_storage_of_part, for the files that instantiate it.
#pragma once

#include "kv_pairs.hpp"

template <int Part>
std::unique_ptr<kv_storage> make_storage_of_part(const kv_storage_names& names, const pagoda::storage_shape& shape,
                                                 std::int32_t block_size, pagoda::num_blocks blocks) {
  return pagoda::dispatch(kv_types{}, names.keys,
                          [&]<class Keys>(pagoda::type_tag<Keys>) -> std::unique_ptr<kv_storage> {
                            if constexpr (index_in<Keys>(kv_types{}) % storage_parts == Part) {
                              return make_typed_storage<Keys>(names, shape, block_size, blocks);
                            } else {
                              return nullptr;
                            }
                          });
}
