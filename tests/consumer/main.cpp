// SPDX-License-Identifier: Apache-2.0
// What a project that uses Pagoda builds, however it found it.
#include <pagoda/pagoda.hpp>

#include <cstdio>

int main() {
  pagoda::cache<pagoda::int8_per_token, pagoda::block_size<32>> cache{{.layers = 1, .kv_heads = 2, .head_dim = 64},
                                                                      pagoda::num_blocks{4}};
  auto sequence = cache.make_sequence();
  auto step = cache.plan({{sequence, 33}});
  const auto used = cache.stats().used;
  std::printf("33 tokens hold %lld blocks of 32\n", static_cast<long long>(used));
  return used == 2 ? 0 : 1;
}
