// SPDX-License-Identifier: Apache-2.0
/// @file The kernels of a cubin: their code and what each needs of the machine.
#pragma once

#include <cxxabi.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "elf.hpp"
#include "flow.hpp"
#include "sass.hpp"

namespace cubin {

/// A C++ name as a reader writes it; the name itself when it is none of C++.
inline std::string demangle(const std::string& name) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status),
                                                         &std::free);
  return status == 0 ? std::string(text.get()) : name;
}

/// What a multiprocessor offers, and how it deals it out. Source: CUDA programming guide, "Compute capabilities".
/// Units: bytes; registers of 32 bits.
struct multiprocessor {
  int registers = 0;
  int shared_bytes = 0;
  int warps = 0;
  int blocks = 0;
  static constexpr int register_unit = 256;     ///< a warp's registers are a multiple of it
  static constexpr int shared_unit = 128;       ///< a block's shared memory is a multiple of it
  static constexpr int reserved_shared = 1024;  ///< that the system takes of each block
};

/// Throws: std::runtime_error for an architecture that is not known here.
inline multiprocessor multiprocessor_of(int architecture) {
  if (architecture == 80) return {65536, 164 * 1024, 64, 32};
  if (architecture == 90) return {65536, 228 * 1024, 64, 32};
  throw std::runtime_error("cubin: the multiprocessor of sm_" + std::to_string(architecture) + " is not known here");
}

/// One kernel. Units: bytes; registers of one thread.
struct kernel {
  std::string mangled_name;
  std::string name;
  int architecture = 0;
  int registers = 0;
  int static_shared_bytes = 0;
  int frame_bytes = 0;  ///< of a thread's local memory: spilled registers and arrays that are not in registers
  int max_threads = 0;  ///< of __launch_bounds__, 0 without
  std::span<const std::byte> code_bytes;
  std::vector<instruction> code;  ///< the kernel with the functions that it calls
  std::vector<symbol> functions;  ///< that it calls, within its code

  /// How many of its instructions are of an operation; with a width, of that width.
  std::size_t count(operation op, int width = 0) const {
    return static_cast<std::size_t>(std::count_if(code.begin(), code.end(), [=](const instruction& i) {
      return i.is(op) && (width == 0 || i.width() == width);
    }));
  }

  /// Units: bytes that one thread moves if every instruction runs once. It is what ptxas reports as spill stores or
  /// loads when the kernel has no local arrays.
  std::size_t bytes_of(operation op) const {
    std::size_t bits = 0;
    for (const instruction& i : code) bits += i.is(op) ? static_cast<std::size_t>(i.width()) : 0;
    return bits / 8;
  }

  std::size_t local_accesses() const { return count(operation::ldl) + count(operation::stl); }

  /// Blocks that fit into a multiprocessor together, by registers, shared memory and warps.
  int resident_blocks(int threads, int dynamic_shared_bytes) const {
    const multiprocessor sm = multiprocessor_of(architecture);
    const auto round_up = [](int value, int unit) { return (value + unit - 1) / unit * unit; };
    const int warps = (threads + 31) / 32;
    const int warp_registers = round_up(registers * 32, multiprocessor::register_unit);
    // Registers belong to one of four partitions, as its warps do.
    const int register_warps = sm.registers / 4 / warp_registers * 4;
    const int shared = round_up(static_shared_bytes + dynamic_shared_bytes, multiprocessor::shared_unit) +
                       multiprocessor::reserved_shared;
    return std::min({register_warps / warps, sm.shared_bytes / shared, sm.warps / warps, sm.blocks});
  }
};

/// Whether a function of the CUDA runtime divides 64-bit integers. ptxas inlines all but the last resort of a division,
/// which is a call to one of these.
inline bool is_long_division(std::string_view function) {
  for (const std::string_view part : {"div_s64", "div_u64", "rem_s64", "rem_u64"}) {
    if (function.find(part) != std::string_view::npos) return true;
  }
  return false;
}

/// The instructions that divide 64-bit integers and can run more than once: calls to a division, and where one is
/// inlined, the conversion of a 64-bit integer to float that comes before a reciprocal.
inline std::vector<std::size_t> repeated_long_divisions(const kernel& k, const control_flow& flow) {
  std::vector<std::size_t> calls;
  std::vector<std::size_t> conversions;
  bool has_reciprocal = false;
  for (std::size_t i = 0; i < k.code.size(); ++i) {
    if (!flow.repeats(i)) continue;
    const instruction& each = k.code[i];
    has_reciprocal = has_reciprocal || each.is_reciprocal();
    if (each.is(operation::i2f_64)) conversions.push_back(i);
    if (!each.is(operation::call_rel)) continue;
    const std::int64_t to = *each.target();
    const bool is_division = std::any_of(k.functions.begin(), k.functions.end(), [to](const symbol& function) {
      return static_cast<std::int64_t>(function.value) == to && is_long_division(function.name);
    });
    if (is_division) calls.push_back(i);
  }
  if (has_reciprocal) calls.insert(calls.end(), conversions.begin(), conversions.end());
  return calls;
}

