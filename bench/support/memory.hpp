// SPDX-License-Identifier: Apache-2.0
/// @file The memory that cold benchmarks read, and that which the read probe reads: of the same kind.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

#include <sys/mman.h>
#include <pagoda/memory/host.hpp>

#include "machine.hpp"

namespace pagoda_bench {

/// Two ranges whose pages are taken from the system in turns, and in no order of addresses. The first pages that a
/// process gets may be scattered leftovers, which read a third slower than later ones: so each part of the one range is
/// as fast as each of the other.
class bench_memory {
 public:
  static bench_memory& shared() {
    static bench_memory one;
    return one;
  }

  /// Has the ranges asked for as huge pages. Call it before the first shared().
  static void advise_huge_pages() { huge_pages_ = true; }

  std::span<std::byte> arena() const { return span_of(arena_); }
  std::span<const std::byte> probe() const { return span_of(probe_); }

 private:
  static constexpr std::int64_t turns = 2048;
  static constexpr std::int64_t stride = 1267;  // odd: no part comes twice; the golden section: they spread

  bench_memory() : arena_(working_set_bytes() / turns * turns), probe_(std::int64_t{1} << 30) {
#ifdef MADV_HUGEPAGE
    for (const std::span<std::byte> range : {span_of(arena_), span_of(probe_)}) {
      if (huge_pages_) madvise(range.data(), range.size(), MADV_HUGEPAGE);
    }
#endif
    for (std::int64_t turn = 0; turn < turns; ++turn) {
      touch(arena_, turn * stride % turns);
      touch(probe_, turn * stride % turns);
    }
  }

  static std::span<std::byte> span_of(const pagoda::host_memory& memory) {
    return {memory.data(), static_cast<std::size_t>(memory.size_bytes())};
  }
  static void touch(const pagoda::host_memory& memory, std::int64_t part) {
    const std::int64_t bytes = memory.size_bytes() / turns;
    std::memset(memory.data() + part * bytes, 1, static_cast<std::size_t>(bytes));
  }

  static inline bool huge_pages_ = false;
  pagoda::host_memory arena_;
  pagoda::host_memory probe_;
};

/// Memory that all cold benchmarks share. It remembers what fills it.
class arena {
 public:
  static arena& shared() {
    static arena one;
    return one;
  }

  std::span<std::byte> bytes() const { return bench_memory::shared().arena(); }

  /// Calls fill() unless the arena already holds what `content` names.
  template <class Fill>
  void require(const std::string& content, Fill&& fill) {
    if (content == content_) return;
    content_.clear();
    fill();
    content_ = content;
  }

  /// Says that the content has been written over.
  void forget() { content_.clear(); }

 private:
  arena() = default;

  std::string content_;
};

}  // namespace pagoda_bench
