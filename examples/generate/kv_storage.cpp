// SPDX-License-Identifier: Apache-2.0
#include "kv_storage.hpp"

#include "contiguous_storage.hpp"
#include "kv_pairs.hpp"

namespace {

template <int... Parts>
std::unique_ptr<kv_storage> make_storage(int part, std::integer_sequence<int, Parts...>, const kv_storage_names& names,
                                         const pagoda::storage_shape& shape, std::int32_t block_size,
                                         pagoda::num_blocks blocks) {
  std::unique_ptr<kv_storage> result;
  ((part == Parts ? void(result = make_storage_of_part<Parts>(names, shape, block_size, blocks)) : void()), ...);
  return result;
}

}  // namespace

std::unique_ptr<kv_storage> make_kv_storage(const kv_storage_names& names, const pagoda::storage_shape& shape,
                                            std::int32_t block_size, pagoda::num_blocks blocks) {
  if (names.keys == contiguous_storage::name && names.values == contiguous_storage::name) {
    return std::make_unique<contiguous_storage>(shape, std::int64_t{block_size} * blocks.value);
  }
  const int part = pagoda::dispatch(kv_types{}, names.keys, []<class Keys>(pagoda::type_tag<Keys>) {
    return index_in<Keys>(kv_types{}) % storage_parts;
  });
  return make_storage(part, std::make_integer_sequence<int, storage_parts>{}, names, shape, block_size, blocks);
}

std::vector<std::string_view> kv_type_names() {
  return []<class... Types>(pagoda::type_list<Types...>) {
    return std::vector<std::string_view>{Types::name...};
  }(kv_types{});
}
