// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <sstream>

#include "../support/svg.hpp"
#include "roofline.hpp"

namespace {

using namespace pagoda_bench;

constexpr double width = 900;
constexpr double height = 600;
constexpr double left = 90;
constexpr double right = 870;
constexpr double top = 50;
constexpr double bottom = 530;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

struct box {
  double left;
  double top;
  double width;
  double height;

  bool meets(const box& other) const {
    return left < other.left + other.width && other.left < left + width && top < other.top + other.height &&
           other.top < top + height;
  }
};

/// Room for a label near a point: beside it, or further below or above if that is taken.
box free_place(const std::vector<box>& taken, double x, double y, double label_width) {
  for (double away = 0; away < height; away += 6) {
    for (const double dy : {away, -away}) {
      for (const double label_left : {x + 7 + away / 2, x - 7 - away / 2 - label_width}) {
        const box place{label_left, y - 6 + dy, label_width, 12};
        if (std::none_of(taken.begin(), taken.end(), [&](const box& other) { return place.meets(other); }))
          return place;
      }
    }
  }
  return {x + 7, y - 6, label_width, 12};
}

}  // namespace

std::string draw_roofline(const std::vector<roofline_point>& points) {
  std::vector<double> probes;
  std::vector<double> peaks;
  double lowest = points[0].flops;
  double highest = points[0].flops;
  double least_intensity = points[0].intensity();
  double most_intensity = points[0].intensity();
  std::vector<std::string> groups;
  for (const roofline_point& point : points) {
    probes.push_back(point.read_probe);
    peaks.push_back(point.fma_peak);
    lowest = std::min(lowest, point.flops);
    highest = std::max(highest, point.flops);
    least_intensity = std::min(least_intensity, point.intensity());
    most_intensity = std::max(most_intensity, point.intensity());
    if (std::find(groups.begin(), groups.end(), point.group) == groups.end()) groups.push_back(point.group);
  }
  const double read = median(probes);
  const double peak = median(peaks);
  const double ridge = peak / read;
  const log_axis x{std::min(least_intensity, ridge) / 2, std::max(most_intensity, ridge) * 4, left, right};
  const log_axis y{std::min(lowest, x.low * read) / 2, std::max(highest, peak) * 2, bottom, top};

  std::ostringstream svg;
  begin_svg(svg, width, height);
  const char* const grid = "stroke=\"#ddd\"";
  for_each_tick(x, [&](double value, double at) {
    line(svg, at, top, at, bottom, grid);
    text(svg, at, bottom + 18, "text-anchor=\"middle\" fill=\"#555\"", with_unit(value));
  });
  for_each_tick(y, [&](double value, double at) {
    line(svg, left, at, right, at, grid);
    text(svg, left - 6, at + 4, "text-anchor=\"end\" fill=\"#555\"", with_unit(value));
  });
  text(svg, (left + right) / 2, bottom + 45, "text-anchor=\"middle\"", "useful flop per byte of keys and values");
  text(svg, left, top - 12, "", "useful flop/s");

  // Each roof ends where it meets the other.
  const char* const roof = "stroke=\"black\" stroke-width=\"2\"";
  line(svg, x.at(x.low), y.at(x.low * read), x.at(ridge), y.at(peak), roof);
  line(svg, x.at(ridge), y.at(peak), x.at(x.high), y.at(peak), roof);
  const double middle = std::sqrt(x.low * ridge);
  text(svg, x.at(middle) - 10, y.at(middle * read) - 6, "text-anchor=\"end\"", "read probe " + with_unit(read) + "B/s");
  text(svg, right, y.at(peak) - 8, "text-anchor=\"end\"", "FMA peak " + with_unit(peak) + "flop/s");

  constexpr std::array colours{"#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf"};
  std::vector<box> taken;
  for (const roofline_point& point : points) {
    taken.push_back({x.at(point.intensity()) - 5, y.at(point.flops) - 5, 10, 10});
  }
  for (const roofline_point& point : points) {
    const auto group = static_cast<std::size_t>(std::find(groups.begin(), groups.end(), point.group) - groups.begin());
    const std::string fill = std::string("fill=\"") + colours[group % colours.size()] + "\"";
    const double cx = x.at(point.intensity());
    const double cy = y.at(point.flops);
    svg << "<circle cx=\"" << cx << "\" cy=\"" << cy << "\" r=\"4\" " << fill << "/>\n";
    const std::string label = point.kv + " G" + point.group;
    const box place = free_place(taken, cx, cy, 6.2 * static_cast<double>(label.size()));
    taken.push_back(place);
    text(svg, place.left, place.top + 10, (fill + " font-size=\"11\"").c_str(), label);
    const double nearest_x = place.left > cx ? place.left : place.left + place.width;
    if (std::abs(place.top + 6 - cy) > 8) line(svg, cx, cy, nearest_x, place.top + 6, "stroke=\"#bbb\"");
  }
  svg << "</svg>\n";
  return svg.str();
}
