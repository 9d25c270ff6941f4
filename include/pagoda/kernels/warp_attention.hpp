// SPDX-License-Identifier: Apache-2.0
/// @file warp_attention: what one warp keeps in registers while it walks over tiles of keys and values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <pagoda/kernels/attention_arguments.hpp>
#include <pagoda/kernels/code_tile.hpp>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion"  // g++ 12, at array bounds that are template arguments

namespace pagoda::kernels {

/// The keys that one walk visits: positions begin to end - 1. A call makes two walks, one over the sinks and one over
/// the window; between them each row's own mask decides.
struct key_segment {
  std::int32_t begin = 0;
  std::int32_t end = 0;
};

/// The keys that any of the query rows sees: the sinks' segment (0) or the window's (1).
template <class Arguments>
PAGODA_KERNEL_FUNCTION key_segment segment_of(const Arguments& args, const sequence_keys& keys,
                                              std::int32_t first_query, std::int32_t last_query, int index) {
  const visible_keys low = args.mask.visible(keys.position(first_query), keys.context);
  const visible_keys high = args.mask.visible(keys.position(last_query), keys.context);
  if (index == 0) return {0, static_cast<std::int32_t>(high.sinks_end)};
  return {static_cast<std::int32_t>(low.begin), static_cast<std::int32_t>(high.end)};
}

/// Attention of 8 * Columns query rows over tiles of 16 tokens, by one warp on tensor cores.
///
/// Query rows are columns: lane 4g + q owns the softmax of rows 8n + 2q and 8n + 2q + 1 (n < Columns) over tokens g and
/// g + 8 of each tile. Queries are scaled to [1, 2) by a power of two, so that any float input survives 16 bits; the
/// factor comes back with the scale. Scores, sums and outputs are float.
///
/// Extras: soft cap, ALiBi or a tree mask; without it none of their instructions are there.
template <class KeyQuantizer, class ValueQuantizer, int Dim, int Columns, int Tiles, bool Extras>
class warp_attention {
 public:
  using key_tile = code_tile<KeyQuantizer, Dim>;
  using value_tile = code_tile<ValueQuantizer, Dim>;
  using key_scale = typename KeyQuantizer::scale_type;
  using value_scale = typename ValueQuantizer::scale_type;

  static constexpr int rows = 8 * Columns;
  static constexpr int value_mmas = value_tile::mmas;
  static constexpr bool key_scaled = has_scale_v<key_scale>;
  static constexpr bool value_scaled = has_scale_v<value_scale>;
  static constexpr bool key_offset = requires(key_scale s) { s.offset; };
  static constexpr bool value_offset = requires(value_scale s) { s.offset; };

  /// Shared memory of one warp in which queries are staged. A row: its words, a gap of four banks, and two floats.
  static constexpr int staged_row_bytes = 2 * key_tile::padded_dim + 16;
  static constexpr int staging_bytes = rows * staged_row_bytes;

