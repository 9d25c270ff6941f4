// SPDX-License-Identifier: Apache-2.0
/// @file host_context: runs kernels on a CPU and checks every rule of the machine. The umbrella does not include it.
///
/// Every CUDA thread is a fibre; a host_machine runs one block at a time on the calling OS thread. Test the device code
/// of your own kernels and policies with it:
// clang-format off
///
///     pagoda::simt::host_machine machine;
///     machine.launch<scale_by_two>({blocks, 1, 1}, {from, to, count});        // throws pagoda::simt::fault
///
// clang-format on
/// A kernel may not rely on more than CUDA promises, so the machine finds, with kernel, block, thread and line:
///   - divergence: a deadlock, with a list of who waits where; two different collectives, or two lines, met by lanes of
///     one warp; sync() reached on two lines; a warp-wide matrix instruction without all 32 lanes;
///   - a thread that leaves the kernel while others wait for it, or before others call sync();
///   - masks that miss the caller, overlap, or name a lane that has left; a shuffle from a lane outside the mask;
///   - shared memory: indices out of range, misaligned accesses, arrays beyond the launch's bytes or not the same in
///   all
///     threads, bytes that nobody wrote, bytes whose cp.async was not awaited, and races. Records are per byte. Only
///     sync() orders memory between warps, and only sync() and sync_warp() order it within one: shuffles, ballot,
///     ldmatrix and mma do not;
///   - global memory: null and misaligned pointers. Wild pointers are the address sanitizer's: fibres are annotated for
///     it, so give each buffer an allocation of its own size.
/// Threads run one after another: a kernel that waits in a loop for another thread's store never ends here.
/// It does not see races on global memory, nor the rounding of the device's exp2, log2 and mma, nor anything about
/// time.
///
/// A fault unwinds all threads of the block by exceptions: functions of a kernel must not be noexcept, and a kernel
/// that catches (...) must rethrow.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <pagoda/error.hpp>
#include <pagoda/simt/detail/access_counter.hpp>
#include <pagoda/simt/detail/block_memory.hpp>
#include <pagoda/simt/detail/block_scheduler.hpp>
#include <pagoda/simt/detail/fault.hpp>
#include <pagoda/simt/detail/matrix_fragments.hpp>
#include <pagoda/simt/detail/random.hpp>
#include <pagoda/simt/detail/shared_array.hpp>
#include <pagoda/simt/execution_context.hpp>
#include <pagoda/simt/kernel_name.hpp>

namespace pagoda::simt {

/// What a host_machine checks and counts.
struct host_options {
  bool check_races = true;          ///< keep records of shared memory: races, unawaited and uninitialised bytes
  bool check_uninitialized = true;  ///< with check_races: reading a byte that nobody wrote is a fault
  std::uint32_t schedule_seed = 0;  ///< 0: blocks, warps and lanes in order; else an order drawn from the seed
  bool count_accesses = false;      ///< count bank conflicts and sectors by source line
  std::size_t stack_bytes = 0;      ///< of a thread; 0: 128 KiB, or 512 KiB under a sanitizer
};

/// The most shared memory that a block can have on any device (compute capability 9.0).
inline constexpr int max_shared_bytes = 227 * 1024;

class host_machine;

/// The execution context of one thread of a launch. Models execution_context, where the members are described; `at` is
/// never written.
/// Throws: fault, from every member that can wait or touches memory.
class host_context {
 public:
  template <class T>
  using shared_array = detail::host_shared_array<T>;

  host_context(const host_context&) = delete;
  host_context& operator=(const host_context&) = delete;

  int thread_index() const { return thread_; }
  int lane() const { return thread_ % warp_size; }
  int warp() const { return thread_ / warp_size; }
  index3 block_index() const { return threads_.place().block; }
  index3 grid_dim() const { return grid_; }

  void sync(source_position at = source_position::current()) {
    if (threads_.sync(at)) memory_.block_met();
  }
  void sync_warp(source_position at = source_position::current()) {
    threads_.exchange(detail::collective::sync_warp, full_mask, std::uint8_t{0}, at,
                      [&](auto) { memory_.lanes_met(); });
  }

