// SPDX-License-Identifier: Apache-2.0
// The real launchers, linked by a compiler that knows nothing of CUDA. Without a device each call says what is missing.
#include <cstdio>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <pagoda/cuda/append.hpp>
#include <pagoda/cuda/attention.hpp>
#include <pagoda/cuda/execute.hpp>
#include <pagoda/cuda/step_tables.hpp>
#include <pagoda/pagoda.hpp>

#include "has_device.hpp"

namespace {

using pagoda::rows_view;
using pagoda::cuda::cuda_error;

/// Every launcher of a pair, with a view that no step_tables made: the check of the view comes first.
template <class Quantizer>
void call_all() {
  using storage_type = pagoda::block_storage<Quantizer>;
  const storage_type on_host({.kv_heads = 2, .head_dim = 64}, 16, pagoda::num_blocks{4});
  pagoda::block_manager manager({.groups = {{.num_blocks = 4}}, .block_size = 16});
  const pagoda::sequence sequence = manager.make_sequence();
  const pagoda::step step = manager.plan({{sequence, 3}});
  std::vector<float> rows(3 * 2 * 64);
  const rows_view<float> tensor(rows, {3, 2, 64});
  auto view = on_host.view(0, step);
  CHECK_THROWS_WITH_AS(pagoda::cuda::append(view, tensor, tensor), doctest::Contains("tables lie in host memory"),
                       pagoda::invalid_argument);
  CHECK_THROWS_WITH_AS(pagoda::cuda::attention(view, tensor, tensor), doctest::Contains("tables lie in host memory"),
                       pagoda::invalid_argument);

  // With tables that could be a device's, the next thing that is asked for is the device.
  const pagoda::cuda::device_work work{.backend = pagoda::cuda::device_backend::name};
  view.batch.work = &work;
  CHECK_THROWS_WITH_AS(pagoda::cuda::append(view, tensor, tensor), doctest::Contains("no CUDA d"), cuda_error);
  CHECK_THROWS_WITH_AS(pagoda::cuda::attention(view, tensor, tensor), doctest::Contains("no CUDA d"), cuda_error);
}

TEST_CASE("without a device, every call is an error that says so") {
  if (pagoda_test::why_no_device().empty()) {
    std::printf("[SKIPPED] this machine has a CUDA device\n");
    return;
  }
  call_all<pagoda::identity<pagoda::half>>();
  call_all<pagoda::int8_per_token>();
  call_all<pagoda::identity<float>>();
  CHECK_THROWS_WITH_AS(pagoda::cuda::device_memory(1000), doctest::Contains("cudaMalloc of 1000 bytes failed: "),
                       cuda_error);
  CHECK_THROWS_WITH_AS(pagoda::cuda::device_memory(1000, {}), doctest::Contains("cudaMallocAsync of 1000 bytes failed"),
                       cuda_error);
  CHECK_THROWS_WITH_AS(pagoda::cuda::pinned_memory(1000), doctest::Contains("no CUDA d"), cuda_error);
  using storage_type = pagoda::block_storage<pagoda::identity<pagoda::half>, pagoda::identity<pagoda::half>,
                                             pagoda::heads_tokens_dim, pagoda::cuda::device_memory>;
  CHECK_THROWS_WITH_AS(storage_type({.head_dim = 64}, 16, pagoda::num_blocks{4}), doctest::Contains("no CUDA d"),
                       cuda_error);

  pagoda::block_manager manager({.groups = {{.num_blocks = 4}}, .block_size = 16});
  CHECK_THROWS_WITH_AS(
      pagoda::cuda::step_tables(manager, {.sequences = 1, .blocks = 4, .query_heads = 2, .value_head_dim = 64}),
      doctest::Contains("no CUDA d"), cuda_error);

  // An engine's own arena may be a storage, too.
  alignas(256) static std::byte arena[4 * 16 * 2 * 64 * 2 * 2];
  pagoda::block_storage<pagoda::identity<pagoda::half>, pagoda::identity<pagoda::half>, pagoda::heads_tokens_dim,
                        pagoda::borrowed_memory>
      borrowed({.kv_heads = 2, .head_dim = 64}, 16, pagoda::num_blocks{4}, pagoda::borrowed_memory(arena));
  const pagoda::sequence parent = manager.make_sequence();
  manager.plan({{parent, 3}}).commit();
  const pagoda::sequence child = manager.fork(parent);
  pagoda::step step = manager.plan({{child, 1}});
  CHECK_THROWS_WITH_AS(pagoda::cuda::execute(borrowed, step.take_copies()), doctest::Contains("no CUDA d"), cuda_error);
}

TEST_CASE("releasing and destroying never throws") {
  if (pagoda_test::why_no_device().empty()) return;
  pagoda::cuda::device_backend::release(nullptr);
  pagoda::cuda::device_backend::release(nullptr, {});
  pagoda::cuda::device_backend::release_pinned(nullptr);
  pagoda::cuda::device_backend::destroy_event(nullptr);
}

}  // namespace
