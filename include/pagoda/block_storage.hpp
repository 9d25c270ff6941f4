// SPDX-License-Identifier: Apache-2.0
/// @file block_storage: the bytes of one group of layers.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>

#include <pagoda/cache_view.hpp>
#include <pagoda/layout/heads_tokens_dim.hpp>
#include <pagoda/memory/host.hpp>
#include <pagoda/policy.hpp>
#include <pagoda/quantizer/identity.hpp>

namespace pagoda {

/// How the blocks of several layers lie in the pool.
enum class pool_order {
  by_layer,  ///< each layer's blocks together: what attention walks
  by_block,  ///< each block's layers together: a block of the whole group moves in one copy
};

/// A step, or anything else that can say what a batch looks like to a layer group.
template <class T>
concept batch_tables = requires(const T& tables, int group) {
  { tables.batch(group) } -> std::same_as<batch_view>;
};

/// Holds the blocks of one group of layers: quantizers x layout x memory. It keeps no books: a block_manager says which
/// block belongs to whom.
///
/// A storage that was moved from still answers shape(), block_size(), blocks(), order() and size_bytes(), but has no
/// bytes: its views are refused. In borrowed memory it shares the bytes with the one that it went to.
///
/// A block of one layer is [rows as the layout places them | scales], the scales per head [keys | values]. Row bytes
/// are padded to 16, a block to 256.
///
/// ValuePolicy is a quantizer, or values_in_keys<N>: then there are no value rows, views show the first N elements of
/// the keys as values, and the shape's value_head_dim is N, given or not.
template <class KeyQuantizer, class ValuePolicy, class Layout, class Memory>
class block_storage {
  using value_policy = detail::value_policy<KeyQuantizer, ValuePolicy>;
  static constexpr std::int32_t elements_of_key = value_policy::elements_of_key;
  static_assert(require_quantizer<KeyQuantizer>() && require_quantizer<typename value_policy::quantizer>());
  static_assert(require_layout<Layout>() && require_memory<Memory>());
  static_assert(
      elements_of_key == 0 || !is_rotated_v<KeyQuantizer>,
      "pagoda: values_in_keys<N> takes the values from the front of a key row, but hadamard keys are rotated: "
      "use the quantizer inside");

 public:
  using key_quantizer = KeyQuantizer;
  using value_quantizer = typename value_policy::quantizer;
  using layout_type = Layout;
  using memory_type = Memory;
  using view_type = cache_view<key_quantizer, value_quantizer>;

  /// Storage in memory of its own.
  /// Throws: invalid_argument for a shape, block size or number of blocks that cannot be; size_overflow if the bytes do
  ///         not fit 64 bits; std::bad_alloc if there are not that many.
  block_storage(storage_shape shape, std::int32_t block_size, num_blocks blocks,
                pool_order order = pool_order::by_layer) requires allocating_memory<Memory>
      : block_storage(shape, block_size, blocks, Memory(size_bytes(shape, block_size, blocks)), order) {}

  /// Storage in the given memory. Throws: also invalid_argument if it is too small, null, or not
  /// aligned to storage_alignment.
  block_storage(storage_shape shape, std::int32_t block_size, num_blocks blocks, Memory memory,
                pool_order order = pool_order::by_layer)
      : shape_(shape), block_size_(block_size), blocks_(blocks), order_(order), memory_(std::move(memory)) {
    const std::int64_t needed = size_bytes(shape, block_size, blocks);
    if (memory_.size_bytes() < needed) {
      const std::int32_t fitting = max_blocks(shape, block_size, memory_.size_bytes());
      if (fitting == 0) {
        detail::fail("the storage needs ", needed, " bytes, but its memory has ", memory_.size_bytes(),
                     ", which holds no block: lend at least the ", size_bytes(shape, block_size, num_blocks{1}),
                     " bytes that one block takes in all layers");
      }
      detail::fail("the storage needs ", needed, " bytes, but its memory has ", memory_.size_bytes(),
                   ": lend more, or ask for at most ", fitting, " blocks");
    }
    check_address(memory_.data());
    geometry_ = place(shape, block_size);
    shape_ = with_values(shape);
  }

  /// Bytes of one block of one layer.
  static std::int64_t block_bytes(const storage_shape& shape, std::int32_t block_size) {
    return place(shape, block_size).block_stride;
  }

