// SPDX-License-Identifier: Apache-2.0
/// @file The partial result of attention over some keys, and how two of them become one.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include <pagoda/config.hpp>

namespace pagoda {

/// Softmax over the keys seen so far: the largest score, and the sum of exp(score - max). The default is the state of
/// no keys, the identity of merging. Source: online normaliser, Milakov and Gimelshein 2018, section 3.
struct softmax_state {
  float max = -std::numeric_limits<float>::infinity();
  float sum = 0.0f;

  /// The log of the softmax's denominator, in natural log; -infinity of no keys.
  float lse() const noexcept { return sum == 0.0f ? -std::numeric_limits<float>::infinity() : max + std::log(sum); }
};

/// What merging multiplies the two sums and outputs with.
struct merge_weights {
  float first;
  float second;
};

/// Merges `second` into `first`; the outputs that go with them are to be added with the returned weights.
/// Associative up to rounding; the default state is its identity; a NaN in either stays.
inline merge_weights merge(softmax_state& first, const softmax_state& second) noexcept {
  const float max = first.max > second.max ? first.max : second.max;
  // Equal maxima have weight 1 even where both are infinite: (-inf) - (-inf) would be NaN.
  const merge_weights weights{first.max == max ? 1.0f : std::exp(first.max - max),
                              second.max == max ? 1.0f : std::exp(second.max - max)};
  first.sum = first.sum * weights.first + second.sum * weights.second;
  first.max = max;
  return weights;
}

/// Merges two normalised results over disjoint keys, given their log-sum-exps: result b into result a. This is what an
/// engine needs to join attention over a shared prefix with attention over the rest.
/// Shapes: output_a and output_b have dim elements.
/// Units:  lse in natural log; (0, -infinity) is the identity.
/// Source: cascade inference, as in FlashInfer (Ye et al. 2025), section 2.2.
inline void merge_outputs(float* output_a, float& lse_a, const float* output_b, float lse_b,
                          std::int64_t dim) noexcept {
  softmax_state a{lse_a, std::isinf(lse_a) && lse_a < 0 ? 0.0f : 1.0f};
  const softmax_state b{lse_b, std::isinf(lse_b) && lse_b < 0 ? 0.0f : 1.0f};
  const float sum_a = a.sum;
  const merge_weights weights = merge(a, b);
  if (a.sum == 0.0f) return;  // neither has seen a key: both outputs are 0
  const float weight_a = sum_a * weights.first / a.sum;
  const float weight_b = b.sum * weights.second / a.sum;
  for (std::int64_t d = 0; d < dim; ++d) output_a[d] = output_a[d] * weight_a + output_b[d] * weight_b;
  lse_a = a.lse();
}

}  // namespace pagoda
