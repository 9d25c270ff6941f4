// SPDX-License-Identifier: Apache-2.0
// Two halves or two bfloat16 in one register, each computed as it would be alone.
#include <cmath>

#include "ptx/lanes.hpp"
#include "ptx/minimum.hpp"
#include "ptx/small_fma.hpp"

namespace pagoda_test::ptx {
namespace {

/// Both elements of 32-bit registers go through a function of floats; Element is f16 or bf16.
template <class Element, class Function, class... Words>
std::uint32_t both(Function function, Words... words) {
  const auto one = [&](unsigned shift) {
    const std::uint64_t bits =
        register_as<Element>::write(function(register_as<Element>::read(words >> shift & 0xffffu)...));
    return static_cast<std::uint32_t>(bits) << shift;
  };
  return one(0) | one(16);
}

using u32 = std::uint32_t;

template <class Element, class Function>
void on_pairs(opcode_table& t, const std::string& mnemonic, Function) {
  if constexpr (std::is_invocable_v<Function, float, float, float>) {
    on<u32, u32, u32, u32>(t, mnemonic, [](u32 a, u32 b, u32 c) { return both<Element>(Function{}, a, b, c); });
  } else if constexpr (std::is_invocable_v<Function, float, float>) {
    on<u32, u32, u32>(t, mnemonic, [](u32 a, u32 b) { return both<Element>(Function{}, a, b); });
  } else {
    on<u32, u32>(t, mnemonic, [](u32 a) { return both<Element>(Function{}, a); });
  }
}

template <class Element>
void add_pairs(opcode_table& t, const std::string& type) {
  const auto fma = [](float a, float b, float c) { return small_fma(a, b, c); };
  for (const char* rounding : {"", ".rn"}) {
    on_pairs<Element>(t, std::string("add") + rounding + type, [](float a, float b) { return a + b; });
    on_pairs<Element>(t, std::string("sub") + rounding + type, [](float a, float b) { return a - b; });
    on_pairs<Element>(t, std::string("mul") + rounding + type, [](float a, float b) { return a * b; });
  }
  on_pairs<Element>(t, "fma.rn" + type, fma);
  on_pairs<Element>(t, "fma.rn.relu" + type,
                    [](float a, float b, float c) { return greatest(small_fma(a, b, c), 0.0f); });
  on_pairs<Element>(t, "min" + type, [](float a, float b) { return least(a, b); });
  on_pairs<Element>(t, "max" + type, [](float a, float b) { return greatest(a, b); });
  on_pairs<Element>(t, "min.NaN" + type, [](float a, float b) { return least_nan(a, b); });
  on_pairs<Element>(t, "max.NaN" + type, [](float a, float b) { return greatest_nan(a, b); });
  on_pairs<Element>(t, "neg" + type, [](float a) { return -a; });
  on_pairs<Element>(t, "abs" + type, [](float a) { return std::fabs(a); });
}

}  // namespace

void add_packed_opcodes(opcode_table& table) {
  add_pairs<f16>(table, ".f16x2");
  add_pairs<bf16>(table, ".bf16x2");
  on_pairs<f16>(table, "ex2.approx.f16x2", [](float a) { return std::exp2(a); });
}

}  // namespace pagoda_test::ptx
