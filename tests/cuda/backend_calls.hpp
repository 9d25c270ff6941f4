// SPDX-License-Identifier: Apache-2.0
/// @file The CUDA part as tests call it, on any backend: arrays in device memory, and an attention_case moved there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

#include <pagoda/cuda/append.hpp>
#include <pagoda/cuda/attention.hpp>
#include <pagoda/cuda/memory.hpp>
#include <pagoda/cuda/step_tables.hpp>

#include "attention_case.hpp"
#include "stored_rows.hpp"

namespace pagoda_test {

/// Elements in device memory, in an allocation of their size.
template <class Backend, class T>
class device_array {
 public:
  explicit device_array(std::span<const T> elements)
      : memory_(bytes_of_count(elements.size())), size_(elements.size()) {
    if (elements.empty()) return;
    Backend::copy(memory_.data(), elements.data(), bytes_of_count(size_), {});
    Backend::synchronize({});
  }

  std::span<T> span() const { return {reinterpret_cast<T*>(memory_.data()), size_}; }
  std::vector<T> read() const {
    std::vector<T> elements(size_);
    if (size_ != 0) Backend::copy(elements.data(), memory_.data(), bytes_of_count(size_), {});
    Backend::synchronize({});
    return elements;
  }

 private:
  static std::int64_t bytes_of_count(std::size_t count) {
    return static_cast<std::int64_t>((count == 0 ? 1 : count) * sizeof(T));
  }
  pagoda::cuda::basic_device_memory<Backend> memory_;
  std::size_t size_;
};

template <class Backend, class Range>
auto to_device(const Range& range) {
  using element = typename Range::value_type;
  return device_array<Backend, element>(std::span<const element>(range));
}

/// Reads one number of device memory.
template <class Backend, class T>
T read_device(const T* at) {
  T value{};
  Backend::copy(&value, at, sizeof(T), {});
  Backend::synchronize({});
  return value;
}

/// Limits that just hold a step.
inline pagoda::cuda::step_limits limits_of(const pagoda::batch_view& batch, std::int64_t query_heads,
                                           std::int64_t value_dim) {
  pagoda::cuda::step_limits limits{.sequences = std::max(1, batch.sequences()),
                                   .queries = batch.total_queries(),
                                   .new_tokens = batch.total_new_tokens(),
                                   .blocks = 1,
                                   .query_heads = static_cast<std::int32_t>(query_heads),
                                   .value_head_dim = static_cast<std::int32_t>(value_dim)};
  std::int64_t blocks = 0;
  for (std::int32_t i = 0; i < batch.sequences(); ++i) {
    blocks += batch.entries(i);
    limits.queries_per_sequence = std::max(limits.queries_per_sequence, batch.queries(i));
  }
  limits.blocks = std::max<std::int64_t>(1, blocks);
  return limits;
}

/// The storage of an attention_case in device memory, and the tables of its step.
template <class Backend, class KeyQuantizer, class ValueQuantizer = KeyQuantizer,
          class Layout = pagoda::heads_tokens_dim>
class device_case {
 public:
  using case_type = attention_case<KeyQuantizer, ValueQuantizer, Layout>;
  using storage_type =
      pagoda::block_storage<KeyQuantizer, ValueQuantizer, Layout, pagoda::cuda::basic_device_memory<Backend>>;

  explicit device_case(const case_config& config) : device_case(config, [](pagoda::cuda::step_limits&) {}) {}

  /// `adjust` changes the limits, which just hold the step.
  template <class Adjust>
  device_case(const case_config& config, Adjust&& adjust)
      : host(config),
        storage(config.shape, config.block_size, pagoda::num_blocks{host.storage().blocks()}, config.order),
        tables(host.manager(), adjusted(adjust)),
        queries(std::span<const float>(host.queries)) {
    const std::span<const std::byte> bytes = bytes_of(host.storage());
    Backend::copy(storage.layer_view(0).keys.base, bytes.data(), static_cast<std::int64_t>(bytes.size()), {});
    tables.upload(host.step());
    Backend::synchronize({});
    view = storage.view(host.layer(), tables);
  }

  /// CUDA attention; the output starts as NaN, so that a row that is not written shows. Options are of the host.
  attention_result run(pagoda::attention_options options = {}) {
    constexpr float unwritten = std::numeric_limits<float>::quiet_NaN();
    auto output = to_device<Backend>(std::vector<float>(host.output_size(), unwritten));
    auto lse = to_device<Backend>(std::vector<float>(host.row_count(), unwritten));
    const device_array<Backend, float> sinks(options.sink_logits);
    const device_array<Backend, float> slopes(options.alibi_slopes);
    const device_array<Backend, std::uint32_t> words(options.tree.words);
    options.sink_logits = sinks.span();
    options.alibi_slopes = slopes.span();
    options.tree.words = words.span();
    options.lse = lse.span();
    pagoda::cuda::attention<Backend>(view, query_rows(), pagoda::rows_view(output.span(), host.output_shape()),
                                     options);
    Backend::synchronize({});
    return {output.read(), lse.read()};
  }

  pagoda::rows_view<float> query_rows() const {
    const pagoda::rows_view<const float> rows = host.query_rows();
    return pagoda::rows_view<float>(queries.span(), rows.shape());
  }

  case_type host;
  storage_type storage;
  pagoda::cuda::basic_step_tables<Backend> tables;
  device_array<Backend, float> queries;
  typename storage_type::view_type view{};

 private:
  template <class Adjust>
  pagoda::cuda::step_limits adjusted(Adjust& adjust) const {
    pagoda::cuda::step_limits limits = limits_of(host.view.batch, host.heads(), host.view.value_dim);
    if (pagoda::is_rotated_v<KeyQuantizer>) limits.rotated_head_dim = host.view.key_dim;
    if (pagoda::is_rotated_v<ValueQuantizer>)
      limits.rotated_head_dim = std::max(limits.rotated_head_dim, host.view.value_dim);
    adjust(limits);
    return limits;
  }
};

}  // namespace pagoda_test