  template <class T>
  T shfl(T value, int lane, std::uint32_t mask = full_mask, source_position at = source_position::current()) {
    return shuffle(detail::collective::shfl, value, lane & 31, mask, at);
  }
  template <class T>
  T shfl_xor(T value, int lanes, std::uint32_t mask = full_mask, source_position at = source_position::current()) {
    return shuffle(detail::collective::shfl_xor, value, lane() ^ (lanes & 31), mask, at);
  }
  template <class T>
  T shfl_up(T value, int distance, std::uint32_t mask = full_mask, source_position at = source_position::current()) {
    const int from = lane() - (distance & 31);
    return shuffle(detail::collective::shfl_up, value, from >= 0 ? from : lane(), mask, at);
  }
  template <class T>
  T shfl_down(T value, int distance, std::uint32_t mask = full_mask, source_position at = source_position::current()) {
    const int from = lane() + (distance & 31);
    return shuffle(detail::collective::shfl_down, value, from < warp_size ? from : lane(), mask, at);
  }
  std::uint32_t ballot(bool predicate, std::uint32_t mask = full_mask,
                       source_position at = source_position::current()) {
    const auto all = threads_.exchange(detail::collective::ballot, mask, std::uint32_t{predicate}, at,
                                       [&](detail::deposits<std::uint32_t> votes) {
                                         if (mask == full_mask) memory_.lanes_met();
                                         std::uint32_t result = 0;
                                         for (int i = 0; i < warp_size; ++i) {
                                           if (((mask >> i) & 1u) != 0) result |= votes.get(i) << i;
                                         }
                                         for (int i = 0; i < warp_size; ++i) votes.set(i, result);
                                       });
    return all.get(lane());
  }

