// SPDX-License-Identifier: Apache-2.0
// Merging partial results is a monoid: the empty state is its identity, and how the keys are split does not matter.
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include <doctest/doctest.h>
#include <pagoda/attention/online_softmax.hpp>

#include "attention_case.hpp"

namespace {

using pagoda::merge;
using pagoda::merge_outputs;
using pagoda::merge_weights;
using pagoda::softmax_state;

constexpr float infinity = std::numeric_limits<float>::infinity();

softmax_state merged(softmax_state a, const softmax_state& b) {
  merge(a, b);
  return a;
}

const softmax_state samples[] = {{}, {0.0f, 1.0f}, {-3.0f, 2.5f}, {90.0f, 1.0f}, {-120.0f, 7.0f}, {1e30f, 3.0f}};

TEST_CASE("the default state is the identity of merging, on both sides") {
  CHECK(softmax_state{}.lse() == -infinity);
  for (const softmax_state& state : samples) {
    for (const softmax_state& result : {merged(state, {}), merged({}, state)}) {
      CHECK(result.max == state.max);
      CHECK(result.sum == state.sum);
    }
  }
  softmax_state state{2.0f, 3.0f};
  const merge_weights weights = merge(state, {});
  CHECK(weights.first == 1.0f);
  CHECK(weights.second == 0.0f);
}

TEST_CASE("two empty states make an empty one, not NaN") {
  softmax_state state;
  const merge_weights weights = merge(state, {});
  CHECK(state.max == -infinity);
  CHECK(state.sum == 0.0f);
  CHECK(state.lse() == -infinity);
  CHECK(weights.first == weights.first);
  CHECK(weights.second == weights.second);
}

TEST_CASE("merging is associative and commutative up to rounding") {
  for (const softmax_state& a : samples) {
    for (const softmax_state& b : samples) {
      CHECK(merged(a, b).lse() == merged(b, a).lse());
      for (const softmax_state& c : samples) {
        const float left = merged(merged(a, b), c).lse();
        const float right = merged(a, merged(b, c)).lse();
        CHECK((left == right || std::fabs(left - right) <= 1e-6f * std::fabs(left)));
      }
    }
  }
}

TEST_CASE("a NaN in either state stays") {
  const softmax_state bad{0.0f, std::numeric_limits<float>::quiet_NaN()};
  for (const softmax_state& state : samples) {
    CHECK(std::isnan(merged(bad, state).sum));
    CHECK(std::isnan(merged(state, bad).sum));
    CHECK(std::isnan(merged(state, bad).lse()));
  }
}

TEST_CASE("merge_outputs: (0, -infinity) is the identity, and two of them merge to it") {
  float output[2] = {0.0f, 0.0f};
  float lse = -infinity;
  const float other[2] = {3.0f, -4.0f};
  const float empty[2] = {0.0f, 0.0f};
  merge_outputs(output, lse, empty, -infinity, 2);
  CHECK(lse == -infinity);
  CHECK(output[0] == 0.0f);
  merge_outputs(output, lse, other, 1.5f, 2);
  CHECK(lse == 1.5f);
  CHECK(output[0] == 3.0f);
  CHECK(output[1] == -4.0f);
  merge_outputs(output, lse, empty, -infinity, 2);
  CHECK(lse == 1.5f);
  CHECK(output[1] == -4.0f);
}

TEST_CASE("merge_outputs weighs by the exponentials of natural LSEs") {
  // log 1 and log 3: a quarter of the first, three quarters of the second; log 4 together. In base 2 it would differ.
  float output[1] = {8.0f};
  float lse = 0.0f;
  const float other[1] = {4.0f};
  merge_outputs(output, lse, other, std::log(3.0f), 1);
  CHECK(output[0] == doctest::Approx(5.0).epsilon(1e-6));
  CHECK(lse == doctest::Approx(std::log(4.0)).epsilon(1e-6));
}

TEST_CASE("attention over the parts of a sequence, joined by their public LSEs, is attention over the whole") {
  // The first part and the rest as sequences of their own, with the keys of the whole; no mask.
  using pagoda_test::f32;
  constexpr std::int64_t dim = 16;
  for (const std::int32_t cut : {0, 1, 40, 64, 512, 599, 600}) {
    CAPTURE(cut);
    pagoda_test::attention_case<f32> parts({.shape = {.kv_heads = 1, .head_dim = dim},
                                            .query_group = 2,
                                            .batch = {{600, 0, 3, 5}, {cut, cut, 3, 5}, {600 - cut, 600 - cut, 3, 5}}});
    std::vector<float> keys;
    std::vector<float> values;
    for (std::int64_t t = 0; t < 600; ++t) {  // new tokens of both parts, in the order of the whole
      for (std::int64_t d = 0; d < dim; ++d) {
        keys.push_back(pagoda_test::noise(5, 1, t, 0, d));
        values.push_back(pagoda_test::noise(5, 2, t, 0, d));
      }
    }
    pagoda::host::append(parts.view, pagoda::rows_view(keys, {600, 1, dim}), pagoda::rows_view(values, {600, 1, dim}));
    const std::size_t rows = 6;
    for (std::size_t i = rows * dim; i < parts.queries.size(); ++i) parts.queries[i] = parts.queries[i - rows * dim];
    auto result = parts.run({.causal = false});
    float* whole = result.output.data();
    float* first = whole + rows * dim;
    const float* rest = first + rows * dim;
    for (std::size_t row = 0; row < rows; ++row) {
      merge_outputs(first + row * dim, result.lse[rows + row], rest + row * dim, result.lse[2 * rows + row], dim);
      CHECK(std::fabs(result.lse[rows + row] - result.lse[row]) < 2e-5f);
      for (std::size_t d = row * dim; d < (row + 1) * dim; ++d) CHECK(std::fabs(first[d] - whole[d]) < 2e-6f);
    }
  }
}

}  // namespace
