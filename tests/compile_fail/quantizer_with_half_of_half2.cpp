// SPDX-License-Identifier: Apache-2.0
// expected-error: this quantizer has a part of the tensor-core members only
#include <pagoda/pagoda.hpp>

struct user_quantizer {
  using scale_type = pagoda::no_scale;
  static constexpr std::string_view name = "user";
  static constexpr int bits = 16;
  static constexpr int group = 0;
  static scale_type fit(pagoda::row_stats) { return {}; }
  static std::uint32_t encode(float value, scale_type) { return pagoda::from_float<pagoda::half>(value).bits; }
  static float codeword(std::uint32_t code) { return pagoda::to_float(pagoda::half{static_cast<std::uint16_t>(code)}); }
  using half2_type = pagoda::half;
  static constexpr int half2_pairs = 1;
  static void unpack_half2(std::uint32_t word, std::uint32_t (&pairs)[1]) { pairs[0] = word; }
#ifdef PAGODA_CONTROL
  static constexpr int half2_exponent(int) {
    return 0;
  }
#endif
  static constexpr float codeword_limit = 65504;
};

std::int64_t bytes() {
  return pagoda::block_storage<user_quantizer>::bytes_per_token({.head_dim = 64});
}
