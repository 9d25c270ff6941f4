// SPDX-License-Identifier: Apache-2.0
// expected-error: an int16_bias beyond 256: sums over a tile could leave 32 bits
#include <pagoda/pagoda.hpp>

struct user_quantizer : pagoda::int8_per_token {
  static constexpr std::string_view name = "user";
#ifdef PAGODA_CONTROL
  static constexpr int int16_bias = 128;
#else
  static constexpr int int16_bias = 1024;
#endif
};

std::int64_t bytes() {
  return pagoda::block_storage<user_quantizer>::bytes_per_token({.head_dim = 64});
}
