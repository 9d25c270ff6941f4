// SPDX-License-Identifier: Apache-2.0
/// @file The check from its command line to its exit code, on any machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>
#include <type_traits>
#include <vector>

#include <CLI/CLI.hpp>

#include "quantizers.hpp"
#include "report.hpp"

namespace pagoda_check {

inline constexpr int skipped = 77;  // what CTest takes as "skipped"

struct check_options {
  std::string json{};
  double seconds = 460;
  std::string only{};
};

/// The sizes of the whole check.
struct check_plan {
  std::vector<std::int32_t> half_head_dims{128, 64, 256};
  speed_plan speed{};
};

/// The machine's correctness phase. Returns: how many checks failed.
template <class Machine>
int run_correctness(Machine& machine, const check_plan& plan, report& report) {
  check_log log;
  for_each_type(checked_quantizers{}, [&]<class Quantizer>(pagoda::type_tag<Quantizer>) {
    const std::vector<std::int32_t> one{128};
    for (const std::int32_t dim : std::is_same_v<Quantizer, f16> ? plan.half_head_dims : one) {
      check_quantizer<Machine, Quantizer>(machine, log, dim);
    }
  });
  report.checks = log.results();
  std::printf("%zu checks, %d failed, %.0f s\n", report.checks.size(), log.failures(), machine.seconds());
  return log.failures();
}

/// The machine's speed phase. Returns: 0, or 1 if the device failed.
template <class Machine>
int run_speed(Machine& machine, const check_plan& plan, double deadline, report& report) {
  const speed_plan& sizes = plan.speed;
  report.copy = machine.measure_copy(sizes.copy_bytes);
  std::printf("copy of %.0f MiB: %.1f GB/s by cudaMemcpyAsync, %.1f GB/s by a kernel (read + written)\n",
              static_cast<double>(sizes.copy_bytes) / 1048576, report.copy.memcpy_rate, report.copy.kernel_rate);
  const speed_rows<Machine> rows(machine, sizes);
  std::vector<std::string> errors;
  const speed_run<Machine> run{machine, sizes, rows, deadline, report.facts.l2_bytes, report.cells, errors};
  const auto measure = [&]<class... Quantizers>(pagoda::type_list<Quantizers...>, std::int32_t batch,
                                                std::int32_t context, wanted_cells wanted) {
    const std::size_t first = report.cells.size();
    (measure_pool<Machine, Quantizers>(run, batch, context, wanted), ...);
    print_rows(report, first);
  };
  print_table_head();
  // The bars' cells come first, then the short ones: what is left out when time runs out is the longest.
  measure(pagoda::type_list<f16, int8, int4>{}, sizes.bar_batch, sizes.bar_context, wanted_cells::decode);
  for (const std::int32_t context : sizes.contexts) {
    for (const std::int32_t batch : sizes.batches) measure(fast_quantizers{}, batch, context, wanted_cells::all);
  }
  print_table_foot(report);
  for (const std::string& error : errors) {
    report.checks.push_back({"speed phase", false, error});
    std::printf("FAIL  speed phase: %s\n", error.c_str());
  }
  const std::int32_t group = sizes.groups.size() > 1 ? sizes.groups[1] : sizes.groups[0];  // 4, Llama-3-8B's
  report.bars = judge_bars({{f16::name, sizes.bar_batch, sizes.bar_context, group, 0.90},
                            {int8::name, sizes.bar_batch, sizes.bar_context, group, 0.85},
                            {int4::name, sizes.bar_batch, sizes.bar_context, group, 0.75},
                            {f16::name, sizes.batches[0], sizes.contexts[0], group, 0, 8.0}},
                           report);
  return errors.empty() ? 0 : 1;
}

/// Returns: the exit code of the program.
template <class Machine>
int check_main(int argc, char** argv, const check_plan& plan) {
  CLI::App app(
      "Checks Pagoda's CUDA part on this machine's GPU, then measures it. Needs the driver and nothing else:\n"
      "    pagoda_gpu_check --json gpu_check.json\n"
      "First append, attention, copies, plans and graphs against the host's results and a reference in double, one\n"
      "PASS or FAIL a line. Then one table: decode, prefill and append for each KV type, batch, context and group.\n"
      "Exit code: 0 all checks pass (bars of speed are printed, and judge nothing), 1 one fails, 77 no CUDA device.");
  check_options options;
  app.add_option("--json", options.json, "Write the results to this file, too");
  app.add_option("--seconds", options.seconds, "Begin no measurement later; what is left is printed as not run")
      ->check(CLI::Range(1.0, 86400.0))
      ->capture_default_str();
  app.add_option("--only", options.only, "Run one phase")->check(CLI::IsMember({"correctness", "speed"}));
  CLI11_PARSE(app, argc, argv);

  const std::string missing = Machine::missing();
  if (!missing.empty()) {
    std::printf("[SKIPPED] no CUDA device: %s\n", missing.c_str());
    return skipped;
  }
  int failures = 0;
  try {
    Machine machine;
    report report;
    report.facts = machine.facts();
    print_facts(report.facts);
    if (options.only != "speed") failures = run_correctness(machine, plan, report);
    if (options.only != "correctness") failures += run_speed(machine, plan, options.seconds, report);
    if (!options.json.empty()) write_json(report, options.json);
    std::printf("%s after %.0f s\n", failures == 0 ? "all checks passed" : "FAILED", machine.seconds());
  } catch (const std::exception& error) {
    std::printf("FAIL  %s\n", error.what());
    return 1;
  }
  return failures == 0 ? 0 : 1;
}

}  // namespace pagoda_check
