// SPDX-License-Identifier: Apache-2.0
/// @file One machine instruction of sm_80 to sm_90: 16 bytes, whose fields lie at fixed places.
///
/// Bits: 0-8 operation, 9-11 form of its operands, 12-14 predicate (7: always), 15 predicate negated, 16-23
/// destination, 24-31, 32-39 and 64-71 source registers (255: none), 73-75 width of a memory access. A branch target is
/// a signed distance from the next instruction, in units of 4 bytes: bits 34-81, and on sm_90 bits 16-23 below them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "elf.hpp"
#include "opcodes.hpp"

namespace cubin {

/// Operations that tests and reports ask for. Values are the instruction's low nine bits.
enum class operation : std::uint32_t {
  f2i = 0x105,
  hmma = 0x03c,
  ldsm = 0x03b,
  mufu = 0x108,
  i2f_64 = 0x112,
  nop = 0x118,
  bar = 0x11d,
  call_abs = 0x143,
  call_rel = 0x144,
  bra = 0x147,
  brx = 0x149,
  jmp = 0x14a,
  jmx = 0x14c,
  exit = 0x14d,
  ret = 0x150,
  brxu = 0x158,
  kill = 0x15b,
  ld = 0x180,
  ldg = 0x181,
  ldc = 0x182,
  ldl = 0x183,
  lds = 0x184,
  st = 0x185,
  stg = 0x186,
  stl = 0x187,
  sts = 0x188,
  shfl = 0x189,
  ldgsts = 0x1ae,
};

class instruction {
 public:
  static constexpr std::uint32_t bytes = 16;

  instruction(std::uint32_t address, std::uint64_t low, std::uint64_t high, int architecture)
      : low_(low), high_(high), address_(address), architecture_(architecture) {}

  /// Units: bytes from the kernel's start.
  std::uint32_t address() const noexcept { return address_; }
  std::uint64_t low() const noexcept { return low_; }
  std::uint64_t high() const noexcept { return high_; }

  std::uint32_t code() const noexcept { return static_cast<std::uint32_t>(low_ & 0x1ffu); }
  bool is(operation op) const noexcept { return code() == static_cast<std::uint32_t>(op); }

  /// Whether it always runs: no predicate guards it.
  bool is_unconditional() const noexcept { return (low_ >> 12 & 0xfu) == 7u; }

  bool accesses_memory() const noexcept {
    return is(operation::ld) || is(operation::st) || is(operation::ldg) || is(operation::stg) || is(operation::lds) ||
           is(operation::sts) || is(operation::ldl) || is(operation::stl) || is(operation::ldgsts);
  }

  /// Units: bits moved by one thread; 0 for an instruction that accesses no memory, or whose width is unknown.
  int width() const noexcept {
    constexpr int widths[8] = {8, 8, 16, 16, 32, 64, 128, 0};
    return accesses_memory() ? widths[high_ >> 9 & 7u] : 0;
  }

  /// The 8x8 matrices that an LDSM loads.
  int matrices() const noexcept { return is(operation::ldsm) ? 1 << (high_ >> 8 & 3u) : 0; }

  bool is_reciprocal() const noexcept { return is(operation::mufu) && (mufu_function() == 4 || mufu_function() == 6); }

  /// The name with the width of the access, as in "LDG.128". An unknown operation is its twelve bits in hexadecimal.
  std::string name() const {
    const std::string_view known = find_opcode_name(low_ & 0xfffu);
    if (known.empty()) {
      char text[16];
      std::snprintf(text, sizeof(text), "0x%03x", static_cast<unsigned>(low_ & 0xfffu));
      return text;
    }
    std::string name(known);
    if (accesses_memory()) name.append(".").append(width() == 0 ? "?" : std::to_string(width()));
    if (is(operation::ldsm)) name.append(".x").append(std::to_string(matrices()));
    if (is(operation::mufu)) name.append(".").append(mufu_name());
    return name;
  }
  bool is_known() const noexcept { return !find_opcode_name(low_ & 0xfffu).empty(); }

