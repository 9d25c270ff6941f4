// SPDX-License-Identifier: Apache-2.0
// Benchmarks of Pagoda. Take medians: --benchmark_repetitions=5 --benchmark_report_aggregates_only=true.
// With --huge_pages the memory that is read, and the probe's, are asked for as huge pages.
#include <algorithm>
#include <string>
#include <string_view>

#include <benchmark/benchmark.h>
#include <pagoda/config.hpp>

#include "support/machine.hpp"
#include "support/memory.hpp"

int main(int argc, char** argv) {
  const auto is_huge_pages = [](const char* argument) { return std::string_view(argument) == "--huge_pages"; };
  char** const left = std::remove_if(argv + 1, argv + argc, is_huge_pages);
  const bool huge_pages = left != argv + argc;
  argc = static_cast<int>(left - argv);
  if (huge_pages) pagoda_bench::bench_memory::advise_huge_pages();
  benchmark::AddCustomContext("pages", huge_pages ? "asked to be huge" : "as the system gives them");
  const std::string unit = PAGODA_HAS_AVX512 ? "avx512" : PAGODA_HAS_AVX2 ? "avx2" : "plain";
  benchmark::AddCustomContext("vector_unit", unit + (PAGODA_HAS_VNNI ? " with vnni" : ""));
  benchmark::AddCustomContext("last_level_cache_bytes", std::to_string(pagoda_bench::last_level_cache_bytes()));
  benchmark::AddCustomContext("cold_working_set_bytes", std::to_string(pagoda_bench::working_set_bytes()));
#ifdef __clang__
  benchmark::AddCustomContext("compiler", "clang " __VERSION__);
#else
  benchmark::AddCustomContext("compiler", "gcc " __VERSION__);
#endif
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
