// SPDX-License-Identifier: Apache-2.0
/// @file The opcodes that the interpreter knows. Each is one line of a table and a small function.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>

#include "ptx/program.hpp"

namespace pagoda_test::ptx {

/// Opcodes by mnemonic with all its modifiers and the shapes of its operands: "ld.global.v4.u32/4a". Shapes: 1 a single
/// value, 2 4 8 a vector, a an address, p a pair d|p, l a label.
class opcode_table {
 public:
  /// The table of all files of opcodes, made once.
  static const opcode_table& all();

  void add(const std::string& key, opcode meaning) { meanings_[key] = meaning; }
  const opcode* find(const std::string& mnemonic, const std::string& shape) const {
    const auto found = meanings_.find(mnemonic + "/" + shape);
    return found == meanings_.end() ? nullptr : &found->second;
  }
  std::size_t size() const { return meanings_.size(); }

 private:
  std::unordered_map<std::string, opcode> meanings_;
};

/// Modifiers that say nothing to one block at a time on one CPU thread (caches, orders and scopes) are left out of the
/// mnemonics of memory instructions before they are looked up.
std::string without_hints(std::string_view mnemonic);

void add_integer_opcodes(opcode_table& table);
void add_bit_opcodes(opcode_table& table);
void add_float_opcodes(opcode_table& table);
void add_packed_opcodes(opcode_table& table);
void add_comparison_opcodes(opcode_table& table);
void add_conversion_opcodes(opcode_table& table);
void add_move_opcodes(opcode_table& table);
void add_memory_opcodes(opcode_table& table);
void add_atomic_opcodes(opcode_table& table);
void add_async_opcodes(opcode_table& table);
void add_warp_opcodes(opcode_table& table);
void add_matrix_opcodes(opcode_table& table);
void add_control_opcodes(opcode_table& table);

}  // namespace pagoda_test::ptx