  /// Reads query rows first_row to first_row + rows - 1 of a sequence and kv head; rows past its queries are empty.
  /// `staging` is the warp's own.
  template <class Context, class Arguments>
  PAGODA_KERNEL_FUNCTION void load_queries(Context& ctx, const Arguments& args, const sequence_keys& keys,
                                           std::int32_t kv_head, std::int32_t first_row,
                                           simt::shared_array_t<Context, std::byte> shared, int staging) {
    const int lane = ctx.lane();
    const int part = lane & 3;
    PAGODA_KERNEL_UNROLL
    for (int n = 0; n < Columns; ++n) {
      const int staged = staging + (8 * n + (lane >> 2)) * staged_row_bytes;
      const std::int32_t row = first_row + 8 * n + (lane >> 2);
      const std::int32_t query = row / args.group;
      const bool valid = query < keys.queries && keys.first_query + query < args.queries.tokens;
      const std::byte* from =
          valid ? args.queries.at(keys.first_query + query, kv_head * args.group + row - query * args.group, 0)
                : nullptr;
      float largest = 0.0f;
      if (valid) {
        for (int v = part; v < Dim / 8; v += 4) {
          float values[8];
          load_eight(ctx, args.queries.type, from + v * 8 * element_bytes(args.queries.type), values);
          PAGODA_KERNEL_UNROLL
          for (int i = 0; i < 8; ++i) largest = __builtin_fmaxf(largest, __builtin_fabsf(values[i]));
        }
      }
      largest = __builtin_fmaxf(largest, ctx.shfl_xor(largest, 1));
      largest = __builtin_fmaxf(largest, ctx.shfl_xor(largest, 2));
      // The power of two that brings the largest element to [1, 2); rows of zeros, or with an infinity, stay as they
      // are.
      const std::uint32_t exponent = __builtin_bit_cast(std::uint32_t, largest) >> 23;
      const bool scalable = exponent > 0 && exponent < 254;
      const float down = __builtin_bit_cast(float, scalable ? (254u - exponent) << 23 : 127u << 23);
      const float up = __builtin_bit_cast(float, scalable ? exponent << 23 : 127u << 23);
      const float sign = args.scale < 0 ? -1.0f : 1.0f;
      float sum = 0.0f;
      for (int v = part; v < key_tile::padded_dim / 8; v += 4) {
        float values[8] = {};
        if (valid && v < Dim / 8) {
          load_eight(ctx, args.queries.type, from + v * 8 * element_bytes(args.queries.type), values);
        }
        stage_eight(ctx, values, down * sign, shared, staged + v * 16, sum);
      }
      sum += ctx.shfl_xor(sum, 1);
      sum += ctx.shfl_xor(sum, 2);
      if (part == 0) {
        // Extras work on scores in units of log2, so the factor is applied there.
        ctx.sts(shared, staged + 2 * key_tile::padded_dim,
                args.scale * sign * up * (log2_e * power_of_two(common_exponent<KeyQuantizer>())));
        ctx.sts(shared, staged + 2 * key_tile::padded_dim + 4, sum);
      }
    }
    ctx.sync_warp();  // staged rows are written
    load_query_words<KeyQuantizer, Dim>(ctx, shared, staging, staged_row_bytes, query_);
    PAGODA_KERNEL_UNROLL
    for (int n = 0; n < Columns; ++n) {
      PAGODA_KERNEL_UNROLL
      for (int c = 0; c < 2; ++c) {
        const int local = 8 * n + 2 * part + c;
        const int staged = staging + local * staged_row_bytes + 2 * key_tile::padded_dim;
        ctx.lds(shared, staged, factor_[n][c]);
        if constexpr (key_offset) ctx.lds(shared, staged + 4, query_sum_[n][c]);
        const std::int32_t row = first_row + local;
        query_of_[n][c] = row / args.group;
        if constexpr (Extras) {
          const std::int32_t head = kv_head * args.group + row - query_of_[n][c] * args.group;
          slope_[n][c] =
              args.alibi_slopes != nullptr && query_of_[n][c] < keys.queries ? ctx.ldg(args.alibi_slopes + head) : 0.0f;
        }
        max_[n][c] = lowest_score;
        sum_[n][c] = 0.0f;
        if constexpr (value_offset) offset_[n][c] = 0.0f;
      }
      PAGODA_KERNEL_UNROLL
      for (int i = 0; i < value_mmas; ++i) {
        PAGODA_KERNEL_UNROLL
        for (int k = 0; k < 4; ++k) output_[n][i][k] = 0.0f;
      }
    }
    ctx.sync_warp();  // the staging may be written again
  }

  /// Sets what each row sees of segment 0 (sinks) or 1 (window).
  template <class Arguments>
  PAGODA_KERNEL_FUNCTION void enter_segment(const Arguments& args, const sequence_keys& keys, int index) {
    PAGODA_KERNEL_UNROLL
    for (int n = 0; n < Columns; ++n) {
      PAGODA_KERNEL_UNROLL
      for (int c = 0; c < 2; ++c) {
        const visible_keys visible = args.mask.visible(keys.position(query_of_[n][c]), keys.context);
        first_key_[n][c] = index == 0 ? 0 : static_cast<std::int32_t>(visible.begin);
        const auto count = static_cast<std::uint32_t>(index == 0 ? visible.sinks_end : visible.end - visible.begin);
        visible_[n][c] = query_of_[n][c] < keys.queries ? count : 0u;
      }
    }
  }

