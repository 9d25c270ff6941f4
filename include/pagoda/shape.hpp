// SPDX-License-Identifier: Apache-2.0
/// @file Strong types for ids and sizes, checked size arithmetic, the shape of a storage, and rows_view.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>

#include <pagoda/error.hpp>

namespace pagoda {

/// Names one block of a pool. 32 bits: every byte offset made from it is computed in 64.
enum class block_id : std::int32_t { none = -1 };

/// Numbers the steps and transfers of a manager in their order, from 1.
enum class ticket : std::uint64_t { none = 0 };

/// Stands for the layer group of a manager that has only one. Where there are several it is refused: forgetting a group
/// must not mean the first.
inline constexpr int only_group = -1;

namespace detail {

/// The index of a layer group, of so many. Throws: out_of_range for one that is not there.
inline std::size_t group_index(int group, std::size_t groups) {
  if (group == only_group && groups == 1) return 0;
  if (group == only_group) {
    fail<out_of_range>("no layer group is named, but there are ", groups, ": pass one from 0 to ", groups - 1);
  }
  if (group < 0 || static_cast<std::size_t>(group) >= groups) {
    fail<out_of_range>("layer group ", group, " lies outside 0 to ", static_cast<std::int64_t>(groups) - 1,
                       ": pass the group of the storage");
  }
  return static_cast<std::size_t>(group);
}

}  // namespace detail

/// Names one sequence of one manager, for ever: the serial is never given twice in a process, so a stale id and an id
/// of another manager are always found.
struct sequence_id {
  static constexpr int index_bits = 20;

  std::uint64_t value = 0;  ///< serial << index_bits | index; 0 names nothing

  constexpr std::int32_t index() const noexcept {
    return static_cast<std::int32_t>(value & ((std::uint64_t{1} << index_bits) - 1));
  }
  friend constexpr bool operator==(sequence_id, sequence_id) = default;
};

/// The number of blocks of a pool, as an argument that cannot be taken for another number.
struct num_blocks {
  std::int32_t value;
};

/// Throws size_overflow unless a * b fits 64 bits. `what` names the product in the message.
constexpr std::int64_t checked_multiply(std::int64_t a, std::int64_t b, std::string_view what) {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) {
    detail::fail<size_overflow>(what, " = ", a, " * ", b, " does not fit 64 bits: make it smaller");
  }
  return product;
}

/// Throws size_overflow unless a + b fits 64 bits.
constexpr std::int64_t checked_add(std::int64_t a, std::int64_t b, std::string_view what) {
  std::int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) {
    detail::fail<size_overflow>(what, " = ", a, " + ", b, " does not fit 64 bits: make it smaller");
  }
  return sum;
}

/// Rounds a size up to a multiple of `unit`, a power of two.
constexpr std::int64_t round_up(std::int64_t size, std::int64_t unit, std::string_view what) {
  return checked_add(size, unit - 1, what) & ~(unit - 1);
}

constexpr std::int64_t divide_up(std::int64_t a, std::int64_t b) noexcept {
  return (a + b - 1) / b;
}

/// Throws invalid_argument unless low <= value <= high.
constexpr void check_range(std::string_view name, std::int64_t value, std::int64_t low, std::int64_t high,
                           std::string_view remedy = "pass a number in that range") {
  if (value < low || value > high) {
    detail::fail(name, " is ", value, ", but must lie between ", low, " and ", high, ": ", remedy);
  }
}

/// Throws invalid_argument unless the block size is a power of two from 1 to 65,536 tokens.
constexpr void check_block_size(std::int64_t block_size) {
  check_range("block_size", block_size, 1, 65536);
  if ((block_size & (block_size - 1)) != 0) {
    detail::fail("block_size is ", block_size, ", but must be a power of two, such as 16 or 32");
  }
}

/// The attention heads of a group of layers that share one storage.
/// Units: head_dim in elements.
struct storage_shape {
  std::int32_t layers = 1;
  std::int32_t kv_heads = 1;
  std::int32_t head_dim = 0;        ///< of keys, and of values unless value_head_dim says otherwise
  std::int32_t value_head_dim = 0;  ///< 0: as head_dim, or as values_in_keys<N> says

  constexpr std::int32_t key_dim() const noexcept { return head_dim; }
  constexpr std::int32_t value_dim() const noexcept { return value_head_dim == 0 ? head_dim : value_head_dim; }
  friend constexpr bool operator==(const storage_shape&, const storage_shape&) = default;
};

/// The largest head_dim, of keys or values: latent attention's 512 elements and 64 rotary ones.
inline constexpr std::int64_t max_head_dim = 576;

/// Throws invalid_argument unless the shape is one that append and attention take: head dims are multiples of 8 from 8
/// to 576.
constexpr void check_shape(const storage_shape& shape) {
  check_range("layers", shape.layers, 1, 1 << 20);
  check_range("kv_heads", shape.kv_heads, 1, 1 << 20);
  for (const auto& [name, dim] : {std::pair<std::string_view, std::int32_t>{"head_dim", shape.key_dim()},
                                  std::pair<std::string_view, std::int32_t>{"value_head_dim", shape.value_dim()}}) {
    if (dim < 8 || dim > max_head_dim || dim % 8 != 0) {
      detail::fail(name, " is ", dim, ", but must be a multiple of 8 from 8 to ", max_head_dim,
                   ": set it, or pad the heads");
    }
  }
}

