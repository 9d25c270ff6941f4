// SPDX-License-Identifier: Apache-2.0
/// @file block and warp: the state of running threads, as the functions of opcodes see it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ptx/machine.hpp"
#include "ptx/program.hpp"
#include "ptx/shared_memory.hpp"

namespace pagoda_test::ptx {

/// What all warps of a block share.
struct block {
  const program* code = nullptr;
  const machine_options* options = nullptr;
  instruction_count* counts = nullptr;
  std::uint64_t* issued = nullptr;  ///< by the launch so far
  pagoda::simt::index3 index;
  pagoda::simt::index3 grid;
  int threads = 0;
  std::int64_t dynamic_shared_bytes = 0;
  std::vector<std::byte> parameters;
  shared_memory shared;
};

/// An asynchronous copy of one thread that has not landed.
struct async_copy {
  std::uint32_t offset = 0;  ///< in shared memory
  std::uint32_t bytes = 0;
  std::uint32_t valid = 0;  ///< bytes that are read; the others become zeros
  const std::byte* from = nullptr;
};

/// The copies of one thread, oldest first; those behind the last committed group are open.
struct async_queue {
  std::vector<async_copy> copies;
  std::vector<std::size_t> groups;  ///< copies in each committed group that has not landed
  std::size_t open = 0;             ///< copies since the last commit
};

/// Lanes that stand at one instruction.
struct lane_group {
  std::int32_t pc = 0;
  std::uint32_t lanes = 0;
};

template <class Function>
inline void for_each_lane(std::uint32_t lanes, Function function) {
  if (lanes == 0xffffffffu) {
    for (int lane = 0; lane < 32; ++lane) function(lane);
  } else {
    for (; lanes != 0; lanes &= lanes - 1) function(__builtin_ctz(lanes));
  }
}

class warp {
 public:
  void start(block& owner, int index);

  /// Runs until every lane has ended or waits at a barrier of the block.
  void run();

  /// The lanes that wait at the block's barrier, by instruction; release lets them go on.
  const std::vector<lane_group>& at_barrier() const { return at_barrier_; }
  void release();
  std::uint32_t exited() const { return exited_; }
  std::uint32_t present() const { return present_; }

  /// The 32 values of an instruction's operand.
  std::uint64_t* row(const instruction& i, std::size_t operand) {
    return registers_.data() + std::size_t{owner_->code->operands[i.first_operand + operand]} * 32;
  }
  std::uint64_t* slot(std::uint32_t number) { return registers_.data() + std::size_t{number} * 32; }

  block& owner() { return *owner_; }
  std::uint32_t thread_of(int lane) const { return static_cast<std::uint32_t>(index_ * 32 + lane); }
  async_queue& copies(int lane) { return copies_[static_cast<std::size_t>(lane)]; }
  std::vector<std::byte>& local_memory(int lane) { return local_[static_cast<std::size_t>(lane)]; }

  [[noreturn]] void fail(const instruction& i, int lane, const std::string& why) const;

 private:
  void run_group(lane_group group);
  void insert(lane_group group);
  /// Lanes arrive at an instruction that waits for others; returns those that may execute it now.
  std::uint32_t meet(std::int32_t pc, std::uint32_t lanes);
  std::uint32_t complete_lanes(const instruction& i, std::uint32_t lanes);
  [[noreturn]] void fail_stuck() const;
  std::uint32_t enabled_lanes(const instruction& i, std::uint32_t lanes);
  std::string whereabouts(std::uint32_t lanes) const;

  block* owner_ = nullptr;
  int index_ = 0;
  std::uint32_t present_ = 0;  // lanes that exist
  std::uint32_t exited_ = 0;
  std::vector<std::uint64_t> registers_;  // 32 values a slot
  std::vector<lane_group> ready_;         // by rising pc
  std::vector<lane_group> parked_;        // at a collective, waiting for other lanes
  std::vector<lane_group> at_barrier_;
  std::array<async_queue, 32> copies_;
  std::array<std::vector<std::byte>, 32> local_;
};

/// Where a lane's access of `bytes` goes. Checks alignment, range and the shadow of shared memory, and fails the lane.
std::byte* resolve(warp& w, const instruction& i, int lane, state_space space, std::uint64_t address,
                   std::uint32_t bytes, bool reads, bool writes, bool atomic = false);
/// The same for global memory only.
std::byte* resolve_global(warp& w, const instruction& i, int lane, std::uint64_t address, std::uint32_t bytes);
/// The offset of a shared address in the block's shared memory, checked for alignment and range.
std::uint32_t resolve_shared(warp& w, const instruction& i, int lane, std::uint64_t address, std::uint32_t bytes);

}  // namespace pagoda_test::ptx
