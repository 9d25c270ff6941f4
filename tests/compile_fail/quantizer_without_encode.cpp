// SPDX-License-Identifier: Apache-2.0
// expected-error: this quantizer lacks `static std::uint32_t encode\(float, scale_type\)`
#include <pagoda/pagoda.hpp>

struct user_quantizer {
  using scale_type = pagoda::no_scale;
  static constexpr std::string_view name = "user";
  static constexpr int bits = 8;
  static constexpr int group = 0;
  static scale_type fit(pagoda::row_stats) { return {}; }
#ifdef PAGODA_CONTROL
  static std::uint32_t encode(float value, scale_type) { return static_cast<std::uint32_t>(value); }
#endif
  static float codeword(std::uint32_t code) { return static_cast<float>(code); }
};

std::int64_t bytes() {
  return pagoda::block_storage<user_quantizer>::bytes_per_token({.head_dim = 64});
}
