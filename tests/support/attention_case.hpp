// SPDX-License-Identifier: Apache-2.0
/// @file A cache with a ragged batch in scattered blocks, host attention over it, and the reference to compare with.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include <pagoda/block_manager.hpp>
#include <pagoda/block_storage.hpp>
#include <pagoda/host/append.hpp>

#include "attention_calls.hpp"
#include "poison.hpp"
#include "policy_products.hpp"

namespace pagoda_test {

/// Bell-shaped numbers of variance 1 that depend on nothing but the arguments: the same token has the same rows in
/// every cache, however it came in.
inline float noise(std::uint64_t seed, std::uint64_t stream, std::int64_t token, std::int64_t head, std::int64_t d) {
  std::uint64_t z = seed * 0x9e3779b97f4a7c15u + stream * 0xd1b54a32d192ed03u +
                    static_cast<std::uint64_t>(token) * 0x8cb92ba72f3d8dd7u +
                    static_cast<std::uint64_t>(head) * 0xaef17502108ef2d9u +
                    static_cast<std::uint64_t>(d) * 0xf1357aea2e62a9c5u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  z ^= z >> 31;
  float sum = 0;
  for (int i = 0; i < 4; ++i) sum += static_cast<float>((z >> (16 * i)) & 0xffffu);
  return (sum / 65536.0f - 2.0f) * 1.7320508f;
}

/// One sequence of a batch, as the step sees it.
struct batch_entry {
  std::int32_t context = 0;  ///< tokens, the new ones among them
  std::int32_t new_tokens = 0;
  std::int32_t queries = -1;  ///< -1: one for each new token
  std::uint64_t seed = 0;     ///< of its contents
};

struct case_config {
  pagoda::storage_shape shape{.kv_heads = 2, .head_dim = 64};
  std::int32_t block_size = 16;
  std::int32_t query_group = 4;
  std::vector<batch_entry> batch{};
  pagoda::retention keep{};
  pagoda::pool_order order = pagoda::pool_order::by_layer;
  std::uint32_t scatter = 1;  ///< seed of the free list's order; 0: as the manager made it
  poison unused = poison::quiet_nan;
};

struct attention_result {
  std::vector<float> output;
  std::vector<float> lse;
  friend bool operator==(const attention_result&, const attention_result&) = default;
};

struct reference_result {
  std::vector<double> output;
  std::vector<double> lse;
};

/// The largest error of any row: relative, in the L2 norm; and of any LSE: absolute, or relative where it is above 1.
/// Infinite where one side is not finite (or exactly zero) and the other is.
struct attention_error {
  double output = 0;
  double lse = 0;
};

inline attention_error compare(const attention_result& got, const reference_result& expected, std::int64_t dim) {
  attention_error worst;
  const auto width = static_cast<std::size_t>(dim);
  constexpr double wrong = std::numeric_limits<double>::infinity();
  for (std::size_t row = 0; row < expected.lse.size(); ++row) {
    double difference = 0;
    double norm = 0;
    for (std::size_t d = row * width; d < (row + 1) * width; ++d) {
      difference += (got.output[d] - expected.output[d]) * (got.output[d] - expected.output[d]);
      norm += expected.output[d] * expected.output[d];
    }
    const double error = difference == 0 ? 0 : std::sqrt(difference / norm);
    worst.output = error <= worst.output ? worst.output : std::isnan(error) ? wrong : error;
    const double a = got.lse[row];
    const double b = expected.lse[row];
    const double lse_error = a == b ? 0 : std::fabs(a - b) / std::max(1.0, std::fabs(b));
    worst.lse = lse_error <= worst.lse ? worst.lse : std::isnan(lse_error) ? wrong : lse_error;
  }
  return worst;
}

/// The bounds of host/attention.hpp.
inline constexpr double attention_bound = 2e-5;
template <class Quantizer>
inline constexpr double bound_of = [] {
  if constexpr (pagoda::has_load_int16<Quantizer> && Quantizer::group == 0) return Quantizer::bits == 4 ? 1e-3 : 2e-4;
  // A row's offset is subtracted from what its codes add up to.
  if constexpr (std::is_same_v<Quantizer, user_int4>) return 2 * attention_bound;
  return attention_bound;
}();

template <class KeyQuantizer, class ValuePolicy = KeyQuantizer, class Layout = pagoda::heads_tokens_dim>
class attention_case {
 public:
  using storage_type = pagoda::block_storage<KeyQuantizer, ValuePolicy, Layout>;
  using view_type = typename storage_type::view_type;

  static constexpr double bound = std::max(bound_of<KeyQuantizer>, bound_of<typename storage_type::value_quantizer>);

  explicit attention_case(const case_config& config)
      : config_(config),
        blocks_(count_blocks(config)),
        storage_(config.shape, config.block_size, pagoda::num_blocks{blocks_}, config.order),
        manager_({.groups = {{.num_blocks = blocks_, .keep = config.keep}},
                  .block_size = config.block_size,
                  .max_sequences = static_cast<std::int32_t>(config.batch.size()) + blocks_,
                  .max_batch = static_cast<std::int32_t>(config.batch.size()) + 1}) {
    fill(bytes_of(storage_), config.unused);
    scatter_free_list();
    for (std::size_t i = 0; i < config.batch.size(); ++i) sequences_.push_back(manager_.make_sequence());
    append_history();
    std::vector<pagoda::growth> batch;
    for (std::size_t i = 0; i < config.batch.size(); ++i) {
      batch.push_back({sequences_[i], config.batch[i].new_tokens, config.batch[i].queries});
    }
    step_.emplace(manager_.plan(batch));
    append_rows(*step_);
    view = storage_.view(layer(), *step_);
    make_queries();
  }

