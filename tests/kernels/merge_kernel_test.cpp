// SPDX-License-Identifier: Apache-2.0
// The merge kernel on partial results written by hand: a monoid with the result of no keys as its identity.
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <span>
#include <vector>

#include <doctest/doctest.h>
#include <pagoda/kernels/merge.hpp>
#include <pagoda/quantizer/identity.hpp>
#include <pagoda/simt/host_context.hpp>

namespace {

using f32 = pagoda::identity<float>;
using merge = pagoda::kernels::merge_chunks<f32, f32>;
using pagoda::kernels::element_type;

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float untouched = -77.0f;

/// Sequences of some items and queries each, with room for their partial results: [items, kv_heads, rows].
struct merge_case {
  merge_case(std::vector<std::int32_t> items, std::vector<std::int32_t> queries, std::int32_t heads, std::int32_t group,
             std::int32_t value_dim)
      : sequences(static_cast<std::int32_t>(items.size())), kv_heads(heads), dim(value_dim) {
    args.group = group;
    args.decode_queries = 1;
    for (std::size_t i = 0; i < items.size(); ++i) {
      offsets.push_back(offsets.back() + items[i]);
      query_offsets.push_back(query_offsets.back() + queries[i]);
      if (queries[i] > args.decode_queries) args.decode_queries = queries[i];
    }
    args.view.kv_heads = heads;
    args.view.value_dim = value_dim;
    const auto rows = static_cast<std::size_t>(offsets.back() * heads * args.decode_queries * group);
    partial_output = std::vector<float>(rows * static_cast<std::size_t>(value_dim), 0.0f);
    for (std::size_t row = 0; row < rows; ++row) {
      partial_state.push_back(pagoda::kernels::lowest_score);
      partial_state.push_back(0.0f);
    }
    const auto written = static_cast<std::size_t>(query_offsets.back() * heads * group);
    output = std::vector<float>(written * static_cast<std::size_t>(value_dim), untouched);
    lse = std::vector<float>(written, untouched);
  }

  /// Writes one partial result: largest score in log2 units, sum, and an output of `value` everywhere, d added.
  void set(std::int32_t item, std::int32_t kv_head, std::int32_t row, float max, float sum, float value) {
    const auto at = static_cast<std::size_t>(args.partial_index(item, kv_head, row));
    partial_state[2 * at] = max;
    partial_state[2 * at + 1] = sum;
    for (std::size_t d = 0; d < static_cast<std::size_t>(dim); ++d) {
      partial_output[at * static_cast<std::size_t>(dim) + d] = value * sum + static_cast<float>(d) * sum;
    }
  }

  void run(pagoda::simt::host_machine& machine, std::uint32_t grid = 3) {
    args.view.batch.num_sequences = &sequences;
    args.view.batch.query_offsets = query_offsets.data();
    args.plan.offsets = offsets.data();
    args.partial_output = partial_output.data();
    args.partial_state = partial_state.data();
    args.output = {reinterpret_cast<std::byte*>(output.data()), std::int64_t{kv_heads} * args.group * dim, dim,
                   query_offsets.back(), element_type::float32};
    args.lse = lse.data();
    machine.launch<merge>({grid, 1, 1}, args);
  }

  float out(std::int32_t query, std::int32_t head, std::int32_t d) const {
    return output[static_cast<std::size_t>((query * kv_heads * args.group + head) * dim + d)];
  }

