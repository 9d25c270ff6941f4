// SPDX-License-Identifier: Apache-2.0
// What a block manager counts, as a Prometheus endpoint shows it and as JSON. Needs nothing but an ostream.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <ostream>

#include <pagoda/statistics.hpp>

namespace metrics {

struct of_group {
  const char* name;
  const char* help;
  std::int64_t pagoda::block_stats::*value;
};
struct of_all {
  const char* name;
  const char* help;
  std::int64_t pagoda::manager_stats::*value;
};
struct histogram {
  const char* name;
  const char* help;
  pagoda::log2_histogram pagoda::manager_stats::*value;
};

/// Every block is in one of them.
inline constexpr of_group states[] = {
    {"free", "", &pagoda::block_stats::free},
    {"cached", "", &pagoda::block_stats::cached},
    {"used", "", &pagoda::block_stats::used},
    {"retiring", "", &pagoda::block_stats::retiring},
};
inline constexpr of_group group_gauges[] = {
    {"total_blocks", "Blocks of the pool.", &pagoda::block_stats::total},
    {"pinned_blocks", "Cached blocks that are not evicted.", &pagoda::block_stats::pinned},
    {"shared_blocks", "Used blocks that two sequences or more hold.", &pagoda::block_stats::shared},
    {"tokens", "Committed and resident tokens, summed over sequences.", &pagoda::block_stats::tokens},
    {"slack_slots", "Slots in the tables of sequences without a committed token.", &pagoda::block_stats::slack},
};
inline constexpr of_all gauges[] = {
    {"sequences", "Sequences alive.", &pagoda::manager_stats::sequences},
    {"open_steps", "Steps planned and neither committed nor destroyed.", &pagoda::manager_stats::open_steps},
};
inline constexpr of_all counters[] = {
    {"plans", "Plans granted.", &pagoda::manager_stats::plans},
    {"failed_plans", "Plans refused for want of blocks.", &pagoda::manager_stats::failed_plans},
    {"rollbacks", "Steps destroyed without a commit.", &pagoda::manager_stats::rollbacks},
    {"matches", "Prefixes looked for.", &pagoda::manager_stats::matches},
    {"asked_tokens", "Tokens of prefixes looked for.", &pagoda::manager_stats::asked_tokens},
    {"hit_tokens", "Tokens of prefixes found.", &pagoda::manager_stats::hit_tokens},
    {"lookups", "Blocks of prefixes looked for.", &pagoda::manager_stats::lookups},
    {"hits", "Blocks of prefixes found.", &pagoda::manager_stats::hits},
    {"stored_blocks", "Blocks entered in the prefix index.", &pagoda::manager_stats::stored},
    {"evictions", "Cached blocks reclaimed.", &pagoda::manager_stats::evictions},
    {"copied_blocks", "Blocks copied, on writing or to another tier.", &pagoda::manager_stats::copied_blocks},
    {"copied_rows", "Rows moved within sequences.", &pagoda::manager_stats::copied_rows},
    {"copied_bytes", "Bytes of copied blocks and moved rows.", &pagoda::manager_stats::copied_bytes},
};
inline constexpr histogram histograms[] = {
    {"eviction_age_lookups", "Lookups from an evicted block's last use.", &pagoda::manager_stats::eviction_ages},
    {"reuse_distance_blocks", "Different blocks used between two uses.", &pagoda::manager_stats::reuse_distances},
};

/// The largest number in bucket i of a log2_histogram.
inline std::uint64_t bucket_end(std::size_t i) {
  return i < 64 ? (std::uint64_t{1} << i) - 1 : ~std::uint64_t{0};
}

}  // namespace metrics

/// The text exposition format 0.0.4. Histograms have the buckets 0, 1, 3, 7, ... up to 2^24 - 1, and no sum, since none
/// is kept.
inline void write_prometheus(std::ostream& out, const pagoda::manager_stats& stats) {
  const auto head = [&](const char* name, const char* suffix, const char* help, const char* type) {
    out << "# HELP pagoda_kv_" << name << suffix << ' ' << help << "\n# TYPE pagoda_kv_" << name << suffix << ' '
        << type << '\n';
  };
  head("blocks", "", "Blocks of a layer group by state.", "gauge");
  for (std::size_t g = 0; g < stats.groups.size(); ++g) {
    for (const auto& state : metrics::states) {
      out << "pagoda_kv_blocks{group=\"" << g << "\",state=\"" << state.name << "\"} " << stats.groups[g].*state.value
          << '\n';
    }
  }
  for (const auto& gauge : metrics::group_gauges) {
    head(gauge.name, "", gauge.help, "gauge");
    for (std::size_t g = 0; g < stats.groups.size(); ++g) {
      out << "pagoda_kv_" << gauge.name << "{group=\"" << g << "\"} " << stats.groups[g].*gauge.value << '\n';
    }
  }
  for (const auto& gauge : metrics::gauges) {
    head(gauge.name, "", gauge.help, "gauge");
    out << "pagoda_kv_" << gauge.name << ' ' << stats.*gauge.value << '\n';
  }
  for (const auto& counter : metrics::counters) {
    head(counter.name, "_total", counter.help, "counter");
    out << "pagoda_kv_" << counter.name << "_total " << stats.*counter.value << '\n';
  }
  for (const auto& histogram : metrics::histograms) {
    head(histogram.name, "", histogram.help, "histogram");
    const auto& counts = (stats.*histogram.value).counts;
    std::int64_t below = 0;
    for (std::size_t i = 0; i < counts.size(); ++i) {
      below += counts[i];
      if (i > 24) continue;
      out << "pagoda_kv_" << histogram.name << "_bucket{le=\"" << metrics::bucket_end(i) << "\"} " << below << '\n';
    }
    out << "pagoda_kv_" << histogram.name << "_bucket{le=\"+Inf\"} " << below << '\n';
    out << "pagoda_kv_" << histogram.name << "_count " << below << '\n';
  }
}

/// One object. A histogram is a list of {"from", "to", "count"} for the ranges that are not empty.
inline void write_json(std::ostream& out, const pagoda::manager_stats& stats) {
  out << "{\"groups\":[";
  const char* between = "";
  for (const pagoda::block_stats& group : stats.groups) {
    out << between << '{';
    between = "";
    for (const auto& state : metrics::states) {
      out << between << '"' << state.name << "_blocks\":" << group.*state.value;
      between = ",";
    }
    for (const auto& gauge : metrics::group_gauges) out << ",\"" << gauge.name << "\":" << group.*gauge.value;
    out << '}';
  }
  out << ']';
  for (const auto& gauge : metrics::gauges) out << ",\"" << gauge.name << "\":" << stats.*gauge.value;
  for (const auto& counter : metrics::counters) out << ",\"" << counter.name << "\":" << stats.*counter.value;
  for (const auto& histogram : metrics::histograms) {
    out << ",\"" << histogram.name << "\":[";
    between = "";
    const auto& counts = (stats.*histogram.value).counts;
    for (std::size_t i = 0; i < counts.size(); ++i) {
      if (counts[i] == 0) continue;
      out << between << "{\"from\":" << (i == 0 ? 0 : metrics::bucket_end(i - 1) + 1)
          << ",\"to\":" << metrics::bucket_end(i) << ",\"count\":" << counts[i] << '}';
      between = ",";
    }
    out << ']';
  }
  out << "}\n";
}
