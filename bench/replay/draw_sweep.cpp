// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <sstream>

#include "../support/svg.hpp"
#include "sweep.hpp"

namespace pagoda_replay {

namespace {

using namespace pagoda_bench;

constexpr double width = 900;
constexpr double height = 560;
constexpr double left = 80;
constexpr double right = 760;
constexpr double top = 40;
constexpr double bottom = 490;

// Policies may rank alike, so that their lines lie upon each other: each next one is thinner, so that all are seen.
constexpr std::array styles{"stroke=\"#1f77b4\" stroke-width=\"7\"", "stroke=\"#d62728\" stroke-width=\"3\"",
                            "stroke=\"#2ca02c\" stroke-width=\"3\"",
                            "stroke=\"#ff7f0e\" stroke-width=\"3\" stroke-dasharray=\"9 5\"",
                            "stroke=\"#7f7f7f\" stroke-width=\"2\""};

/// The next multiple of 0.1 above the rates, so that lines do not touch the top.
double highest_rate(const std::vector<replay_result>& runs) {
  double highest = 0;
  for (const replay_result& run : runs) highest = std::max(highest, run.hit_rate().value_or(0));
  return (std::floor(highest * 10) + 1) / 10;
}

log_axis capacity_axis(const std::vector<replay_result>& runs) {
  double low = 0;
  double high = 0;
  for (const replay_result& run : runs) {
    if (!run.settings.capacity_blocks) continue;
    const auto capacity = static_cast<double>(*run.settings.capacity_blocks);
    low = low == 0 ? capacity : std::min(low, capacity);
    high = std::max(high, capacity);
  }
  if (low == 0) low = high = static_cast<double>(std::max<std::int64_t>(runs[0].blocks, 1));
  return {low / 1.5, high * 1.5, left, right};
}

}  // namespace

std::string draw_sweep(const std::vector<replay_result>& runs) {
  const log_axis x = capacity_axis(runs);
  const double highest = highest_rate(runs);
  const auto y = [&](double rate) { return bottom - (bottom - top) * rate / highest; };

  std::ostringstream svg;
  begin_svg(svg, width, height);
  const char* const grid = "stroke=\"#ddd\"";
  for_each_tick(x, [&](double value, double at) {
    line(svg, at, top, at, bottom, grid);
    text(svg, at, bottom + 18, "text-anchor=\"middle\" fill=\"#555\"", with_unit(value));
  });
  for (int tenth = 0; tenth <= std::lround(highest * 10); ++tenth) {
    line(svg, left, y(tenth / 10.0), right, y(tenth / 10.0), grid);
    text(svg, left - 6, y(tenth / 10.0) + 4, "text-anchor=\"end\" fill=\"#555\"", with_unit(tenth / 10.0));
  }
  text(svg, (left + right) / 2, bottom + 45, "text-anchor=\"middle\"", "capacity in blocks");
  text(svg, left, top - 14, "", "hit rate");

  double legend = top + 20;
  const std::vector<std::string_view> policies = policy_names();
  for (std::size_t i = 0; i < policies.size(); ++i) {
    const std::string style = std::string("fill=\"none\" ") + styles[i % styles.size()];
    svg << "<polyline points=\"";
    for (const replay_result& run : runs) {
      if (run.settings.policy != policies[i] || !run.settings.capacity_blocks) continue;
      svg << x.at(static_cast<double>(*run.settings.capacity_blocks)) << ',' << y(run.hit_rate().value_or(0)) << ' ';
    }
    svg << "\" " << style << "/>\n";
    line(svg, right + 20, legend, right + 50, legend, style.c_str());
    text(svg, right + 58, legend + 4, "", std::string(policies[i]));
    legend += 24;
  }
  // Without a limit nothing is taken back, whatever the policy.
  const double best = runs.back().hit_rate().value_or(0);
  line(svg, left, y(best), right, y(best), "stroke=\"black\" stroke-dasharray=\"2 4\"");
  std::ostringstream rate;
  rate << std::fixed << std::setprecision(3) << best;
  text(svg, left + 8, y(best) - 6, "", "without limit " + rate.str());
  svg << "</svg>\n";
  return svg.str();
}

}  // namespace pagoda_replay
