// SPDX-License-Identifier: Apache-2.0
// expected-error: this eviction policy lacks `void insert\(const cached_block&\) noexcept`
#include <pagoda/pagoda.hpp>

#ifdef PAGODA_CONTROL
constexpr bool never_throws = true;
#else
constexpr bool never_throws = false;
#endif

struct user_eviction : pagoda::lru {
  static constexpr std::string_view name = "user";
  using lru::lru;
  void insert(const pagoda::cached_block& block) noexcept(never_throws) { lru::insert(block); }
};

pagoda::block_manager make() {
  return pagoda::block_manager({.groups = {{.num_blocks = 16}}}, pagoda::evict_by<user_eviction>);
}
