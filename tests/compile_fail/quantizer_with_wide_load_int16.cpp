// SPDX-License-Identifier: Apache-2.0
// expected-error: this quantizer has load_int16, which is for codes of 4 or 8 bits, and larger codes
#include <pagoda/pagoda.hpp>

struct user_quantizer {
  using scale_type = pagoda::linear_scale<float>;
  static constexpr std::string_view name = "user";
#ifdef PAGODA_CONTROL
  static constexpr int bits = 8;
#else
  static constexpr int bits = 16;
#endif
  static constexpr int group = 0;
  static constexpr float codeword_limit = 255;
  static scale_type fit(pagoda::row_stats) { return {}; }
  static std::uint32_t encode(float value, scale_type) { return static_cast<std::uint32_t>(value); }
  static float codeword(std::uint32_t code) { return static_cast<float>(code); }
  template <int W>
  static void load_float(const std::byte* codes, pagoda::vec<float, W>& values) {
    for (int i = 0; i < W; ++i) values[i] = static_cast<float>(codes[i]);
  }
  template <int W>
  static void load_int16(const std::byte* codes, pagoda::vec<std::int16_t, W>& values) {
    for (int i = 0; i < W; ++i) values[i] = static_cast<std::int16_t>(codes[i]);
  }
};

std::int64_t bytes() {
  return pagoda::block_storage<user_quantizer>::bytes_per_token({.head_dim = 64});
}
