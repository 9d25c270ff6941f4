// SPDX-License-Identifier: Apache-2.0
/// @file The speed phase for one quantizer, batch and context: a pool with more layers than the L2 cache holds, and the
/// calls that walk over them in turn.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <exception>
#include <new>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <pagoda/block_manager.hpp>
#include <pagoda/cuda/append.hpp>
#include <pagoda/cuda/attention.hpp>
#include <pagoda/cuda/memory.hpp>
#include <pagoda/cuda/step_tables.hpp>
#include <pagoda/dtype.hpp>

#include "speed_cell.hpp"

namespace pagoda_check {

/// New tokens of one append while a pool is filled, where its prompts do not fit one append.
inline constexpr std::int32_t piece_tokens = 4096;

/// Rows of normally distributed halves that all cells read, and room for output. Made once.
template <class Machine>
class speed_rows {
  using backend = typename Machine::backend;

 public:
  speed_rows(Machine& machine, const speed_plan& plan)
      : elements_(most_elements(plan)),
        input_(elements_ * std::int64_t{sizeof(pagoda::half)}),
        output_(elements_ * std::int64_t{sizeof(pagoda::half)}) {
    const std::int64_t drawn = std::min<std::int64_t>(elements_, 1 << 20);
    std::mt19937 bits(1);
    std::normal_distribution<float> normal;
    std::vector<pagoda::half> values(static_cast<std::size_t>(drawn));
    for (pagoda::half& value : values) value = pagoda::from_float<pagoda::half>(normal(bits));
    for (std::int64_t at = 0; at < elements_; at += drawn) {
      backend::copy(input_.data() + at * 2, values.data(), 2 * std::min(drawn, elements_ - at), machine.stream());
    }
    backend::synchronize(machine.stream());
  }

  /// Rows from number `first` on.
  pagoda::rows_view<pagoda::half> input(std::int64_t first, std::int64_t tokens, std::int64_t heads,
                                        std::int64_t dim) const {
    return view(input_, first, tokens, heads, dim);
  }
  pagoda::rows_view<pagoda::half> output(std::int64_t tokens, std::int64_t heads, std::int64_t dim) const {
    return view(output_, 0, tokens, heads, dim);
  }

 private:
  static std::int64_t most_elements(const speed_plan& plan) {
    const std::int64_t group = *std::max_element(plan.groups.begin(), plan.groups.end());
    const std::int64_t batch = *std::max_element(plan.batches.begin(), plan.batches.end());
    const std::int64_t query_rows = std::max<std::int64_t>(plan.prefill_rows, batch) * group;
    const std::int64_t new_rows = 2 * std::max<std::int64_t>({plan.appended_at_once, piece_tokens, batch});
    return std::max(query_rows, new_rows) * plan.kv_heads * plan.head_dim;
  }
  static pagoda::rows_view<pagoda::half> view(const pagoda::cuda::basic_device_memory<backend>& memory,
                                              std::int64_t first, std::int64_t tokens, std::int64_t heads,
                                              std::int64_t dim) {
    const std::span<pagoda::half> elements(reinterpret_cast<pagoda::half*>(memory.data()) + first * heads * dim,
                                           static_cast<std::size_t>(tokens * heads * dim));
    return pagoda::rows_view<pagoda::half>(elements, {tokens, heads, dim});
  }

  std::int64_t elements_;
  pagoda::cuda::basic_device_memory<backend> input_;
  pagoda::cuda::basic_device_memory<backend> output_;
};

/// What the cells of a pool share with all others.
template <class Machine>
struct speed_run {
  Machine& machine;
  const speed_plan& plan;
  const speed_rows<Machine>& rows;
  double deadline;  ///< machine.seconds(): no cell begins later
  std::int64_t l2_bytes;
  std::vector<speed_cell>& cells;
  std::vector<std::string>& errors;  ///< none is measured after the first
};

/// Which cells of a pool are wanted.
enum class wanted_cells { all, decode };

template <class Machine, class Quantizer>
class speed_pool {
  using backend = typename Machine::backend;
  using memory_type = pagoda::cuda::basic_device_memory<backend>;
  using storage_type = pagoda::block_storage<Quantizer, Quantizer, pagoda::heads_tokens_dim, memory_type>;
  using tables_type = pagoda::cuda::basic_step_tables<backend>;
  using stream_ref = pagoda::cuda::stream_ref;

 public:
  speed_pool(const speed_run<Machine>& run, std::int32_t batch, std::int32_t context)
      : run_(run), plan_(run.plan), batch_(batch), context_(context) {}