  /// Host attention; the output starts as NaN, so that a row that is not written shows.
  attention_result run(pagoda::attention_options options, any_executor& executor) const {
    constexpr float unwritten = std::numeric_limits<float>::quiet_NaN();
    attention_result result{std::vector<float>(output_size(), unwritten), std::vector<float>(row_count(), unwritten)};
    options.lse = result.lse;
    attend(view, query_rows(), pagoda::rows_view<float>(result.output, output_shape()), options, executor);
    return result;
  }
  attention_result run(const pagoda::attention_options& options = {}) const {
    serial_items serial;
    return run(options, serial);
  }

  reference_result reference(const pagoda::attention_options& options = {}) const {
    reference_result result{std::vector<double>(output_size()), std::vector<double>(row_count())};
    attend_reference(view, query_rows(), pagoda::rows_view<double>(result.output, output_shape()), options, result.lse);
    return result;
  }

  attention_error error(const pagoda::attention_options& options = {}) const {
    return compare(run(options), reference(options), config_.shape.value_dim());
  }
  attention_error error(const pagoda::attention_options& options, any_executor& executor) const {
    return compare(run(options, executor), reference(options), config_.shape.value_dim());
  }

  std::int64_t heads() const { return std::int64_t{config_.shape.kv_heads} * config_.query_group; }
  std::int64_t query_count() const { return view.batch.total_queries(); }
  pagoda::rows_shape output_shape() const { return {query_count(), heads(), config_.shape.value_dim()}; }
  pagoda::rows_view<const float> query_rows() const {
    return pagoda::rows_view<const float>(queries, {query_count(), heads(), config_.shape.key_dim()});
  }
  std::size_t row_count() const { return static_cast<std::size_t>(query_count() * heads()); }
  std::size_t output_size() const { return row_count() * static_cast<std::size_t>(config_.shape.value_dim()); }
  std::int32_t layer() const { return config_.shape.layers - 1; }
  storage_type& storage() { return storage_; }
  pagoda::step& step() { return *step_; }
  const pagoda::block_manager& manager() const { return manager_; }

  view_type view{};
  std::vector<float> queries{};

 private:
  static std::int32_t count_blocks(const case_config& config) {
    std::int64_t blocks = 5;
    for (const batch_entry& entry : config.batch) blocks += pagoda::divide_up(entry.context, config.block_size);
    return static_cast<std::int32_t>(blocks);
  }

  /// One block each for many sequences, given back in random order.
  void scatter_free_list() {
    if (config_.scatter == 0) return;
    std::vector<pagoda::sequence> holders;
    for (std::int32_t i = 0; i < blocks_; ++i) {
      holders.push_back(manager_.make_sequence());
      manager_.plan({{holders.back(), 1}}).commit();
    }
    std::shuffle(holders.begin(), holders.end(), std::mt19937(config_.scatter));
    holders.clear();
  }

  /// The committed tokens, in pieces of 100, all sequences in turn: so their blocks interleave.
  void append_history() {
    for (bool grows = true; grows;) {
      std::vector<pagoda::growth> batch;
      for (std::size_t i = 0; i < sequences_.size(); ++i) {
        const std::int64_t left = config_.batch[i].context - config_.batch[i].new_tokens - sequences_[i].position();
        batch.push_back({sequences_[i], static_cast<std::int32_t>(std::min<std::int64_t>(left, 100))});
      }
      grows = std::any_of(batch.begin(), batch.end(), [](const pagoda::growth& g) { return g.new_tokens > 0; });
      if (!grows) break;
      pagoda::step step = manager_.plan(batch);
      append_rows(step);
      step.commit();
    }
  }

  void append_rows(const pagoda::step& step) {
    const pagoda::batch_view batch = step.batch();
    const pagoda::storage_shape& shape = config_.shape;
    std::vector<float> keys;
    std::vector<float> values;
    for (std::int32_t i = 0; i < batch.sequences(); ++i) {
      const std::uint64_t seed = config_.batch[static_cast<std::size_t>(i)].seed;
      for (std::int64_t t = batch.context_length(i) - batch.new_tokens(i); t < batch.context_length(i); ++t) {
        for (std::int64_t head = 0; head < shape.kv_heads; ++head) {
          for (std::int64_t d = 0; d < shape.key_dim(); ++d) keys.push_back(noise(seed, 1, t, head, d));
          for (std::int64_t d = 0; d < shape.value_dim(); ++d) values.push_back(noise(seed, 2, t, head, d));
        }
      }
    }
    const std::int64_t tokens = batch.total_new_tokens();
    const view_type to = storage_.view(layer(), step);
    const auto key_rows = pagoda::rows_view(keys, {tokens, shape.kv_heads, shape.key_dim()});
    if (to.values_lie_in_keys()) {
      pagoda::host::append(to, key_rows);
    } else {
      pagoda::host::append(to, key_rows, pagoda::rows_view(values, {tokens, shape.kv_heads, shape.value_dim()}));
    }
  }

  void make_queries() {
    for (std::int32_t i = 0; i < view.batch.sequences(); ++i) {
      const std::uint64_t seed = config_.batch[static_cast<std::size_t>(i)].seed;
      const std::int64_t end = view.batch.context_length(i);
      for (std::int64_t position = end - view.batch.queries(i); position < end; ++position) {
        for (std::int64_t head = 0; head < heads(); ++head) {
          for (std::int64_t d = 0; d < config_.shape.key_dim(); ++d)
            queries.push_back(noise(seed, 3, position, head, d));
        }
      }
    }
  }

  case_config config_;
  std::int32_t blocks_;
  storage_type storage_;
  pagoda::block_manager manager_;
  std::vector<pagoda::sequence> sequences_;
  std::optional<pagoda::step> step_;
};

}  // namespace pagoda_test
