// SPDX-License-Identifier: Apache-2.0
/// @file The roofline picture of decode attention, from what pagoda_bench --benchmark_format=json printed.
#pragma once

#include <string>
#include <string_view>
#include <vector>

/// One benchmark: how much it computes for each byte, how fast it computes, and what the machine allowed.
struct roofline_point {
  std::string kv;         ///< "int8", from the benchmark's name
  std::string group;      ///< "4", likewise
  double flops = 0;       ///< useful floating-point operations per second
  double bytes = 0;       ///< per second
  double read_probe = 0;  ///< the machine's bytes per second
  double fma_peak = 0;    ///< the machine's floating-point operations per second

  double intensity() const { return flops / bytes; }
};

/// The benchmarks whose name holds `match`: medians where there are any, else the runs themselves.
/// Throws: std::runtime_error, with what is wrong and where, for text that is no such JSON; if no benchmark matches; if
/// a matching one failed, or lacks a counter; if a counter or an intensity is outside what a machine can reach; if two
/// have the same kv and group.
std::vector<roofline_point> read_points(std::string_view json, std::string_view match);

/// An SVG document: flop/s over flop per byte, both logarithmic, below the roofs of memory and of the multipliers,
/// which are the medians of the points' probes. Requires: points is not empty, and as read_points makes them.
std::string draw_roofline(const std::vector<roofline_point>& points);
