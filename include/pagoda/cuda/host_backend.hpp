// SPDX-License-Identifier: Apache-2.0
/// @file host_backend: the CUDA part on a CPU. The same calls run the same kernels in the host context, which checks
/// every rule of the machine. No CUDA is needed; the umbrella does not include it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include <pagoda/cuda/launch_append.hpp>
#include <pagoda/cuda/launch_attention.hpp>
#include <pagoda/cuda/launch_execute.hpp>
#include <pagoda/cuda/launch_plan.hpp>
#include <pagoda/cuda/runtime.hpp>
#include <pagoda/cuda/step_tables.hpp>
#include <pagoda/simt/host_context.hpp>

namespace pagoda::cuda {

/// A backend whose device is the calling thread: device memory is memory of the process, and kernels run in a
/// simt::host_machine. Slow, exact about the rules, and free of any GPU.
///
///     pagoda::cuda::basic_step_tables<pagoda::cuda::host_backend> tables(manager, limits);
///     pagoda::cuda::attention<pagoda::cuda::host_backend>(view, queries, output);   // throws simt::fault
struct host_backend {
  static constexpr std::string_view name = "host context";

  struct launch_record {
    std::string kernel;
    std::uint32_t blocks = 0;
    friend bool operator==(const launch_record&, const launch_record&) = default;
  };

  /// What the thread's device is like, and what it was asked for.
  struct device_state {
    device_properties properties{.compute_capability = 80, .multiprocessors = 2, .shared_bytes = 163 * 1024};
    std::int32_t resident_blocks = 1;  ///< of any kernel on a multiprocessor
    simt::host_machine machine{};
    bool deferred = false;  ///< copies run when somebody waits or launches, as late as a device might run them

    std::int64_t live_allocations = 0;
    std::int64_t allocations = 0;
    std::int64_t ordered = 0;  ///< allocations and releases in stream order
    std::int64_t copies = 0;
    std::int64_t copied_bytes = 0;
    std::int64_t waits = 0;        ///< for events whose work was not done
    bool record_launches = false;  ///< into `launches`
    std::vector<launch_record> launches{};
  };
  static device_state& device() { return thread().state; }

  static void* allocate(std::int64_t bytes) {
    void* memory = ::operator new(static_cast<std::size_t>(bytes), alignment, std::nothrow);
    if (memory == nullptr) {
      throw out_of_device_memory("pagoda: the host backend has not " + std::to_string(bytes) +
                                 " bytes: ask for fewer blocks or smaller step_limits");
    }
    ++device().allocations;
    ++device().live_allocations;
    return memory;
  }
  static void* allocate(std::int64_t bytes, stream_ref) {
    ++device().ordered;
    return allocate(bytes);
  }
  static void release(void* memory) noexcept {
    run_pending(thread().enqueued);
    --device().live_allocations;
    ::operator delete(memory, alignment);
  }
  static void release(void* memory, stream_ref) noexcept {
    ++device().ordered;
    release(memory);
  }
  static void* allocate_pinned(std::int64_t bytes) { return allocate(bytes); }
  static void release_pinned(void* memory) noexcept { release(memory); }

  static void copy(void* to, const void* from, std::int64_t bytes, stream_ref) {
    ++device().copies;
    device().copied_bytes += bytes;
    enqueue({to, from, 0, static_cast<std::size_t>(bytes)});
  }
  static void fill(void* to, int byte, std::int64_t bytes, stream_ref) {
    enqueue({to, nullptr, byte, static_cast<std::size_t>(bytes)});
  }

  static void* make_event() { return new std::uint64_t(0); }
  static void destroy_event(void* event) noexcept { delete static_cast<std::uint64_t*>(event); }
  static void record(void* event, stream_ref) { *static_cast<std::uint64_t*>(event) = thread().enqueued; }
  static bool finished(void* event) { return *static_cast<std::uint64_t*>(event) <= thread().done; }
  static void wait(void* event) {
    device().waits += finished(event) ? 0 : 1;
    run_pending(*static_cast<std::uint64_t*>(event));
  }
  static void synchronize(stream_ref) { run_pending(thread().enqueued); }
  static device_properties properties() { return device().properties; }

