// SPDX-License-Identifier: Apache-2.0
/// @file int4_grouped<Group>: affine 4-bit codes with one scale and one offset, both halves, for each Group elements.
#pragma once

#include <string_view>

#include <pagoda/detail/static_name.hpp>
#include <pagoda/fwd.hpp>
#include <pagoda/quantizer.hpp>
#include <pagoda/quantizer/int4_per_token.hpp>

namespace pagoda {

namespace detail {

template <int Group>
inline constexpr auto int4_grouped_name = static_name<16>{}.add("int4g").add(Group);

}  // namespace detail

/// Stores each element as int4_per_token does, with a scale and an offset of its group's own: 20 bytes for 32 elements.
/// Error and range are those of int4_per_token with the group for the row. A group that holds an infinity or a NaN
/// decodes to values that are not finite, and touches no other group.
/// Source: the form of ggml's Q4_1, whose offset is the smallest element.
template <int Group>
struct int4_grouped : int4_per_token {
  static_assert(Group >= 16 && Group % 16 == 0,
                "pagoda: int4_grouped<Group> takes a multiple of 16 elements, such as 32");

  static constexpr std::string_view name = detail::int4_grouped_name<Group>.view();
  static constexpr int group = Group;
};

static_assert(quantizer<int4_grouped<32>> && has_half2_hooks<int4_grouped<32>>);

}  // namespace pagoda
