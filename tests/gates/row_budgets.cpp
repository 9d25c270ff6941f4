// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include <pagoda/kernels/append.hpp>
#include <pagoda/kernels/copy.hpp>
#include <pagoda/quantizer/fp8_e4m3.hpp>
#include <pagoda/quantizer/identity.hpp>
#include <pagoda/quantizer/int4_per_token.hpp>
#include <pagoda/quantizer/int8_per_token.hpp>

#include "budgets.hpp"

namespace pagoda_gates {
namespace {

using namespace pagoda;
using namespace pagoda::kernels;

template <class Quantizer>
void add_rows(std::vector<budget>& table) {
  budget rows = budget_of<append<Quantizer, Quantizer>>("rows");
  rows.registers = {72, 72};
  rows.blocks = {3, 3};
  rows.loop_narrow_loads = 14;  // the search for a row's sequence is in the loop over rows
  table.push_back(rows);
  budget moves = budget_of<move_rows<Quantizer, Quantizer>>("rows");
  moves.registers = {48, 48};
  moves.blocks = {4, 4};
  moves.loop_loads_16 = 1;
  table.push_back(moves);
}

}  // namespace

void add_row_budgets(std::vector<budget>& table) {
  add_rows<identity<float>>(table);
  add_rows<identity<half>>(table);
  add_rows<identity<bfloat16>>(table);
  add_rows<int8_per_token>(table);
  add_rows<int4_per_token>(table);
  add_rows<fp8_e4m3>(table);
  budget blocks = budget_of<copy_blocks>("rows");
  blocks.registers = {40, 40};
  blocks.blocks = {6, 6};
  blocks.loop_loads_16 = 4;
  blocks.loop_narrow_loads = 2;  // which block goes where
  table.push_back(blocks);
}

}  // namespace pagoda_gates
