// SPDX-License-Identifier: Apache-2.0
// expected-error: an optional member of this eviction policy has another signature than `void stored\(block_id\)
// noexcept`
#include <pagoda/pagoda.hpp>

#ifdef PAGODA_CONTROL
using argument = pagoda::block_id;
#else
using argument = const pagoda::cached_block&;
#endif

struct user_eviction : pagoda::lru {
  static constexpr std::string_view name = "user";
  using lru::lru;
  void stored(argument) noexcept {}
};

pagoda::block_manager make() {
  return pagoda::block_manager({.groups = {{.num_blocks = 16}}}, pagoda::evict_by<user_eviction>);
}
