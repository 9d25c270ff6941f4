// SPDX-License-Identifier: Apache-2.0
/// @file PTX as text: what the parser finds in a file, before any name or opcode has a meaning.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace pagoda_test::ptx {

/// One operand as written. A shape letter each: 1 a single value, 2 4 8 a vector, a an address, p a pair d|p.
struct operand_syntax {
  char shape = '1';
  std::vector<std::string> words;  ///< of a vector or pair, all; of others, one
  std::int64_t offset = 0;         ///< of an address
  bool inverted = false;           ///< !p
};

struct statement {
  int line = 0;
  std::string predicate;  ///< empty if there is none
  bool negated = false;
  std::string opcode;
  std::vector<operand_syntax> operands;
};

enum class variable_space { shared, local, parameter, global };

struct variable {
  variable_space space = variable_space::global;
  std::string name;
  std::int64_t align = 1;
  std::int64_t bytes = 0;
  bool dynamic = false;                    ///< an array without a size: the block's dynamic shared memory
  std::vector<std::uint8_t> initial = {};  ///< of a global variable
};

/// `.reg .b32 %r<9>` declares %r0 to %r8; `.reg .b32 x` declares x (count is then 0).
struct register_range {
  std::string name;
  std::int64_t count = 0;
};

struct label {
  std::string name;
  std::size_t statement = 0;  ///< index of the statement that follows
};

struct entry_syntax {
  std::string name;
  int line = 0;
  std::int64_t max_threads = 0;  ///< .maxntid, 0 if there is none
  std::vector<variable> variables;
  std::vector<register_range> registers;
  std::vector<statement> statements;
  std::vector<label> labels;
};

struct module_syntax {
  std::vector<variable> variables;
  std::vector<entry_syntax> entries;
};

/// Reads PTX. Names declared inside nested braces are made unique, so that an entry has one flat list of names.
/// Throws: load_error.
module_syntax parse(std::string_view text, const std::string& file);

}  // namespace pagoda_test::ptx
