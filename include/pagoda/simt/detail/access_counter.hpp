// SPDX-License-Identifier: Apache-2.0
/// @file What memory accesses would cost on the device: bank conflicts of shared memory, sectors of global memory.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include <pagoda/simt/detail/fault.hpp>

namespace pagoda::simt {

enum class access_kind : std::uint8_t { shared_load, shared_store, global_load, global_store };

/// All accesses of one kind from one source line. A request is one access by the lanes of a warp together.
struct access_count {
  std::string file;
  int line = 0;
  access_kind kind = access_kind::shared_load;
  std::uint64_t requests = 0;
  std::uint64_t actual = 0;  ///< shared: wavefronts, one a bank conflict more than needed; global: 32-byte sectors
  std::uint64_t ideal = 0;   ///< the same number for the same bytes without conflicts, close together
};

/// The counts of a launch, by file and line.
/// Source: CUDA C++ Best Practices Guide, "Coalesced Access to Global Memory" and "Shared Memory and Memory Banks".
struct access_report {
  std::vector<access_count> lines;

  /// The sum over all files of one line's accesses of a kind; zeros if there were none.
  access_count at(int line, access_kind kind) const {
    access_count sum;
    sum.line = line;
    sum.kind = kind;
    for (const access_count& one : lines) {
      if (one.line != line || one.kind != kind) continue;
      sum.file = one.file;
      sum.requests += one.requests;
      sum.actual += one.actual;
      sum.ideal += one.ideal;
    }
    return sum;
  }
};

namespace detail {

/// Gathers the accesses of single lanes into requests of warps: the n-th access of one line by each lane since the
/// lanes last met is one request.
class access_counter {
 public:
  void begin_launch(std::uint32_t threads) {
    report_ = {};
    open_.assign(threads / warp_size, {});
  }

  /// address: an offset into shared memory, or a pointer's value.
  void record(access_kind kind, std::uint32_t thread, std::uint64_t address, std::uint32_t bytes, source_position at) {
    const std::uint32_t bit = std::uint32_t{1} << (thread % warp_size);
    std::vector<request>& open = open_[thread / warp_size];
    auto one = std::find_if(open.begin(), open.end(), [&](const request& r) {
      return r.kind == kind && r.bytes == bytes && r.at == at && (r.lanes & bit) == 0;
    });
    if (one == open.end()) one = open.insert(open.end(), request{kind, bytes, at});
    one->lanes |= bit;
    one->address[thread % warp_size] = address;
    if (one->lanes != full_mask) return;
    count(*one);
    open.erase(one);
  }

  /// The lanes of a warp met: what they do next belongs to new requests.
  void lanes_met(std::uint32_t warp) {
    for (const request& one : open_[warp]) count(one);
    open_[warp].clear();
  }

  void block_met() {
    for (std::uint32_t warp = 0; warp < open_.size(); ++warp) lanes_met(warp);
  }

  const access_report& report() const { return report_; }

 private:
  struct request {
    access_kind kind;
    std::uint32_t bytes;
    source_position at;
    std::uint32_t lanes = 0;
    std::uint64_t address[warp_size] = {};
  };

  static bool is_shared(access_kind kind) {
    return kind == access_kind::shared_load || kind == access_kind::shared_store;
  }

  void count(const request& one) {
    access_count& sum = count_of(one);
    ++sum.requests;
    if (is_shared(one.kind)) {
      // Shared memory serves 128 bytes at a time: 8 lanes of 16 bytes, 16 of 8, or all.
      const int together = one.bytes == 16 ? 8 : one.bytes == 8 ? 16 : 32;
      for (int first = 0; first < warp_size; first += together) count_phase(one, first, first + together, sum);
    } else {
      count_sectors(one, sum);
    }
  }

  static void count_phase(const request& one, int first, int last, access_count& sum) {
    std::uint64_t words[warp_size];
    const std::size_t count = units(one, first, last, 4, words);
    if (count == 0) return;
    std::uint64_t in_bank[32] = {};
    for (std::size_t i = 0; i < count; ++i) ++in_bank[words[i] % 32];
    sum.actual += *std::max_element(in_bank, in_bank + 32);
    sum.ideal += (count + 31) / 32;
  }

  static void count_sectors(const request& one, access_count& sum) {
    std::uint64_t sectors[warp_size];
    std::uint64_t values[warp_size];
    sum.actual += units(one, 0, warp_size, 32, sectors);
    sum.ideal += (units(one, 0, warp_size, one.bytes, values) * one.bytes + 31) / 32;
  }

  /// The distinct units of `size` bytes that lanes [first, last) touch. An aligned access is within one, or is whole
  /// units itself.
  static std::size_t units(const request& one, int first, int last, std::uint64_t size, std::uint64_t* result) {
    std::size_t count = 0;
    for (int lane = first; lane < last; ++lane) {
      if (((one.lanes >> lane) & 1u) == 0) continue;
      for (std::uint64_t byte = 0; byte < one.bytes; byte += size) result[count++] = (one.address[lane] + byte) / size;
    }
    std::sort(result, result + count);
    return static_cast<std::size_t>(std::unique(result, result + count) - result);
  }

  access_count& count_of(const request& one) {
    std::vector<access_count>& lines = report_.lines;
    const auto place = std::find_if(lines.begin(), lines.end(), [&](const access_count& c) {
      const int order = c.file.compare(one.at.file);
      return order > 0 || (order == 0 && (c.line > one.at.line || (c.line == one.at.line && c.kind >= one.kind)));
    });
    if (place != lines.end() && place->line == one.at.line && place->kind == one.kind && place->file == one.at.file)
      return *place;
    return *lines.insert(place, access_count{one.at.file, one.at.line, one.kind});
  }

  access_report report_;
  std::vector<std::vector<request>> open_;
};

}  // namespace detail
}  // namespace pagoda::simt
