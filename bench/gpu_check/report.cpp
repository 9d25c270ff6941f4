// SPDX-License-Identifier: Apache-2.0
#include "report.hpp"

#include <cstdarg>
#include <cstdio>
#include <stdexcept>

namespace pagoda_check {

namespace {

__attribute__((format(printf, 1, 2))) std::string formatted(const char* format, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  return text;
}

std::string of_group(std::int32_t group) {
  return group == 0 ? "-" : std::to_string(group);
}

std::string version_text(std::int32_t version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      result += formatted("\\u%04x", static_cast<unsigned>(c));
    } else {
      result += c;
    }
  }
  return result + "\"";
}

const char* name_of(cell_state state) {
  return state == cell_state::measured ? "measured" : state == cell_state::skipped ? "skipped" : "not run";
}

double share_of(const speed_cell& cell, const report& report) {
  return report.copy.best() > 0 ? cell.rate() / report.copy.best() : 0;
}

std::string json_of(const speed_cell& cell, const report& report) {
  std::string line = "{\"call\": " + quoted(cell.call) + ", \"quantizer\": " + quoted(cell.quantizer) +
                     formatted(", \"batch\": %d, \"context\": %d, \"group\": %d, \"rows\": %d, \"state\": ", cell.batch,
                               cell.context, cell.group, cell.rows) +
                     quoted(name_of(cell.state));
  if (cell.state != cell_state::measured) return line + ", \"why\": " + quoted(cell.why) + "}";
  return line + formatted(
                    ", \"microseconds\": %.4f, \"runs\": %d, \"bytes\": %.0f, \"gb_per_s\": %.3f, "
                    "\"share_of_copy\": %.4f, \"tflop_per_s\": %.4f}",
                    cell.microseconds, cell.runs, cell.bytes, cell.rate(), share_of(cell, report), cell.teraflops());
}

std::string json_of(const check_result& check) {
  return "{\"what\": " + quoted(check.what) + ", \"passed\": " + (check.passed ? "true" : "false") +
         ", \"detail\": " + quoted(check.detail) + "}";
}

std::string json_of(const bar_result& bar) {
  return "{\"what\": " + quoted(bar.what) + ", \"state\": " + quoted(bar.state) + "}";
}

template <class Items, class Write>
std::string json_array(const Items& items, Write&& write) {
  std::string text = "[";
  for (const auto& item : items) text += (text.size() > 1 ? ",\n    " : "\n    ") + write(item);
  return text + "\n  ]";
}

}  // namespace

void print_facts(const machine_facts& facts) {
  std::printf("%s: compute capability %d.%d, %d multiprocessors, %.1f MiB L2, %.1f GiB", facts.name.c_str(),
              facts.compute_capability / 10, facts.compute_capability % 10, facts.multiprocessors,
              static_cast<double>(facts.l2_bytes) / 1048576, static_cast<double>(facts.memory_bytes) / 1073741824);
  if (facts.clock_mhz > 0) std::printf(", %d MHz", facts.clock_mhz);
  if (facts.memory_clock_mhz > 0) std::printf(", memory %d MHz", facts.memory_clock_mhz);
  if (facts.driver_version > 0) {
    std::printf(", driver for CUDA %s, program of %s", version_text(facts.driver_version).c_str(),
                version_text(facts.runtime_version).c_str());
  }
  std::printf("\n");
}

void print_table_head() {
  std::printf("\n%-8s %-9s %5s %7s %5s %6s %12s %9s %7s %8s %6s\n", "call", "kv", "batch", "context", "group", "rows",
              "microseconds", "GB/s", "of copy", "TFLOP/s", "runs");
}

void print_rows(const report& report, std::size_t first) {
  for (std::size_t i = first; i < report.cells.size(); ++i) {
    const speed_cell& cell = report.cells[i];
    std::printf("%-8.*s %-9.*s %5d %7d %5s %6d ", static_cast<int>(cell.call.size()), cell.call.data(),
                static_cast<int>(cell.quantizer.size()), cell.quantizer.data(), cell.batch, cell.context,
                of_group(cell.group).c_str(), cell.rows);
    if (cell.state != cell_state::measured) {
      std::printf("%12s %s\n", name_of(cell.state), cell.why.c_str());
      continue;
    }
    std::printf("%12.2f %9.1f %6.1f%% %8s %6d\n", cell.microseconds, cell.rate(), 100 * share_of(cell, report),
                cell.flops > 0 ? formatted("%.1f", cell.teraflops()).c_str() : "-", cell.runs);
  }
  std::fflush(stdout);
}

