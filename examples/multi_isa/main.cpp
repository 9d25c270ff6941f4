// SPDX-License-Identifier: Apache-2.0
// One binary for many processors: it holds the host kernels for plain code, AVX2 and AVX-512, and asks the processor at
// run time. Runs a decode step with each that can run here, and compares it with attention in double. kernels.cpp and
// CMakeLists.txt tell how the three are kept apart.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <stdexcept>
#include <vector>

#include <pagoda/attention/reference.hpp>

#include "kernels.hpp"

namespace {
using pagoda::rows_view;
constexpr int query_heads = 32, kv_heads = 8, head_dim = 128;

// The tables that this processor can run, best last.
std::vector<const multi_isa::kernel_table*> supported() {
  std::vector<const multi_isa::kernel_table*> tables{&kernels_plain};
#if defined(__x86_64__)
  // Each asks for all that its flags allow the compiler to use; __builtin_cpu_supports also asks the operating system.
  // F16C has no name in clang++ 14; every processor with AVX2 has it.
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (avx2) tables.push_back(&kernels_avx2);
  if (avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl")) {
    tables.push_back(&kernels_avx512);
  }
#endif
  return tables;
}

std::vector<float> random_rows(std::int64_t tokens, int heads) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> rows(static_cast<std::size_t>(tokens * heads * head_dim));
  for (float& x : rows) x = normal(random);
  return rows;
}

// Fills a cache, decodes one token, prints, and says whether the result is right.
bool run(const multi_isa::kernel_table& kernels, int context) {
  multi_isa::cache cache{{.layers = 1, .kv_heads = kv_heads, .head_dim = head_dim},
                         pagoda::num_blocks{context / 16 + 1}};
  auto sequence = cache.make_sequence();
  const std::vector<float> rows = random_rows(context, kv_heads), queries = random_rows(1, query_heads);
  auto step = cache.plan({{sequence, context, 1}});
  const auto view = cache.view(0, step);
  const rows_view<const float> kv(rows, {context, kv_heads, head_dim}), query(queries, {1, query_heads, head_dim});
  kernels.append(view, kv, kv);

  std::vector<float> output(queries.size());
  std::vector<double> exact(queries.size());
  double best = 1e9;
  for (int i = 0; i < 20; ++i) {
    const auto start = std::chrono::steady_clock::now();
    kernels.attention(view, query, rows_view<float>(output, query.shape()), {});
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  pagoda::reference_attention(view, query, rows_view<double>(exact, query.shape()), {});
  double error = 0, norm = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    error += (output[i] - exact[i]) * (output[i] - exact[i]);
    norm += exact[i] * exact[i];
  }
  error = std::sqrt(error / norm);
  std::printf("%-8s relative error %.1e, %6.2f ms\n", kernels.name, error, 1e3 * best);

  // Errors come out of every object as they do elsewhere.
  bool refused = false;
  try {
    kernels.append(view, query, query);
  } catch (const std::invalid_argument&) {
    refused = true;
  }
  return error < 2e-4 && refused;
}
}  // namespace

int main(int argc, char** argv) {
  const int context = argc > 1 ? std::atoi(argv[1]) : 4096;
  if (context < 2 || context > 1000000) {
    std::fprintf(stderr, "usage: multi_isa [tokens from 2 to 1000000]\n");
    return 2;
  }
  const auto tables = supported();
  std::printf("decode of one token against %d, picked: %s\n", context, tables.back()->name);
  bool right = true;
  for (const auto* kernels : tables) right = run(*kernels, context) && right;
  return right ? 0 : 1;
}
