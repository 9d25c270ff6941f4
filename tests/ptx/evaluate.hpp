// SPDX-License-Identifier: Apache-2.0
/// @file One PTX instruction as a function: what it gives for some arguments, as bits.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "snippet.hpp"

namespace pagoda_test {

/// Bits that print in hexadecimal.
struct bit_pattern {
  std::uint64_t bits;
  friend bool operator==(bit_pattern, bit_pattern) = default;
  friend std::ostream& operator<<(std::ostream& out, bit_pattern x) {
    return out << "0x" << std::hex << x.bits << std::dec;
  }
};

/// A value of any type as an operand: its bits.
struct argument {
  std::uint64_t bits;
  argument(int x) : bits(static_cast<std::uint64_t>(static_cast<std::int64_t>(x))) {}  // NOLINT: implicit on purpose
  argument(unsigned x) : bits(x) {}                                                    // NOLINT
  argument(long x) : bits(static_cast<std::uint64_t>(x)) {}                            // NOLINT
  argument(unsigned long x) : bits(x) {}                                               // NOLINT
  argument(float x) : bits(__builtin_bit_cast(std::uint32_t, x)) {}                    // NOLINT
  argument(double x) : bits(__builtin_bit_cast(std::uint64_t, x)) {}                   // NOLINT
};

struct evaluation {
  std::string opcode;
  std::vector<argument> arguments;
  argument expected;
};

/// Executes every line in one thread, each with its own registers, and compares the results with what is expected.
/// Registers have no type in the interpreter; all here have 64 bits.
inline void check_evaluations(const std::vector<evaluation>& lines) {
  std::string body = ".reg .b64 %x<8>;\n";
  for (std::size_t n = 0; n < lines.size(); ++n) {
    std::string operands = "%x0";
    for (std::size_t a = 0; a < lines[n].arguments.size(); ++a) {
      const std::string name = "%x" + std::to_string(a + 1);
      body += "mov.b64 " + name + ", " + std::to_string(lines[n].arguments[a].bits) + ";\n";
      operands += ", " + name;
    }
    body += "mov.b64 %x0, -1;\n";
    body += lines[n].opcode + " " + operands + ";\n";
    body += "st.global.b64 [%d1+" + std::to_string(8 * n) + "], %x0;\n";
  }
  snippet_run how = {.threads = 1};
  how.to.assign(2 * lines.size(), 0);
  how.run(body);
  for (std::size_t n = 0; n < lines.size(); ++n) {
    CAPTURE(lines[n].opcode);
    CAPTURE(n);
    for (const argument& a : lines[n].arguments) {
      const bit_pattern value{a.bits};
      CAPTURE(value);
    }
    const std::uint64_t got = how.to[2 * n] | static_cast<std::uint64_t>(how.to[2 * n + 1]) << 32;
    CHECK(bit_pattern{got} == bit_pattern{lines[n].expected.bits});
  }
}

}  // namespace pagoda_test
