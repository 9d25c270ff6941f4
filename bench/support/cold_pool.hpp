// SPDX-License-Identifier: Apache-2.0
/// @file A pool larger than the last-level cache, cut into steps that are visited in turn: what is read is cold.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <pagoda/pagoda.hpp>

#include "memory.hpp"
#include "random_rows.hpp"
#include "shapes.hpp"

namespace pagoda_bench {

/// The latest thing that a benchmark built: Google Benchmark calls a benchmark several times before it trusts a time,
/// and the rotation must not begin anew each time.
template <class T, class Make>
T& latest(const std::string& key, Make&& make) {
  static std::string held_key;
  static std::unique_ptr<T> held;
  if (held == nullptr || held_key != key) {
    held.reset();
    held = make();
    held_key = key;
  }
  return *held;
}

/// How the blocks of one sequence lie in the pool.
enum class block_order { sequential, scattered };

/// What each step of a cold pool looks like.
struct step_shape {
  std::vector<std::int32_t> contexts;  ///< tokens of each sequence of the batch
  std::int32_t queries = 1;            ///< of each sequence
  std::int32_t new_tokens = 0;         ///< of each sequence, the last of its context
  block_order order = block_order::sequential;
  std::int32_t block_size = pagoda_bench::block_size;
};

/// Open steps over a storage that fills the arena; next() walks over steps and layers.
template <class Quantizer>
class cold_pool {
 public:
  using storage_type = pagoda::block_storage<Quantizer, Quantizer, pagoda::heads_tokens_dim, pagoda::borrowed_memory>;
  using view_type = typename storage_type::view_type;

  cold_pool(const model_shape& model, const step_shape& shape)
      : shape_(choose_shape(model, shape)),
        storage_(make_storage(shape_, shape.block_size)),
        manager_(make_manager(storage_, shape)) {
    if (shape.order == block_order::scattered) scatter();
    open_steps(shape);
  }

  /// The view of the next step and layer. All others come before it comes again.
  const view_type& next() {
    fill();
    return next_to_write();
  }

  /// The same, whatever the arena holds: for what only writes.
  const view_type& next_to_write() {
    next_ = next_ + 1 < views_.size() ? next_ + 1 : 0;
    return views_[next_];
  }

  /// Fills the arena with coded normal values if something else has been written there.
  void fill() {
    arena::shared().require(std::string(Quantizer::name) + "/" + std::to_string(shape_.kv_heads) + "/" +
                                std::to_string(shape_.layers) + "/" + std::to_string(storage_.block_size()),
                            [this] { write_blocks(); });
  }

  std::int64_t bytes_per_token() const {
    pagoda::storage_shape one = shape_;
    one.layers = 1;
    return storage_type::bytes_per_token(one);
  }
  std::size_t views() const { return views_.size(); }

 private:
  static constexpr std::int32_t most_steps = 1024;
  static constexpr std::int32_t scattering_sequences = 64;

  static storage_type make_storage(const pagoda::storage_shape& shape, std::int32_t size) {
    const std::span<std::byte> bytes = arena::shared().bytes();
    const std::int32_t blocks = storage_type::max_blocks(shape, size, static_cast<std::int64_t>(bytes.size()));
    return {shape, size, pagoda::num_blocks{blocks}, pagoda::borrowed_memory(bytes)};
  }

  /// Steps whose blocks fit a pool at once.
  static std::int32_t steps_that_fit(std::int32_t pool_blocks, const step_shape& shape) {
    std::int64_t blocks = 0;
    for (const std::int32_t context : shape.contexts) blocks += pagoda::divide_up(context, shape.block_size);
    return static_cast<std::int32_t>(std::min<std::int64_t>(pool_blocks / blocks, most_steps));
  }

  /// As many layers as leave the most to rotate over: few for long contexts, more where open steps are the limit.
  static pagoda::storage_shape choose_shape(const model_shape& model, const step_shape& shape) {
    pagoda::storage_shape best;
    std::int64_t most = -1;
    for (const std::int32_t layers : {4, 2, 1}) {
      const pagoda::storage_shape tried{.layers = layers, .kv_heads = model.kv_heads, .head_dim = model.head_dim};
      const auto bytes = static_cast<std::int64_t>(arena::shared().bytes().size());
      const std::int64_t views =
          std::int64_t{layers} * steps_that_fit(storage_type::max_blocks(tried, shape.block_size, bytes), shape);
      if (views > most) best = tried;
      most = std::max(most, views);
    }
    return best;
  }

