// SPDX-License-Identifier: Apache-2.0
/// @file A decoded entry: every opcode is a function, every operand the slot of a register.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace pagoda_test::ptx {

class warp;
struct instruction;

/// Executes an instruction for the lanes of a mask.
using execute_function = void (*)(warp&, const instruction&, std::uint32_t lanes);

/// What the scheduler has to know of an instruction.
enum class flow : std::uint8_t {
  lanes,       ///< each lane by itself
  branch,      ///< jumps to the target
  exit,        ///< ends the lane
  barrier,     ///< waits for all threads of the block
  collective,  ///< waits for the lanes of a mask, which its last operand names
  aligned,     ///< waits for all 32 lanes
};

enum class state_space : std::uint8_t { generic, global, shared, local, parameter };

/// What a memory instruction moves.
struct memory_access {
  state_space space = state_space::generic;
  std::uint8_t element_bytes = 0;
  std::uint8_t elements = 1;
  bool sign_extended = false;
};

/// A meaning of a mnemonic.
struct opcode {
  execute_function execute = nullptr;
  flow kind = flow::lanes;
  memory_access memory = {};
  std::uint8_t variant = 0;  ///< for a function that serves several mnemonics: which of them
};

/// Operands stand in the order of the text, vectors and pairs spread out.
struct instruction {
  opcode op;
  bool negated = false;             ///< of the predicate
  std::int32_t predicate = -1;      ///< slot, or -1
  std::uint32_t first_operand = 0;  ///< index into program::operands
  std::uint32_t operand_count = 0;
  std::int32_t target = -1;         ///< index of an instruction
  std::int64_t offset[2] = {0, 0};  ///< of the first and second address
  std::int32_t line = 0;
  std::int32_t mnemonic = 0;  ///< index into program::mnemonics
};

/// Values that a thread reads as %name.
enum class special_register : std::uint8_t {
  tid_x,
  tid_y,
  tid_z,
  ntid_x,
  ntid_y,
  ntid_z,
  ctaid_x,
  ctaid_y,
  ctaid_z,
  nctaid_x,
  nctaid_y,
  nctaid_z,
  laneid,
  warpid,
  nwarpid,
  lanemask_eq,
  lanemask_lt,
  lanemask_le,
  lanemask_gt,
  lanemask_ge,
  total_shared,
  dynamic_shared,
};

/// Where the windows of the state spaces lie among generic addresses. No host pointer has these bits.
inline constexpr std::uint64_t shared_window = std::uint64_t{1} << 62;
inline constexpr std::uint64_t local_window = std::uint64_t{2} << 60;
inline constexpr std::uint64_t parameter_window = std::uint64_t{3} << 60;
inline constexpr std::uint64_t window_mask = std::uint64_t{7} << 60;
/// Shared addresses begin behind the bytes that the machine keeps for itself, so that address 0 is out of range.
inline constexpr std::uint32_t shared_begin = 1024;

struct program {
  std::string name;      ///< mangled
  std::string readable;  ///< demangled, where it is a C++ name
  std::vector<instruction> code;
  std::vector<std::uint32_t> operands;
  std::vector<std::string> mnemonics;
  std::uint32_t slots = 0;
  std::vector<std::pair<std::uint32_t, std::uint64_t>> constants;  ///< slot and value
  std::vector<std::pair<std::uint32_t, special_register>> special_slots;
  std::int64_t parameter_bytes = 0;
  std::int64_t static_shared_bytes = 0;  ///< dynamic shared memory begins behind it
  std::int64_t local_bytes = 0;
  std::int64_t max_threads = 0;
  /// The file's lines, and its initialized variables, which live as long as any program of the file.
  std::shared_ptr<const std::vector<std::string>> lines;
  std::shared_ptr<std::vector<std::byte>> globals;
};

/// Slot 0 takes what an instruction writes to `_`.
inline constexpr std::uint32_t sink_slot = 0;

}  // namespace pagoda_test::ptx
