// SPDX-License-Identifier: Apache-2.0
#include "options.hpp"

#include <algorithm>
#include <charconv>
#include <iostream>
#include <string_view>

#include <CLI/CLI.hpp>

#include "error.hpp"
#include "replay.hpp"

namespace pagoda_replay {

namespace {

/// The numbers of a comma-separated list.
std::vector<std::int32_t> numbers_of(const char* flag, std::string_view list) {
  std::vector<std::int32_t> numbers;
  for (;;) {
    const std::string_view item = list.substr(0, list.find(','));
    std::int32_t number = 0;
    const auto [end, error] = std::from_chars(item.data(), item.data() + item.size(), number);
    if (error != std::errc() || end != item.data() + item.size() || number < 1) {
      refuse(flag, " is ", quoted(item), ", but must be a whole number from 1 to ", INT32_MAX,
             ": pass one in decimal digits");
    }
    numbers.push_back(number);
    if (item.size() == list.size()) return numbers;
    list.remove_prefix(item.size() + 1);
  }
}

void check_policy(std::string_view name) {
  const std::vector<std::string_view> names = policy_names();
  if (std::find(names.begin(), names.end(), name) != names.end()) return;
  std::string known;
  for (const std::string_view each : names) known += (known.empty() ? "" : ", ") + std::string(each);
  refuse("--policy is ", quoted(name), ", but must be one of ", known);
}

void check_together(const options& given, const CLI::App& app) {
  const bool mooncake = given.format == trace_format::mooncake;
  if (mooncake && app.count("--block-tokens") > 0 && given.block_tokens != 1) {
    refuse("--block-tokens is ", given.block_tokens,
           ", but a block of a mooncake trace is one of its hash_ids, which "
           "counts as one token: leave the flag away");
  }
  if (given.sweep && !mooncake) {
    refuse("--sweep compares hit rates, but requests of the format ", name_of(given.format),
           " share no blocks: leave it away, or pass a mooncake trace");
  }
  if (!mooncake && app.count("--policy") > 0) {
    std::cerr << "replay: --policy changes nothing here: requests of the format " << name_of(given.format)
              << " share no blocks\n";
  }
  if (given.sweep && app.count("--policy") > 0) refuse("--sweep takes all policies: leave --policy away");
  if (!given.sweep && !given.svg.empty()) refuse("--svg draws a sweep: pass --sweep, too");
  if (!given.sweep && given.capacities.size() > 1) {
    refuse("--capacity-blocks has ", given.capacities.size(), " numbers, but only --sweep takes more than one");
  }
}

}  // namespace

std::optional<int> parse_options(int argc, const char* const* argv, options& result) {
  CLI::App app("Replays a trace of requests through Pagoda's block manager: what a capacity and a policy are worth.");
  std::string format;
  std::string capacities;
  std::string block_tokens;
  app.add_option("--trace", result.trace, "File of requests")->required();
  app.add_option("--format", format, "How the file is written: mooncake, azure or lengths")->required();
  app.add_option("--capacity-blocks", capacities,
                 "Blocks of the pool; with --sweep, several with commas between them (default: without a limit)");
  app.add_option("--policy", result.policy, "Which cached block goes first, where blocks are shared (default: lru)");
  app.add_option("--block-tokens", block_tokens, "Tokens of a block, a power of two; azure and lengths (default: 16)");
  app.add_flag("--json", result.json, "Print JSON");
  app.add_flag("--sweep", result.sweep, "Print the hit rates of all policies over capacities; mooncake only");
  app.add_option("--svg", result.svg, "Draw the sweep into this file");
  app.add_flag("--skip-malformed", result.skip_malformed, "Go on without the lines that are no requests");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  }
  result.format = format_named(format);
  check_policy(result.policy);
  if (app.count("--capacity-blocks") > 0) result.capacities = numbers_of("--capacity-blocks", capacities);
  std::sort(result.capacities.begin(), result.capacities.end());
  result.capacities.erase(std::unique(result.capacities.begin(), result.capacities.end()), result.capacities.end());
  if (app.count("--block-tokens") > 0) {
    const std::vector<std::int32_t> numbers = numbers_of("--block-tokens", block_tokens);
    result.block_tokens = numbers[0];
    if (numbers.size() > 1 || numbers[0] > 65536 || (numbers[0] & (numbers[0] - 1)) != 0) {
      refuse("--block-tokens is ", block_tokens, ", but must be a power of two from 1 to 65536, such as 16 or 64");
    }
  }
  check_together(result, app);
  return std::nullopt;
}

}  // namespace pagoda_replay