  void measure(wanted_cells wanted) {
    std::vector<speed_cell> cells = wanted_list(wanted);
    const auto refuse = [&](cell_state state, const std::string& why) {
      for (speed_cell& cell : cells) {
        if (cell.state != cell_state::not_run || !cell.why.empty()) continue;
        cell.state = state;
        cell.why = why;
      }
    };
    pagoda::block_manager manager(config());
    const std::int64_t bytes = needed_bytes(manager);
    if (!run_.errors.empty()) {
      refuse(cell_state::not_run, "after an error");
    } else if (out_of_time()) {
      refuse(cell_state::not_run, "no time left");
    } else if (bytes > plan_.most_bytes) {
      refuse(cell_state::skipped,
             "cache and tables would take " + gibibytes(bytes) + ", more than " + gibibytes(plan_.most_bytes));
    } else {
      try {
        measure(manager, cells);
        refuse(cell_state::not_run, "no time left");
      } catch (const std::bad_alloc&) {
        refuse(cell_state::skipped, "the device has too little memory free for " + gibibytes(bytes));
      } catch (const std::exception& error) {
        refuse(cell_state::not_run, error.what());
        run_.errors.push_back(std::string(Quantizer::name) + ", batch " + std::to_string(batch_) + ", context " +
                              std::to_string(context_) + ": " + error.what());
      }
    }
    run_.cells.insert(run_.cells.end(), cells.begin(), cells.end());
  }

 private:
  static constexpr std::int32_t block_size = 16;

  static std::string gibibytes(std::int64_t bytes) {
    const auto tenths = static_cast<std::int64_t>(std::llround(static_cast<double>(bytes) / 107374182.4));
    return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " GiB";
  }

  bool out_of_time() const { return run_.machine.seconds() > run_.deadline; }

  std::vector<speed_cell> wanted_list(wanted_cells wanted) const {
    std::vector<speed_cell> cells;
    const auto add = [&](std::string_view call, std::int32_t group, std::int32_t rows) {
      cells.push_back({.call = call,
                       .quantizer = Quantizer::name,
                       .batch = batch_,
                       .context = context_,
                       .group = group,
                       .rows = rows});
    };
    if (wanted == wanted_cells::all) {
      if (prompts_fit()) add("append", 0, context_ - 1);
      add("append", 0, 1);
    }
    for (const std::int32_t group : plan_.groups) add("decode", group, 1);
    if (wanted == wanted_cells::all) {
      for (const std::int32_t group : plan_.groups) add("prefill", group, prefill_queries());
    }
    return cells;
  }

  /// Whether one append brings the prompts of the whole batch.
  bool prompts_fit() const { return std::int64_t{batch_} * context_ <= plan_.appended_at_once; }
  std::int32_t prefill_queries() const {
    return std::min({plan_.prefill_queries, context_, std::max(1, plan_.prefill_rows / batch_)});
  }

  pagoda::storage_shape shape() const {
    return {.layers = layers(), .kv_heads = plan_.kv_heads, .head_dim = plan_.head_dim};
  }
  std::int64_t blocks() const { return batch_ * pagoda::divide_up(context_, block_size); }
  std::int64_t layer_bytes() const {
    return blocks() * storage_type::block_bytes({.kv_heads = plan_.kv_heads, .head_dim = plan_.head_dim}, block_size);
  }
  std::int32_t layers() const {
    return static_cast<std::int32_t>(std::clamp<std::int64_t>(
        pagoda::divide_up(plan_.caches_over * run_.l2_bytes, layer_bytes()), 1, plan_.most_layers));
  }
  pagoda::manager_config config() const {
    const auto all = static_cast<std::int32_t>(blocks());
    return {.groups = {{.num_blocks = all}},
            .block_size = block_size,
            .max_sequences = std::max(batch_, scattering_sequences),
            .max_batch = batch_,
            .max_resident_tokens = std::max<std::int64_t>(context_, blocks_each() * block_size * 2)};
  }
  std::int32_t most_group() const { return *std::max_element(plan_.groups.begin(), plan_.groups.end()); }
  /// Room for more than one chunk of keys, so that a merge is launched as it is in an engine.
  pagoda::cuda::step_limits limits(std::int32_t queries, std::int32_t new_tokens, std::int32_t group) const {
    return {.sequences = batch_,
            .queries = batch_ * queries,
            .new_tokens = new_tokens,
            .blocks = std::max<std::int64_t>(blocks(), 2 * pagoda::chunk_tokens / block_size),
            .queries_per_sequence = std::max(1, queries),
            .query_heads = plan_.kv_heads * group,
            .value_head_dim = plan_.head_dim};
  }
  pagoda::cuda::step_limits decode_limits() const { return limits(1, batch_, most_group()); }
  pagoda::cuda::step_limits prefill_limits() const { return limits(prefill_queries(), batch_, most_group()); }
  std::int32_t tokens_of_piece() const { return prompts_fit() ? batch_ * context_ : piece_tokens; }