/// The loop in which the tensor cores work: of the innermost ones with HMMA that with the most, and of several the
/// shortest. None without HMMA in a loop.
inline std::optional<loop> tensor_core_loop(const kernel& k, const control_flow& flow) {
  std::optional<loop> best;
  std::size_t most = 0;
  const auto mma = [&](const loop& range) { return cubin::count(k.code, range, operation::hmma); };
  for (const loop& candidate : innermost_loops(flow, [&](const loop& range) { return mma(range) > 0; })) {
    const std::size_t found = mma(candidate);
    if (found > most || (found == most && candidate.size() < best->size())) {
      best = candidate;
      most = found;
    }
  }
  return best;
}

/// The innermost loops that read 16 bytes at a time from global memory.
inline std::vector<loop> loading_loops(const kernel& k, const control_flow& flow) {
  return innermost_loops(flow, [&](const loop& range) {
    return cubin::count(k.code, range, operation::ldg, 128) + cubin::count(k.code, range, operation::ldgsts, 128) > 0;
  });
}

namespace detail {

/// Attributes of .nv.info sections: a format, a number, and for format 4 a size and that many bytes.
class attributes {
 public:
  enum : std::uint8_t { max_threads = 0x05, frame_size = 0x11, register_count = 0x2f };

  /// Calls function(number, payload) for each attribute that has a payload.
  template <class Function>
  static void visit(std::span<const std::byte> info, Function function) {
    for (std::size_t at = 0; at + 4 <= info.size();) {
      const auto format = read_at<std::uint8_t>(info, at);
      const auto number = read_at<std::uint8_t>(info, at + 1);
      const auto size = read_at<std::uint16_t>(info, at + 2);
      at += 4;
      if (format != sized) continue;
      if (size > info.size() - at) throw std::runtime_error("cubin: an attribute of .nv.info passes its end");
      function(number, info.subspan(at, size));
      at += size;
    }
  }

 private:
  static constexpr std::uint8_t sized = 4;
};

}  // namespace detail

/// A cubin and its kernels.
class module_file {
 public:
  explicit module_file(elf_file file) : file_(std::move(file)) {
    constexpr std::string_view prefix = ".text.";
    for (std::size_t i = 0; i < file_.sections().size(); ++i) {
      const section& s = file_.sections()[i];
      if (s.name.compare(0, prefix.size(), prefix) == 0) kernels_.push_back(read_kernel(i, s.name.substr(6)));
    }
    std::sort(kernels_.begin(), kernels_.end(), [](const kernel& a, const kernel& b) { return a.name < b.name; });
  }

  static module_file load(const std::string& path) { return module_file(elf_file::load(path)); }

  int architecture() const noexcept { return file_.architecture(); }
  const std::vector<kernel>& kernels() const noexcept { return kernels_; }

  /// The one kernel whose mangled or readable name contains the text.
  /// Throws: std::runtime_error when there is none, or more than one.
  const kernel& find(std::string_view part) const {
    const kernel* found = nullptr;
    for (const kernel& k : kernels_) {
      if (k.name.find(part) == std::string::npos && k.mangled_name.find(part) == std::string::npos) continue;
      if (found != nullptr) throw std::runtime_error("cubin: several kernels are named like " + std::string(part));
      found = &k;
    }
    if (found == nullptr) throw std::runtime_error("cubin: no kernel is named like " + std::string(part));
    return *found;
  }

 private:
  kernel read_kernel(std::size_t index, const std::string& name) const {
    const section& text = file_.sections()[index];
    kernel k;
    k.mangled_name = name;
    k.name = demangle(name);
    k.architecture = file_.architecture();
    k.code_bytes = text.data;
    k.code = decode(text.data, k.architecture);

    std::optional<std::uint32_t> number;
    for (std::size_t i = 0; i < file_.symbols().size(); ++i) {
      const symbol& s = file_.symbols()[i];
      if (s.section != index || s.type != elf_file::function_type) continue;
      if (s.name == name)
        number = static_cast<std::uint32_t>(i);
      else
        k.functions.push_back(s);
    }
    if (!number) throw std::runtime_error("cubin: kernel " + name + " has no symbol");

    const section* info = file_.find(".nv.info");
    if (info == nullptr) throw std::runtime_error("cubin: no section .nv.info");
    bool has_registers = false;
    detail::attributes::visit(info->data, [&](std::uint8_t attribute, std::span<const std::byte> payload) {
      if (payload.size() != 8 || read_at<std::uint32_t>(payload, 0) != *number) return;
      const auto value = static_cast<int>(read_at<std::uint32_t>(payload, 4));
      if (attribute == detail::attributes::register_count) {
        k.registers = value;
        has_registers = true;
      }
      if (attribute == detail::attributes::frame_size) k.frame_bytes = value;
    });
    if (!has_registers) throw std::runtime_error("cubin: the registers of " + name + " are not recorded");

    if (const section* own = file_.find(".nv.info." + name)) {
      detail::attributes::visit(own->data, [&](std::uint8_t attribute, std::span<const std::byte> payload) {
        if (attribute != detail::attributes::max_threads || payload.size() != 12) return;
        k.max_threads = static_cast<int>(read_at<std::uint32_t>(payload, 0) * read_at<std::uint32_t>(payload, 4) *
                                         read_at<std::uint32_t>(payload, 8));
      });
    }
    if (const section* shared = file_.find(".nv.shared." + name)) {
      k.static_shared_bytes = static_cast<int>(shared->size);
      // From sm_90 on the section holds what the system takes as well.
      if (k.architecture >= 90) k.static_shared_bytes -= multiprocessor::reserved_shared;
    }
    return k;
  }

  elf_file file_;
  std::vector<kernel> kernels_;
};

}  // namespace cubin
