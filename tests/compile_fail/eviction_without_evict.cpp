// SPDX-License-Identifier: Apache-2.0
// expected-error: this eviction policy lacks `block_id evict\(\) noexcept`
#include <pagoda/pagoda.hpp>

struct user_eviction {
  static constexpr std::string_view name = "user";
  explicit user_eviction(std::int32_t num_blocks) : order(num_blocks) {}
  void insert(const pagoda::cached_block& block) noexcept { order.push_back(block.id); }
  void erase(pagoda::block_id id) noexcept { order.unlink(id); }
#ifdef PAGODA_CONTROL
  pagoda::block_id evict() noexcept {
    return order.pop_front();
  }
#endif
  std::int32_t size() const noexcept {
    return order.size();
  }
  pagoda::block_list order;
};

pagoda::block_manager make() {
  return pagoda::block_manager({.groups = {{.num_blocks = 16}}}, pagoda::evict_by<user_eviction>);
}
