// SPDX-License-Identifier: Apache-2.0
/// @file tile_gather: from block tables to the row pointers and scales of one tile of keys and values.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include <pagoda/attention/mask.hpp>
#include <pagoda/cache_view.hpp>
#include <pagoda/detail/scratch.hpp>
#include <pagoda/host/tile_kernels.hpp>
#include <pagoda/layout.hpp>
#include <pagoda/quantizer/row_codec.hpp>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"  // clang++ without AVX, at calls that are inlined

namespace pagoda::host::detail {
inline namespace PAGODA_ISA {

/// The rows of one plane (keys or values) in a tile, for one kv head at a time.
///
/// Rows are read where they lie if the quantizer has a wide hook and the row is contiguous. Else, and for many query
/// rows, each is unpacked to floats once a tile; with one scale a row the codewords stay unscaled and the scale is
/// folded into scores or weights, on both ways alike.
template <class Quantizer>
class tile_plane {
 public:
  using codec = row_codec<Quantizer>;
  using scale_type = typename Quantizer::scale_type;
  static constexpr bool folds = has_scale_v<scale_type> && Quantizer::group == 0;
  static constexpr bool has_offsets = folds && requires(scale_type scale) { scale.offset; };
  /// Whether rows may be read where they lie.
  static constexpr bool direct = is_vectorized_v<Quantizer> && (folds || !has_scale_v<scale_type>);

  tile_plane(const plane_view& rows, const plane_view& scales, std::int64_t dim, bool many_query_rows)
      : rows_(rows),
        scales_(scales),
        dim_(dim),
        unpack_(!direct || rows.chunk_stride != chunk_bytes || (many_query_rows && Quantizer::bits != 32)) {}

  bool unpacks() const noexcept { return unpack_; }

  std::int64_t scratch_bytes() const noexcept {
    using pagoda::detail::scratch;
    return 4 * scratch::size_of<const std::byte*>(tile_tokens) + 4 * scratch::size_of<float>(tile_tokens) +
           (unpack_
                ? scratch::size_of<float>(tile_tokens * dim_) + scratch::size_of<std::byte>(row_bytes<Quantizer>(dim_))
                : 0);
  }

  void take(pagoda::detail::scratch& memory) noexcept {
    base_ = memory.take<const std::byte*>(tile_tokens);
    scale_base_ = memory.take<const std::byte*>(tile_tokens);
    head_rows_ = memory.take<const std::byte*>(tile_tokens);
    seen_rows_ = memory.take<const std::byte*>(tile_tokens);
    scale_ = memory.take<float>(tile_tokens);
    offset_ = memory.take<float>(tile_tokens);
    seen_scale_ = memory.take<float>(tile_tokens);
    seen_offset_ = memory.take<float>(tile_tokens);
    if (unpack_) {
      unpacked_ = memory.take<float>(tile_tokens * dim_);
      codes_ = memory.take<std::byte>(row_bytes<Quantizer>(dim_));
    }
  }

  /// Names the block and slot of the tile's token t.
  void locate(std::int64_t t, block_id block, std::int64_t slot) noexcept {
    base_[t] = rows_.row(block, 0, slot);
    if constexpr (has_scale_v<scale_type>) scale_base_[t] = scales_.row(block, 0, slot);
  }

  void select_head(std::int64_t head, std::int64_t count) noexcept {
    for (std::int64_t t = 0; t < count; ++t) {
      const std::byte* row = base_[t] + head * rows_.head_stride;
      const std::byte* scales = nullptr;
      if constexpr (has_scale_v<scale_type>) scales = scale_base_[t] + head * scales_.head_stride;
      if constexpr (folds) {
        const scale_type scale = codec::load_scale(scales, 0);
        scale_[t] = scale_of(scale);
        if constexpr (has_offsets) offset_[t] = offset_of(scale);
      }
      if (unpack_) {
        unpack(row, scales, unpacked_ + t * dim_);
        row = reinterpret_cast<const std::byte*>(unpacked_ + t * dim_);
      }
      head_rows_[t] = row;
    }
    pad(scale_, offset_, count);
    widen();
  }

  /// Keeps only the tokens t with kept[t], in order.
  void narrow(const std::int32_t* kept, std::int64_t count) noexcept {
    for (std::int64_t j = 0; j < count; ++j) {
      seen_rows_[j] = head_rows_[kept[j]];
      if constexpr (folds) seen_scale_[j] = scale_[kept[j]];
      if constexpr (has_offsets) seen_offset_[j] = offset_[kept[j]];
    }
    pad(seen_scale_, seen_offset_, count);
    rows_now_ = seen_rows_;
    scale_now_ = seen_scale_;
    offset_now_ = seen_offset_;
  }
  void widen() noexcept {
    rows_now_ = head_rows_;
    scale_now_ = scale_;
    offset_now_ = offset_;
  }

  /// The row of any token where it lies in its block.
  const std::byte* stored_row(block_id block, std::int64_t head, std::int64_t slot) const noexcept {
    return rows_.row(block, head, slot);
  }
  const std::byte* stored_row(std::int64_t t, std::int64_t head) const noexcept {
    return base_[t] + head * rows_.head_stride;
  }

  const std::byte* const* rows() const noexcept { return rows_now_; }
  const float* scales() const noexcept { return folds ? scale_now_ : nullptr; }
  const float* offsets() const noexcept { return has_offsets ? offset_now_ : nullptr; }

 private:
  // Vectors read up to the next multiple of 8.
  static void pad(float* scale, float* offset, std::int64_t count) noexcept {
    for (std::int64_t t = count; t % 8 != 0; ++t) {
      if constexpr (folds) scale[t] = 0;
      if constexpr (has_offsets) offset[t] = 0;
    }
  }

  void unpack(const std::byte* row, const std::byte* scales, float* to) const noexcept {
    if (rows_.chunk_stride != chunk_bytes) {
      const std::int64_t bytes = code_bytes<Quantizer>(dim_);
      for (std::int64_t begin = 0; begin < bytes; begin += 16) {
        std::memcpy(codes_ + begin, row + begin / 16 * rows_.chunk_stride,
                    static_cast<std::size_t>(std::min<std::int64_t>(16, bytes - begin)));
      }
      row = codes_;
    }
    if constexpr (has_scale_v<scale_type> && !folds) {
      codec::decode(row, scales, dim_, to);
    } else if constexpr (is_vectorized_v<Quantizer>) {
      for (std::int64_t d = 0; d < dim_; d += 8) {
        lanes values;
        code_rows<Quantizer>::load(row, d, values);
        store_float<8>(values, to + d);
      }
    } else {
      codec::codewords(row, dim_, to);
    }
  }

  plane_view rows_;
  plane_view scales_;
  std::int64_t dim_;
  bool unpack_;
  const std::byte** base_ = nullptr;        // [tile_tokens], rows of head 0
  const std::byte** scale_base_ = nullptr;  // [tile_tokens], scales of head 0
  const std::byte** head_rows_ = nullptr;   // [tile_tokens], of the head at hand, unpacked or not
  const std::byte** seen_rows_ = nullptr;   // [tile_tokens], those that one query sees
  const std::byte** rows_now_ = nullptr;
  float* scale_ = nullptr;
  float* offset_ = nullptr;
  float* seen_scale_ = nullptr;
  float* seen_offset_ = nullptr;
  const float* scale_now_ = nullptr;
  const float* offset_now_ = nullptr;
  float* unpacked_ = nullptr;  // [tile_tokens, dim]
  std::byte* codes_ = nullptr;
};

/// The keys and values of one tile of one sequence.
template <class KeyQuantizer, class ValueQuantizer>
class tile_gather {
 public:
  tile_gather(const cache_view<KeyQuantizer, ValueQuantizer>& view, std::int32_t sequence, std::int64_t head_rows)
      : view_(view),
        sequence_(sequence),
        keys_(view.keys, view.key_scales, view.key_dim, head_rows > unpack_from_rows),
        values_(view.values, view.value_scales, view.value_dim, head_rows > unpack_from_rows),
        ask_ahead_(head_rows <= unpack_from_rows && (head_rows > 1 || KeyQuantizer::bits != 32)) {}

  std::int64_t scratch_bytes() const noexcept {
    using pagoda::detail::scratch;
    return keys_.scratch_bytes() + values_.scratch_bytes() + scratch::size_of<std::int64_t>(tile_tokens) +
           scratch::size_of<std::int32_t>(tile_tokens) + scratch::size_of<float>(tile_tokens);
  }
  void take(pagoda::detail::scratch& memory) noexcept {
    keys_.take(memory);
    values_.take(memory);
    position_ = memory.take<std::int64_t>(tile_tokens);
    kept_ = memory.take<std::int32_t>(tile_tokens);
    distance_ = memory.take<float>(tile_tokens);
  }

  /// Finds the tokens from begin to end - 1 that any query sees. No other token is ever touched.
  void collect(const visible_keys& visible, std::int64_t begin, std::int64_t end) noexcept {
    all_ = 0;
    for (std::int64_t token = begin; token < end; ++token) {
      if (!visible.sees(token)) continue;
      const block_id block = view_.batch.block(sequence_, token >> view_.block_shift);
      const std::int64_t slot = token & (view_.block_size() - 1);
      keys_.locate(all_, block, slot);
      values_.locate(all_, block, slot);
      position_[all_++] = token;
    }
    count_ = all_;
    narrowed_ = false;
  }

  void select_head(std::int64_t head) noexcept {
    keys_.select_head(head, all_);
    values_.select_head(head, all_);
  }

  /// Says that the same tile of another head comes next.
  void look_ahead(std::int64_t next_head) noexcept {
    ahead_count_ = keys_are_asked() ? all_ : 0;
    for (std::int64_t t = 0; t < ahead_count_; ++t) key_ahead_[t] = keys_.stored_row(t, next_head);
  }
  /// Says that the next tile comes next; its tokens end before `end`.
  void look_ahead(const visible_keys& visible, std::int64_t next_head, std::int64_t end) noexcept {
    look_ahead(next_head);
    for (std::int64_t t = 0; t < ahead_count_; ++t) {
      const std::int64_t token = position_[t] + tile_tokens;
      if (token >= end || !visible.sees(token)) continue;  // asking for the wrong row does no harm
      const block_id block = view_.batch.block(sequence_, token >> view_.block_shift);
      key_ahead_[t] = keys_.stored_row(block, next_head, token & (view_.block_size() - 1));
    }
  }
  /// What a pass over keys or values asks for: its own head's values, then the keys that come next.
  rows_ahead values_ahead() const noexcept {
    if (!ask_ahead_ || values_.unpacks()) return {};
    return {values_.rows(), code_bytes<ValueQuantizer>(view_.value_dim)};
  }
  rows_ahead keys_ahead() const noexcept {
    if (!keys_are_asked()) return {};
    return {key_ahead_, code_bytes<KeyQuantizer>(view_.key_dim)};
  }

  /// Keeps only the tokens that `sees` accepts, until widen().
  template <class Sees>
  void narrow(Sees&& sees) noexcept {
    count_ = 0;
    for (std::int64_t t = 0; t < all_; ++t) {
      if (sees(position_[t])) kept_[count_++] = static_cast<std::int32_t>(t);
    }
    keys_.narrow(kept_, count_);
    values_.narrow(kept_, count_);
    narrowed_ = true;
  }
  void widen() noexcept {
    keys_.widen();
    values_.widen();
    count_ = all_;
    narrowed_ = false;
  }

  std::int64_t count() const noexcept { return count_; }
  std::int64_t begin() const noexcept { return position_[0]; }
  std::int64_t end() const noexcept { return position_[all_ - 1] + 1; }
  bool contiguous() const noexcept { return end() - begin() == all_; }
  const std::byte* const* keys() const noexcept { return keys_.rows(); }
  const std::byte* const* values() const noexcept { return values_.rows(); }

  softmax_input softmax_numbers() const noexcept {
    softmax_input in;
    in.key_scales = keys_.scales();
    in.key_offsets = keys_.offsets();
    in.value_scales = values_.scales();
    in.value_offsets = values_.offsets();
    return in;
  }

  /// Key position minus query position for each token, padded.
  const float* distances_from(std::int64_t position) noexcept {
    for (std::int64_t j = 0; j < count_; ++j) {
      distance_[j] = static_cast<float>(position_[narrowed_ ? kept_[j] : j] - position);
    }
    for (std::int64_t j = count_; j % 8 != 0; ++j) distance_[j] = 0;
    return distance_;
  }

  /// Calls visit with the two loaders that fit how the rows lie.
  template <class Visit>
  void with_rows(Visit&& visit) const {
    with_loader<KeyQuantizer>(keys_.unpacks(), [&]<class Keys>(std::type_identity<Keys> keys) {
      with_loader<ValueQuantizer>(values_.unpacks(),
                                  [&]<class Values>(std::type_identity<Values> values) { visit(keys, values); });
    });
  }

 private:
  // From this many query rows on, unpacking a row once costs less than converting it in every pass.
  static constexpr std::int64_t unpack_from_rows = 8;

  template <class Quantizer, class Visit>
  static void with_loader(bool unpacked, Visit&& visit) {
    if constexpr (tile_plane<Quantizer>::direct) {
      if (!unpacked) return visit(std::type_identity<code_rows<Quantizer>>{});
    }
    visit(std::type_identity<float_rows>{});
  }

  bool keys_are_asked() const noexcept { return ask_ahead_ && !keys_.unpacks(); }

  cache_view<KeyQuantizer, ValueQuantizer> view_;
  std::int32_t sequence_;
  tile_plane<KeyQuantizer> keys_;
  tile_plane<ValueQuantizer> values_;
  bool ask_ahead_;  // one query row over floats is a plain stream, which prefetching slows down
  const std::byte* key_ahead_[tile_tokens] = {};
  std::int64_t ahead_count_ = 0;
  std::int64_t* position_ = nullptr;
  std::int32_t* kept_ = nullptr;
  float* distance_ = nullptr;
  std::int64_t all_ = 0;    // tokens that any query sees
  std::int64_t count_ = 0;  // tokens that the query at hand sees
  bool narrowed_ = false;
};

}  // namespace PAGODA_ISA
}  // namespace pagoda::host::detail

#pragma GCC diagnostic pop
