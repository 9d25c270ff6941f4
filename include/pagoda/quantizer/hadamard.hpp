// SPDX-License-Identifier: Apache-2.0
/// @file hadamard<Q>: rows are rotated by a Hadamard matrix, then coded by Q.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>

#include <pagoda/detail/hadamard.hpp>
#include <pagoda/detail/static_name.hpp>
#include <pagoda/quantizer.hpp>

namespace pagoda {

namespace detail {

template <class Q>
inline constexpr auto hadamard_name =
    static_name<9 + std::string_view(Q::name).size()>{}.add("hadamard-").add(std::string_view(Q::name));

}  // namespace detail

/// Stores the row H x as Q does, H a normalised Hadamard matrix of the row's length. H is orthogonal, so scores are
/// those of rotated queries with rotated keys, and outputs are rotated back once: attention does both. A channel much
/// larger than the others, as keys often have, is spread over the whole row, whose scale it then no longer spoils.
/// Rows whose elements are nearly all the same become one large element: such rows lose.
///
/// Shapes: head_dim is 1, 3, 5, 7 or 9 times a power of two; others are refused. The values of values_in_keys<N> are
///         no part of a rotated key row: refused when compiling.
/// Error:  the row's error in L2 is that of coding H x by Q, and the rounding of two rotations in float, 2^-15 of the
///         row's L2. No element's error is larger than that. The certain bound of an element, from the row's extremes
///         alone, is far above what rows have in practice: sqrt(dim) times Q's bound for elements up to
///         amax * sqrt(dim).
/// Range:  Q's, for elements up to amax * sqrt(dim). Rows with amax above 2^128 / dim may overflow. A row that holds an
///         infinity or a NaN decodes to values that are not finite, whatever groups Q has, and touches no other row.
/// Source: rotations before quantising, as in QuaRot (Ashkboos et al. 2024), without random signs.
template <class Q>
struct hadamard : Q {
  static_assert(require_quantizer<Q>());
  static_assert(!is_rotated_v<Q>, "pagoda: hadamard<Q> takes a quantizer that does not rotate: one rotation is enough");

  using unrotated_type = Q;
  static constexpr std::string_view name = detail::hadamard_name<Q>.view();
  static constexpr bool rotates = true;

  static float error_bound(row_stats stats, std::int64_t dim) noexcept requires has_error_bound<Q> {
    const auto length = static_cast<float>(dim);
    if (!(stats.amax() * length <= std::numeric_limits<float>::max())) return std::numeric_limits<float>::infinity();
    const float root = std::sqrt(length);
    const float reach = stats.amax() * root * 1.0001f + std::numeric_limits<float>::denorm_min();
    return root * error_bound_of<Q>({-reach, reach}, dim) + reach * 0x1p-15f;
  }
};

}  // namespace pagoda
