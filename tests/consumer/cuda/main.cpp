// SPDX-License-Identifier: Apache-2.0
// What a project that launches Pagoda's kernels builds with its own compiler. It runs with a device and without one.
#include <pagoda/cuda/append.hpp>
#include <pagoda/cuda/step_tables.hpp>
#include <pagoda/pagoda.hpp>

#include <cstdio>
#include <cstring>
#include <span>

int main() {
  using storage_type = pagoda::block_storage<pagoda::int8_per_token, pagoda::int8_per_token, pagoda::heads_tokens_dim,
                                             pagoda::cuda::device_memory>;
  try {
    pagoda::block_manager manager({.groups = {{.num_blocks = 4}}});
    const storage_type storage({.kv_heads = 2, .head_dim = 64}, 16, pagoda::num_blocks{4});
    pagoda::cuda::step_tables tables(
        manager, {.sequences = 1, .queries = 3, .new_tokens = 3, .blocks = 4, .query_heads = 2, .value_head_dim = 64});
    auto sequence = manager.make_sequence();
    auto step = manager.plan({{sequence, 3, 1}});
    tables.upload(step);
    const pagoda::cuda::device_memory rows(3 * 2 * 64 * 4);
    const pagoda::rows_view<float> tensor(std::span(reinterpret_cast<float*>(rows.data()), 3 * 2 * 64), {3, 2, 64});
    pagoda::cuda::append(storage.view(0, tables), tensor, tensor);
    tables.check();
    step.commit();
    std::printf("appended 3 tokens on the device\n");
  } catch (const pagoda::cuda::cuda_error& error) {
    std::printf("%s\n", error.what());
    return std::strstr(error.what(), "no CUDA d") != nullptr ? 0 : 1;
  }
  return 0;
}
