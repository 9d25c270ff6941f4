// SPDX-License-Identifier: Apache-2.0
/// @file What one kernel's machine code shows, and how it is printed.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cubin/flow.hpp"
#include "cubin/resources.hpp"

namespace pagoda_gates {

/// How a kernel is launched and what it does with its shared memory, which its machine code does not say.
struct launch_numbers {
  int threads = 0;              ///< 0: what __launch_bounds__ says
  int shared_bytes = 0;         ///< dynamic
  int tiles_per_iteration = 1;  ///< of 16 KV tokens, of a warp in the main loop
  int bytes_in_flight = 0;      ///< of keys, values and scales, that a block's copies are under way with
};

/// The row of a kernel in the table.
struct measurement {
  std::string name;
  int architecture = 0;
  int threads = 0;
  int registers = 0;
  int frame_bytes = 0;
  std::size_t spill_bytes = 0;  ///< stored to and loaded from local memory, every instruction counted once
  int shared_bytes = 0;         ///< static and dynamic
  std::size_t instructions = 0;
  std::size_t loop_instructions = 0;  ///< of one pass through the tensor cores' loop; 0 without such a loop
  std::size_t loop_tiles = 1;         ///< 16-token tiles of that pass
  std::size_t loop_mma = 0;
  std::size_t loop_copies_16 = 0;  ///< asynchronous copies of 16 bytes in that pass
  std::size_t async_copies_16 = 0;
  std::size_t async_copies_4 = 0;
  std::size_t loads_16 = 0;      ///< LDG of 16 bytes
  std::size_t loads_narrow = 0;  ///< other LDG
  // In the innermost loops that load 16 bytes from global memory, asynchronously or not:
  std::size_t loop_loads_16 = 0;      ///< LDG of 16 bytes
  std::size_t loop_narrow_loads = 0;  ///< other LDG
  std::size_t generic_accesses = 0;   ///< through a pointer of unknown state space
  std::size_t mma = 0;
  std::size_t repeated_long_divisions = 0;
  std::size_t unknown_instructions = 0;
  bool is_flow_complete = true;
  int resident_blocks = 0;
  int bytes_in_flight = 0;  ///< of a multiprocessor

