// SPDX-License-Identifier: Apache-2.0
/// @file The table, the bars and the JSON file of the check.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "check_log.hpp"
#include "machine_facts.hpp"
#include "speed_cell.hpp"

namespace pagoda_check {

/// What a cell ought to reach on a GPU.
struct speed_bar {
  std::string_view quantizer;
  std::int32_t batch;
  std::int32_t context;
  std::int32_t group;
  double share = 0;         ///< of the copy's rate; 0: a bar in microseconds
  double microseconds = 0;  ///< below that
};

struct bar_result {
  std::string what;
  std::string state;  ///< met, missed or not run
};

struct report {
  machine_facts facts{};
  copy_rates copy{};
  std::vector<check_result> checks{};
  std::vector<speed_cell> cells{};
  std::vector<bar_result> bars{};
};

void print_facts(const machine_facts& facts);
void print_table_head();
/// The rows of the cells from `first` on.
void print_rows(const report& report, std::size_t first);
void print_table_foot(const report& report);

/// Looks for each bar's decode cell and prints how it fares.
std::vector<bar_result> judge_bars(const std::vector<speed_bar>& bars, const report& report);

/// Throws: std::runtime_error if the file cannot be written.
void write_json(const report& report, const std::string& path);

}  // namespace pagoda_check
