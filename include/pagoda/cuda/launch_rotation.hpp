// SPDX-License-Identifier: Apache-2.0
/// @file How the launchers serve hadamard<Q>: rows are rotated into work memory by a kernel of their own, and the other
/// kernels see Q. Included where kernels are compiled.
#pragma once

#include <cstddef>
#include <cstdint>

#include <pagoda/cuda/device_work.hpp>
#include <pagoda/cuda/launch.hpp>
#include <pagoda/kernels/rotate_rows.hpp>
#include <pagoda/quantizer.hpp>

namespace pagoda::cuda::detail {

template <class KeyQuantizer, class ValueQuantizer>
inline constexpr bool rotates_v = is_rotated_v<KeyQuantizer> || is_rotated_v<ValueQuantizer>;

/// The same numbers for the quantizers inside: views and arguments of other quantizers differ in type alone.
template <template <class, class> class Numbers, class KeyQuantizer, class ValueQuantizer>
auto unrotated(const Numbers<KeyQuantizer, ValueQuantizer>& numbers) noexcept {
  using plain = Numbers<unrotated_t<KeyQuantizer>, unrotated_t<ValueQuantizer>>;
  return __builtin_bit_cast(plain, numbers);
}

/// Dense float rows in work memory.
inline kernels::erased_rows work_rows(float* memory, std::int64_t tokens, std::int64_t heads,
                                      std::int64_t dim) noexcept {
  return {reinterpret_cast<std::byte*>(memory), heads * dim, dim, tokens, kernels::element_type::float32};
}

/// Rotates the batch's rows; `offsets` are those of its queries or its new tokens.
template <class Backend>
void launch_rotation(const kernels::erased_rows& from, const kernels::erased_rows& to, const batch_view& batch,
                     const std::int32_t* offsets, std::int64_t heads, std::int64_t dim, bool back,
                     const device_properties& device, stream_ref stream) {
  const kernels::rotate_rows::arguments arguments{.from = from,
                                                  .to = to,
                                                  .num_sequences = batch.num_sequences,
                                                  .offsets = offsets,
                                                  .heads = static_cast<std::int32_t>(heads),
                                                  .how = pagoda::detail::make_rotation(dim, back)};
  launch_units<kernels::rotate_rows, Backend>(device, arguments, kernels::rotate_rows::max_units(arguments), stream);
}

}  // namespace pagoda::cuda::detail
