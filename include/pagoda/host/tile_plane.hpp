// SPDX-License-Identifier: Apache-2.0
/// @file tile_plane: the rows and scales of the keys, or of the values, of one tile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include <pagoda/cache_view.hpp>
#include <pagoda/detail/scratch.hpp>
#include <pagoda/host/int16_kernels.hpp>
#include <pagoda/host/softmax_tile.hpp>
#include <pagoda/host/tile_kernels.hpp>
#include <pagoda/layout.hpp>
#include <pagoda/quantizer/row_codec.hpp>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"  // clang++ without AVX, at calls that are inlined

namespace pagoda::host::detail {
inline namespace PAGODA_ISA {

/// Eight neighbouring scales as floats, and the offsets that come with them.
template <class T>
PAGODA_ALWAYS_INLINE void load_scales8(const linear_scale<T>* from, float* scale, float*) {
  vec<float, 8> scales;
  load_float<8>(reinterpret_cast<const T*>(from), scales);
  store_float<8>(scales, scale);
}
template <class T>
PAGODA_ALWAYS_INLINE void load_scales8(const affine_scale<T>* from, float* scale, float* offset) {
  vec<float, 8> low;
  vec<float, 8> high;
  load_float<8>(reinterpret_cast<const T*>(from), low);
  load_float<8>(reinterpret_cast<const T*>(from + 4), high);
  store_float<8>(__builtin_shufflevector(low, high, 0, 2, 4, 6, 8, 10, 12, 14), scale);
  store_float<8>(__builtin_shufflevector(low, high, 1, 3, 5, 7, 9, 11, 13, 15), offset);
}

/// How the rows of a plane are read.
enum class row_access {
  codes,     ///< where they lie
  copied,    ///< as codes, from copies: the layout spreads the chunks of a row
  unpacked,  ///< each unpacked to floats once a tile, for all query rows
};

/// The rows of one plane in a tile, for one kv head at a time, while those of the next tile are already known.
///
/// With one scale a row, codewords stay unscaled: the scale is applied to scores or weights, whatever the access.
template <class Quantizer>
class tile_plane {
 public:
  using codec = row_codec<Quantizer>;
  using scale_type = typename Quantizer::scale_type;
  using folds = folded<Quantizer>;
  /// Whether rows may be read where they lie.
  static constexpr bool direct = is_vectorized_v<Quantizer> && (folds::scales || !has_scale_v<scale_type>);

  tile_plane(const plane_view& rows, const plane_view& scales, std::int64_t dim, bool many_query_rows)
      : rows_(rows),
        scales_(scales),
        dim_(dim),
        access_(!direct || many_query_rows         ? row_access::unpacked
                : rows.chunk_stride == chunk_bytes ? row_access::codes
                                                   : row_access::copied) {}

  /// Whether rows() are codes; else they are floats.
  bool has_codes() const noexcept { return access_ != row_access::unpacked; }

  std::int64_t scratch_bytes() const noexcept {
    using pagoda::detail::scratch;
    return 5 * scratch::size_of<const std::byte*>(tile_tokens) + 2 * scratch::size_of<byte_span>(tile_tokens) +
           2 * scratch::size_of<float>(tile_tokens) +
           (access_ == row_access::unpacked ? scratch::size_of<float>(tile_tokens * padded(dim_)) : 0) +
           scratch::size_of<std::byte>(copied_rows() * row_bytes<Quantizer>(dim_));
  }

  void take(pagoda::detail::scratch& memory) noexcept {
    for (pointers* tile : {&now_, &next_}) {
      tile->rows = memory.take<const std::byte*>(tile_tokens);
      tile->scales = memory.take<const std::byte*>(tile_tokens);
      tile->spans = memory.take<byte_span>(tile_tokens);
    }
    own_rows_ = memory.take<const std::byte*>(tile_tokens);
    scale_ = memory.take<float>(tile_tokens);
    offset_ = memory.take<float>(tile_tokens);
    if (access_ == row_access::unpacked) unpacked_ = memory.take<float>(tile_tokens * padded(dim_));
    codes_ = memory.take<std::byte>(copied_rows() * row_bytes<Quantizer>(dim_));
    for (std::int64_t t = 0; t < tile_tokens; ++t) {
      own_rows_[t] = access_ == row_access::unpacked ? reinterpret_cast<const std::byte*>(unpacked_ + t * padded(dim_))
                                                     : codes_ + t * row_bytes<Quantizer>(dim_);
    }
  }

  /// Names the block and slot of token t of the next tile.
  void locate(std::int64_t t, block_id block, std::int64_t slot) noexcept {
    const std::byte* row = rows_.row(block, 0, slot);
    next_.rows[t] = row;
    if constexpr (has_scale_v<scale_type>) next_.scales[t] = scales_.row(block, 0, slot);
    if (access_ == row_access::codes) join_span(t, row);
  }

  /// Makes the next tile the tile at hand.
  void advance() noexcept { std::swap(now_, next_); }

  void select_head(std::int64_t head, std::int64_t count) noexcept {
    head_ = head;
    if constexpr (folds::scales) load_scales(head, count);
    if (access_ == row_access::copied) {
      for (std::int64_t t = 0; t < count; ++t) {
        copy_row(now_.rows[t] + head * rows_.head_stride, codes_ + t * row_bytes<Quantizer>(dim_));
      }
    }
    if (access_ == row_access::unpacked) {
      for (std::int64_t t = 0; t < count; ++t) {
        const std::byte* scales = nullptr;
        if constexpr (has_scale_v<scale_type>) scales = now_.scales[t] + head * scales_.head_stride;
        unpack(now_.rows[t] + head * rows_.head_stride, scales, unpacked_ + t * padded(dim_));
      }
    }
  }

  /// The rows of the head at hand: codes or floats.
  tile_rows rows() const noexcept {
    if (access_ != row_access::codes) return {own_rows_, 0};
    return {now_.rows, head_ * rows_.head_stride};
  }
  /// [tile_tokens, padded(dim)] where rows are unpacked.
  float* floats() const noexcept { return unpacked_; }
  const float* scales() const noexcept { return scale_; }
  const float* offsets() const noexcept { return offset_; }

  /// Asks for the scales of a head of the tile at hand, or of the next one.
  void ask_scales(bool now, std::int64_t head, std::int64_t count) const noexcept {
    if constexpr (has_scale_v<scale_type>) {
      const pointers& tile = now ? now_ : next_;
      for (std::int64_t t = 0; t < count; t += 8) __builtin_prefetch(tile.scales[t] + head * scales_.head_stride);
    }
  }

  /// The lines of a head of the tile at hand, or of the next one, that are to be asked for ahead, as far as rows are
  /// read where they lie.
  lines_ahead ahead(bool now, std::int64_t head, std::int64_t count) const noexcept {
    if (access_ != row_access::codes || count == 0) return {};
    const pointers& tile = now ? now_ : next_;
    std::int64_t lines = 0;
    for (std::int64_t i = 0; i < tile.span_count; ++i) lines += tile.spans[i].lines();
    return {tile.spans, head * rows_.head_stride, 0, lines, row_bytes<Quantizer>(dim_) * tile_tokens <= 8192};
  }

 private:
  struct pointers {
    const std::byte** rows = nullptr;    // [tile_tokens], of head 0
    const std::byte** scales = nullptr;  // [tile_tokens], of head 0
    byte_span* spans = nullptr;          // [tile_tokens], the rows again, joined where they touch
    std::int64_t span_count = 0;
  };

  /// Adds the row of token t to the spans.
  void join_span(std::int64_t t, const std::byte* row) noexcept {
    const std::int64_t bytes = row_bytes<Quantizer>(dim_);
    if (t == 0) next_.span_count = 0;
    if (next_.span_count > 0) {
      byte_span& last = next_.spans[next_.span_count - 1];
      if (row == last.begin + last.bytes) {
        last.bytes += bytes;
        return;
      }
    }
    next_.spans[next_.span_count++] = {row, bytes};
  }

  void load_scales(std::int64_t head, std::int64_t count) noexcept {
    const std::int64_t head_offset = head * scales_.head_stride;
    const auto load_one = [&](std::int64_t t) {
      const scale_type scale = codec::load_scale(now_.scales[t] + head_offset, 0);
      scale_[t] = scale_of(scale);
      if constexpr (folds::offsets) offset_[t] = offset_of(scale);
    };
    std::int64_t t = 0;
    for (; t + 8 <= count; t += 8) {
      // Slots of one block usually lie side by side.
      if (now_.scales[t + 7] - now_.scales[t] == 7 * scale_bytes_v<scale_type>) {
        load_scales8(reinterpret_cast<const scale_type*>(now_.scales[t] + head_offset), scale_ + t, offset_ + t);
      } else {
        for (std::int64_t i = t; i < t + 8; ++i) load_one(i);
      }
    }
    for (; t < count; ++t) load_one(t);
    for (; t % 16 != 0; ++t) scale_[t] = offset_[t] = 0;  // vectors read up to the next multiple of 16
  }

  /// Rows of codes that are copied at once.
  std::int64_t copied_rows() const noexcept {
    return rows_.chunk_stride == chunk_bytes ? 0 : access_ == row_access::copied ? tile_tokens : 1;
  }

  void copy_row(const std::byte* row, std::byte* to) const noexcept {
    const std::int64_t bytes = row_bytes<Quantizer>(dim_);
    for (std::int64_t begin = 0; begin < bytes; begin += chunk_bytes) {
      std::memcpy(to + begin, row + begin / chunk_bytes * rows_.chunk_stride, chunk_bytes);
    }
  }

  void unpack(const std::byte* row, const std::byte* scales, float* to) const noexcept {
    if (rows_.chunk_stride != chunk_bytes) {
      copy_row(row, codes_);
      row = codes_;
    }
    if constexpr (is_vectorized_v<Quantizer>) {
      constexpr bool scaled = has_scale_v<scale_type> && !folds::scales;
      const std::int64_t group = scaled ? codec::group_size(dim_) : dim_;
      for (std::int64_t begin = 0; begin < dim_; begin += group) {
        const scale_type scale = scaled ? codec::load_scale(scales, begin / group) : scale_type{};
        for (std::int64_t d = begin; d < begin + group; d += 8) {
          vec<float, 8> values;
          code_rows<Quantizer>::template load<8>(row, d, values);
          if constexpr (scaled) values = fma(values, broadcast<8>(scale_of(scale)), broadcast<8>(offset_of(scale)));
          store_float<8>(values, to + d);
        }
      }
    } else {
      codec::codewords(row, dim_, to);
      if constexpr (has_scale_v<scale_type> && !folds::scales) {
        const std::int64_t group = codec::group_size(dim_);
        for (std::int64_t d = 0; d < dim_; ++d) {
          const scale_type scale = codec::load_scale(scales, d / group);
          to[d] = scale_of(scale) * to[d] + offset_of(scale);
        }
      }
    }
  }

  plane_view rows_;
  plane_view scales_;
  std::int64_t dim_;
  row_access access_;
  std::int64_t head_ = 0;
  pointers now_{};
  pointers next_{};
  const std::byte** own_rows_ = nullptr;  // [tile_tokens], copied or unpacked
  float* scale_ = nullptr;                // [tile_tokens], of the head at hand
  float* offset_ = nullptr;               // [tile_tokens]
  float* unpacked_ = nullptr;             // [tile_tokens, padded(dim)]
  std::byte* codes_ = nullptr;            // [copied_rows(), row_bytes]
};

}  // namespace PAGODA_ISA
}  // namespace pagoda::host::detail

#pragma GCC diagnostic pop
