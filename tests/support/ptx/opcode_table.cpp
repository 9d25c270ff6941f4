// SPDX-License-Identifier: Apache-2.0
#include "ptx/opcode_table.hpp"

#include <array>

namespace pagoda_test::ptx {

const opcode_table& opcode_table::all() {
  static const opcode_table table = [] {
    opcode_table result;
    add_integer_opcodes(result);
    add_bit_opcodes(result);
    add_float_opcodes(result);
    add_packed_opcodes(result);
    add_comparison_opcodes(result);
    add_conversion_opcodes(result);
    add_move_opcodes(result);
    add_memory_opcodes(result);
    add_atomic_opcodes(result);
    add_async_opcodes(result);
    add_warp_opcodes(result);
    add_matrix_opcodes(result);
    add_control_opcodes(result);
    return result;
  }();
  return table;
}

std::string without_hints(std::string_view mnemonic) {
  constexpr std::array<std::string_view, 26> hints = {"ca",
                                                      "cg",
                                                      "cs",
                                                      "cv",
                                                      "lu",
                                                      "wb",
                                                      "wt",
                                                      "weak",
                                                      "volatile",
                                                      "relaxed",
                                                      "acquire",
                                                      "release",
                                                      "acq_rel",
                                                      "sc",
                                                      "cta",
                                                      "cluster",
                                                      "gpu",
                                                      "sys",
                                                      "L1::evict_normal",
                                                      "L1::evict_first",
                                                      "L1::evict_last",
                                                      "L1::no_allocate",
                                                      "L1::evict_unchanged",
                                                      "L2::64B",
                                                      "L2::128B",
                                                      "L2::256B"};
  const std::string_view base = mnemonic.substr(0, mnemonic.find('.'));
  if (base != "ld" && base != "st" && base != "atom" && base != "red") return std::string(mnemonic);
  std::string result(base);
  for (std::size_t dot = base.size(); dot < mnemonic.size();) {
    const std::size_t end = std::min(mnemonic.find('.', dot + 1), mnemonic.size());
    const std::string_view part = mnemonic.substr(dot + 1, end - dot - 1);
    bool hint = false;
    for (const std::string_view known : hints) hint |= part == known;
    if (!hint) result.append(".").append(part);
    dot = end;
  }
  return result;
}

}  // namespace pagoda_test::ptx
