// SPDX-License-Identifier: Apache-2.0
/// @file What the speed phase measures, and its results.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace pagoda_check {

/// The sizes of the speed phase.
struct speed_plan {
  std::vector<std::int32_t> contexts{512, 4096, 32768};
  std::vector<std::int32_t> batches{1, 16, 64, 256};
  std::vector<std::int32_t> groups{1, 4, 8};
  std::int32_t bar_context = 8192;
  std::int32_t bar_batch = 64;
  std::int32_t kv_heads = 8;
  std::int32_t head_dim = 128;
  std::int32_t prefill_queries = 2048;      ///< of a sequence, at most
  std::int32_t prefill_rows = 32768;        ///< of the batch, at most
  std::int32_t appended_at_once = 131'072;  ///< tokens of an append of whole prompts, at most

  std::int64_t most_bytes = std::int64_t{16} << 30;  ///< of a cell's cache and tables
  std::int64_t copy_bytes = std::int64_t{2} << 30;
  std::int32_t caches_over = 4;  ///< the working set, over the L2 cache
  std::int32_t most_layers = 1024;

  double graph_microseconds = 2000;  ///< calls of one replay take about that, together
  std::int32_t most_calls = 512;     ///< of one replay
  std::int32_t least_runs = 3;       ///< replays
  std::int32_t most_runs = 9;
  double cell_seconds = 0.2;  ///< no replay begins later
};

enum class cell_state { measured, skipped, not_run };

/// One row of the table.
struct speed_cell {
  std::string_view call;  ///< decode, prefill or append
  std::string_view quantizer;
  std::int32_t batch = 0;
  std::int32_t context = 0;
  std::int32_t group = 0;  ///< query heads of a kv head; 0: append has none
  std::int32_t rows = 0;   ///< queries of a sequence, or its appended tokens

  cell_state state = cell_state::not_run;
  std::string why{};        ///< not measured
  double microseconds = 0;  ///< of a call: median
  std::int32_t runs = 0;
  double bytes = 0;  ///< keys, values and scales, each once; append: rows read and codes written
  double flops = 0;  ///< multiplications and additions of the two products; 0: append

  double rate() const { return microseconds > 0 ? 1e-3 * bytes / microseconds : 0; }  ///< GB/s
  double teraflops() const { return microseconds > 0 ? 1e-6 * flops / microseconds : 0; }
};

}  // namespace pagoda_check
