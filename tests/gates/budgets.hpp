// SPDX-License-Identifier: Apache-2.0
/// @file The written budgets of the kernels that ship. CMakeLists.txt names the same kernels, in the same groups.
#pragma once

#include <string>
#include <vector>

#include "check.hpp"

namespace pagoda_gates {

/// Attention: tensor_decode, tensor_prefill, generic_attention, merge_chunks and plan_chunks.
void add_attention_budgets(std::vector<budget>& table);

/// What moves rows: append, copy_blocks and move_rows.
void add_row_budgets(std::vector<budget>& table);

inline std::vector<budget> budgets() {
  std::vector<budget> table;
  add_attention_budgets(table);
  add_row_budgets(table);
  return table;
}

/// A budget with the launch numbers that the kernel states itself.
template <class Kernel>
budget budget_of(const std::string& group) {
  budget b;
  b.group = group;
  b.kernel = type_name<Kernel>();
  b.launch.threads = Kernel::threads;
  b.launch.shared_bytes = Kernel::shared_bytes;
  return b;
}

}  // namespace pagoda_gates
