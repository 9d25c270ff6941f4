// SPDX-License-Identifier: Apache-2.0
// expected-error: this layout lacks `static constexpr std::string_view name`
#include <pagoda/pagoda.hpp>

struct user_layout {
#ifdef PAGODA_CONTROL
  static constexpr std::string_view name = "user_layout";
#endif
  static constexpr pagoda::block_planes place(const pagoda::block_geometry& geometry) {
    return pagoda::heads_tokens_dim::place(geometry);
  }
};

std::int64_t bytes() {
  return pagoda::cache<user_layout>::bytes_per_token({.head_dim = 64});
}
