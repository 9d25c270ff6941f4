// SPDX-License-Identifier: Apache-2.0
/// @file What is known of each byte of shared memory: who wrote it, who read it, and when.
///
/// Time is a count of barriers. Every barrier of a warp or a block takes the next number; an access is stamped with
/// that of its warp's last barrier. An earlier access is ordered before one of the same warp if it is older than the
/// warp's last barrier, and before one of another warp if it is older than the block's.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace pagoda::simt::detail {

/// The numbers of the last barriers.
struct barrier_clock {
  std::uint32_t now = 1;           ///< of any barrier
  std::uint32_t block_start = 1;   ///< older stamps come from blocks that ran before
  std::uint32_t last_barrier = 1;  ///< of the whole block
};

/// Who accesses.
struct accessor {
  std::uint32_t thread;
  std::uint32_t warp_barrier;  ///< the number of its warp's last barrier
  bool whole_warp = false;     ///< every lane receives what this one reads
  std::uint32_t line = 0;
};

enum class hazard : std::uint8_t { none, uninitialized, copy_pending, after_write, after_read };

/// Why an access is wrong: another one, that it is not ordered with.
struct conflict {
  hazard why = hazard::none;
  std::uint32_t offset = 0;  ///< the first byte concerned
  std::uint32_t thread = 0;  ///< the other access
  std::uint32_t line = 0;    ///< its line, where known
  explicit operator bool() const { return why != hazard::none; }
};

/// The records of one block's shared memory. Two words a byte, equal for neighbours that were accessed together, so
/// that an access of up to 16 bytes is mostly one comparison.
class shadow_memory {
 public:
  explicit shadow_memory(const barrier_clock& clock) : clock_(clock) {}

  void resize(std::size_t bytes) {
    if (writes_.size() < bytes) {
      writes_.resize(bytes, 0);
      reads_.resize(bytes, 0);
    }
  }

  /// Forgets everything: for when the clock is set back.
  void clear() {
    std::fill(writes_.begin(), writes_.end(), 0);
    std::fill(reads_.begin(), reads_.end(), 0);
  }

  template <std::uint32_t Bytes>
  conflict read(std::uint32_t offset, const accessor& who, bool check_uninitialized) {
    std::uint64_t* const writes = writes_.data() + offset;
    if (const conflict found = first_conflict<Bytes>(
            writes, offset, [&](std::uint64_t w) { return before_read(w, who, check_uninitialized); }))
      return found;
    std::uint64_t* const reads = reads_.data() + offset;
    const std::uint64_t first = reads[0];
    if (uniform<Bytes>(reads)) {
      fill<Bytes>(reads, with_reader(first, who));
    } else {
      for (std::uint32_t i = 0; i < Bytes; ++i) reads[i] = with_reader(reads[i], who);
    }
    return {};
  }

  template <std::uint32_t Bytes>
  conflict write(std::uint32_t offset, const accessor& who) {
    return write_as<Bytes>(offset, who, write_record(who, false));
  }

  /// The start of an asynchronous copy by `who`; nobody may touch the bytes until it landed.
  template <std::uint32_t Bytes>
  conflict begin_copy(std::uint32_t offset, const accessor& who) {
    return write_as<Bytes>(offset, who, write_record(who, true));
  }

  /// The copy is there: a write by `who`, now.
  template <std::uint32_t Bytes>
  void end_copy(std::uint32_t offset, const accessor& who) {
    fill<Bytes>(writes_.data() + offset, write_record(who, false));
  }

 private:
  // A write: stamp (32 bits), line (16), copy pending (1), 5 unused, thread (10).
  // A read: stamp (32 bits), 6 unused, another thread (10), by several warps (1), by several lanes (1), 4 unused,
  // thread (10).
  static constexpr std::uint64_t pending_bit = 1u << 15;
  static constexpr std::uint64_t several_warps_bit = 1u << 15;
  static constexpr std::uint64_t several_lanes_bit = 1u << 14;

  static std::uint32_t stamp_of(std::uint64_t record) { return static_cast<std::uint32_t>(record >> 32); }
  static std::uint32_t thread_of(std::uint64_t record) { return static_cast<std::uint32_t>(record) & 1023u; }
  static std::uint32_t middle_of(std::uint64_t record) { return static_cast<std::uint32_t>(record >> 16) & 0xffffu; }

  static std::uint64_t write_record(const accessor& who, bool pending) {
    const std::uint32_t line = who.line < 0xffffu ? who.line : 0xffffu;
    return (std::uint64_t{who.warp_barrier} << 32) | (std::uint64_t{line} << 16) | (pending ? pending_bit : 0) |
           who.thread;
  }