  /// Where a branch or call goes, in bytes from the kernel's start; none for other instructions, and for those whose
  /// target is in a register.
  std::optional<std::int64_t> target() const noexcept {
    if (!is(operation::bra) && !is(operation::call_rel)) return std::nullopt;
    std::uint64_t field = low_ >> 34 | (high_ & 0x3ffffu) << 30;  // 48 bits
    std::int64_t distance = static_cast<std::int64_t>(field << 16) >> 16;
    if (architecture_ >= 90) distance = distance * 256 + static_cast<std::int64_t>(low_ >> 16 & 0xffu);
    return static_cast<std::int64_t>(address_) + bytes + distance * 4;
  }

  /// Whether control never passes to the next instruction. A call comes back.
  bool ends_flow() const noexcept {
    return is_unconditional_branch() ||
           (is_unconditional() && (is(operation::exit) || is(operation::ret) || is(operation::kill) || jumps_far()));
  }

  /// Whether control goes where this reader cannot follow.
  bool jumps_far() const noexcept {
    return is(operation::brx) || is(operation::brxu) || is(operation::jmp) || is(operation::jmx);
  }

  /// One line of a listing: address, guard, name, registers, target.
  std::string text() const {
    char line[160];
    const unsigned guard = static_cast<unsigned>(low_ >> 12 & 7u);
    char predicate[8] = "";
    if (!is_unconditional()) {
      const std::string number = guard == 7 ? "T" : std::to_string(guard);
      std::snprintf(predicate, sizeof(predicate), "@%sP%s", (low_ >> 15 & 1u) != 0 ? "!" : "", number.c_str());
    }
    std::snprintf(line, sizeof(line), "%05x %5s %-14s %-4s %-4s %-4s %-4s", static_cast<unsigned>(address_), predicate,
                  name().c_str(), register_name(low_ >> 16).c_str(), register_name(low_ >> 24).c_str(),
                  register_name(low_ >> 32).c_str(), register_name(high_).c_str());
    std::string text(line);
    if (const auto to = target()) {
      std::snprintf(line, sizeof(line), " -> %05x", static_cast<unsigned>(*to));
      text += line;
    }
    std::snprintf(line, sizeof(line), "  %016llx %016llx", static_cast<unsigned long long>(low_),
                  static_cast<unsigned long long>(high_));
    return text + line;
  }

 private:
  /// BRA has a second predicate, bits 87-90, and BRA.DIV and BRA.CONV, which go only if the warp has diverged, bit 91.
  bool is_unconditional_branch() const noexcept {
    return is(operation::bra) && is_unconditional() && (low_ >> 9 & 7u) == 4u && (high_ >> 23 & 0x1fu) == 7u;
  }

  std::string_view mufu_name() const noexcept {
    constexpr std::string_view names[16] = {"COS",  "SIN",  "EX2", "LG2", "RCP", "RSQ", "RCP64H", "RSQ64H",
                                            "SQRT", "TANH", "?",   "?",   "?",   "?",   "?",      "?"};
    return names[mufu_function()];
  }
  unsigned mufu_function() const noexcept { return static_cast<unsigned>(high_ >> 10 & 0xfu); }

  static std::string register_name(std::uint64_t field) {
    const unsigned number = static_cast<unsigned>(field & 0xffu);
    return number == 255 ? std::string("RZ") : std::string("R").append(std::to_string(number));
  }

  std::uint64_t low_;
  std::uint64_t high_;
  std::uint32_t address_;
  int architecture_;
};

/// Splits a kernel's code.
/// Throws: std::runtime_error when the size is no multiple of 16 bytes.
inline std::vector<instruction> decode(std::span<const std::byte> code, int architecture) {
  if (code.size() % instruction::bytes != 0) {
    throw std::runtime_error("cubin: " + std::to_string(code.size()) + " bytes of code are no multiple of 16");
  }
  std::vector<instruction> instructions;
  instructions.reserve(code.size() / instruction::bytes);
  for (std::size_t at = 0; at < code.size(); at += instruction::bytes) {
    instructions.emplace_back(static_cast<std::uint32_t>(at), read_at<std::uint64_t>(code, at),
                              read_at<std::uint64_t>(code, at + 8), architecture);
  }
  return instructions;
}

}  // namespace cubin
