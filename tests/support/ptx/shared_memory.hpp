// SPDX-License-Identifier: Apache-2.0
/// @file The shared memory of one block, with a shadow of who touched each byte and since which barrier.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace pagoda_test::ptx {

/// The thread that touches shared memory, within its block.
struct shared_user {
  std::uint32_t thread = 0;
  bool whole_warp = false;  ///< an instruction of the warp that reads for all of its lanes
  std::uint32_t warp() const { return thread / 32; }
};

/// Time advances at every barrier. Two accesses of different threads to one byte, one of them a write, are a race
/// unless a barrier that both threads took part in lies between: one of the block, or one of the warp that they share.
class shared_memory {
 public:
  /// A fresh block: every byte is 0xff and counts as never written.
  void reset(std::size_t bytes, bool check_races, bool check_uninitialized);

  std::size_t size() const { return bytes_.size(); }
  std::byte* at(std::size_t offset) { return bytes_.data() + offset; }

  /// Records an access. Returns why it is wrong, or nothing. `atomic` accesses do not race with each other.
  std::string read(shared_user user, std::size_t offset, std::size_t count, bool atomic = false);
  std::string write(shared_user user, std::size_t offset, std::size_t count, bool atomic = false);

  /// A cp.async of the thread begins: until land, the bytes are 0xff and nobody may touch them.
  std::string begin_copy(std::uint32_t thread, std::size_t offset, std::size_t count);
  /// The copy's bytes become those that `from` holds, then zeros; it counts as a write of the thread.
  std::string land_copy(std::uint32_t thread, std::size_t offset, std::size_t count, const std::byte* from,
                        std::size_t valid);

  void block_barrier() { block_time_ = ++time_; }
  void warp_barrier(std::uint32_t warp) { warp_time_[warp] = ++time_; }

 private:
  struct shadow {
    std::uint32_t write_time = 0;
    std::uint32_t read_time = 0;
    std::uint16_t writer = 0;
    std::uint16_t reader = 0;
    std::uint32_t written : 1 = 0;
    std::uint32_t pending : 1 = 0;        ///< the writer's cp.async has not landed
    std::uint32_t atomically : 1 = 0;     ///< how it was written last
    std::uint32_t several_lanes : 1 = 0;  ///< of the reader's warp read it
    std::uint32_t several_warps : 1 = 0;  ///< read it
    std::uint32_t unused : 27 = 0;        // so that every bit has a value
    bool same_bits(const shadow& other) const { return std::memcmp(this, &other, sizeof(shadow)) == 0; }
  };
  static_assert(sizeof(shadow) == 16);

  /// Whether a barrier lies between an access at `when` by `before` and one by `now`.
  bool ordered(std::uint32_t when, std::uint32_t before_warp, std::uint32_t now_warp) const {
    return when < block_time_ || (before_warp == now_warp && when < warp_time_[now_warp]);
  }
  std::string describe(const char* what, std::size_t offset, const char* other, std::uint32_t thread,
                       const char* remedy) const;
  std::string read_byte(shared_user user, std::size_t byte, bool atomic);
  std::string write_byte(shared_user user, std::size_t byte, bool atomic);
  std::string check_write(shared_user user, std::size_t byte, bool atomic) const;
  void note_read(shadow& s, shared_user user) const;
  /// Does to each byte what `one` does to the first; a byte whose shadow is as the first one's was gets the same.
  template <class One>
  std::string for_each_byte(std::size_t offset, std::size_t count, One one);

  std::vector<std::byte> bytes_;
  std::vector<shadow> shadow_;
  bool check_races_ = true;
  bool check_uninitialized_ = true;
  std::uint32_t time_ = 1;
  std::uint32_t block_time_ = 1;
  std::array<std::uint32_t, 32> warp_time_{};
};

}  // namespace pagoda_test::ptx