  /// Bytes that one token takes in all layers, padding of blocks left out.
  static std::int64_t bytes_per_token(const storage_shape& shape) {
    const placement g = place(shape, 1);
    const std::int64_t head = g.key_row + g.value_row + g.key_scale + g.value_scale;
    return checked_multiply(checked_multiply(head, shape.kv_heads, "bytes of a token"), shape.layers,
                            "bytes of a token");
  }

  /// Bytes of a storage of that shape.
  static std::int64_t size_bytes(const storage_shape& shape, std::int32_t block_size, num_blocks blocks) {
    check_range("num_blocks", blocks.value, 1, std::numeric_limits<std::int32_t>::max() - 1);
    const std::int64_t layer = checked_multiply(block_bytes(shape, block_size), blocks.value, "bytes of a layer");
    return checked_multiply(layer, shape.layers, "bytes of the storage");
  }

  /// The most blocks that fit a budget of bytes; 0 if not even one does.
  static std::int32_t max_blocks(const storage_shape& shape, std::int32_t block_size, std::int64_t budget_bytes) {
    check_range("byte budget", budget_bytes, 0, std::numeric_limits<std::int64_t>::max());
    const std::int64_t all_layers = checked_multiply(block_bytes(shape, block_size), shape.layers, "bytes of a block");
    const std::int64_t most = std::numeric_limits<std::int32_t>::max() - 1;
    return static_cast<std::int32_t>(budget_bytes / all_layers < most ? budget_bytes / all_layers : most);
  }

  /// One layer, as a step's sequences see it; `group` is the storage's layer group, named where the manager has
  /// several.
  /// Throws: out_of_range for a layer that the shape lacks and for a group that the manager lacks; invalid_argument if
  ///         the tables were made for another block size or more blocks; logic_error while the step has copies to be
  ///         taken, and for a storage that was moved from.
  template <batch_tables Tables>
  view_type view(std::int32_t layer, const Tables& tables, int group = only_group) const {
    if constexpr (requires { tables.copies_pending(); }) {
      if (tables.copies_pending()) {
        detail::fail<logic_error>("view of a step whose copies were not taken: execute(storage, step.take_copies()) ",
                                  "first, or shared blocks would be written");
      }
    }
    view_type result = layer_view(layer);
    result.batch = tables.batch(group);
    if (!is_host_accessible_v<Memory> && result.batch.work == nullptr) {
      detail::fail(
          "the storage lies in device memory, but the tables of the view in host memory: make the view from a ",
          "cuda::step_tables");
    }
    if (result.batch.block_size != block_size_ || result.batch.num_blocks > blocks_.value) {
      detail::fail("the tables are for ", result.batch.num_blocks, " blocks of ", result.batch.block_size,
                   " tokens, but the storage has ", blocks_.value, " of ", block_size_,
                   ": build manager and storage with the same numbers");
    }
    return result;
  }

  /// The planes of one layer, with no batch: for copies and inspection.
  /// Throws: out_of_range for a layer that the shape lacks; logic_error for a storage that was moved from.
  view_type layer_view(std::int32_t layer) const {
    check_layer(layer);
    std::byte* base = layer_base(layer);
    const std::int64_t stride = block_stride();
    view_type result;
    result.keys = plane_of(base, geometry_.planes.keys);
    result.values = elements_of_key > 0 ? result.keys : plane_of(base, geometry_.planes.values);
    const std::int64_t scales_of_head = (geometry_.key_scale + geometry_.value_scale) * block_size_;
    result.key_scales = {base + geometry_.scales_offset, stride, scales_of_head, geometry_.key_scale, 0};
    result.value_scales = {base + geometry_.scales_offset + geometry_.key_scale * block_size_, stride, scales_of_head,
                           geometry_.value_scale, 0};
    if (elements_of_key > 0) result.value_scales = result.key_scales;
    result.kv_heads = shape_.kv_heads;
    result.key_dim = shape_.key_dim();
    result.value_dim = shape_.value_dim();
    while (result.block_size() < block_size_) ++result.block_shift;
    result.num_blocks = blocks_.value;
    return result;
  }

  /// All bytes of one block of one layer. Throws: out_of_range for an unknown block or layer; logic_error for a storage
  /// that was moved from.
  std::span<std::byte> block_bytes(block_id block, std::int32_t layer) const {
    check_layer(layer);
    const auto index = static_cast<std::int32_t>(block);
    if (index < 0 || index >= blocks_.value) {
      detail::fail<out_of_range>("block id ", index, " lies outside the storage's 0 to ", blocks_.value - 1,
                                 ": pass an id of its own manager");
    }
    return {layer_base(layer) + index * block_stride(), static_cast<std::size_t>(geometry_.block_stride)};
  }