  double loop_instructions_per_tile() const {
    return static_cast<double>(loop_instructions) / static_cast<double>(loop_tiles);
  }
};

inline measurement measure(const cubin::kernel& k, launch_numbers launch = {}) {
  using cubin::operation;
  const cubin::control_flow flow(k.code);
  measurement m;
  m.name = k.name;
  m.architecture = k.architecture;
  m.threads = launch.threads != 0 ? launch.threads : k.max_threads != 0 ? k.max_threads : 128;
  m.registers = k.registers;
  m.frame_bytes = k.frame_bytes;
  m.spill_bytes = k.bytes_of(operation::ldl) + k.bytes_of(operation::stl);
  m.shared_bytes = k.static_shared_bytes + launch.shared_bytes;
  m.instructions = k.code.size();
  if (const auto main = tensor_core_loop(k, flow)) {
    m.loop_instructions = main->size();
    m.loop_tiles = static_cast<std::size_t>(launch.tiles_per_iteration);
    m.loop_mma = count(k.code, *main, operation::hmma);
    m.loop_copies_16 = count(k.code, *main, operation::ldgsts, 128);
  }
  m.async_copies_16 = k.count(operation::ldgsts, 128);
  m.async_copies_4 = k.count(operation::ldgsts) - m.async_copies_16;
  m.loads_16 = k.count(operation::ldg, 128);
  m.loads_narrow = k.count(operation::ldg) - m.loads_16;
  for (std::size_t i = 0; i < k.code.size(); ++i) {
    m.unknown_instructions += !k.code[i].is_known();
  }
  for (const cubin::loop& range : loading_loops(k, flow)) {
    const std::size_t wide = count(k.code, range, operation::ldg, 128);
    m.loop_loads_16 += wide;
    m.loop_narrow_loads += count(k.code, range, operation::ldg) - wide;
  }
  m.generic_accesses = k.count(operation::ld) + k.count(operation::st);
  m.mma = k.count(operation::hmma);
  m.repeated_long_divisions = cubin::repeated_long_divisions(k, flow).size();
  m.is_flow_complete = flow.is_complete();
  m.resident_blocks = k.resident_blocks(m.threads, launch.shared_bytes);
  m.bytes_in_flight = launch.bytes_in_flight * m.resident_blocks;
  return m;
}

/// "decode<half, 128>" from "void pagoda::simt::entry<pagoda::kernels::decode<pagoda::half, 128> >(...)".
inline std::string short_name(std::string name) {
  const auto drop = [&name](const std::string& part) {
    for (std::size_t at; (at = name.find(part)) != std::string::npos;) name.erase(at, part.size());
  };
  const std::string entry = "void pagoda::simt::entry<";
  if (name.compare(0, entry.size(), entry) == 0) {
    const std::size_t end = name.rfind(">(");
    name = name.substr(entry.size(), end - entry.size());
  } else {
    const std::size_t end = name.find('(', name.find("(anonymous namespace)") == std::string::npos ? 0 : 21);
    if (end != std::string::npos) name.erase(end);
  }
  drop("pagoda::");
  drop("kernels::");
  while (!name.empty() && name.back() == ' ') name.pop_back();
  return name;
}

inline void print_head() {
  std::printf("%-44s %-5s %4s %5s %6s %7s %6s %13s %7s %7s %5s %6s %5s %6s %9s %4s %3s\n", "kernel", "arch", "regs",
              "frame", "spill", "shared", "instr", "loop/16 tok", "cp 16/4", "ld 16/<", "rep<", "ld/st?", "mma",
              "blocks", "KV flying", "div", "unk");
}

inline void print_row(const measurement& m) {
  char loop[32] = "-";
  if (m.loop_instructions > 0) {
    std::snprintf(loop, sizeof(loop), "%.1f (%zu mma)", m.loop_instructions_per_tile(), m.loop_mma);
  }
  const std::string copies = std::to_string(m.async_copies_16) + "/" + std::to_string(m.async_copies_4);
  const std::string loads = std::to_string(m.loads_16) + "/" + std::to_string(m.loads_narrow);
  std::printf("%-44s sm_%d %4d %5d %6zu %7d %6zu %13s %7s %7s %5zu %6zu %5zu %6d %5.1f KiB %4zu %3zu%s\n",
              short_name(m.name).c_str(), m.architecture, m.registers, m.frame_bytes, m.spill_bytes, m.shared_bytes,
              m.instructions, loop, copies.c_str(), loads.c_str(), m.loop_narrow_loads, m.generic_accesses, m.mma,
              m.resident_blocks, m.bytes_in_flight / 1024.0, m.repeated_long_divisions, m.unknown_instructions,
              m.is_flow_complete ? "" : "  [some branches could not be followed]");
}

/// Prints how often each operation occurs in a range of code, the most frequent first, five to a line.
inline void print_histogram(const cubin::kernel& k, const cubin::loop& range) {
  std::map<std::string, int> counts;
  for (std::size_t i = range.first; i <= range.last; ++i) ++counts[k.code[i].name()];
  std::vector<std::pair<int, std::string>> sorted;
  for (const auto& [name, number] : counts) sorted.emplace_back(-number, name);
  std::sort(sorted.begin(), sorted.end());
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    std::printf("%5d %-14s%s", -sorted[i].first, sorted[i].second.c_str(), i % 5 == 4 ? "\n" : "");
  }
  std::printf("%s", sorted.size() % 5 == 0 ? "" : "\n");
}

/// Prints the kernel's loops, and of the tensor cores' loop (of the largest innermost one where there is none) the
/// histogram and the listing.
inline void print_loops(const cubin::kernel& k) {
  const cubin::control_flow flow(k.code);
  std::printf("\n%s\n", k.name.c_str());
  std::optional<cubin::loop> main = tensor_core_loop(k, flow);
  for (const cubin::loop& range : flow.loops()) {
    std::printf("  loop %05x - %05x: %zu instructions, %zu mma, %zu async copies\n",
                static_cast<unsigned>(k.code[range.first].address()),
                static_cast<unsigned>(k.code[range.last].address()), range.size(),
                count(k.code, range, cubin::operation::hmma), count(k.code, range, cubin::operation::ldgsts));
    const bool is_outer = std::any_of(flow.loops().begin(), flow.loops().end(),
                                      [&](const cubin::loop& other) { return range.contains(other); });
    if (k.count(cubin::operation::hmma) == 0 && !is_outer && (!main || range.size() > main->size())) main = range;
  }
  for (const std::size_t i : repeated_long_divisions(k, flow)) {
    std::printf("  64-bit division in a loop: %s\n", k.code[i].text().c_str());
  }
  if (!main) {
    std::printf("  no main loop\n");
    return;
  }
  std::printf("main loop, %zu instructions:\n", main->size());
  print_histogram(k, *main);
  std::printf("address guard operation  d    a    b    c\n");
  for (std::size_t i = main->first; i <= main->last; ++i) std::printf("%s\n", k.code[i].text().c_str());
}

}  // namespace pagoda_gates