void print_table_foot(const report& report) {
  std::printf(
      "\nrows: queries of a sequence, or its appended tokens. microseconds: median of a call, over graph replays of\n"
      "calls on changing layers; a merge is included. GB/s: keys, values and scales, each once; append: rows read\n"
      "(half, perhaps from the L2 cache) and codes written. of copy: share of what a device-to-device copy reads and\n"
      "writes in this process, %.1f GB/s.\n",
      report.copy.best());
}

std::vector<bar_result> judge_bars(const std::vector<speed_bar>& bars, const report& report) {
  std::vector<bar_result> results;
  for (const speed_bar& bar : bars) {
    std::string what = std::string(bar.quantizer) +
                       formatted(" decode, batch %d, context %d, group %d: ", bar.batch, bar.context, bar.group);
    const speed_cell* found = nullptr;
    for (const speed_cell& cell : report.cells) {
      if (cell.call == "decode" && cell.quantizer == bar.quantizer && cell.batch == bar.batch &&
          cell.context == bar.context && cell.group == bar.group && cell.state == cell_state::measured) {
        found = &cell;
      }
    }
    std::string state = "not run";
    if (found != nullptr && bar.share > 0) {
      const double share = share_of(*found, report);
      what += formatted("%.1f %% of the copy, bar at least %.0f %%", 100 * share, 100 * bar.share);
      state = share >= bar.share ? "met" : "missed";
    } else if (found != nullptr) {
      what += formatted("%.2f microseconds, bar below %.0f", found->microseconds, bar.microseconds);
      state = found->microseconds < bar.microseconds ? "met" : "missed";
    } else {
      what += bar.share > 0 ? formatted("bar at least %.0f %% of the copy", 100 * bar.share)
                            : formatted("bar below %.0f microseconds", bar.microseconds);
    }
    std::printf("BAR   %-100s %s\n", what.c_str(), state.c_str());
    results.push_back({std::move(what), std::move(state)});
  }
  return results;
}

void write_json(const report& report, const std::string& path) {
  const machine_facts& facts = report.facts;
  const std::string text =
      "{\n  \"device\": {\"name\": " + quoted(facts.name) +
      formatted(
          ", \"compute_capability\": %d, \"multiprocessors\": %d, \"l2_bytes\": %lld, \"memory_bytes\": %lld, "
          "\"clock_mhz\": %d, \"memory_clock_mhz\": %d, \"driver_version\": %d, \"runtime_version\": %d},\n",
          facts.compute_capability, facts.multiprocessors, static_cast<long long>(facts.l2_bytes),
          static_cast<long long>(facts.memory_bytes), facts.clock_mhz, facts.memory_clock_mhz, facts.driver_version,
          facts.runtime_version) +
      formatted("  \"copy\": {\"memcpy_gb_per_s\": %.3f, \"kernel_gb_per_s\": %.3f},\n", report.copy.memcpy_rate,
                report.copy.kernel_rate) +
      "  \"checks\": " + json_array(report.checks, [](const check_result& check) { return json_of(check); }) +
      ",\n  \"cells\": " + json_array(report.cells, [&](const speed_cell& cell) { return json_of(cell, report); }) +
      ",\n  \"bars\": " + json_array(report.bars, [](const bar_result& bar) { return json_of(bar); }) + "\n}\n";
  std::FILE* file = std::fopen(path.c_str(), "w");
  if (file == nullptr) throw std::runtime_error("cannot open " + path + " for writing: pass another --json file");
  const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if ((std::fclose(file) != 0) || !written) throw std::runtime_error("cannot write " + path + ": is the disk full?");
}

}  // namespace pagoda_check
