// SPDX-License-Identifier: Apache-2.0
// What a pool of blocks and an eviction policy would have been worth on a real trace of requests:
//
//   replay --trace conversation_trace.jsonl --format mooncake --capacity-blocks 10000 --policy lfu
//   replay --trace conversation_trace.jsonl --format mooncake --sweep --svg sweep.svg
//   replay --trace AzureLLMInferenceTrace_conv.csv --format azure --block-tokens 64 --json
#include <cstdio>
#include <exception>
#include <fstream>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "error.hpp"
#include "options.hpp"
#include "replay.hpp"
#include "report.hpp"
#include "sweep.hpp"
#include "trace.hpp"

namespace {

using namespace pagoda_replay;

trace load(const options& given) {
  trace result = read_trace(read_trace_file(given.trace, given.format), given.format);
  if (!result.malformed.empty()) {
    std::cerr << given.trace << ":\n" << describe_malformed(result);
    if (!given.skip_malformed) {
      refuse(result.malformed.size(),
             " of the lines are no requests and nothing was replayed: mend them, or pass "
             "--skip-malformed to go on without them");
    }
    std::cerr << "skipped " << result.malformed.size() << " malformed lines\n";
  }
  if (result.requests.empty()) refuse("--trace is ", given.trace, ", which has no request: pass a file of requests");
  return result;
}

std::string replayed(const options& given, const trace& trace) {
  replay_settings settings{.policy = given.policy, .block_tokens = given.block_tokens};
  if (!given.capacities.empty()) settings.capacity_blocks = given.capacities[0];
  const replay_result result = [&] {
    progress bar(static_cast<std::int64_t>(trace.requests.size()));
    return replay_trace(trace, settings, bar);
  }();
  return given.json ? report_json(given.trace, trace, result) : report_table(given.trace, trace, result);
}

std::string swept(const options& given, const trace& trace) {
  const auto check = [&](const std::ofstream& file) {
    if (!file) refuse("--svg is ", given.svg, ", which cannot be written: pass another file");
  };
  std::ofstream file;
  if (!given.svg.empty()) {
    file.open(given.svg, std::ios::binary);
    check(file);  // before the work
  }
  const std::vector<replay_result> runs = sweep(trace, given.capacities);
  if (!given.svg.empty()) {
    file << draw_sweep(runs) << std::flush;
    check(file);
  }
  return given.json ? sweep_json(given.trace, trace, runs) : sweep_table(runs);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    options given;
    if (const std::optional<int> exit_code = parse_options(argc, argv, given)) return *exit_code;
    const trace trace = load(given);
    std::cout << (given.sweep ? swept(given, trace) : replayed(given, trace)) << std::flush;
    if (!std::cout) refuse("the report could not be written: check where standard output goes");
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "replay: " << error.what() << '\n';
    return 1;
  }
}