  /// Scores of Tiles * 16 tokens, the first of them at position `token`.
  template <class Context, class Arguments>
  PAGODA_KERNEL_FUNCTION void score(Context& ctx, const Arguments& args, const sequence_keys& keys,
                                    simt::shared_array_t<Context, std::byte> shared, int codes, int scales,
                                    std::int32_t token) {
    const int g = ctx.lane() >> 2;
    PAGODA_KERNEL_UNROLL
    for (int u = 0; u < Tiles; ++u) {
      float raw[Columns][4];
      PAGODA_KERNEL_UNROLL
      for (int n = 0; n < Columns; ++n) raw[n][0] = raw[n][1] = raw[n][2] = raw[n][3] = 0.0f;
      multiply_keys<KeyQuantizer, Dim>(ctx, shared, codes + key_tile::key_bytes(u * tile_rows), query_, raw);
      PAGODA_KERNEL_UNROLL
      for (int r = 0; r < 2; ++r) {
        const int row = u * tile_rows + g + 8 * r;
        key_scale scale{};
        if constexpr (key_scaled) ctx.lds(shared, scales + row * key_tile::scale_bytes, scale);
        PAGODA_KERNEL_UNROLL
        for (int n = 0; n < Columns; ++n) {
          PAGODA_KERNEL_UNROLL
          for (int c = 0; c < 2; ++c) {
            float x = raw[n][2 * r + c];
            if constexpr (key_scaled) x *= scale_of(scale);
            if constexpr (key_offset) x += offset_of(scale) * query_sum_[n][c];
            bool sees = static_cast<std::uint32_t>(token + row - first_key_[n][c]) < visible_[n][c];
            if constexpr (Extras) x = with_extras(ctx, args, keys, x, n, c, token + row, sees);
            score_[u][n][2 * r + c] = sees ? x : minus_infinity;
          }
        }
      }
    }
  }

  /// The online softmax: scores become weights, earlier sums and outputs are rescaled. Scales of values join the
  /// weights. Tokens outside `segment` weigh nothing, whatever their scales hold.
  template <class Context>
  PAGODA_KERNEL_FUNCTION void weigh(Context& ctx, simt::shared_array_t<Context, std::byte> shared, int scales,
                                    std::int32_t token, key_segment segment) {
    const int g = ctx.lane() >> 2;
    float rescale[Columns][2];
    PAGODA_KERNEL_UNROLL
    for (int n = 0; n < Columns; ++n) {
      PAGODA_KERNEL_UNROLL
      for (int c = 0; c < 2; ++c) {
        float largest = score_[0][n][c];
        PAGODA_KERNEL_UNROLL
        for (int u = 0; u < Tiles; ++u) {
          largest = __builtin_fmaxf(__builtin_fmaxf(largest, score_[u][n][c]), score_[u][n][c + 2]);
        }
        largest = __builtin_fmaxf(largest, ctx.shfl_xor(largest, 4));
        largest = __builtin_fmaxf(largest, ctx.shfl_xor(largest, 8));
        largest = __builtin_fmaxf(largest, ctx.shfl_xor(largest, 16));
        const float max = __builtin_fmaxf(max_[n][c], largest);
        rescale[n][c] = ctx.exp2(in_log2(max_[n][c] - max, n, c));
        max_[n][c] = max;
        sum_[n][c] *= rescale[n][c];
        if constexpr (value_offset) offset_[n][c] *= rescale[n][c];
      }
    }
    PAGODA_KERNEL_UNROLL
    for (int u = 0; u < Tiles; ++u) {
      float weight[Columns][4];
      PAGODA_KERNEL_UNROLL
      for (int r = 0; r < 2; ++r) {
        const int row = u * tile_rows + g + 8 * r;
        value_scale scale{};
        float factor = 1.0f;
        float offset = 0.0f;
        if constexpr (value_scaled) {
          ctx.lds(shared, scales + row * value_tile::scale_bytes, scale);
          const bool inside = token + row >= segment.begin && token + row < segment.end;
          factor = inside ? scale_of(scale) * weight_unit : 0.0f;
          if constexpr (value_offset) offset = inside ? offset_of(scale) : 0.0f;
        }
        PAGODA_KERNEL_UNROLL
        for (int n = 0; n < Columns; ++n) {
          PAGODA_KERNEL_UNROLL
          for (int c = 0; c < 2; ++c) {
            const float x = score_[u][n][2 * r + c];
            // The difference first: of large scores it is exact, where that of two products would not be.
            const float p = ctx.exp2(in_log2(x - max_[n][c], n, c));
            sum_[n][c] += p;
            if constexpr (value_scaled) {
              // A token that the row does not see adds nothing, whatever its scale is.
              const bool unseen = x == minus_infinity;
              if constexpr (value_offset) offset_[n][c] += unseen ? 0.0f : p * offset;
              weight[n][2 * r + c] = unseen ? 0.0f : p * factor;
            } else {
              weight[n][2 * r + c] = p;
            }
          }
        }
      }
      PAGODA_KERNEL_UNROLL
      for (int n = 0; n < Columns; ++n) {
        weight_[u][n][0] = ctx.movmatrix_trans(pack_pair<ValueQuantizer>(weight[n][0], weight[n][1]));
        weight_[u][n][1] = ctx.movmatrix_trans(pack_pair<ValueQuantizer>(weight[n][2], weight[n][3]));
      }
    }
    PAGODA_KERNEL_UNROLL
    for (int n = 0; n < Columns; ++n) {
      PAGODA_KERNEL_UNROLL
      for (int i = 0; i < value_mmas; ++i) {
        PAGODA_KERNEL_UNROLL
        for (int k = 0; k < 4; ++k) output_[n][i][k] *= rescale[n][k & 1];
      }
    }
  }

