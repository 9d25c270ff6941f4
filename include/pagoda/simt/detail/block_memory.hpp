// SPDX-License-Identifier: Apache-2.0
/// @file The shared memory of the block that runs, and the checks of every access to it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include <pagoda/simt/detail/access_counter.hpp>
#include <pagoda/simt/detail/async_copies.hpp>
#include <pagoda/simt/detail/block_scheduler.hpp>
#include <pagoda/simt/detail/shadow_memory.hpp>

namespace pagoda::simt::detail {

/// Which checks the shared memory makes, beyond range and alignment.
struct memory_checks {
  bool races = true;
  bool uninitialized = true;
};

/// What a kernel touches, and who is told.
class block_memory {
 public:
  block_memory(block_scheduler& threads, memory_checks checks, bool count_accesses)
      : threads_(threads), checks_(checks), counting_(count_accesses), shadow_(threads.clock()) {}

  void begin_launch(std::size_t shared_bytes) {
    bytes_.resize(shared_bytes);
    if (checks_.races) shadow_.resize(shared_bytes);
    copies_.resize(threads_.thread_count());
    counter_.begin_launch(counting_ ? threads_.thread_count() : 0);
  }

  /// Bytes that no thread wrote are not a number in any float format.
  void begin_block() {
    if (!bytes_.empty()) std::memset(bytes_.data(), 0xff, bytes_.size());
    arrays_.clear();
    for (async_copies& one : copies_) one.reset();
  }

  void end_block() {
    if (counting_) counter_.block_met();
  }

  void forget_history() { shadow_.clear(); }

  const std::byte* data() const { return bytes_.data(); }
  const block_scheduler& threads() const { return threads_; }
  const access_report& report() const { return counter_.report(); }

  /// Checks that the calling thread's n-th array, at this offset, fits and is the same for all threads.
  void declare_array(std::size_t n, std::uint64_t offset, std::uint64_t bytes, source_position at) {
    if (offset + bytes > bytes_.size()) {
      threads_.fail(at, "a shared array of ", bytes, " bytes at offset ", offset, " does not fit the ", bytes_.size(),
                    " bytes of the launch: give the launch at least ", offset + bytes);
    }
    if (n == arrays_.size()) arrays_.push_back(bytes);
    if (arrays_[n] != bytes) {
      threads_.fail(at, "a shared array of ", bytes, " bytes, where another thread has one of ", arrays_[n],
                    ": all threads of a block take the same arrays in the same order");
    }
  }

  /// Copies Bytes from shared memory. Requires: the range is inside the memory.
  template <std::uint32_t Bytes>
  void load(std::uint32_t offset, void* to, source_position at) {
    check_read<Bytes>(offset, false, at);
    std::memcpy(to, bytes_.data() + offset, Bytes);
  }

  /// The 16 bytes will be read for all lanes of the warp at their next meeting.
  void will_load_row(std::uint32_t offset, source_position at) { check_read<16>(offset, true, at); }

  template <std::uint32_t Bytes>
  void store(std::uint32_t offset, const void* from, source_position at) {
    const accessor who = threads_.accessor_of_running(at.line);
    if (checks_.races) {
      if (const conflict found = shadow_.template write<Bytes>(offset, who)) report(found, "write of", at);
    }
    if (counting_) counter_.record(access_kind::shared_store, who.thread, offset, Bytes, at);
    std::memcpy(bytes_.data() + offset, from, Bytes);
  }

  /// Starts an asynchronous copy; the bytes are no numbers until it lands.
  template <std::uint32_t Bytes>
  void issue_copy(std::uint32_t offset, const void* from, bool valid, source_position at) {
    const accessor who = threads_.accessor_of_running(at.line);
    if (checks_.races) {
      if (const conflict found = shadow_.template begin_copy<Bytes>(offset, who)) report(found, "cp.async to", at);
    }
    if (counting_) counter_.record(access_kind::shared_store, who.thread, offset, Bytes, at);
    async_copy copy{.offset = offset, .bytes = Bytes, .line = who.line};
    if (valid) {
      if (counting_) record_global(access_kind::global_load, from, Bytes, at);
      std::memcpy(&copy.data, from, Bytes);
    }
    std::memset(bytes_.data() + offset, 0xff, Bytes);
    copies_[who.thread].issue(copy);
  }

  void commit_copies() { copies_[running()].commit(); }

  void wait_for_copies(std::size_t in_flight) {
    const accessor waits = threads_.accessor_of_running(0);
    copies_[waits.thread].wait(in_flight, [&](const async_copy& copy) {
      accessor who = waits;
      who.line = copy.line;
      if (checks_.races) {
        if (copy.bytes == 16) {
          shadow_.template end_copy<16>(copy.offset, who);
        } else {
          shadow_.template end_copy<4>(copy.offset, who);
        }
      }
      std::memcpy(bytes_.data() + copy.offset, &copy.data, copy.bytes);
    });
  }

  void record_global(access_kind kind, const void* address, std::uint32_t bytes, source_position at) {
    if (counting_) counter_.record(kind, running(), reinterpret_cast<std::uintptr_t>(address), bytes, at);
  }

  void lanes_met() {
    if (counting_) counter_.lanes_met(running() / warp_size);
  }
  void block_met() {
    if (counting_) counter_.block_met();
  }

 private:
  std::uint32_t running() const { return static_cast<std::uint32_t>(threads_.running()); }

  template <std::uint32_t Bytes>
  void check_read(std::uint32_t offset, bool whole_warp, source_position at) {
    accessor who = threads_.accessor_of_running(at.line);
    who.whole_warp = whole_warp;
    if (checks_.races) {
      if (const conflict found = shadow_.template read<Bytes>(offset, who, checks_.uninitialized))
        report(found, "read of", at);
    }
    if (counting_) counter_.record(access_kind::shared_load, who.thread, offset, Bytes, at);
  }

  PAGODA_COLD void report(const conflict& found, std::string_view what, source_position at) const {
    const auto other = [&] {
      return joined("thread ", found.thread, found.line != 0 ? joined(" at line ", found.line) : std::string());
    };
    switch (found.why) {
      case hazard::uninitialized:
        threads_.fail(at, what, " shared byte ", found.offset,
                      ", which no thread of the block has written: write it first, and put sync() between, for the ",
                      "order of threads is open");
      case hazard::copy_pending:
        threads_.fail(at, what, " shared byte ", found.offset, ", whose cp.async by ", other(),
                      " has not been awaited: commit it and wait for its group first");
      case hazard::after_write:
        threads_.fail(at, "race: ", what, " shared byte ", found.offset, " after a write by ", other(),
                      " with no barrier between them: sync(), or sync_warp() within a warp");
      default:
        threads_.fail(at, "race: ", what, " shared byte ", found.offset, " after a read by ", other(),
                      " with no barrier between them: sync(), or sync_warp() within a warp");
    }
  }

  block_scheduler& threads_;
  const memory_checks checks_;
  const bool counting_;
  std::vector<std::byte> bytes_;
  std::vector<std::uint64_t> arrays_;  ///< sizes of the block's shared arrays, in order
  shadow_memory shadow_;
  std::vector<async_copies> copies_;  ///< by thread
  access_counter counter_;
};

}  // namespace pagoda::simt::detail