  static pagoda::block_manager make_manager(const storage_type& storage, const step_shape& shape) {
    const std::int32_t steps = steps_that_fit(storage.blocks(), shape);
    const auto batch = static_cast<std::int32_t>(shape.contexts.size());
    const std::int32_t sequences = std::max(steps * batch, scattering_sequences);
    const std::int32_t longest = *std::max_element(shape.contexts.begin(), shape.contexts.end());
    const std::int32_t scattering_blocks =
        shape.order == block_order::scattered ? storage.blocks() / scattering_sequences + scattering_sequences : 1;
    return pagoda::block_manager({.groups = {{.num_blocks = storage.blocks()}},
                                  .block_size = shape.block_size,
                                  .max_sequences = sequences,
                                  .max_batch = batch,
                                  .max_open_steps = steps,
                                  .max_resident_tokens = std::max(longest, scattering_blocks * shape.block_size)});
  }

  /// Fills the pool with sequences and gives their blocks back one by one, each time of a random sequence: neighbours
  /// in the free list are then strangers in memory.
  void scatter() {
    std::vector<pagoda::sequence> holders;
    const std::int32_t each = storage_.blocks() / scattering_sequences;
    for (std::int32_t i = 0; i < scattering_sequences; ++i) {
      const std::int32_t blocks = i + 1 < scattering_sequences ? each : storage_.blocks() - i * each;
      holders.push_back(manager_.make_sequence());
      manager_.plan({{holders.back(), blocks * block_size}}).commit();
    }
    std::mt19937 bits(1);
    while (!holders.empty()) {
      const std::size_t i = bits() % holders.size();
      const std::int64_t left = holders[i].position() - block_size;
      if (left > 0) {
        manager_.truncate(holders[i], left);
      } else {
        std::swap(holders[i], holders.back());
        holders.pop_back();
      }
    }
  }

  void open_steps(const step_shape& shape) {
    const std::int32_t steps = steps_that_fit(storage_.blocks(), shape);
    std::vector<pagoda::growth> batch;
    for (std::int32_t s = 0; s < steps; ++s) {
      batch.clear();
      for (const std::int32_t context : shape.contexts) {
        sequences_.push_back(manager_.make_sequence());
        if (context > shape.new_tokens) {
          manager_.plan({{sequences_.back(), context - shape.new_tokens, 0}}).commit();
        }
        batch.push_back({sequences_.back(), shape.new_tokens, shape.queries});
      }
      steps_.push_back(manager_.plan(batch));
    }
    for (std::int32_t layer = 0; layer < shape_.layers; ++layer) {
      for (const pagoda::step& step : steps_) views_.push_back(storage_.view(layer, step));
    }
  }

  /// Encodes some blocks, 512 tokens or one block, and copies them over all others.
  void write_blocks() {
    const std::int32_t size = storage_.block_size();
    const std::int32_t coded = std::min(storage_.blocks(), std::max(1, 512 / size));
    const std::int32_t tokens = std::min(coded * size, 512);
    pagoda::block_manager manager({.groups = {{.num_blocks = coded}}, .block_size = size, .max_sequences = 1});
    const pagoda::sequence sequence = manager.make_sequence();
    const std::int64_t heads = shape_.kv_heads;
    const std::int64_t dim = shape_.head_dim;
    const std::vector<float> keys = random_elements<float>(tokens * heads * dim, 1);
    const std::vector<float> values = random_elements<float>(tokens * heads * dim, 2);
    for (std::int32_t written = 0; written < coded * size; written += tokens) {
      pagoda::step step = manager.plan({{sequence, tokens}});
      pagoda::host::append(storage_.view(0, step), pagoda::rows_view(keys, {tokens, heads, dim}),
                           pagoda::rows_view(values, {tokens, heads, dim}));
      step.commit();
    }
    for (std::int32_t layer = 0; layer < shape_.layers; ++layer) {
      for (std::int32_t block = layer == 0 ? coded : 0; block < storage_.blocks(); ++block) {
        const std::span<std::byte> from = storage_.block_bytes(pagoda::block_id{block % coded}, 0);
        const std::span<std::byte> to = storage_.block_bytes(pagoda::block_id{block}, layer);
        std::memcpy(to.data(), from.data(), from.size());
      }
    }
  }

  pagoda::storage_shape shape_;
  storage_type storage_;
  pagoda::block_manager manager_;
  std::vector<pagoda::sequence> sequences_;
  std::vector<pagoda::step> steps_;
  std::vector<view_type> views_;
  std::size_t next_ = 0;
};

}  // namespace pagoda_bench