  /// Adds the weighted values of the tokens that were scored last.
  template <class Context>
  PAGODA_KERNEL_FUNCTION void accumulate(Context& ctx, simt::shared_array_t<Context, std::byte> shared, int codes) {
    PAGODA_KERNEL_UNROLL
    for (int u = 0; u < Tiles; ++u) {
      multiply_values<ValueQuantizer, Dim>(ctx, shared, codes + value_tile::value_bytes(u * tile_rows), weight_[u],
                                           output_);
    }
  }

  /// Ends the walk: sums over the lanes that share a row.
  template <class Context>
  PAGODA_KERNEL_FUNCTION void close(Context& ctx) {
    PAGODA_KERNEL_UNROLL
    for (int n = 0; n < Columns; ++n) {
      PAGODA_KERNEL_UNROLL
      for (int c = 0; c < 2; ++c) {
        PAGODA_KERNEL_UNROLL
        for (int lanes = 4; lanes < simt::warp_size; lanes *= 2) {
          sum_[n][c] += ctx.shfl_xor(sum_[n][c], lanes);
          if constexpr (value_offset) offset_[n][c] += ctx.shfl_xor(offset_[n][c], lanes);
        }
      }
    }
  }

  /// Shared memory of one warp's result: rows of outputs, not normalised, then {largest score in log2 units, sum}.
  static constexpr int result_row_bytes = 4 * Dim + 16;
  static constexpr int result_bytes = rows * result_row_bytes;

  template <class Context>
  PAGODA_KERNEL_FUNCTION void store_result(Context& ctx, simt::shared_array_t<Context, std::byte> shared,
                                           int at) const {
    const int g = ctx.lane() >> 2;
    const int q = ctx.lane() & 3;
    PAGODA_KERNEL_UNROLL
    for (int n = 0; n < Columns; ++n) {
      PAGODA_KERNEL_UNROLL
      for (int i = 0; i < value_mmas; ++i) {
        PAGODA_KERNEL_UNROLL
        for (int k = 0; k < 4; ++k) {
          const int m = g + 8 * (k >> 1);
          const int d = value_tile::value_element(i, m);
          const int exponent = ValueQuantizer::half2_exponent(value_tile::value_pair(i, m));
          float value = output_[n][i][k] * (power_of_two(exponent) * (value_scaled ? 1.0f / weight_unit : 1.0f));
          if constexpr (value_offset) value += offset_[n][k & 1];
          if (value_tile::padded_dim == Dim || d < Dim) {
            ctx.sts(shared, at + (8 * n + 2 * q + (k & 1)) * result_row_bytes + 4 * d, value);
          }
        }
      }
      if (g == 0) {
        PAGODA_KERNEL_UNROLL
        for (int c = 0; c < 2; ++c) {
          const int state = at + (8 * n + 2 * q + c) * result_row_bytes + 4 * Dim;
          ctx.sts(shared, state, sum_[n][c] == 0.0f ? lowest_score : in_log2(max_[n][c], n, c));
          ctx.sts(shared, state + 4, sum_[n][c]);
        }
      }
    }
  }

