// SPDX-License-Identifier: Apache-2.0
/// @file The quantizer concept: how the elements of one head vector become codes of a few bits, and back.
///
/// A quantizer is a small struct with static members only:
// clang-format off
///
///     struct my_int8 {
///       static constexpr std::string_view name = "my_int8";   // for flags, errors and file headers
///       static constexpr int bits = 8;                        // of one code: 4, 8, 16 or 32
///       static constexpr int group = 0;                       // lanes that share a scale: a multiple of 16; 0: all
///       using scale_type = pagoda::linear_scale<float>;       // or no_scale, or affine_scale<T>; T may be half
///       static scale_type fit(pagoda::row_stats);             // from the smallest and largest of the row (or group)
///       static std::uint32_t encode(float, scale_type);       // the code of one element
///       static float codeword(std::uint32_t code);            // value = scale * codeword(code) + offset
///     };
///     static_assert(pagoda::quantizer<my_int8>);
///
// clang-format on
/// A row is one head vector of one token; it is coded alone, when it is written, and never again. A NaN in a row must
/// come out as a row with a NaN, and finite rows decode to finite values. Where CUDA kernels are to call the members,
/// mark them PAGODA_HOST_DEVICE. The rest is optional: what makes host code several times faster, and a promise that
/// conformance tests check,
// clang-format off
///
///       template <int W> static void load_float(const std::byte* codes, pagoda::vec<float, W>&);  // W codewords
///       template <int W> static void load_int16(const std::byte* codes, pagoda::vec<std::int16_t, W>&);
///       static constexpr float codeword_limit = 127;          // with load_int16: the largest |codeword|, at most 256
///       static constexpr int int16_bias = 128;                // what load_int16 adds to codewords; 0 if left out
///       template <int W> static void store_float(const pagoda::vec<float, W>&, scale_type, std::byte* codes);
///       static float error_bound(pagoda::row_stats);          // of a finite element; or (row_stats, int64_t dim)
///
// clang-format on
/// W is 8 for floats and 16 for integers, which are for codes of 4 and 8 bits, and twice that where such is a register.
/// Attention of few query rows takes the integers, if AVX2 is there, rows have one scale or none, and fill a register;
/// it takes the bias off its sums instead of every code. store_float gives W codes, bit for bit those of encode;
/// without it, append calls encode in loops of 16 that compilers turn into vector code, as far as they can. And all
/// together, the tensor-core path of the device:
// clang-format off
///
///       using half2_type = pagoda::half;                      // or bfloat16: what the matrix units multiply
///       static constexpr int half2_pairs = 16 / bits;         // pairs in a 32-bit word of 32 / bits codes
///       static void unpack_half2(std::uint32_t word, std::uint32_t (&pairs)[half2_pairs]);
///       static constexpr int half2_exponent(int pair);
///       static constexpr float codeword_limit = 127;          // the largest |codeword|
///
// clang-format on
/// Pair i has element i of the word in its lower half and element i + half2_pairs in its upper half, each exactly
/// codeword * 2^-half2_exponent(i) in half2_type. They hold for every code that encode() gives. bits is 4, 8 or 16.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include <pagoda/detail/hadamard.hpp>
#include <pagoda/detail/vector.hpp>
#include <pagoda/dtype.hpp>
#include <pagoda/shape.hpp>

namespace pagoda {

/// W elements in one vector register (or a few): what load_float fills. Host only.
template <class T, int W>
using vec = detail::vec<T, W>;

/// No scale is stored: value = codeword.
struct no_scale {};

/// value = scale * codeword.
template <class T>
struct linear_scale {
  T scale;
};

/// value = scale * codeword + offset.
template <class T>
struct alignas(2 * sizeof(T)) affine_scale {
  T scale;
  T offset;
};

/// The smallest and largest element of a row (or group). Both are NaN if any element is.
struct row_stats {
  float min;
  float max;

