// SPDX-License-Identifier: Apache-2.0
// expected-error: this quantizer's int16_bias is no `static constexpr int`
#include <pagoda/pagoda.hpp>

struct user_quantizer : pagoda::int8_per_token {
  static constexpr std::string_view name = "user";
#ifdef PAGODA_CONTROL
  static constexpr int int16_bias = 128;
#else
  static constexpr float int16_bias = 128;
#endif
};

std::int64_t bytes() {
  return pagoda::block_storage<user_quantizer>::bytes_per_token({.head_dim = 64});
}
