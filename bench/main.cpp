// SPDX-License-Identifier: Apache-2.0
// Benchmarks of Pagoda. Take medians: --benchmark_repetitions=5 --benchmark_report_aggregates_only=true.
#include <string>

#include <benchmark/benchmark.h>
#include <pagoda/config.hpp>

#include "support/machine.hpp"

int main(int argc, char** argv) {
  benchmark::AddCustomContext("vector_unit", PAGODA_HAS_AVX512 ? "avx512" : PAGODA_HAS_AVX2 ? "avx2" : "plain");
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
