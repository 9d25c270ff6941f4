// SPDX-License-Identifier: Apache-2.0
// Twelve requests on a cache that is too small for them, preempted by swapping or by dropping; then each of them again,
// undisturbed, which must give the same bits. --preempt swap|recompute, --metrics prometheus|json.
#include <iostream>
#include <string_view>
#include <utility>
#include <vector>

#include "engine.hpp"
#include "metrics.hpp"

namespace {

constexpr std::int32_t blocks = 24;  // of 16 tokens

// Requests of one application share its system prompt. Application 2 has that of 0, but an adapter of its own, so that
// its keys and values are others.
std::vector<request> make_requests() {
  constexpr struct {
    int arrival, priority, application, question, generated;
  } jobs[] = {{0, 0, 0, 90, 60}, {0, 1, 0, 20, 40}, {0, 0, 1, 150, 30}, {1, 2, 0, 8, 25},
              {2, 0, 1, 40, 50}, {2, 0, 2, 60, 60}, {3, 2, 2, 10, 30},  {4, 1, 1, 12, 70},
              {6, 0, 0, 350, 9}, {7, 0, 2, 33, 48}, {9, 1, 0, 5, 44},   {60, 0, 1, 7, 20}};
  std::vector<request> requests;
  for (const auto& job : jobs) {
    request r{.id = static_cast<int>(requests.size()), .arrival = job.arrival, .priority = job.priority};
    for (int i = 0; i < 70; ++i) r.tokens.push_back(1000 * (job.application % 2) + i);
    for (int i = 0; i < job.question; ++i) r.tokens.push_back(100000 + 1000 * r.id + i);
    r.total = static_cast<int>(r.tokens.size()) + job.generated;
    r.domain.add("adapter", job.application == 2 ? "sql" : "none");
    requests.push_back(std::move(r));
  }
  return requests;
}

// Runs until nothing is left. False if that takes more ticks than one for each token.
bool run(engine& engine, std::vector<request>&& requests) {
  std::int64_t most_ticks = 1;
  for (request& r : requests) {
    most_ticks += r.arrival + r.total + 1;
    engine.submit(std::move(r));
  }
  while (engine.tick()) {
    if (engine.counts().ticks > most_ticks) return false;
  }
  return true;
}

// Whether a request ended as it does with a cache of its own, where nothing is found, shared, cut or preempted.
bool same_as_alone(const request& ended) {
  engine alone({.blocks = 64, .step_tokens = 4096, .chunk_tokens = 4096});
  std::vector<request> one;
  one.push_back(std::move(make_requests()[static_cast<std::size_t>(ended.id)]));
  return run(alone, std::move(one)) && alone.ended()[0].tokens == ended.tokens &&
         alone.ended()[0].output == ended.output;
}

}  // namespace

int main(int argc, char** argv) {
  std::string_view preempt = "swap", metrics = "none";
  bool valid = argc % 2 == 1;
  for (int i = 1; i + 1 < argc; i += 2) {
    valid = valid && (argv[i] == std::string_view("--preempt") || argv[i] == std::string_view("--metrics"));
    (argv[i] == std::string_view("--preempt") ? preempt : metrics) = argv[i + 1];
  }
  valid = valid && (preempt == "swap" || preempt == "recompute") &&
          (metrics == "none" || metrics == "prometheus" || metrics == "json");
  if (!valid) {
    std::cerr << "usage: engine_loop [--preempt swap|recompute] [--metrics none|prometheus|json]\n";
    return 2;
  }
  std::ostream& report = metrics == "none" ? std::cout : std::cerr;

  engine engine({.blocks = blocks, .second_tier_blocks = preempt == "swap" ? 20 : 0});
  const bool in_time = run(engine, make_requests());
  int failed = 0, wrong = 0;
  for (const request& r : engine.ended()) {
    if (r.error.empty()) {
      wrong += same_as_alone(r) ? 0 : 1;
      continue;
    }
    report << "request " << r.id << " of " << r.total << " tokens failed: " << r.error << '\n';
    wrong += r.total > blocks * engine::kv_cache::block_size ? 0 : 1;
    ++failed;
  }
  const engine_counts& counts = engine.counts();
  const pagoda::manager_stats stats = engine.snapshot();
  report << engine.ended().size() << " requests ended in " << counts.ticks << " ticks, " << failed << " failed, "
         << wrong << " wrong\npreempted: " << counts.dropped << " dropped, " << counts.swapped_out << " swapped out, "
         << counts.swapped_in << " swapped in\nprefixes: " << stats.hit_tokens << " of " << stats.asked_tokens
         << " tokens found, " << stats.stored << " blocks stored, " << stats.evictions << " evicted, "
         << stats.copied_blocks << " copied\n";
  if (metrics == "prometheus") write_prometheus(std::cout, stats);
  if (metrics == "json") write_json(std::cout, stats);
  return in_time && wrong == 0 && failed == 1 && engine.ended().size() == 12 && stats.groups[0].used == 0 ? 0 : 1;
}