  std::int64_t needed_bytes(const pagoda::block_manager& manager) const {
    return layers() * layer_bytes() + std::max(tables_type::size_bytes(manager, decode_limits()),
                                               tables_type::size_bytes(manager, prefill_limits()));
  }

  void measure(pagoda::block_manager& manager, std::vector<speed_cell>& cells) {
    const storage_type storage(shape(), block_size, pagoda::num_blocks{static_cast<std::int32_t>(blocks())});
    scatter(manager);
    std::vector<pagoda::sequence> sequences;
    for (std::int32_t i = 0; i < batch_; ++i) sequences.push_back(manager.make_sequence());
    fill(storage, manager, sequences, cells);
    measure_step(storage, manager, sequences, "decode", 1, decode_limits(), cells);
    measure_step(storage, manager, sequences, "prefill", prefill_queries(), prefill_limits(), cells);
  }

  static constexpr std::int32_t scattering_sequences = 64;
  std::int64_t blocks_each() const { return blocks() / scattering_sequences + scattering_sequences; }

  /// Fills the pool with sequences and gives their blocks back one by one, each time of a random sequence: neighbours
  /// in the free list are then strangers in memory.
  void scatter(pagoda::block_manager& manager) const {
    std::vector<pagoda::sequence> holders;
    std::int64_t left = blocks();
    for (std::int32_t i = scattering_sequences; i > 0; --i) {
      const std::int64_t mine = left / i;
      left -= mine;
      if (mine == 0) continue;
      holders.push_back(manager.make_sequence());
      manager.plan({{holders.back(), static_cast<std::int32_t>(mine * block_size), 0}}).commit();
    }
    std::mt19937 bits(1);
    while (!holders.empty()) {
      const std::size_t i = bits() % holders.size();
      const std::int64_t rest = holders[i].position() - block_size;
      if (rest > 0) {
        manager.truncate(holders[i], rest);
      } else {
        std::swap(holders[i], holders.back());
        holders.pop_back();
      }
    }
  }

  /// Appends all tokens but the last of each sequence, in every layer.
  void fill(const storage_type& storage, pagoda::block_manager& manager, const std::vector<pagoda::sequence>& sequences,
            std::vector<speed_cell>& cells) {
    tables_type tables(manager, limits(0, tokens_of_piece(), 1));
    const auto append_all = [&](pagoda::step& step, std::int64_t tokens) {
      tables.upload(step, run_.machine.stream());
      for (std::int32_t layer = 0; layer < layers(); ++layer) {
        append(storage, tables, layer, tokens, run_.machine.stream());
      }
      backend::synchronize(run_.machine.stream());
    };
    if (prompts_fit()) {
      std::vector<pagoda::growth> batch;
      for (const pagoda::sequence& sequence : sequences) batch.push_back({sequence, context_ - 1, 0});
      pagoda::step step = manager.plan(batch);
      const std::int64_t tokens = std::int64_t{batch_} * (context_ - 1);
      append_all(step, tokens);
      for (speed_cell& cell : cells) {
        if (cell.call == "append" && cell.rows > 1) measure_append(storage, tables, tokens, cell);
      }
      step.commit();
      return;
    }
    for (const pagoda::sequence& sequence : sequences) {
      for (std::int64_t left = context_ - 1; left > 0;) {
        const std::int64_t piece = std::min<std::int64_t>(left, tokens_of_piece());
        pagoda::step step = manager.plan({{sequence, static_cast<std::int32_t>(piece), 0}});
        append_all(step, piece);
        step.commit();
        left -= piece;
      }
    }
  }

  void append(const storage_type& storage, const tables_type& tables, std::int32_t layer, std::int64_t tokens,
              stream_ref stream) const {
    const auto keys = run_.rows.input(0, tokens, plan_.kv_heads, plan_.head_dim);
    const auto values = run_.rows.input(tokens, tokens, plan_.kv_heads, plan_.head_dim);
    pagoda::cuda::append<backend>(storage.view(layer, tables), keys, values, stream);
  }

