// SPDX-License-Identifier: Apache-2.0
#include "ptx/machine.hpp"

#include <algorithm>
#include <stdexcept>

#include "ptx/warp.hpp"

namespace pagoda_test::ptx {
namespace {

[[noreturn]] void refuse(const program& code, const std::string& why) {
  throw std::invalid_argument("launch of " + code.readable + ": " + why);
}

/// All warps have stopped: every thread has ended, or all of them wait at one barrier. Returns whether they go on.
bool pass_barrier(block& b, std::vector<warp>& warps) {
  const warp* waiting = nullptr;
  const warp* ended = nullptr;
  for (const warp& w : warps) {
    if (!w.at_barrier().empty()) waiting = &w;
    if (w.exited() != 0) ended = &w;
  }
  if (waiting == nullptr) return false;
  const auto instruction_at = [&](const lane_group& g) -> const instruction& {
    return b.code->code[static_cast<std::size_t>(g.pc)];
  };
  const lane_group& first = waiting->at_barrier().front();
  if (ended != nullptr) {
    waiting->fail(instruction_at(first), __builtin_ctz(first.lanes),
                  "the barrier waits for threads that have ended: thread " +
                      std::to_string(ended->thread_of(__builtin_ctz(ended->exited()))) + " is one");
  }
  for (warp& w : warps) {
    for (const lane_group& g : w.at_barrier()) {
      if (g.pc == w.at_barrier().front().pc) continue;
      w.fail(instruction_at(g), __builtin_ctz(g.lanes),
             "lanes of one warp wait at different barriers: thread " +
                 std::to_string(w.thread_of(__builtin_ctz(w.at_barrier().front().lanes))) + " at line " +
                 std::to_string(instruction_at(w.at_barrier().front()).line));
    }
  }
  const auto id_of = [&](warp& w) {
    const lane_group& g = w.at_barrier().front();
    return w.row(instruction_at(g), 0)[__builtin_ctz(g.lanes)];
  };
  for (warp& w : warps) {
    if (id_of(w) != id_of(warps.front())) {
      const lane_group& g = w.at_barrier().front();
      w.fail(instruction_at(g), __builtin_ctz(g.lanes), "deadlock: warps wait at barriers of different numbers");
    }
  }
  b.shared.block_barrier();
  for (warp& w : warps) w.release();
  return true;
}

}  // namespace

machine::machine(std::shared_ptr<const program> entry, machine_options options)
    : program_(std::move(entry)), options_(std::move(options)), counts_(program_->code.size()) {}

void machine::launch(pagoda::simt::index3 grid, int threads, std::int64_t dynamic_shared_bytes,
                     std::span<const std::byte> arguments) {
  const program& code = *program_;
  if (threads < 1 || threads > 1024) refuse(code, std::to_string(threads) + " threads; a block has 1 to 1024");
  if (code.max_threads > 0 && threads > code.max_threads) {
    refuse(code, std::to_string(threads) + " threads; .maxntid allows " + std::to_string(code.max_threads));
  }
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) refuse(code, "an empty grid");
  if (static_cast<std::int64_t>(arguments.size()) != code.parameter_bytes) {
    refuse(code, std::to_string(arguments.size()) + " bytes of arguments; the entry takes " +
                     std::to_string(code.parameter_bytes));
  }
  constexpr std::int64_t largest_shared = 227 * 1024;
  const std::int64_t shared_bytes = code.static_shared_bytes + dynamic_shared_bytes;
  if (dynamic_shared_bytes < 0 || shared_bytes > largest_shared) {
    refuse(code, std::to_string(shared_bytes) + " bytes of shared memory; a block has at most " +
                     std::to_string(largest_shared));
  }
  std::uint64_t issued = 0;
  block b;
  b.code = &code;
  b.options = &options_;
  b.counts = counts_.data();
  b.issued = &issued;
  b.grid = grid;
  b.threads = threads;
  b.dynamic_shared_bytes = dynamic_shared_bytes;
  b.parameters.assign(arguments.begin(), arguments.end());
  std::vector<warp> warps(static_cast<std::size_t>((threads + 31) / 32));
  for (b.index.z = 0; b.index.z < grid.z; ++b.index.z) {
    for (b.index.y = 0; b.index.y < grid.y; ++b.index.y) {
      for (b.index.x = 0; b.index.x < grid.x; ++b.index.x) {
        b.shared.reset(static_cast<std::size_t>(shared_bytes), options_.check_races, options_.check_uninitialized);
        for (std::size_t n = 0; n < warps.size(); ++n) warps[n].start(b, static_cast<int>(n));
        do {
          for (warp& w : warps) w.run();
        } while (pass_barrier(b, warps));
      }
    }
  }
}

std::map<std::string, instruction_count> machine::histogram() const {
  std::map<std::string, instruction_count> result;
  for (std::size_t n = 0; n < counts_.size(); ++n) {
    if (counts_[n].warps == 0) continue;
    instruction_count& sum = result[program_->mnemonics[static_cast<std::size_t>(program_->code[n].mnemonic)]];
    sum.warps += counts_[n].warps;
    sum.lanes += counts_[n].lanes;
  }
  return result;
}

std::uint64_t machine::executed_lanes() const {
  std::uint64_t sum = 0;
  for (const instruction_count& count : counts_) sum += count.lanes;
  return sum;
}

}  // namespace pagoda_test::ptx