  const storage_shape& shape() const noexcept { return shape_; }
  std::int32_t block_size() const noexcept { return block_size_; }
  std::int32_t blocks() const noexcept { return blocks_.value; }
  pool_order order() const noexcept { return order_; }
  std::int64_t size_bytes() const noexcept { return geometry_.block_stride * blocks_.value * shape_.layers; }

 private:
  struct placement {
    std::int64_t key_row = 0;
    std::int64_t value_row = 0;
    std::int64_t key_scale = 0;  // bytes of one row's scales
    std::int64_t value_scale = 0;
    block_planes planes{};
    std::int64_t scales_offset = 0;
    std::int64_t block_stride = 0;
  };

  /// The shape with the value_head_dim that values_in_keys<N> says.
  static storage_shape with_values(storage_shape shape) {
    if constexpr (elements_of_key > 0) {
      if (shape.value_head_dim != 0 && shape.value_head_dim != elements_of_key) {
        detail::fail("value_head_dim is ", shape.value_head_dim, ", but values_in_keys<", elements_of_key,
                     "> takes the values from the first ", elements_of_key, " elements of a key row: set it to 0 or ",
                     elements_of_key);
      }
      shape.value_head_dim = elements_of_key;
    }
    return shape;
  }

  static placement place(const storage_shape& given, std::int32_t block_size) {
    const storage_shape shape = with_values(given);
    check_shape(shape);
    check_block_size(block_size);
    check_row<key_quantizer>("head_dim", shape.key_dim());
    check_row<value_quantizer>("value head_dim", shape.value_dim());
    if (shape.key_dim() < elements_of_key) {
      detail::fail("head_dim is ", shape.key_dim(), ", but values_in_keys<", elements_of_key, "> takes the first ",
                   elements_of_key, " elements of a key row: make the keys as long as that");
    }
    placement g;
    g.key_row = row_bytes<key_quantizer>(shape.key_dim());
    g.key_scale = row_scale_bytes<key_quantizer>(shape.key_dim());
    if constexpr (elements_of_key == 0) {
      g.value_row = row_bytes<value_quantizer>(shape.value_dim());
      g.value_scale = row_scale_bytes<value_quantizer>(shape.value_dim());
    }
    g.planes = Layout::place({shape.kv_heads, block_size, g.key_row, g.value_row});
    g.scales_offset = g.planes.size_bytes;
    const std::int64_t scales = checked_multiply(checked_multiply(shape.kv_heads, block_size, "slots of a block"),
                                                 g.key_scale + g.value_scale, "scales");
    g.block_stride = round_up(checked_add(g.scales_offset, scales, "bytes of a block"), 256, "bytes of a block");
    return g;
  }

  std::int64_t block_stride() const noexcept {
    return order_ == pool_order::by_layer ? geometry_.block_stride : geometry_.block_stride * shape_.layers;
  }
  std::byte* layer_base(std::int32_t layer) const noexcept {
    const std::int64_t layer_stride =
        order_ == pool_order::by_layer ? geometry_.block_stride * blocks_.value : geometry_.block_stride;
    return memory_.data() + layer * layer_stride;
  }
  plane_view plane_of(std::byte* base, const plane& p) const noexcept {
    return {base + p.offset, block_stride(), p.head, p.slot, p.chunk};
  }
  static void check_address(const std::byte* data) {
    if (data == nullptr) {
      detail::fail("the memory of the storage has bytes, but its data() is null: give their address");
    }
    const auto past = reinterpret_cast<std::uintptr_t>(data) % static_cast<std::uintptr_t>(storage_alignment);
    if (past != 0) {
      detail::fail("the memory of the storage begins ", past, " past a multiple of ", storage_alignment,
                   ": align it to ", storage_alignment, " bytes");
    }
  }
  void check_layer(std::int32_t layer) const {
    if (memory_.data() == nullptr) {
      detail::fail<logic_error>("this storage was moved from: use the one that it went to");
    }
    if (layer < 0 || layer >= shape_.layers) {
      detail::fail<out_of_range>("layer ", layer, " lies outside the storage's 0 to ", shape_.layers - 1,
                                 ": pass the layer's index within its group");
    }
  }

  storage_shape shape_;
  std::int32_t block_size_;
  num_blocks blocks_;
  pool_order order_;
  Memory memory_;
  placement geometry_{};
};

}  // namespace pagoda