 private:
  /// Keeps weight * scale out of the subnormal halves. A value row's scale may be up to 65504 / 64 = 1023; where codes
  /// are large, and scales therefore small, up to 65504 / 8192.
  static constexpr float weight_unit = std::is_same_v<typename ValueQuantizer::half2_type, bfloat16> ? 1.0f
                                       : ValueQuantizer::codeword_limit > 4096                       ? 8192.0f
                                                                                                     : 64.0f;

  /// Rounds eight elements of a query row to the pairs that unpack_half2 makes of eight codes, and adds up what the
  /// rounded elements are, in units of the scores.
  template <class Context>
  PAGODA_KERNEL_FUNCTION static void stage_eight(Context& ctx, const float (&values)[8], float scale,
                                                 simt::shared_array_t<Context, std::byte> shared, int at, float& sum) {
    constexpr int pairs = key_tile::word_pairs;
    simt::words4 words;
    PAGODA_KERNEL_UNROLL
    for (int k = 0; k < 4; ++k) {
      const int element = k / pairs * 2 * pairs + k % pairs;
      // Every pair is rounded in units that make up for its own exponent.
      const int shift = KeyQuantizer::half2_exponent(k % pairs) - common_exponent<KeyQuantizer>();
      const float unit = scale * power_of_two(shift);
      words.w[k] = pack_pair<KeyQuantizer>(values[element] * unit, values[element + pairs] * unit);
      if constexpr (key_offset) {
        sum += (pagoda::detail::half2_low(words.w[k]) + pagoda::detail::half2_high(words.w[k])) *
               power_of_two(-shift - common_exponent<KeyQuantizer>());
      }
    }
    ctx.sts(shared, at, words);
  }

  /// A score, or a difference of two, in units of log2. Extras have brought them to that already.
  PAGODA_KERNEL_FUNCTION float in_log2(float score, int n, int c) const {
    return Extras ? score : score * factor_[n][c];
  }

  /// The score in units of log2, with soft cap, ALiBi and the tree.
  template <class Context, class Arguments>
  PAGODA_KERNEL_FUNCTION float with_extras(Context& ctx, const Arguments& args, const sequence_keys& keys, float x,
                                           int n, int c, std::int32_t token, bool& sees) const {
    x *= factor_[n][c];
    if (args.soft_cap > 0) {
      // tanh(z) = 1 - 2 / (exp(2 z) + 1), whose exponential may overflow or vanish without harm.
      const float cap = args.soft_cap * log2_e;
      x = cap * (1.0f - 2.0f / (ctx.exp2(x * (2.0f * log2_e / cap)) + 1.0f));
    }
    x += slope_[n][c] * (static_cast<float>(token - keys.position(query_of_[n][c])) * log2_e);
    const std::int32_t new_token = token - (keys.context - keys.new_tokens);
    if (args.tree_words != nullptr && new_token >= 0 && sees) {
      const std::int64_t word =
          static_cast<std::int64_t>(keys.first_query + query_of_[n][c]) * args.tree_words_per_query + new_token / 32;
      sees = (ctx.ldg(args.tree_words + word) >> (new_token % 32) & 1u) != 0;
    }
    return x;
  }

  struct nothing {};
  template <bool Wanted, class T>
  using if_wanted = std::conditional_t<Wanted, T, nothing>;

  std::uint32_t query_[Columns][key_tile::padded_dim / 8];
  float output_[Columns][value_mmas][4];
  float score_[Tiles][Columns][4];
  std::uint32_t weight_[Tiles][Columns][2];
  float max_[Columns][2];
  float sum_[Columns][2];
  float factor_[Columns][2];
  std::int32_t first_key_[Columns][2];
  std::uint32_t visible_[Columns][2];
  std::int32_t query_of_[Columns][2];
  if_wanted<key_offset, float[Columns][2]> query_sum_;
  if_wanted<value_offset, float[Columns][2]> offset_;
  if_wanted<Extras, float[Columns][2]> slope_;
};

}  // namespace pagoda::kernels

#pragma GCC diagnostic pop
