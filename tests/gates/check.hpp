// SPDX-License-Identifier: Apache-2.0
/// @file What a kernel may cost, and whether it keeps to it.
#pragma once

#include <cstddef>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <typeinfo>
#include <vector>

#include "cubin/resources.hpp"
#include "report.hpp"

namespace pagoda_gates {

struct per_architecture {
  int sm_80 = 0;
  int sm_90 = 0;

  int of(int architecture) const {
    if (architecture == 80) return sm_80;
    if (architecture == 90) return sm_90;
    throw std::invalid_argument("gates: there are no budgets for sm_" + std::to_string(architecture));
  }
};

/// The limits of one kernel. Whatever they are, no kernel has local memory, accesses through generic pointers, 64-bit
/// divisions in loops, or instructions that the reader does not know.
struct budget {
  std::string group;   ///< of kernels that are compiled and tested together
  std::string kernel;  ///< its type, as the demangler writes it
  launch_numbers launch;
  per_architecture registers{255, 255};  ///< at most
  per_architecture blocks{1, 1};         ///< at least, on a multiprocessor
  per_architecture kib_in_flight{};      ///< at least, of keys, values and scales, on a multiprocessor
  per_architecture loop_instructions{};  ///< at most, for 16 KV tokens; 0: no tensor cores are promised
  int loop_copies_16 = 0;                ///< exactly, in one pass: 32 lanes of 16 bytes are all of its keys and values
  int narrow_copies = 0;                 ///< at most, asynchronous copies of 4 bytes: scales
  int loop_loads_16 = 0;                 ///< at least, 16-byte loads in innermost loops that have any
  int loop_narrow_loads = 0;             ///< at most, other loads in such loops: tables
};

/// The name of a type as it stands in the names of kernels.
template <class T>
std::string type_name() {
  return cubin::demangle(typeid(T).name());
}

/// Whether a readable kernel name is pagoda::simt::entry of a type.
inline bool is_entry_of(const std::string& kernel, const std::string& type) {
  const std::string close = !type.empty() && type.back() == '>' ? " >(" : ">(";
  return kernel.find("pagoda::simt::entry<" + type + close) != std::string::npos;
}

/// The rules that the kernel breaks, each with kernel, architecture, value and limit.
inline std::vector<std::string> check(const measurement& m, const budget& b) {
  std::vector<std::string> faults;
  const std::string head = short_name(m.name) + " on sm_" + std::to_string(m.architecture) + ": ";
  const auto say = [&](const std::string& what, double value, const char* bound, double limit) {
    char numbers[96];
    std::snprintf(numbers, sizeof(numbers), " is %.6g, %s %.6g", value, bound, limit);
    faults.push_back(head + what + numbers);
  };
  const auto at_most = [&](const std::string& what, double value, double limit) {
    if (value > limit) say(what, value, "limit", limit);
  };
  const auto at_least = [&](const std::string& what, double value, double limit) {
    if (value < limit) say(what, value, "at least", limit);
  };
  const auto number = [](std::size_t value) { return static_cast<double>(value); };

  at_most("registers of a thread", m.registers, b.registers.of(m.architecture));
  at_most("bytes of local memory of a thread", m.frame_bytes, 0);
  at_most("bytes that spill", number(m.spill_bytes), 0);
  at_most("accesses through generic pointers", number(m.generic_accesses), 0);
  at_most("64-bit divisions in loops", number(m.repeated_long_divisions), 0);
  at_most("unknown instructions", number(m.unknown_instructions), 0);
  if (!m.is_flow_complete) faults.push_back(head + "has branches that cannot be followed");
  at_least("blocks on a multiprocessor", m.resident_blocks, b.blocks.of(m.architecture));
  at_least("KiB in flight on a multiprocessor", m.bytes_in_flight / 1024.0, b.kib_in_flight.of(m.architecture));
  at_most("4-byte copies", number(m.async_copies_4), b.narrow_copies);
  at_least("16-byte loads in loops", number(m.loop_loads_16), b.loop_loads_16);
  at_most("narrower loads in loops", number(m.loop_narrow_loads), b.loop_narrow_loads);

  const int loop_limit = b.loop_instructions.of(m.architecture);
  if (loop_limit > 0) {
    at_least("tensor-core instructions in the main loop", number(m.loop_mma), 1);
    at_most("instructions of the main loop for 16 tokens", m.loop_instructions_per_tile(), loop_limit);
    if (m.loop_copies_16 != static_cast<std::size_t>(b.loop_copies_16)) {
      say("16-byte copies in the main loop", number(m.loop_copies_16), "expected", b.loop_copies_16);
    }
  }
  return faults;
}

/// Prints the rows of a group's kernels and returns what is wrong with them: broken budgets, kernels without a budget,
/// budgets without a kernel.
inline std::vector<std::string> check_group(const std::string& group, const std::vector<budget>& budgets,
                                            const cubin::module_file& module) {
  std::vector<std::string> faults;
  std::vector<const budget*> wanted;
  for (const budget& b : budgets) {
    if (b.group == group) wanted.push_back(&b);
  }
  if (wanted.empty()) faults.push_back("group " + group + " has no budget in tests/gates/budgets.hpp");
  const std::string architecture = "sm_" + std::to_string(module.architecture());
  for (const cubin::kernel& k : module.kernels()) {
    const budget* own = nullptr;
    for (const budget*& b : wanted) {
      if (b == nullptr || !is_entry_of(k.name, b->kernel)) continue;
      own = b;
      b = nullptr;
      break;
    }
    const measurement m = measure(k, own != nullptr ? own->launch : launch_numbers{});
    print_row(m);
    if (own == nullptr) {
      faults.push_back(short_name(k.name) + " on " + architecture + " has no budget in group " + group);
      continue;
    }
    for (std::string& fault : check(m, *own)) faults.push_back(std::move(fault));
  }
  for (const budget* b : wanted) {
    if (b != nullptr) faults.push_back(b->kernel + " of group " + group + " is not in the cubin for " + architecture);
  }
  return faults;
}

}  // namespace pagoda_gates
