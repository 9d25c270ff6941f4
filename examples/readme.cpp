// SPDX-License-Identifier: Apache-2.0
// The README's program.
#include <cstdio>
#include <vector>

#include <pagoda/pagoda.hpp>

int main() {
  using my_cache = pagoda::cache<pagoda::int8_per_token, pagoda::block_size<32>>;  // any order; the rest are defaults
  my_cache cache{{.layers = 1, .kv_heads = 2, .head_dim = 64}, pagoda::num_blocks{128}};

  auto sequence = cache.make_sequence();    // its blocks go back when it dies
  auto step = cache.plan({{sequence, 3}});  // room for 3 new tokens, or out_of_blocks and nothing has changed
  auto view = cache.view(0, step);          // layer 0, as this step sees it

  std::vector<float> keys(3 * 2 * 64, 0.5f), values(3 * 2 * 64, 0.25f), queries(3 * 8 * 64, 1.0f), output(3 * 8 * 64);
  pagoda::host::append(view, pagoda::rows_view(keys, {3, 2, 64}), pagoda::rows_view(values, {3, 2, 64}));
  pagoda::host::attention(view, pagoda::rows_view(queries, {3, 8, 64}), pagoda::rows_view(output, {3, 8, 64}));
  step.commit();

  std::printf("%lld tokens in %lld blocks of %lld bytes a token; output[0] = %.3f\n",
              static_cast<long long>(sequence.position()), static_cast<long long>(cache.stats().used),
              static_cast<long long>(cache.bytes_per_token(cache.storage().shape())), output[0]);
}
