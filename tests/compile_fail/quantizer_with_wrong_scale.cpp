// SPDX-License-Identifier: Apache-2.0
// expected-error: this quantizer lacks `scale_type`: no_scale, linear_scale<T> or affine_scale<T> of 2 or 4 bytes
#include <pagoda/pagoda.hpp>

#ifdef PAGODA_CONTROL
using scale = pagoda::linear_scale<float>;
#else
using scale = pagoda::linear_scale<double>;
#endif

struct user_quantizer {
  using scale_type = scale;
  static constexpr std::string_view name = "user";
  static constexpr int bits = 8;
  static constexpr int group = 0;
  static scale_type fit(pagoda::row_stats) { return {}; }
  static std::uint32_t encode(float value, scale_type) { return static_cast<std::uint32_t>(value); }
  static float codeword(std::uint32_t code) { return static_cast<float>(code); }
};

std::int64_t bytes() {
  return pagoda::block_storage<user_quantizer>::bytes_per_token({.head_dim = 64});
}