  template <class T>
  T ldg(const T* from, source_position at = source_position::current()) {
    return load(from, at);
  }
  template <class T>
  T load(const T* from, source_position at = source_position::current()) {
    check_global<T>(access_kind::global_load, from, at);
    T value;
    std::memcpy(&value, from, sizeof(T));
    return value;
  }
  template <class T>
  void store(T* to, const std::type_identity_t<T>& value, source_position at = source_position::current()) {
    check_global<T>(access_kind::global_store, to, at);
    std::memcpy(to, &value, sizeof(T));
  }
  std::uint32_t atomic_cas(std::uint32_t* place, std::uint32_t expected, std::uint32_t desired,
                           source_position at = source_position::current()) {
    check_global<std::uint32_t>(access_kind::global_store, place, at);
    __atomic_compare_exchange_n(place, &expected, desired, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return expected;
  }

  template <class T>
  shared_array<T> shared(int count, source_position at = source_position::current()) {
    if (count < 0) threads_.fail(at, "a shared array of ", count, " elements: pass 0 or more");
    const std::uint64_t offset = taken_;
    const std::uint64_t bytes = static_cast<std::uint64_t>(count) * sizeof(T);
    memory_.declare_array(arrays_++, offset, bytes, at);
    taken_ = (offset + bytes + 15) / 16 * 16;
    return shared_array<T>(memory_, static_cast<std::uint32_t>(offset), count);
  }
  template <class T>
  void lds(shared_array<std::byte> from, int offset, T& value, source_position at = source_position::current()) {
    memory_.load<detail::access_bytes<T>>(from.offset_of<sizeof(T)>(offset, "lds", at), &value, at);
  }
  template <class T>
  void sts(shared_array<std::byte> to, int offset, const T& value, source_position at = source_position::current()) {
    memory_.store<detail::access_bytes<T>>(to.offset_of<sizeof(T)>(offset, "sts", at), &value, at);
  }

  void cp_async16(shared_array<std::byte> to, int offset, const void* from, bool valid = true,
                  source_position at = source_position::current()) {
    copy_async<16>(to, offset, from, valid, at);
  }
  void cp_async4(shared_array<std::byte> to, int offset, const void* from, bool valid = true,
                 source_position at = source_position::current()) {
    copy_async<4>(to, offset, from, valid, at);
  }
  void cp_async_commit() { memory_.commit_copies(); }
  template <int Groups>
  void cp_async_wait_group(std::integral_constant<int, Groups>) {
    static_assert(Groups >= 0, "cp_async_wait_group: the number of groups in flight must not be negative");
    memory_.wait_for_copies(Groups);
  }

  void ldmatrix_x2(std::uint32_t (&r)[2], shared_array<std::byte> from, int offset,
                   source_position at = source_position::current()) {
    load_matrices<2, false>(detail::collective::ldmatrix_x2, r, from, offset, at);
  }
  void ldmatrix_x4(std::uint32_t (&r)[4], shared_array<std::byte> from, int offset,
                   source_position at = source_position::current()) {
    load_matrices<4, false>(detail::collective::ldmatrix_x4, r, from, offset, at);
  }
  void ldmatrix_x2_trans(std::uint32_t (&r)[2], shared_array<std::byte> from, int offset,
                         source_position at = source_position::current()) {
    load_matrices<2, true>(detail::collective::ldmatrix_x2_trans, r, from, offset, at);
  }
  void ldmatrix_x4_trans(std::uint32_t (&r)[4], shared_array<std::byte> from, int offset,
                         source_position at = source_position::current()) {
    load_matrices<4, true>(detail::collective::ldmatrix_x4_trans, r, from, offset, at);
  }
  std::uint32_t movmatrix_trans(std::uint32_t value, source_position at = source_position::current()) {
    const auto transpose = [&](detail::deposits<std::uint32_t> all) {
      memory_.lanes_met();
      detail::transpose_matrix(all);
    };
    return threads_.exchange(detail::collective::movmatrix_trans, full_mask, value, at, transpose).get(lane());
  }

  void mma_m16n8k16(half, float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                    source_position at = source_position::current()) {
    multiply<half>(detail::collective::mma_half, d, a, b, at);
  }
  void mma_m16n8k16(bfloat16, float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                    source_position at = source_position::current()) {
    multiply<bfloat16>(detail::collective::mma_bfloat16, d, a, b, at);
  }

  float exp2(float x) const {
    const float result = std::exp2(x);
    return result < std::numeric_limits<float>::min() ? 0.0f : result;
  }
  float log2(float x) const { return std::log2(std::abs(x) < std::numeric_limits<float>::min() ? 0.0f : x); }

 private:
  friend class host_machine;

  host_context(detail::block_scheduler& threads, detail::block_memory& memory, index3 grid, int thread)
      : threads_(threads), memory_(memory), grid_(grid), thread_(thread) {}

  template <class T>
  void check_global(access_kind kind, const void* address, source_position at) {
    constexpr std::uint32_t bytes = detail::access_bytes<T>;
    check_pointer(address, bytes, at);
    memory_.record_global(kind, address, bytes, at);
  }

  void check_pointer(const void* address, std::uint32_t bytes, source_position at) const {
    const auto value = reinterpret_cast<std::uintptr_t>(address);
    if (value == 0) {
      threads_.fail(at, "global access of ", bytes,
                    " bytes through a null pointer: pass the kernel memory of the device");
    }
    if (value % bytes != 0) {
      threads_.fail(at, "misaligned global access: address ", value, " of ", bytes, " bytes is ", value % bytes,
                    " past a multiple of ", bytes, ": align it, or take a narrower access");
    }
  }

  template <class T>
  T shuffle(detail::collective kind, T value, int from, std::uint32_t mask, source_position at) {
    static_assert(sizeof(T) == 4 && std::is_trivially_copyable_v<T>, "a shuffle moves 4 bytes");
    if (((mask >> from) & 1u) == 0) {
      threads_.fail(at, detail::name_of(kind), ": lane ", lane(), " reads lane ", from,
                    ", which is not in the mask, so the value is undefined: put it into the mask, or read another");
    }
    const auto met = [&](auto) {
      if (mask == full_mask) memory_.lanes_met();
    };
    return threads_.exchange(kind, mask, value, at, met).get(from);
  }

  template <std::uint32_t Bytes>
  void copy_async(const shared_array<std::byte>& to, int offset, const void* from, bool valid, source_position at) {
    const std::uint32_t place = to.offset_of<Bytes>(offset, "cp.async", at);
    if (valid) check_pointer(from, Bytes, at);
    memory_.issue_copy<Bytes>(place, from, valid, at);
  }

  template <std::size_t Count, bool Transposed>
  void load_matrices(detail::collective kind, std::uint32_t (&r)[Count], const shared_array<std::byte>& from,
                     int offset, source_position at) {
    detail::matrix_rows rows{};
    if (static_cast<std::size_t>(lane()) < 8 * Count) {  // the other lanes' offsets are not used
      rows.word[0] = from.offset_of<16>(offset, "ldmatrix", at);
      memory_.will_load_row(rows.word[0], at);
    }
    const auto all = threads_.exchange(kind, full_mask, rows, at, [&](detail::deposits<detail::matrix_rows> deposited) {
      memory_.lanes_met();
      detail::load_matrices<Count, Transposed>(memory_.data(), deposited);
    });
    rows = all.get(lane());
    for (std::size_t i = 0; i < Count; ++i) r[i] = rows.word[i];
  }

  template <class Element>
  void multiply(detail::collective kind, float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                source_position at) {
    detail::mma_fragments own;
    std::memcpy(own.a, a, sizeof(own.a));
    std::memcpy(own.b, b, sizeof(own.b));
    std::memcpy(own.d, d, sizeof(own.d));
    const auto all =
        threads_.exchange(kind, full_mask, own, at, [&](detail::deposits<detail::mma_fragments> fragments) {
          memory_.lanes_met();
          detail::multiply_fragments<Element>(fragments);
        });
    own = all.get(lane());
    std::memcpy(d, own.d, sizeof(own.d));
  }

  detail::block_scheduler& threads_;
  detail::block_memory& memory_;
  index3 grid_;
  int thread_;
  std::uint64_t taken_ = 0;
  std::size_t arrays_ = 0;
};

static_assert(execution_context<host_context>);

/// Runs the blocks of a grid, one after another. Keeps stacks and shared memory from one launch to the next.
/// Requires: one OS thread at a time. Machines on different OS threads do not know of each other.
class host_machine {
 public:
  explicit host_machine(host_options options = {})
      : options_(options),
        threads_(options.stack_bytes),
        memory_(threads_, {.races = options.check_races, .uninitialized = options.check_uninitialized},
                options.count_accesses) {}