  merge::arguments args{};
  std::int32_t sequences;
  std::int32_t kv_heads;
  std::int32_t dim;
  std::vector<std::int32_t> offsets{0};
  std::vector<std::int32_t> query_offsets{0};
  std::vector<float> partial_output;
  std::vector<float> partial_state;
  std::vector<float> output;
  std::vector<float> lse;
};

TEST_CASE("parts are weighed by their sums and by two to the power of their largest scores, at every dim") {
  pagoda::simt::host_machine machine;
  for (const std::int32_t dim : {8, 16, 24, 120, 128, 136, 256, 512, 576}) {
    CAPTURE(dim);
    merge_case merged({2}, {1}, 1, 1, dim);
    merged.set(0, 0, 0, 3.0f, 1.0f, 10.0f);
    merged.set(1, 0, 0, 5.0f, 0.5f, 40.0f);  // weighs 0.5 * 4 against 1
    merged.run(machine);
    for (std::int32_t d = 0; d < dim; ++d) CHECK(merged.out(0, 0, d) == doctest::Approx(30.0 + d).epsilon(1e-6));
    CHECK(merged.lse[0] == doctest::Approx(std::log(8.0 + 16.0)).epsilon(1e-6));
  }
}

TEST_CASE("a part of no keys changes nothing, wherever it stands, and only such parts give 0 and -infinity") {
  pagoda::simt::host_machine machine;
  for (const std::int32_t place : {0, 1, 7, 40}) {
    merge_case merged({41}, {1}, 1, 1, 8);
    merged.set(place, 0, 0, -300.0f, 2.0f, 5.0f);  // far below 0, where a wrong identity would win
    merged.run(machine);
    for (std::int32_t d = 0; d < 8; ++d) CHECK(merged.out(0, 0, d) == doctest::Approx(5.0 + d).epsilon(1e-6));
    CHECK(merged.lse[0] == doctest::Approx(-300 * std::log(2.0) + std::log(2.0)).epsilon(1e-6));
  }
  merge_case empty({3}, {1}, 1, 1, 16);
  empty.run(machine);
  for (const float value : empty.output) CHECK(value == 0.0f);
  CHECK(empty.lse[0] == -infinity);
}

TEST_CASE("a sink logit joins the sum once, not once a part") {
  pagoda::simt::host_machine machine;
  merge_case merged({3}, {1}, 1, 2, 8);
  for (std::int32_t item = 0; item < 3; ++item) {
    for (std::int32_t row = 0; row < 2; ++row) merged.set(item, 0, row, 0.0f, 1.0f, 6.0f);
  }
  const std::vector<float> logits{0.0f, std::log(5.0f)};
  merged.args.sink_logits = logits.data();
  merged.run(machine);
  CHECK(merged.out(0, 0, 0) == doctest::Approx(6.0 * 3 / 4).epsilon(1e-6));
  CHECK(merged.out(0, 1, 0) == doctest::Approx(6.0 * 3 / 8).epsilon(1e-6));
  CHECK(merged.lse[1] == doctest::Approx(std::log(8.0)).epsilon(1e-6));
}

TEST_CASE("a NaN in one part stays in its row") {
  pagoda::simt::host_machine machine;
  for (const std::int32_t place : {0, 2}) {
    merge_case merged({3}, {2}, 2, 2, 16);
    for (std::int32_t item = 0; item < 3; ++item) {
      for (std::int32_t head = 0; head < 2; ++head) {
        for (std::int32_t row = 0; row < 4; ++row) merged.set(item, head, row, 1.0f, 1.0f, 2.0f);
      }
    }
    merged.set(place, 1, 2, 1.0f, std::numeric_limits<float>::quiet_NaN(), 2.0f);  // query 1, head 2
    merged.run(machine);
    for (std::int32_t query = 0; query < 2; ++query) {
      for (std::int32_t head = 0; head < 4; ++head) {
        const bool is_bad = query == 1 && head == 2;
        CHECK(std::isnan(merged.out(query, head, 3)) == is_bad);
        CHECK(std::isnan(merged.lse[static_cast<std::size_t>(query * 4 + head)]) == is_bad);
      }
    }
  }
}

/// A batch with sequences of none, one and many parts, and its results as a plain sum in double.
merge_case random_case(std::uint32_t seed) {
  merge_case merged({2, 1, 0, 5, 64, 1, 3}, {1, 2, 9, 3, 1, 1, 2}, 2, 3, 24);
  merged.args.decode_queries = 3;  // the sequence of nine has no parts
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> number(-3.0f, 3.0f);
  for (std::int32_t item = 0; item < merged.offsets.back(); ++item) {
    for (std::int32_t head = 0; head < 2; ++head) {
      for (std::int32_t row = 0; row < 9; ++row) {
        merged.set(item, head, row, 10 * number(random), 4 + number(random), number(random));
      }
    }
  }
  return merged;
}

TEST_CASE("ragged batches: each row is the sum of its parts, and sequences of one part or none are left alone") {
  pagoda::simt::host_machine machine;
  merge_case merged = random_case(1);
  merged.run(machine);
  for (std::int32_t i = 0; i < merged.sequences; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const std::int32_t first = merged.offsets[at];
    const std::int32_t parts = merged.offsets[at + 1] - first;
    for (std::int32_t query = merged.query_offsets[at]; query < merged.query_offsets[at + 1]; ++query) {
      for (std::int32_t head = 0; head < 6; ++head) {
        double sum = 0;
        double weighted = 0;
        for (std::int32_t n = 0; n < parts; ++n) {
          const std::int32_t row = (query - merged.query_offsets[at]) * 3 + head % 3;
          const auto part = static_cast<std::size_t>(merged.args.partial_index(first + n, head / 3, row));
          sum += std::exp2(double{merged.partial_state[2 * part]}) * double{merged.partial_state[2 * part + 1]};
          weighted += std::exp2(double{merged.partial_state[2 * part]}) * double{merged.partial_output[part * 24 + 17]};
        }
        const float lse = merged.lse[static_cast<std::size_t>(query * 6 + head)];
        if (parts < 2) {
          CHECK(merged.out(query, head, 17) == untouched);
          CHECK(lse == untouched);
        } else {
          CHECK(merged.out(query, head, 17) == doctest::Approx(weighted / sum).epsilon(1e-6));
          CHECK(lse == doctest::Approx(std::log(sum)).epsilon(1e-6));
        }
      }
    }
  }
}

TEST_CASE("any grid, any order of threads and any neighbours give the same bits") {
  pagoda::simt::host_machine machine;
  merge_case expected = random_case(2);
  expected.run(machine, 1);
  for (const std::uint32_t grid : {2u, 5u, 1000u}) {
    merge_case merged = random_case(2);
    merged.run(machine, grid);
    CHECK(merged.output == expected.output);
    CHECK(merged.lse == expected.lse);
  }
  for (const std::uint32_t seed : {1u, 2u, 3u}) {
    pagoda::simt::host_machine shuffled({.schedule_seed = seed});
    merge_case merged = random_case(2);
    merged.run(shuffled);
    CHECK(merged.output == expected.output);
    CHECK(merged.lse == expected.lse);
  }
}

TEST_CASE("outputs may be narrow and strided, and the LSE may be left out") {
  pagoda::simt::host_machine machine;
  merge_case merged({2}, {1}, 1, 2, 8);
  for (std::int32_t item = 0; item < 2; ++item) {
    for (std::int32_t row = 0; row < 2; ++row) merged.set(item, 0, row, 0.0f, 1.0f, 1.0f + static_cast<float>(row));
  }
  merged.run(machine);
  std::vector<pagoda::bfloat16> narrow(40, pagoda::bfloat16{0x1234});
  merged.args.output = {reinterpret_cast<std::byte*>(narrow.data()), 40, 16, 1, element_type::bfloat16};
  merged.args.lse = nullptr;
  machine.launch<merge>({1, 1, 1}, merged.args);
  for (std::size_t i = 0; i < narrow.size(); ++i) {
    const std::size_t d = i % 16;
    const bool is_written = i < 32 && d < 8;
    const float value = is_written ? merged.out(0, static_cast<std::int32_t>(i / 16), static_cast<std::int32_t>(d)) : 0;
    CHECK(narrow[i] == (is_written ? pagoda::from_float<pagoda::bfloat16>(value) : pagoda::bfloat16{0x1234}));
  }
}

}  // namespace