  template <simt::kernel K>
  static std::int32_t resident_blocks() {
    return device().resident_blocks;
  }
  template <simt::kernel K>
  static void launch(simt::index3 grid, const typename K::arguments& arguments, stream_ref) {
    run_pending(thread().enqueued);
    device_state& state = device();
    if (state.record_launches) state.launches.push_back({std::string(simt::kernel_name<K>()), grid.x});
    state.machine.template launch<K>(grid, arguments);
  }

 private:
  static constexpr std::align_val_t alignment{static_cast<std::size_t>(storage_alignment)};

  struct transfer {
    void* to;
    const void* from;  // null: a fill
    int byte;
    std::size_t bytes;
  };
  struct thread_state {
    device_state state{};
    std::vector<transfer> pending{};
    std::uint64_t enqueued = 0;  // transfers, ever
    std::uint64_t done = 0;      // of them; the rest is pending
  };
  static thread_state& thread() {
    static thread_local thread_state state;
    return state;
  }

  static void enqueue(const transfer& work) {
    thread().pending.push_back(work);
    ++thread().enqueued;
    if (!device().deferred) run_pending(thread().enqueued);
  }
  static void run_pending(std::uint64_t end) noexcept {
    thread_state& my = thread();
    std::size_t count = 0;
    for (; my.done < end; ++my.done, ++count) {
      const transfer& work = my.pending[count];
      if (work.from == nullptr) {
        std::memset(work.to, work.byte, work.bytes);
      } else {
        std::memmove(work.to, work.from, work.bytes);
      }
    }
    my.pending.erase(my.pending.begin(), my.pending.begin() + static_cast<std::ptrdiff_t>(count));
  }
};

static_assert(backend<host_backend>);

/// The head dims that tensor-core kernels have in the host context. Specialise it for other dims, in every file that
/// runs attention of the pair.
template <class KeyQuantizer, class ValueQuantizer>
struct head_dims_of<host_backend, KeyQuantizer, ValueQuantizer> : head_dim_list<64, 128> {};

template <class KeyQuantizer, class ValueQuantizer>
struct attention_launcher<host_backend, KeyQuantizer, ValueQuantizer> {
  static void launch(const kernels::attention_arguments<KeyQuantizer, ValueQuantizer>& arguments,
                     const device_properties& device, stream_ref stream) {
    detail::launch_attention<host_backend>(arguments, device, stream,
                                           head_dims_of<host_backend, KeyQuantizer, ValueQuantizer>());
  }
};

template <class KeyQuantizer, class ValueQuantizer>
struct append_launcher<host_backend, KeyQuantizer, ValueQuantizer> {
  static void launch(const cache_view<KeyQuantizer, ValueQuantizer>& view, const kernels::erased_rows& keys,
                     const kernels::erased_rows& values, const device_properties& device, stream_ref stream) {
    detail::launch_append<host_backend>(view, keys, values, device, stream);
  }
};

template <class KeyQuantizer, class ValueQuantizer>
struct execute_launcher<host_backend, KeyQuantizer, ValueQuantizer> {
  static void launch(const execute_call<KeyQuantizer, ValueQuantizer>& call, const device_properties& device,
                     stream_ref stream) {
    detail::launch_execute<host_backend>(call, device, stream);
  }
};

namespace detail {

template <>
struct plan_launcher<host_backend> {
  static void launch(const batch_view& batch, const kernels::chunk_plan& plan, std::int32_t max_items,
                     stream_ref stream) {
    launch_plan<host_backend>(batch, plan, max_items, stream);
  }
};

}  // namespace detail
}  // namespace pagoda::cuda
