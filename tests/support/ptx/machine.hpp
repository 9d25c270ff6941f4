// SPDX-License-Identifier: Apache-2.0
/// @file machine: runs an entry of a PTX module on a CPU, and checks the rules of the machine while it does.
///
///     ptx::module m = ptx::module::load(path);
///     ptx::machine machine(m.entry_of<scale_by_two>());
///     machine.launch<scale_by_two>({grid, 1, 1}, arguments);
///
/// The lanes of a warp run together where their program counters agree; where they differ, the lowest goes first, and
/// lanes meet again at the same instruction. Warps and blocks run one after another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <pagoda/simt/execution_context.hpp>

#include "ptx/fault.hpp"
#include "ptx/module.hpp"
#include "ptx/program.hpp"

namespace pagoda_test::ptx {

/// Global memory [begin, end) that a kernel may touch.
struct global_range {
  global_range(const void* first, std::size_t bytes)
      : begin(reinterpret_cast<std::uintptr_t>(first)), end(begin + bytes) {}
  template <class T>
  explicit global_range(const std::vector<T>& buffer) : global_range(buffer.data(), buffer.size() * sizeof(T)) {}

  std::uint64_t begin;
  std::uint64_t end;
};

struct machine_options {
  /// Where global accesses may go; anywhere but the lowest addresses if empty.
  std::vector<global_range> ranges = {};
  bool check_races = true;
  /// Whether reading shared memory that nobody has written is a fault. The compiler may do so in a wide load and drop
  /// the bytes, which is why it is not the default; such bytes are 0xff.
  bool check_uninitialized = false;
  /// Instructions of warps that one launch may issue before it counts as endless.
  std::uint64_t instruction_limit = 1'000'000'000;
};

/// How often an opcode ran.
struct instruction_count {
  std::uint64_t warps = 0;  ///< times that a warp issued it for at least one lane
  std::uint64_t lanes = 0;  ///< times that a lane executed it
};

class machine {
 public:
  explicit machine(std::shared_ptr<const program> entry, machine_options options = {});

  /// Runs a grid of blocks of one-dimensional `threads`; `arguments` are the bytes of the entry's parameters.
  /// Throws: fault; std::invalid_argument if the launch itself is wrong.
  void launch(pagoda::simt::index3 grid, int threads, std::int64_t dynamic_shared_bytes,
              std::span<const std::byte> arguments);

  /// The same for a kernel of the library, entered through pagoda::simt::entry.
  template <pagoda::simt::kernel Kernel>
  void launch(pagoda::simt::index3 grid, const typename Kernel::arguments& arguments,
              std::int64_t shared_bytes = Kernel::shared_bytes) {
    launch(grid, Kernel::threads, shared_bytes, std::as_bytes(std::span(&arguments, 1)));
  }

  /// Counts of all launches by full mnemonic.
  std::map<std::string, instruction_count> histogram() const;
  std::uint64_t executed_lanes() const;

  const program& entry() const { return *program_; }
  machine_options& options() { return options_; }

 private:
  std::shared_ptr<const program> program_;
  machine_options options_;
  std::vector<instruction_count> counts_;  // of each instruction
};

/// Runs a kernel of the library from PTX.
template <pagoda::simt::kernel Kernel>
void launch(const module& from, pagoda::simt::index3 grid, const typename Kernel::arguments& arguments,
            machine_options options = {}) {
  machine(from.entry_of<Kernel>(), std::move(options)).template launch<Kernel>(grid, arguments);
}
/// The same for the entry whose name contains `name`.
template <pagoda::simt::kernel Kernel>
void launch(const module& from, std::string_view name, pagoda::simt::index3 grid,
            const typename Kernel::arguments& arguments, machine_options options = {}) {
  machine(from.entry(name), std::move(options)).template launch<Kernel>(grid, arguments);
}

}  // namespace pagoda_test::ptx