/// Lists of unequal length, one behind the other: list i is values[offsets[i]] to values[offsets[i + 1] - 1].
template <class T>
struct ragged {
  std::span<const T> values;
  std::span<const std::int32_t> offsets;  ///< one more than there are lists
};

/// The sizes of a rows_view.
struct rows_shape {
  std::int64_t tokens = 0;
  std::int64_t heads = 1;
  std::int64_t dim = 0;
};

/// The distances of a rows_view, in elements.
struct rows_strides {
  std::int64_t token = 0;
  std::int64_t head = 0;
};

/// Head vectors that somebody else owns: element (token, head, d) is data[token * strides.token + head * strides.head +
/// d]. Engines hand in slices of a fused QKV buffer this way. A rows_view<T> converts to rows_view<const T>.
///
/// Shapes:  [tokens, heads, dim]; the last dimension is contiguous.
/// Units:   strides in elements.
/// Throws:  invalid_argument for a negative size or stride and for a span that ends before the last row.
template <class T>
class rows_view {
 public:
  using element_type = T;

  /// Rows that lie densely, [tokens, heads, dim].
  constexpr rows_view(std::span<T> data, rows_shape shape)
      : rows_view(data, shape, {checked_multiply(shape.heads, shape.dim, "heads * dim"), shape.dim}) {}

  constexpr rows_view(std::span<T> data, rows_shape shape, rows_strides strides)
      : data_(data.data()), shape_(shape), strides_(strides) {
    constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
    check_range("rows_view tokens", shape.tokens, 0, most);
    check_range("rows_view heads", shape.heads, 1, most);
    check_range("rows_view dim", shape.dim, 1, most);
    check_range("rows_view token stride", strides.token, 0, most);
    check_range("rows_view head stride", strides.head, 0, most);
    const std::int64_t needed = extent(shape.tokens);
    if (needed > static_cast<std::int64_t>(data.size())) {
      detail::fail("rows_view of [", shape.tokens, ", ", shape.heads, ", ", shape.dim, "] with strides (",
                   strides.token, ", ", strides.head, ") needs ", needed, " elements, but its span has ", data.size(),
                   ": pass a longer span or smaller sizes");
    }
  }

  template <class U>
  requires(!std::is_same_v<U, T> &&
           std::is_same_v<const U, T>) constexpr rows_view(const rows_view<U>& other)  // NOLINT: implicit on purpose
      : data_(other.data()), shape_(other.shape()), strides_(other.strides()) {}

  constexpr T* data() const noexcept { return data_; }
  constexpr const rows_shape& shape() const noexcept { return shape_; }
  constexpr const rows_strides& strides() const noexcept { return strides_; }
  constexpr std::int64_t tokens() const noexcept { return shape_.tokens; }
  constexpr std::int64_t heads() const noexcept { return shape_.heads; }
  constexpr std::int64_t dim() const noexcept { return shape_.dim; }

  /// The first element of one head vector. Requires: both indices lie inside the shape.
  constexpr T* row(std::int64_t token, std::int64_t head) const noexcept {
    return data_ + token * strides_.token + head * strides_.head;
  }

  /// Whether some element may be the place of two rows, so that writing through the view would lose values.
  constexpr bool rows_overlap() const noexcept {
    if (shape_.tokens == 0) return false;
    const bool heads_inner = shape_.tokens <= 1 || (shape_.heads > 1 && strides_.head <= strides_.token);
    const std::int64_t inner_count = heads_inner ? shape_.heads : shape_.tokens;
    const std::int64_t outer_count = heads_inner ? shape_.tokens : shape_.heads;
    const std::int64_t inner = heads_inner ? strides_.head : strides_.token;
    const std::int64_t outer = heads_inner ? strides_.token : strides_.head;
    if (inner_count > 1 && inner < shape_.dim) return true;
    return outer_count > 1 && outer < (inner_count - 1) * inner + shape_.dim;
  }

 private:
  constexpr std::int64_t extent(std::int64_t tokens) const {
    if (tokens == 0) return 0;
    constexpr std::string_view what = "extent of rows_view";
    const std::int64_t last_token = checked_multiply(tokens - 1, strides_.token, what);
    const std::int64_t last_head = checked_multiply(shape_.heads - 1, strides_.head, what);
    return checked_add(checked_add(last_token, last_head, what), shape_.dim, what);
  }

  T* data_;
  rows_shape shape_;
  rows_strides strides_;
};

template <class Range>
rows_view(Range&&, rows_shape) -> rows_view<typename decltype(std::span(std::declval<Range&>()))::element_type>;
template <class Range>
rows_view(Range&&, rows_shape, rows_strides)
    -> rows_view<typename decltype(std::span(std::declval<Range&>()))::element_type>;

}  // namespace pagoda