  /// The largest magnitude; NaN if any element is NaN.
  PAGODA_HOST_DEVICE constexpr float amax() const noexcept {
    const float low = min < 0 ? -min : min;
    const float high = max < 0 ? -max : max;
    return low > high ? low : high;  // both operands are NaN together
  }
};

template <class S>
inline constexpr bool is_scale_v = false;
template <>
inline constexpr bool is_scale_v<no_scale> = true;
template <class T>
inline constexpr bool is_scale_v<linear_scale<T>> = sizeof(T) == 2 || sizeof(T) == 4;
template <class T>
inline constexpr bool is_scale_v<affine_scale<T>> = sizeof(T) == 2 || sizeof(T) == 4;

// The parts of the concept, one by one, so that a compiler can name the one that is missing.

template <class Q>
concept has_name = requires {
  { Q::name } -> std::convertible_to<std::string_view>;
};
template <class Q>
concept has_bits = requires {
  { Q::bits } -> std::convertible_to<int>;
}
&&(Q::bits == 4 || Q::bits == 8 || Q::bits == 16 || Q::bits == 32);
template <class Q>
concept has_group = requires {
  { Q::group } -> std::convertible_to<int>;
}
&&Q::group >= 0 && Q::group <= max_head_dim&& Q::group % 16 == 0;
template <class Q>
concept has_scale_type = requires {
  typename Q::scale_type;
}
&&is_scale_v<typename Q::scale_type>;
template <class Q>
concept has_fit = has_scale_type<Q> && requires(row_stats stats) {
  { Q::fit(stats) } -> std::same_as<typename Q::scale_type>;
};
template <class Q>
concept has_encode = has_scale_type<Q> && requires(float value, typename Q::scale_type scale) {
  { Q::encode(value, scale) } -> std::same_as<std::uint32_t>;
};
template <class Q>
concept has_codeword = requires(std::uint32_t code) {
  { Q::codeword(code) } -> std::same_as<float>;
};

/// A policy that says how a head vector is stored. See the file's head for its members.
template <class Q>
concept quantizer =
    has_name<Q> && has_bits<Q> && has_group<Q> && has_scale_type<Q> && has_fit<Q> && has_encode<Q> && has_codeword<Q>;

/// Whether a type means to be a quantizer: it has one of the members that only quantizers have.
template <class Q>
concept quantizer_like = requires {
  typename Q::scale_type;
}
|| requires(std::uint32_t code) {
  Q::codeword(code);
};

// The optional tensor-core path, by its parts.

template <class Q>
concept has_half2_type = requires {
  typename Q::half2_type;
}
&&(std::same_as<typename Q::half2_type, half> || std::same_as<typename Q::half2_type, bfloat16>);
template <class Q>
concept has_half2_pairs = has_bits<Q> && Q::bits <= 16 && requires {
  { Q::half2_pairs } -> std::convertible_to<int>;
}
&&Q::half2_pairs == 16 / Q::bits;
template <class Q>
concept has_unpack_half2 = has_half2_pairs<Q> && requires(std::uint32_t word, std::uint32_t (&pairs)[Q::half2_pairs]) {
  { Q::unpack_half2(word, pairs) } -> std::same_as<void>;
};
template <class Q>
concept has_half2_exponent = requires(int pair) {
  { Q::half2_exponent(pair) } -> std::same_as<int>;
};
template <class Q>
concept has_codeword_limit = requires {
  { Q::codeword_limit } -> std::convertible_to<float>;
};

/// The optional tensor-core path: all of its members.
template <class Q>
concept has_half2_hooks =
    has_half2_type<Q> && has_half2_pairs<Q> && has_unpack_half2<Q> && has_half2_exponent<Q> && has_codeword_limit<Q>;

/// Whether a type means to have the tensor-core path.
template <class Q>
concept half2_like = has_half2_exponent<Q> || requires {
  &Q::unpack_half2;
};

/// Whether kernels feed Q's codes to the tensor cores: it has the hooks and at most one scale a row. Otherwise they
/// unpack them one by one: right, but slower.
template <class Q>
inline constexpr bool is_tensor_core_v = [] {
  if constexpr (has_half2_hooks<Q>) {
    return Q::group == 0;
  } else {
    return false;
  }
}();

/// Whether rows are rotated before Q codes them, as hadamard<Q> does: codes are then those of the rotated row. Host
/// attention, append and row_codec see to it; so do the launchers of CUDA.
template <class Q>
inline constexpr bool is_rotated_v = requires {
  requires Q::rotates;
};

namespace detail {

template <class Q>
struct unrotated {
  using type = Q;
};
template <class Q>
requires is_rotated_v<Q>
struct unrotated<Q> {
  using type = typename Q::unrotated_type;
};

}  // namespace detail

/// The quantizer that codes the rotated rows of a hadamard<Q>: Q. Any other quantizer is its own.
template <class Q>
using unrotated_t = typename detail::unrotated<Q>::type;

/// Whether Q promises an error, in either form.
template <class Q>
concept has_error_bound = requires(row_stats stats) {
  { Q::error_bound(stats) } -> std::convertible_to<float>;
}
|| requires(row_stats stats, std::int64_t dim) {
  { Q::error_bound(stats, dim) } -> std::convertible_to<float>;
};

/// The largest error that Q promises for the elements of a row of `dim`, or of one group of it. The statistics are the
/// row's as it was given, all of it if Q rotates, else the group's.
template <has_error_bound Q>
float error_bound_of(row_stats stats, [[maybe_unused]] std::int64_t dim) noexcept {
  if constexpr (requires { Q::error_bound(stats, dim); }) {
    return Q::error_bound(stats, dim);
  } else {
    return Q::error_bound(stats);
  }
}

/// The optional wide host path.
template <class Q>
concept has_load_float = requires(const std::byte* codes, vec<float, 8>& values) {
  Q::template load_float<8>(codes, values);
};

/// The optional integer host path.
template <class Q>
concept has_load_int16 = requires(const std::byte* codes, vec<std::int16_t, 16>& values) {
  Q::template load_int16<16>(codes, values);
};

/// How much larger than the codewords the integers of Q's load_int16 are.
template <class Q>
inline constexpr int int16_bias_v = 0;
template <class Q>
requires requires {
  requires std::same_as < std::remove_cv_t<decltype(Q::int16_bias)>,
  int > ;
}
inline constexpr int int16_bias_v<Q> = Q::int16_bias;

/// Whether Q's int16_bias, if it has one, is an int.
template <class Q>
consteval bool has_int_bias() {
  if constexpr (requires { Q::int16_bias; }) {
    return std::is_same_v<std::remove_cv_t<decltype(Q::int16_bias)>, int>;
  } else {
    return true;
  }
}

/// Whether sums over the integers of Q's load_int16 fit 32 bits.
template <class Q>
consteval bool fits_int16_sums() {
  if constexpr (has_codeword_limit<Q>) {
    return Q::codeword_limit >= 1 && Q::codeword_limit <= 256 && int16_bias_v<Q> >= -256 && int16_bias_v<Q> <= 256;
  } else {
    return false;
  }
}

/// Fails to compile with the name of each missing part. static_assert(require_quantizer<Q>()) says more than
/// static_assert(quantizer<Q>).
template <class Q>
consteval bool require_quantizer() {
  static_assert(has_name<Q>, "pagoda: this quantizer lacks `static constexpr std::string_view name`");
  static_assert(has_bits<Q>, "pagoda: this quantizer lacks `static constexpr int bits`, one of 4, 8, 16 and 32");
  static_assert(has_group<Q>,
                "pagoda: this quantizer lacks `static constexpr int group`, 0 or a multiple of 16 up to 576");
  static_assert(
      has_scale_type<Q>,
      "pagoda: this quantizer lacks `scale_type`: no_scale, linear_scale<T> or affine_scale<T> of 2 or 4 bytes");
  static_assert(has_fit<Q>, "pagoda: this quantizer lacks `static scale_type fit(row_stats)`");
  static_assert(has_encode<Q>, "pagoda: this quantizer lacks `static std::uint32_t encode(float, scale_type)`");
  static_assert(has_codeword<Q>, "pagoda: this quantizer lacks `static float codeword(std::uint32_t)`");
  static_assert(has_half2_hooks<Q> || !half2_like<Q>,
                "pagoda: this quantizer has a part of the tensor-core members only: give it half2_type, half2_pairs, "
                "unpack_half2, half2_exponent and codeword_limit, or none of them");
  static_assert(has_load_float<Q> || !has_load_int16<Q>,
                "pagoda: this quantizer has load_int16 without load_float, which attention of many rows needs");
  static_assert(Q::bits <= 8 || !has_load_int16<Q>,
                "pagoda: this quantizer has load_int16, which is for codes of 4 or 8 bits, and larger codes");
  static_assert(has_int_bias<Q>(), "pagoda: this quantizer's int16_bias is no `static constexpr int`");
  static_assert(fits_int16_sums<Q>() || !has_load_int16<Q>,
                "pagoda: this quantizer has load_int16 without a codeword_limit from 1 to 256, or an int16_bias beyond "
                "256: sums over a tile could leave 32 bits");
  return true;
}

/// Whether attention reads Q's codes straight into vector registers. Otherwise they are unpacked one by one, once for
/// the whole query group: right, but several times slower.
template <class Q>
inline constexpr bool is_vectorized_v = has_load_float<Q>;

template <class S>
inline constexpr bool has_scale_v = !std::is_empty_v<S>;

template <class S>
inline constexpr std::int64_t scale_bytes_v = has_scale_v<S> ? static_cast<std::int64_t>(sizeof(S)) : 0;

/// The scale of a stored row as a float; 1 where none is stored.
template <class S>
PAGODA_HOST_DEVICE constexpr float scale_of(const S& scale) noexcept {
  if constexpr (requires { scale.scale; }) {
    return to_float(scale.scale);
  } else {
    return 1.0f;
  }
}

/// The offset of a stored row as a float; 0 where none is stored.
template <class S>
PAGODA_HOST_DEVICE constexpr float offset_of(const S& scale) noexcept {
  if constexpr (requires { scale.offset; }) {
    return to_float(scale.offset);
  } else {
    return 0.0f;
  }
}

/// Bytes of a row's packed codes, before padding.
template <quantizer Q>
constexpr std::int64_t code_bytes(std::int64_t dim) noexcept {
  return dim * Q::bits / 8;
}

/// Bytes that a row's codes take in a block: padded to 16, so that every row starts on a chunk.
template <quantizer Q>
constexpr std::int64_t row_bytes(std::int64_t dim) noexcept {
  return (code_bytes<Q>(dim) + 15) / 16 * 16;
}

/// Scales stored for one row.
template <quantizer Q>
constexpr std::int64_t scales_per_row(std::int64_t dim) noexcept {
  if constexpr (!has_scale_v<typename Q::scale_type>) {
    return 0;
  } else if constexpr (Q::group == 0) {
    return 1;
  } else {
    return dim / Q::group;
  }
}

template <quantizer Q>
constexpr std::int64_t row_scale_bytes(std::int64_t dim) noexcept {
  return scales_per_row<Q>(dim) * scale_bytes_v<typename Q::scale_type>;
}

/// Throws invalid_argument unless a row of `dim` elements can be stored by Q.
template <quantizer Q>
constexpr void check_row([[maybe_unused]] std::string_view what, [[maybe_unused]] std::int64_t dim) {
  if constexpr (Q::group > 0) {
    if (dim % Q::group != 0) {
      detail::fail(what, " is ", dim, ", but quantizer ", std::string_view(Q::name), " scales groups of ", Q::group,
                   " lanes: use a multiple of ", Q::group, " or a quantizer with one scale a row");
    }
  }
  if constexpr (is_rotated_v<Q>) {
    if (!detail::can_rotate(dim)) {
      detail::fail(what, " is ", dim, ", but quantizer ", std::string_view(Q::name),
                   " rotates rows of 1, 3, 5, 7 or 9 ",
                   "times a power of two, from 8 to 576: pad the heads to such a length or use quantizer ",
                   std::string_view(unrotated_t<Q>::name));
    }
  }
}

}  // namespace pagoda