  void measure_append(const storage_type& storage, const tables_type& tables, std::int64_t tokens, speed_cell& cell) {
    const auto stored = static_cast<double>(storage_type::bytes_per_token(shape()) / layers());
    const double read = 2.0 * plan_.kv_heads * plan_.head_dim * sizeof(pagoda::half);
    cell.bytes = static_cast<double>(tokens) * (stored + read);
    measure_call(cell, [&](std::int32_t layer, stream_ref stream) { append(storage, tables, layer, tokens, stream); });
  }

  /// The cells of a step with one new token and so many queries for each sequence. Nothing is kept.
  void measure_step(const storage_type& storage, pagoda::block_manager& manager,
                    const std::vector<pagoda::sequence>& sequences, std::string_view call, std::int32_t queries,
                    const pagoda::cuda::step_limits& limits, std::vector<speed_cell>& cells) {
    const bool is_wanted =
        std::any_of(cells.begin(), cells.end(), [&](const speed_cell& cell) { return cell.call == call; });
    if (!is_wanted || out_of_time()) return;
    std::vector<pagoda::growth> batch;
    for (const pagoda::sequence& sequence : sequences) batch.push_back({sequence, 1, queries});
    const pagoda::step step = manager.plan(batch);
    tables_type tables(manager, limits);
    tables.upload(step, run_.machine.stream());
    // The new tokens' rows first: a layer that was never appended to holds whatever the memory held.
    for (std::int32_t layer = 0; layer < layers(); ++layer) {
      append(storage, tables, layer, batch_, run_.machine.stream());
    }
    const std::int64_t rows = std::int64_t{batch_} * queries;
    const double pairs = queries * (context_ - 0.5 * (queries - 1));  // of queries and keys that they see
    for (speed_cell& cell : cells) {
      if (call == "decode" && cell.call == "append" && cell.rows == 1) measure_append(storage, tables, batch_, cell);
      if (cell.call != call) continue;
      const std::int64_t heads = std::int64_t{plan_.kv_heads} * cell.group;
      const auto query_rows = run_.rows.input(0, rows, heads, plan_.head_dim);
      const auto output = run_.rows.output(rows, heads, plan_.head_dim);
      cell.bytes = static_cast<double>(batch_) * context_ *
                   static_cast<double>(storage_type::bytes_per_token(shape()) / layers());
      cell.flops = 4.0 * static_cast<double>(batch_ * heads) * plan_.head_dim * pairs;
      measure_call(cell, [&](std::int32_t layer, stream_ref stream) {
        pagoda::cuda::attention<backend>(storage.view(layer, tables), query_rows, output, {}, stream);
      });
    }
  }

  /// Times a call over the layers in turn, by replays of one graph.
  template <class Call>
  void measure_call(speed_cell& cell, Call&& call) {
    Machine& machine = run_.machine;
    if (out_of_time()) return;
    const double begin = machine.seconds();
    call(0, machine.stream());  // loads the kernels
    backend::synchronize(machine.stream());
    const auto graph_of = [&](std::int32_t calls) {
      return machine.capture([&](stream_ref stream) {
        for (std::int32_t i = 0; i < calls; ++i) call(i % layers(), stream);
      });
    };
    const double first = [&] {
      const auto one = graph_of(1);
      machine.time(one);
      return std::max(machine.time(one), 0.1);
    }();
    const auto calls =
        static_cast<std::int32_t>(std::clamp<double>(std::ceil(plan_.graph_microseconds / first), 1, plan_.most_calls));
    const auto many = graph_of(calls);
    machine.time(many);
    std::vector<double> times;
    while (static_cast<std::int32_t>(times.size()) < plan_.most_runs) {
      if (static_cast<std::int32_t>(times.size()) >= plan_.least_runs &&
          machine.seconds() - begin > plan_.cell_seconds) {
        break;
      }
      times.push_back(machine.time(many) / calls);
    }
    std::sort(times.begin(), times.end());
    cell.microseconds = times[times.size() / 2];
    cell.runs = static_cast<std::int32_t>(times.size()) * calls;
    cell.state = cell_state::measured;
  }

  const speed_run<Machine>& run_;
  const speed_plan& plan_;
  std::int32_t batch_;
  std::int32_t context_;
};

/// All wanted cells of a quantizer, a batch and a context.
template <class Machine, class Quantizer>
void measure_pool(const speed_run<Machine>& run, std::int32_t batch, std::int32_t context, wanted_cells wanted) {
  speed_pool<Machine, Quantizer>(run, batch, context).measure(wanted);
}

}  // namespace pagoda_check
