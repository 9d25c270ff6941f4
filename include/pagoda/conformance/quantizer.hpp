// SPDX-License-Identifier: Apache-2.0
/// @file Checks a quantizer of your own.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string_view>
#include <vector>

#include <pagoda/conformance/report.hpp>
#include <pagoda/quantizer/row_codec.hpp>

namespace pagoda::conformance {

namespace detail {

/// A small generator, so that every machine checks the same rows.
class random_source {
 public:
  /// Uniform in [-1, 1).
  float uniform() noexcept {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;  // Knuth's MMIX generator
    return static_cast<float>(static_cast<std::int32_t>(state_ >> 32)) * 0x1p-31f;
  }

 private:
  std::uint64_t state_ = 1;
};

struct named_row {
  std::string_view name;
  std::vector<float> values;
};

inline std::vector<named_row> sample_rows(std::int64_t dim) {
  const auto size = static_cast<std::size_t>(dim);
  random_source random;
  std::vector<named_row> rows;
  const auto add = [&](std::string_view name, auto&& value) {
    named_row row{name, std::vector<float>(size)};
    for (std::size_t i = 0; i < size; ++i) row.values[i] = value(i);
    rows.push_back(std::move(row));
  };
  add("zeros", [](std::size_t) { return 0.0f; });
  add("a constant", [](std::size_t) { return 1.5f; });
  add("a negative constant", [](std::size_t) { return -0.75f; });
  add("uniform values", [&](std::size_t) { return random.uniform(); });
  add("bell-shaped values", [&](std::size_t) {
    float sum = 0;
    for (int i = 0; i < 12; ++i) sum += random.uniform();
    return sum;
  });
  add("heavy tails", [&](std::size_t) { return std::pow(random.uniform(), 5.0f) * 50.0f; });
  add("one outlier", [&](std::size_t i) { return i == 3 ? 300.0f : random.uniform(); });
  add("large values", [&](std::size_t) { return random.uniform() * 10000.0f; });
  add("small values", [&](std::size_t) { return random.uniform() * 1e-4f; });
  add("denormal values", [&](std::size_t) { return random.uniform() * 1e-39f; });
  return rows;
}

/// load_float<W> against codeword(), if Q has it.
template <quantizer Q, int W>
void check_load_float(report& result, const std::byte* codes, std::int64_t dim) {
  using codec = row_codec<Q>;
  if constexpr (requires(vec<float, W> & lanes) { Q::template load_float<W>(codes, lanes); }) {
    for (std::int64_t d = 0; d + W <= dim; d += W) {
      vec<float, W> lanes{};
      Q::template load_float<W>(codes + code_bytes<Q>(d), lanes);
      for (int i = 0; i < W; ++i) {
        const float expected = Q::codeword(codec::load_code(codes, d + i));
        result.expect(lanes[i] == expected, Q::name, ": load_float<", W, "> gives ", double{lanes[i]},
                      " for a code whose codeword is ", double{expected});
      }
    }
  }
}

/// load_int16<W> against codeword() and int16_bias, if Q has it.
template <quantizer Q, int W>
void check_load_int16(report& result, const std::byte* codes, std::int64_t dim) {
  using codec = row_codec<Q>;
  if constexpr (requires(vec<std::int16_t, W> & lanes) { Q::template load_int16<W>(codes, lanes); }) {
    for (std::int64_t d = 0; d + W <= dim; d += W) {
      vec<std::int16_t, W> lanes{};
      Q::template load_int16<W>(codes + code_bytes<Q>(d), lanes);
      for (int i = 0; i < W; ++i) {
        const float codeword = Q::codeword(codec::load_code(codes, d + i));
        result.expect(static_cast<float>(lanes[i]) == codeword + static_cast<float>(int16_bias_v<Q>), Q::name,
                      ": load_int16<", W, "> gives ", int{lanes[i]}, " for a code whose codeword is ", double{codeword},
                      ", with an int16_bias of ", int{int16_bias_v<Q>});
      }
    }
  }
}

}  // namespace detail

/// Codes and decodes rows of many kinds and compares. Checks that:
/// - codes fit their bits, and coding is deterministic;
/// - the whole-row codec and, if there are such, load_float, load_int16 and unpack_half2 agree with codeword(), and no
///   codeword lies beyond codeword_limit;
/// - values decode within error_bound, if Q promises one; finite rows decode to finite values; zeros to zeros;
/// - values spread evenly decode with a mean error below a quarter of the largest, as any real quantizer's do;
/// - a NaN in a row decodes to a row with a NaN;
/// - each group's scale comes from its own lanes alone, unless Q rotates;
/// - the codes of a quantizer that rotates are those of the rotated row.
///
/// Complexity: some thousand elements; well under a second.
template <class Q>
report check_quantizer() {
  static_assert(require_quantizer<Q>());
  report result;
  using codec = row_codec<Q>;
  constexpr std::int64_t dim = Q::group > 0 ? 4 * Q::group : 128;
  constexpr auto count = static_cast<std::size_t>(dim);
  std::vector<std::byte> codes(static_cast<std::size_t>(row_bytes<Q>(dim)));
  std::vector<std::byte> scales(static_cast<std::size_t>(row_scale_bytes<Q>(dim)) + 1);
  std::vector<float> decoded(count);

  const auto round_trip = [&](const std::vector<float>& row) {
    codec::encode(row.data(), dim, codes.data(), scales.data());
    codec::decode(codes.data(), scales.data(), dim, decoded.data());
  };

  for (const detail::named_row& row : detail::sample_rows(dim)) {
    round_trip(row.values);
    std::vector<float> coded = row.values;  // what encode() sees, and below what codeword() makes of it
    if constexpr (is_rotated_v<Q>) pagoda::detail::rotate(coded.data(), dim);
    std::vector<float> direct(count);
    for (std::int64_t d = 0; d < dim; ++d) {
      const auto scale = codec::load_scale(scales.data(), d / codec::group_size(dim));
      direct[static_cast<std::size_t>(d)] =
          scale_of(scale) * Q::codeword(codec::load_code(codes.data(), d)) + offset_of(scale);
    }
    if constexpr (is_rotated_v<Q>) pagoda::detail::rotate_back(direct.data(), dim);
    const row_stats all = codec::stats(row.values.data(), dim);
    const std::vector<std::byte> first_codes = codes;
    const std::vector<std::byte> first_scales = scales;
    for (std::int64_t begin = 0; begin < dim; begin += codec::group_size(dim)) {
      const row_stats stats = is_rotated_v<Q> ? all : codec::stats(row.values.data() + begin, codec::group_size(dim));
      for (std::int64_t d = begin; d < begin + codec::group_size(dim); ++d) {
        const auto i = static_cast<std::size_t>(d);
        const std::uint32_t code = codec::load_code(codes.data(), d);
        const auto scale = codec::load_scale(scales.data(), d / codec::group_size(dim));
        const std::uint32_t encoded = Q::encode(coded[i], scale);
        result.expect(Q::bits == 32 || encoded >> (Q::bits % 32) == 0, Q::name, ": the code ", encoded, " of ",
                      double{coded[i]}, " in ", row.name, " takes more than ", Q::bits, " bits");
        result.expect(encoded == code, Q::name, ": encode gives ", encoded, " after the row was coded as ", code);
        // Rotating adds up elements: the difference of two equal sums is measured by the row.
        const float slack = 1e-6f * (is_rotated_v<Q> ? all.amax() : std::fabs(direct[i]));
        result.expect(decoded[i] == direct[i] || std::fabs(decoded[i] - direct[i]) <= slack, Q::name,
                      ": the row decodes to ", double{decoded[i]}, ", but codeword() says ", double{direct[i]});
        result.expect(std::isfinite(decoded[i]), Q::name, ": ", double{row.values[i]}, " in ", row.name,
                      " decodes to a value that is not finite");
        if (row.name == "zeros") result.expect(decoded[i] == 0, Q::name, ": zeros decode to ", double{decoded[i]});
        if constexpr (has_error_bound<Q>) {
          const float error = std::fabs(decoded[i] - row.values[i]);
          const float bound = error_bound_of<Q>(stats, dim);
          result.expect(error <= bound, Q::name, ": ", double{row.values[i]}, " in ", row.name, " decodes with error ",
                        double{error}, ", above the promised ", double{bound});
        }
        if constexpr (has_codeword_limit<Q>) {
          const float codeword = Q::codeword(code);
          result.expect(std::fabs(codeword) <= float{Q::codeword_limit}, Q::name, ": the codeword ", double{codeword},
                        " lies beyond codeword_limit, ", double{Q::codeword_limit});
        }
      }
    }
    if (row.name == "uniform values") {
      float sum = 0;
      for (std::size_t i = 0; i < count; ++i) sum += std::fabs(decoded[i] - row.values[i]);
      result.expect(sum <= 0.25f * static_cast<float>(count), Q::name, ": ", row.name,
                    " from -1 to 1 decode with a mean ", "error of ", double{sum / static_cast<float>(count)},
                    ": the codes hold next to nothing");
    }
    codec::encode(row.values.data(), dim, codes.data(), scales.data());
    result.expect(codes == first_codes && scales == first_scales, Q::name, ": coding ", row.name,
                  " twice gives different bytes");
    detail::check_load_float<Q, 8>(result, codes.data(), dim);
    detail::check_load_float<Q, 16>(result, codes.data(), dim);
    detail::check_load_int16<Q, 16>(result, codes.data(), dim);
    if constexpr (PAGODA_HAS_AVX512) detail::check_load_int16<Q, 32>(result, codes.data(), dim);
    if constexpr (has_half2_hooks<Q>) {
      constexpr std::int64_t half_word = Q::half2_pairs;  // elements in each half of a word
      for (std::int64_t d = 0; d < dim; d += 2 * half_word) {
        std::uint32_t word;
        std::memcpy(&word, codes.data() + code_bytes<Q>(d), sizeof(word));
        std::uint32_t pairs[static_cast<std::size_t>(half_word)];
        Q::unpack_half2(word, pairs);
        for (std::int64_t i = 0; i < 2 * half_word; ++i) {
          const auto pair = static_cast<int>(i % half_word);
          const std::uint32_t both = pairs[pair];
          const auto bits = static_cast<std::uint16_t>(i < half_word ? both & 0xffffu : both >> 16);
          const float got = std::ldexp(to_float(typename Q::half2_type{bits}), Q::half2_exponent(pair));
          const float expected = Q::codeword(codec::load_code(codes.data(), d + i));
          result.expect(got == expected, Q::name, ": unpack_half2 and half2_exponent give ", double{got},
                        " for a code whose codeword is ", double{expected});
        }
      }
    }
  }

  std::vector<float> poisoned = detail::sample_rows(dim)[3].values;
  const std::int64_t last_group = dim - codec::group_size(dim);
  poisoned[count - 1] = std::numeric_limits<float>::quiet_NaN();
  round_trip(poisoned);
  bool poison_stays = false;
  for (std::size_t i = static_cast<std::size_t>(last_group); i < count; ++i) poison_stays |= std::isnan(decoded[i]);
  result.expect(poison_stays, Q::name,
                ": a row with a NaN decodes to a row without one: let fit() or encode() keep it");
  for (std::size_t i = 0; i < static_cast<std::size_t>(last_group) && !is_rotated_v<Q>; ++i) {
    result.expect(std::isfinite(decoded[i]), Q::name, ": a NaN in one group of lanes reaches another");
  }
  return result;
}

}  // namespace pagoda::conformance
