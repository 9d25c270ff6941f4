// SPDX-License-Identifier: Apache-2.0
// A quantizer of one's own: 8-bit codes that spend their steps where the values are, near zero. It is checked, put into
// a cache, and compared with the built-in int8 on rows with an outlier.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

#include <pagoda/attention/reference.hpp>
#include <pagoda/conformance/quantizer.hpp>
#include <pagoda/pagoda.hpp>

// Code magnitudes 0 to 127 stand for the squares of an even grid: fine steps for small values, coarse for large ones.
struct square_law_int8 {
  static constexpr std::string_view name = "square_law_int8";
  static constexpr int bits = 8;
  static constexpr int group = 0;  // one scale for the whole row
  using scale_type = pagoda::linear_scale<float>;

  static scale_type fit(pagoda::row_stats stats) { return {stats.amax()}; }
  static std::uint32_t encode(float value, scale_type scale) {
    const float share = scale.scale > 0 ? std::min(std::fabs(value) / scale.scale, 1.0f) : 0.0f;
    const auto magnitude = static_cast<std::uint32_t>(std::sqrt(share) * 127.0f + 0.5f);
    return magnitude | (value < 0 ? 128u : 0u);
  }
  static float codeword(std::uint32_t code) {
    const float root = static_cast<float>(code & 127u) / 127.0f;
    return (code & 128u) != 0 ? -root * root : root * root;
  }

  // Optional: attention then reads the codes several at a time. A loop will do; compilers make vector code of it.
  template <int W>
  static void load_float(const std::byte* codes, pagoda::vec<float, W>& values) {
    for (int i = 0; i < W; ++i) values[i] = codeword(static_cast<std::uint32_t>(codes[i]));
  }
};
static_assert(pagoda::quantizer<square_law_int8>);

namespace {

constexpr pagoda::storage_shape shape{.layers = 1, .kv_heads = 2, .head_dim = 64};
constexpr int tokens = 100;
constexpr int query_heads = 8;

// The mean difference between attention over a cache of that quantizer and attention over the unquantised values.
template <class Quantizer>
double mean_error(const std::vector<float>& keys, const std::vector<float>& values, const std::vector<float>& query) {
  const auto attend = [&]<class Cache>(Cache&& cache) {
    auto sequence = cache.make_sequence();
    auto step = cache.plan({{sequence, tokens, 1}});
    auto view = cache.view(0, step);
    pagoda::host::append(view, pagoda::rows_view(keys, {tokens, shape.kv_heads, shape.head_dim}),
                         pagoda::rows_view(values, {tokens, shape.kv_heads, shape.head_dim}));
    std::vector<float> output(query.size());
    pagoda::host::attention(view, pagoda::rows_view(query, {1, query_heads, shape.head_dim}),
                            pagoda::rows_view(output, {1, query_heads, shape.head_dim}));
    step.commit();
    return output;
  };
  const auto coded = attend(pagoda::cache<Quantizer>(shape, pagoda::num_blocks{16}));
  const auto exact = attend(pagoda::cache<pagoda::identity<float>>(shape, pagoda::num_blocks{16}));
  double sum = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) sum += std::fabs(double{coded[i]} - double{exact[i]});
  return sum / static_cast<double>(exact.size());
}

}  // namespace

int main() {
  const auto report = pagoda::conformance::check_quantizer<square_law_int8>();
  std::printf("%s: %d checks, %zu faults\n", square_law_int8::name.data(), report.checks, report.faults.size());
  for (const std::string& fault : report.faults) std::printf("  %s\n", fault.c_str());

  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> keys(tokens * shape.kv_heads * shape.head_dim);
  std::vector<float> values(keys.size());
  std::vector<float> query(query_heads * shape.head_dim);
  for (std::vector<float>* rows : {&keys, &values, &query}) {
    for (float& x : *rows) x = normal(random);
  }
  for (std::size_t i = 0; i < values.size(); i += shape.head_dim) values[i] *= 60;  // one outlier channel

  const double own = mean_error<square_law_int8>(keys, values, query);
  const double built_in = mean_error<pagoda::int8_per_token>(keys, values, query);
  std::printf("mean error in attention: %s %.5f, %s %.5f\n", square_law_int8::name.data(), own,
              pagoda::int8_per_token::name.data(), built_in);
  return report.ok() && own < built_in ? 0 : 1;
}
