// SPDX-License-Identifier: Apache-2.0
/// @file The few parts that the benchmarks' pictures are made of.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <iomanip>
#include <ostream>
#include <sstream>
#include <stdexcept>
#include <string>

namespace pagoda_bench {

/// Positions on a logarithmic axis. Requires: 0 < low < high, both finite.
struct log_axis {
  double low;
  double high;
  double begin;  // on the paper
  double end;

  double at(double value) const { return begin + (end - begin) * std::log(value / low) / std::log(high / low); }
};

/// A line and a number at 1, 2 and 5 times each power of ten.
/// Throws: std::runtime_error for an axis on which there is no end of them.
template <class Draw>
void for_each_tick(const log_axis& axis, Draw&& draw) {
  if (!(axis.low > 0 && axis.low < axis.high && std::isfinite(axis.high))) {
    std::ostringstream why;
    why << "a logarithmic axis from " << axis.low << " to " << axis.high
        << " cannot be drawn, but the ends must be finite, above 0 and in order: draw other numbers";
    throw std::runtime_error(why.str());
  }
  const auto last = static_cast<int>(std::floor(std::log10(axis.high)));
  for (auto exponent = static_cast<int>(std::floor(std::log10(axis.low))); exponent <= last; ++exponent) {
    const double decade = std::pow(10, exponent);
    for (const double step : {1.0, 2.0, 5.0}) {
      const double value = decade * step;
      if (value >= axis.low * 0.999 && value <= axis.high * 1.001) draw(value, axis.at(value));
    }
  }
}

/// 3.2e10 as "32 G".
inline std::string with_unit(double value) {
  constexpr std::array units{"", " k", " M", " G", " T", " P"};
  std::size_t unit = 0;
  for (; value >= 1000 && unit + 1 < units.size(); ++unit) value /= 1000;
  std::ostringstream text;
  text << std::setprecision(3) << value << units[unit];
  return text.str();
}

/// Text as XML takes it, which has no place for control characters.
inline std::string escaped(const std::string& text) {
  std::string result;
  for (const char given : text) {
    const char c = static_cast<unsigned char>(given) < 32 ? '?' : given;
    result += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : c == '"' ? "&quot;" : std::string(1, c);
  }
  return result;
}

/// Begins a document of that size, on white; end it with "</svg>\n".
inline void begin_svg(std::ostream& svg, double width, double height) {
  svg << std::fixed << std::setprecision(1);
  svg << "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " << width << " " << height
      << "\" font-family=\"sans-serif\" font-size=\"13\">\n"
      << "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n";
}

inline void line(std::ostream& svg, double x1, double y1, double x2, double y2, const char* style) {
  svg << "<line x1=\"" << x1 << "\" y1=\"" << y1 << "\" x2=\"" << x2 << "\" y2=\"" << y2 << "\" " << style << "/>\n";
}

inline void text(std::ostream& svg, double x, double y, const char* style, const std::string& content) {
  svg << "<text x=\"" << x << "\" y=\"" << y << "\" " << style << ">" << escaped(content) << "</text>\n";
}

}  // namespace pagoda_bench
