// SPDX-License-Identifier: Apache-2.0
// The core behind cuda_on_cpu.hpp. Under the thread sanitizer this file is compiled without instrumentation, but tells
// it of every fibre and of what CUDA's barriers order; switches between fibres order nothing.
#include "cuda_on_cpu.hpp"

#undef __shared__
#undef __device__
#undef __global__
#undef threadIdx
#undef blockIdx
#undef blockDim
#undef gridDim

#if defined(PAGODA_TEST_TSAN)
#define PAGODA_SIMT_TSAN_UNORDERED 1
extern "C" {
void __tsan_acquire(void* tag);
void __tsan_release(void* tag);
}
#endif

#include <pagoda/simt/host_context.hpp>

namespace cuda_on_cpu {
namespace {

using pagoda::simt::host_context;

/// What happens before what, by address.
struct tags {
  char launch, end, block, warp[32];
};
tags order;

void release([[maybe_unused]] char& tag) {
#if defined(PAGODA_TEST_TSAN)
  __tsan_release(&tag);
#endif
}
void acquire([[maybe_unused]] char& tag) {
#if defined(PAGODA_TEST_TSAN)
  __tsan_acquire(&tag);
#endif
}

// Of the thread that runs. Fibres set it again whenever they may have been away.
host_context* current = nullptr;
unsigned threads_of_block = 0;

template <class Function>
auto away(char* tag, Function&& function) {
  host_context* const self = current;
  if (tag != nullptr) release(*tag);
  const auto result = function(*self);
  current = self;
  if (tag != nullptr) acquire(*tag);
  return result;
}

}  // namespace

index thread_index() {
  return {static_cast<unsigned>(current->thread_index()), 0, 0};
}
index block_index() {
  const auto b = current->block_index();
  return {b.x, b.y, b.z};
}
index block_size() {
  return {threads_of_block, 1, 1};
}
index grid_size() {
  const auto g = current->grid_dim();
  return {g.x, g.y, g.z};
}

void sync_block(const char* file, int line) {
  away(&order.block, [&](host_context& ctx) {
    ctx.sync({file, line});
    return 0;
  });
}

void sync_warp(const char* file, int line) {
  away(&order.warp[current->warp()], [&](host_context& ctx) {
    ctx.sync_warp({file, line});
    return 0;
  });
}

unsigned exchange(unsigned value, int from_lane, unsigned mask, const char* file, int line) {
  return away(nullptr, [&](host_context& ctx) { return ctx.shfl(value, from_lane, mask, {file, line}); });
}

void run(const char* name, index grid, int threads, void (*body)(void*), void* closure) {
  pagoda::simt::host_machine machine({.check_races = false});
  threads_of_block = static_cast<unsigned>(threads);
  release(order.launch);
  machine.launch(name, {grid.x, grid.y, grid.z}, threads, 0, [&](host_context& ctx) {
    current = &ctx;
    acquire(order.launch);
    body(closure);
    release(order.end);
  });
  acquire(order.end);
}

}  // namespace cuda_on_cpu
