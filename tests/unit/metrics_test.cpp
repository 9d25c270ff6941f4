// SPDX-License-Identifier: Apache-2.0
// The example's writers of a manager's statistics: the Prometheus text format and JSON.
#include "../../examples/engine_loop/metrics.hpp"

#include <cstdint>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <pagoda/block_manager.hpp>

#include "prefix_support.hpp"

namespace {

using namespace pagoda_test;

pagoda::manager_stats some_stats() {
  pagoda::manager_stats stats;
  stats.groups.push_back({.total = 90,
                          .free = 10,
                          .cached = 20,
                          .pinned = 5,
                          .used = 57,
                          .retiring = 3,
                          .shared = 7,
                          .tokens = 800,
                          .slack = 40});
  stats.groups.push_back({.total = 1, .free = 1});
  stats.sequences = 11;
  stats.open_steps = 2;
  stats.plans = 101;
  stats.failed_plans = 102;
  stats.rollbacks = 103;
  stats.matches = 104;
  stats.asked_tokens = 105;
  stats.hit_tokens = 106;
  stats.lookups = 107;
  stats.hits = 108;
  stats.stored = 109;
  stats.evictions = 110;
  stats.copied_blocks = 111;
  stats.copied_rows = 112;
  stats.copied_bytes = std::int64_t{1} << 40;
  for (const std::uint64_t age : std::vector<std::uint64_t>{0, 0, 1, 5, 6, 7, 8}) stats.eviction_ages.add(age);
  stats.reuse_distances.add(std::uint64_t{1} << 30);
  stats.reuse_distances.add(~std::uint64_t{0});
  return stats;
}

std::vector<std::string> lines_of(const pagoda::manager_stats& stats) {
  std::stringstream text;
  write_prometheus(text, stats);
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

TEST_CASE("prometheus: values carry the names, labels and suffixes that they should") {
  const std::vector<std::string> lines = lines_of(some_stats());
  const std::set<std::string> all(lines.begin(), lines.end());
  for (const char* line : {
           "pagoda_kv_blocks{group=\"0\",state=\"free\"} 10",
           "pagoda_kv_blocks{group=\"0\",state=\"cached\"} 20",
           "pagoda_kv_blocks{group=\"0\",state=\"used\"} 57",
           "pagoda_kv_blocks{group=\"0\",state=\"retiring\"} 3",
           "pagoda_kv_blocks{group=\"1\",state=\"free\"} 1",
           "pagoda_kv_blocks{group=\"1\",state=\"retiring\"} 0",
           "pagoda_kv_total_blocks{group=\"0\"} 90",
           "pagoda_kv_pinned_blocks{group=\"0\"} 5",
           "pagoda_kv_shared_blocks{group=\"0\"} 7",
           "pagoda_kv_tokens{group=\"0\"} 800",
           "pagoda_kv_slack_slots{group=\"0\"} 40",
           "pagoda_kv_sequences 11",
           "pagoda_kv_open_steps 2",
           "pagoda_kv_plans_total 101",
           "pagoda_kv_failed_plans_total 102",
           "pagoda_kv_rollbacks_total 103",
           "pagoda_kv_matches_total 104",
           "pagoda_kv_asked_tokens_total 105",
           "pagoda_kv_hit_tokens_total 106",
           "pagoda_kv_lookups_total 107",
           "pagoda_kv_hits_total 108",
           "pagoda_kv_stored_blocks_total 109",
           "pagoda_kv_evictions_total 110",
           "pagoda_kv_copied_blocks_total 111",
           "pagoda_kv_copied_rows_total 112",
           "pagoda_kv_copied_bytes_total 1099511627776",
           "# TYPE pagoda_kv_blocks gauge",
           "# TYPE pagoda_kv_plans_total counter",
           "# TYPE pagoda_kv_eviction_age_lookups histogram",
           "# HELP pagoda_kv_evictions_total Cached blocks reclaimed.",
       }) {
    CAPTURE(line);
    CHECK(all.count(line) == 1);
  }
  CHECK(all.size() == lines.size());
}

TEST_CASE("prometheus: histogram buckets are cumulative and end at +Inf") {
  const std::vector<std::string> lines = lines_of(some_stats());
  const std::set<std::string> all(lines.begin(), lines.end());
  for (const char* line : {
           "pagoda_kv_eviction_age_lookups_bucket{le=\"0\"} 2",
           "pagoda_kv_eviction_age_lookups_bucket{le=\"1\"} 3",
           "pagoda_kv_eviction_age_lookups_bucket{le=\"3\"} 3",
           "pagoda_kv_eviction_age_lookups_bucket{le=\"7\"} 6",
           "pagoda_kv_eviction_age_lookups_bucket{le=\"15\"} 7",
           "pagoda_kv_eviction_age_lookups_bucket{le=\"16777215\"} 7",
           "pagoda_kv_eviction_age_lookups_bucket{le=\"+Inf\"} 7",
           "pagoda_kv_eviction_age_lookups_count 7",
           "pagoda_kv_reuse_distance_blocks_bucket{le=\"16777215\"} 0",
           "pagoda_kv_reuse_distance_blocks_bucket{le=\"+Inf\"} 2",
           "pagoda_kv_reuse_distance_blocks_count 2",
       }) {
    CAPTURE(line);
    CHECK(all.count(line) == 1);
  }
  CHECK(all.count("pagoda_kv_eviction_age_lookups_bucket{le=\"33554431\"} 7") == 0);
}

TEST_CASE("prometheus: HELP and TYPE come once, right before the samples of their family") {
  std::string family;
  std::string type;
  std::set<std::string> seen;
  for (const std::string& line : lines_of(some_stats())) {
    std::istringstream words(line);
    std::string first, second, name;
    words >> first >> second >> name;
    if (first == "#" && second == "HELP") {
      CHECK(seen.insert(name).second);
      family = name;
      type.clear();
      continue;
    }
    if (first == "#") {
      CHECK(second == "TYPE");
      CHECK(name == family);
      words >> type;
      CHECK((type == "gauge" || type == "counter" || type == "histogram"));
      CHECK((type == "counter") == (family.size() > 6 && family.substr(family.size() - 6) == "_total"));
      continue;
    }
    const std::string sample = first.substr(0, first.find('{'));
    if (type == "histogram") {
      CHECK((sample == family + "_bucket" || sample == family + "_count"));
    } else {
      CHECK(sample == family);
    }
    CHECK(second.find_first_not_of("0123456789") == std::string::npos);
    CHECK(name.empty());
  }
  CHECK(seen.size() == 1 + 5 + 2 + 13 + 2);
}

TEST_CASE("json: one object, exactly") {
  pagoda::manager_stats stats = some_stats();
  stats.groups.pop_back();
  std::ostringstream out;
  write_json(out, stats);
  CHECK(out.str() ==
        "{\"groups\":[{\"free_blocks\":10,\"cached_blocks\":20,\"used_blocks\":57,\"retiring_blocks\":3,"
        "\"total_blocks\":90,\"pinned_blocks\":5,\"shared_blocks\":7,\"tokens\":800,\"slack_slots\":40}],"
        "\"sequences\":11,\"open_steps\":2,\"plans\":101,\"failed_plans\":102,\"rollbacks\":103,\"matches\":104,"
        "\"asked_tokens\":105,\"hit_tokens\":106,\"lookups\":107,\"hits\":108,\"stored_blocks\":109,"
        "\"evictions\":110,\"copied_blocks\":111,\"copied_rows\":112,\"copied_bytes\":1099511627776,"
        "\"eviction_age_lookups\":[{\"from\":0,\"to\":0,\"count\":2},{\"from\":1,\"to\":1,\"count\":1},"
        "{\"from\":4,\"to\":7,\"count\":3},{\"from\":8,\"to\":15,\"count\":1}],"
        "\"reuse_distance_blocks\":[{\"from\":1073741824,\"to\":2147483647,\"count\":1},"
        "{\"from\":9223372036854775808,\"to\":18446744073709551615,\"count\":1}]}\n");
}

TEST_CASE("json: groups are separated, and no group or count is a fault") {
  std::ostringstream two;
  write_json(two, some_stats());
  CHECK(two.str().find("\"slack_slots\":40},{\"free_blocks\":1,") != std::string::npos);
  std::ostringstream none;
  write_json(none, {});
  CHECK(none.str().substr(0, 28) == "{\"groups\":[],\"sequences\":0,\"");
  CHECK(none.str().find("\"eviction_age_lookups\":[],\"reuse_distance_blocks\":[]}") != std::string::npos);
}

TEST_CASE("metrics: the numbers of a living manager") {
  pagoda::block_manager manager({.groups = {{.num_blocks = 8}}, .block_size = 4, .max_sequences = 4});
  { const pagoda::sequence a = prefill(manager, rising(8)); }
  const pagoda::sequence b = prefill(manager, rising(8) + rising(4, 50));
  const std::vector<std::string> lines = lines_of(manager.snapshot());
  const std::set<std::string> all(lines.begin(), lines.end());
  CHECK(all.count("pagoda_kv_blocks{group=\"0\",state=\"used\"} 3") == 1);
  CHECK(all.count("pagoda_kv_hit_tokens_total 8") == 1);
  CHECK(all.count("pagoda_kv_stored_blocks_total 3") == 1);
  CHECK(all.count("pagoda_kv_sequences 1") == 1);
}

}  // namespace
