// SPDX-License-Identifier: Apache-2.0
/// @file The bytes of the KV cache behind an interface: nothing else of the engine knows their types and layout.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include <pagoda/copy_list.hpp>
#include <pagoda/host/thread_pool.hpp>
#include <pagoda/shape.hpp>
#include <pagoda/step.hpp>

/// What the forward pass asks of a storage. One virtual call a layer costs nothing beside the work that it starts.
class kv_storage {
 public:
  virtual ~kv_storage() = default;

  /// Performs the copies that a plan asked for.
  virtual void execute(const pagoda::copy_list& copies) = 0;

  /// Shapes: keys and values [new tokens, kv_heads, head_dim].
  virtual void append(std::int32_t layer, const pagoda::step& step, pagoda::rows_view<const float> keys,
                      pagoda::rows_view<const float> values, pagoda::host::thread_pool& pool) = 0;

  /// Shapes: queries and output [new tokens, heads, head_dim].
  virtual void attention(std::int32_t layer, const pagoda::step& step, pagoda::rows_view<const float> queries,
                         pagoda::rows_view<float> output, pagoda::host::thread_pool& pool) const = 0;

  /// Of all layers.
  virtual std::int64_t bytes_per_token() const = 0;
  virtual std::int64_t size_bytes() const = 0;
};

/// The names of a storage's types.
struct kv_storage_names {
  std::string_view keys;
  std::string_view values;
  std::string_view layout;
};

/// A storage whose types and layout are named at run time. "contiguous" for keys and values is the baseline.
/// Throws: pagoda::invalid_argument, with the names to choose from, for an unknown one; std::runtime_error for a pair
/// of types that the program is not built with; as pagoda::block_storage does.
std::unique_ptr<kv_storage> make_kv_storage(const kv_storage_names& names, const pagoda::storage_shape& shape,
                                            std::int32_t block_size, pagoda::num_blocks blocks);

/// Every type that keys and values can have together.
std::vector<std::string_view> kv_type_names();