  /// Runs kernel K as the device would with this grid, its arguments and this much dynamic shared memory.
  /// Throws: fault, naming K::name or the type; what the kernel throws; invalid_argument for a launch that no device
  /// accepts; logic_error inside a kernel of the same machine. The machine can be used again after any of them.
  template <kernel K>
  void launch(index3 grid, const typename K::arguments& args, int shared_bytes = K::shared_bytes) {
    launch(kernel_name<K>(), grid, static_cast<int>(K::threads), shared_bytes,
           [&](host_context& ctx) { K::run(ctx, args); });
  }

  /// The same for a function of a host_context. Requires: threads is a multiple of 32, from 32 to 1024.
  template <class Function>
  void launch(std::string_view name, index3 grid, int threads, int shared_bytes, Function&& function) {
    check_launch(name, grid, threads, shared_bytes);
    const in_use guard(running_);
    threads_.begin_launch(name, threads, options_.schedule_seed);
    memory_.begin_launch(static_cast<std::size_t>(shared_bytes));
    job<std::remove_reference_t<Function>> work{*this, grid, function};
    const std::uint64_t plane = std::uint64_t{grid.x} * grid.y;
    const std::uint64_t blocks = plane * grid.z;
    const std::vector<std::uint64_t> order = order_of_blocks(blocks);
    for (std::uint64_t i = 0; i < blocks; ++i) {
      const std::uint64_t b = order.empty() ? i : order[i];
      if (threads_.rewind_clock()) memory_.forget_history();
      memory_.begin_block();
      threads_.run_block({static_cast<std::uint32_t>(b % grid.x), static_cast<std::uint32_t>(b % plane / grid.x),
                          static_cast<std::uint32_t>(b / plane)},
                         &job<std::remove_reference_t<Function>>::run, &work);
      memory_.end_block();
    }
  }

  /// What the last launch did to memory, if options.count_accesses.
  const access_report& accesses() const { return memory_.report(); }
  const host_options& options() const { return options_; }

 private:
  template <class Function>
  struct job {
    host_machine& machine;
    index3 grid;
    Function& function;

    static void run(void* closure, int thread) {
      auto& self = *static_cast<job*>(closure);
      host_context ctx(self.machine.threads_, self.machine.memory_, self.grid, thread);
      self.function(ctx);
    }
  };

  /// Marks the machine as running.
  class in_use {
   public:
    explicit in_use(bool& flag) : flag_(flag) { flag_ = true; }
    in_use(const in_use&) = delete;
    in_use& operator=(const in_use&) = delete;
    ~in_use() { flag_ = false; }

   private:
    bool& flag_;
  };

  void check_launch(std::string_view name, index3 grid, int threads, int shared_bytes) const {
    if (running_) {
      pagoda::detail::fail<logic_error>("launch of ", name,
                                        " inside a kernel of the same host_machine: launch it when that has ended");
    }
    if (threads < warp_size || threads > 1024 || threads % warp_size != 0) {
      pagoda::detail::fail("launch of ", name, " with ", threads,
                           " threads a block: take a multiple of 32, from 32 to 1024");
    }
    if (shared_bytes < 0 || shared_bytes > max_shared_bytes) {
      pagoda::detail::fail("launch of ", name, " with ", shared_bytes, " bytes of shared memory: a block has 0 to ",
                           max_shared_bytes, "; take that many at most");
    }
    if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.x > 0x7fffffffu || grid.y > 0xffffu || grid.z > 0xffffu) {
      pagoda::detail::fail("launch of ", name, " with a grid of ", grid.x, " x ", grid.y, " x ", grid.z,
                           " blocks: take x in [1, 2147483647], y and z in [1, 65535]");
    }
  }

  /// A random order, or nothing for the natural one.
  std::vector<std::uint64_t> order_of_blocks(std::uint64_t blocks) const {
    std::vector<std::uint64_t> order;
    if (options_.schedule_seed == 0) return order;
    detail::random_numbers random(~std::uint64_t{options_.schedule_seed});
    for (std::uint64_t i = 0; i < blocks; ++i) {
      order.push_back(i);
      const std::uint64_t limit = i + 1 < 0xffffffffu ? i + 1 : 0xffffffffu;
      std::swap(order[i], order[i - random.below(static_cast<std::uint32_t>(limit))]);
    }
    return order;
  }

  host_options options_;
  detail::block_scheduler threads_;
  detail::block_memory memory_;
  bool running_ = false;
};

}  // namespace pagoda::simt