  template <std::uint32_t Bytes>
  static bool uniform(const std::uint64_t* records) {
    std::uint64_t different = 0;
    for (std::uint32_t i = 1; i < Bytes; ++i) different |= records[i] ^ records[0];
    return different == 0;
  }

  template <std::uint32_t Bytes>
  static void fill(std::uint64_t* records, std::uint64_t value) {
    for (std::uint32_t i = 0; i < Bytes; ++i) records[i] = value;
  }

  template <std::uint32_t Bytes, class Check>
  static conflict first_conflict(const std::uint64_t* records, std::uint32_t offset, const Check& check) {
    const std::uint32_t count = uniform<Bytes>(records) ? 1 : Bytes;
    for (std::uint32_t i = 0; i < count; ++i) {
      conflict found = check(records[i]);
      if (found) {
        found.offset = offset + i;
        return found;
      }
    }
    return {};
  }

  bool unordered(std::uint32_t stamp, std::uint32_t thread, const accessor& who) const {
    if (thread / 32 != who.thread / 32) return stamp >= clock_.last_barrier;
    return stamp >= who.warp_barrier && (thread != who.thread || who.whole_warp);
  }

  static conflict with(hazard why, std::uint64_t write) {
    return {.why = why, .thread = thread_of(write), .line = middle_of(write)};
  }

  conflict before_read(std::uint64_t write, const accessor& who, bool check_uninitialized) const {
    if (stamp_of(write) < clock_.block_start)
      return {.why = check_uninitialized ? hazard::uninitialized : hazard::none};
    if ((write & pending_bit) != 0) return with(hazard::copy_pending, write);
    if (unordered(stamp_of(write), thread_of(write), who)) return with(hazard::after_write, write);
    return {};
  }

  conflict before_write(std::uint64_t write, const accessor& who) const {
    if (stamp_of(write) < clock_.block_start) return {};
    return before_read(write, who, false);
  }

  conflict before_write_of_read(std::uint64_t read, const accessor& who) const {
    if (stamp_of(read) < clock_.last_barrier) return {};
    const std::uint32_t reader = thread_of(read);
    // Readers of two warps: one of them is not the writer's.
    if ((read & several_warps_bit) != 0 || unordered(stamp_of(read), reader, who))
      return {.why = hazard::after_read, .thread = reader != who.thread ? reader : middle_of(read)};
    if ((read & several_lanes_bit) != 0 && stamp_of(read) >= who.warp_barrier)
      return {.why = hazard::after_read, .thread = middle_of(read)};
    return {};
  }

  std::uint64_t with_reader(std::uint64_t old, const accessor& who) const {
    const std::uint32_t reader = thread_of(old);
    std::uint64_t kept = 0;  // the other thread and what is known of several readers
    if (stamp_of(old) >= clock_.last_barrier) {
      const bool same_warp = reader / 32 == who.thread / 32;
      if (same_warp && stamp_of(old) >= who.warp_barrier) {
        kept = old & (several_warps_bit | several_lanes_bit | (std::uint64_t{0xffffu} << 16));
        if (reader != who.thread) kept = (kept & 0xffffu) | several_lanes_bit | (std::uint64_t{reader} << 16);
      } else if (same_warp) {
        kept = old & (several_warps_bit | (std::uint64_t{0xffffu} << 16));
      } else {
        kept = several_warps_bit | (std::uint64_t{reader} << 16);
      }
    }
    if (who.whole_warp && (kept & several_lanes_bit) == 0 && (kept & several_warps_bit) == 0)
      kept = several_lanes_bit | (std::uint64_t{who.thread ^ 1u} << 16);
    return (std::uint64_t{who.warp_barrier} << 32) | kept | who.thread;
  }

  template <std::uint32_t Bytes>
  conflict write_as(std::uint32_t offset, const accessor& who, std::uint64_t record) {
    std::uint64_t* const writes = writes_.data() + offset;
    if (const conflict found =
            first_conflict<Bytes>(writes, offset, [&](std::uint64_t w) { return before_write(w, who); }))
      return found;
    if (const conflict found = first_conflict<Bytes>(reads_.data() + offset, offset,
                                                     [&](std::uint64_t r) { return before_write_of_read(r, who); }))
      return found;
    fill<Bytes>(writes, record);
    return {};
  }

  const barrier_clock& clock_;
  std::vector<std::uint64_t> writes_;
  std::vector<std::uint64_t> reads_;
};

}  // namespace pagoda::simt::detail
