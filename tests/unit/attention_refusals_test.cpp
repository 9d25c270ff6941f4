// SPDX-License-Identifier: Apache-2.0
// What attention cannot do is refused by a message that names it, before anything is written; host and reference alike.
#include <cstdint>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include "attention_case.hpp"

namespace {

using pagoda::attention_options;
using pagoda::rows_view;
using pagoda_test::attention_case;
using pagoda_test::case_config;
using pagoda_test::f16;

constexpr float infinity = std::numeric_limits<float>::infinity();

void check_refused(const attention_case<f16>& batch, const attention_options& options, const char* why) {
  std::vector<float> output(batch.output_size(), 7.0f);
  pagoda_test::serial_items serial;
  CHECK_THROWS_WITH_AS(pagoda_test::attend(batch.view, batch.query_rows(),
                                           rows_view<float>(output, batch.output_shape()), options, serial),
                       doctest::Contains(why), pagoda::invalid_argument);
  CHECK_THROWS_WITH_AS((void)batch.reference(options), doctest::Contains(why), pagoda::invalid_argument);
  CHECK(output == std::vector<float>(batch.output_size(), 7.0f));
}

const case_config plain{.batch = {{20, 4, -1, 1}, {9, 1, -1, 2}}};

TEST_CASE("numbers that mean nothing are refused") {
  const attention_case<f16> batch(plain);
  check_refused(batch, {.scale = infinity}, "attention scale is inf, but must be finite: pass 0 for 1 / sqrt(key_dim)");
  check_refused(batch, {.scale = std::numeric_limits<float>::quiet_NaN()}, "attention scale is");
  check_refused(batch, {.soft_cap = -1.0f},
                "soft_cap is -1.000000, but must be finite and not below 0: pass 0 for none");
  check_refused(batch, {.soft_cap = infinity}, "soft_cap is inf");
  check_refused(batch, {.window = -1}, "attention window is -1");
  check_refused(batch, {.window = 4, .sinks = -1}, "attention sinks is -1");
}

TEST_CASE("arrays of another length are refused") {
  const attention_case<f16> batch(plain);
  const std::vector<float> seven(7);
  std::vector<float> lse(39);
  check_refused(batch, {.sink_logits = seven}, "sink_logits has 7 numbers, but there are 8 query heads");
  check_refused(batch, {.alibi_slopes = seven}, "alibi_slopes has 7 numbers, but there are 8 query heads");
  for (const float number : {-infinity, infinity, std::numeric_limits<float>::quiet_NaN()}) {
    std::vector<float> eight(8, 0.5f);
    eight[5] = number;
    check_refused(batch, {.alibi_slopes = eight}, "but each must be a finite number");
    if (number != -infinity) check_refused(batch, {.sink_logits = eight}, "but each must be a number below infinity");
  }
  pagoda_test::serial_items serial;
  std::vector<float> output(batch.output_size());
  const rows_view<float> rows(output, batch.output_shape());
  CHECK_THROWS_WITH_AS(pagoda_test::attend(batch.view, batch.query_rows(), rows, {.lse = lse}, serial),
                       doctest::Contains("lse has 39 elements, but there are 5 queries of 8 heads: pass 40"),
                       pagoda::invalid_argument);
}

TEST_CASE("a window without causality is refused") {
  check_refused(attention_case<f16>(plain), {.causal = false, .window = 4},
                "attention window 4 with causal = false: a window is defined for causal attention only; pass window 0, "
                "or causal = true");
}

TEST_CASE("a tree mask is refused with what it does not go with") {
  const attention_case<f16> batch(plain);
  const std::vector<std::uint32_t> words(5, 1u);
  const std::vector<float> slopes(8, 0.1f);
  const pagoda::tree_mask tree{words, 1};
  check_refused(batch, {.causal = false, .tree = tree},
                "a tree mask with causal = false is not supported: a token's place in the tree is not its position; "
                "pass causal = true");
  check_refused(batch, {.window = 9, .tree = tree}, "position; pass window 0 over a layer group that keeps all tokens");
  check_refused(batch, {.alibi_slopes = slopes, .tree = tree},
                "a tree mask with ALiBi slopes is not supported: a token's place in the tree is not its position; "
                "leave alibi_slopes empty");
}

TEST_CASE("a tree mask that does not cover the step is refused") {
  const std::vector<std::uint32_t> words(80, 1u);
  const std::vector<std::uint32_t> four(4, 1u);
  check_refused(attention_case<f16>(plain), {.tree = {four, 1}},
                "the tree mask has 4 words, but 5 queries of 1 words need 5: pass a longer span");
  check_refused(attention_case<f16>(plain), {.tree = {words, -1}},
                "words_per_query of the tree mask is -1, but must lie between 0 and 2147483647: pass 1 for each 32 new "
                "tokens, rounded up");
  check_refused(attention_case<f16>({.batch = {{40, 40}}}), {.tree = {words, 1}},
                "the tree mask has 32 bits a query, but batch entry 0 has 40 new tokens");
  check_refused(attention_case<f16>({.batch = {{40, 3, 5}}}), {.tree = {words, 1}},
                "batch entry 0 has 5 queries, but a tree mask covers its 3 new tokens only: ask for at most that many, "
                "or attend without the tree");
}

TEST_CASE("a group that keeps a window refuses what would read dropped tokens") {
  case_config config{.batch = {{60, 1}}, .keep = {.sinks = 4, .window = 20}};
  const attention_case<f16> batch(config);
  check_refused(batch, {.causal = false}, "attention with causal = false over a layer group that keeps a window of 20");
  check_refused(batch, {.window = 21}, "attention window 21 is wider than the 20");
  check_refused(batch, {.window = pagoda::unlimited}, "is wider than the 20");
  check_refused(batch, {.window = 20, .sinks = 5}, "attention sinks 5 are more than the 4");
  check_refused(batch, {.sinks = 5}, "attention sinks 5 are more than the 4");
  const std::vector<std::uint32_t> words(1, 1u);
  check_refused(batch, {.tree = {words, 1}}, "a tree mask with a window");
}

TEST_CASE("queries about tokens whose window is dropped already are refused") {
  // 60 tokens, 20 kept: the query at position 50 would need tokens from 31 on; blocks below token 40 are gone.
  const case_config config{.block_size = 4, .batch = {{60, 0, 10}}, .keep = {.window = 20}};
  const attention_case<f16> batch(config);
  check_refused(batch, {}, "dropped");
  // A window of 8 asks for nothing that is gone.
  CHECK(batch.error({.window = 8}).output < attention_case<f16>::bound);
}

TEST_CASE("more causal queries than the context has tokens are refused") {
  check_refused(attention_case<f16>({.batch = {{6, 0, 7}}}), {},
                "batch entry 0 has 7 queries, but a context of 6 tokens: causal queries are the last tokens");
}

TEST_CASE("rows of another shape are refused") {
  const attention_case<f16> batch(plain);
  std::vector<float> memory(5 * 8 * 64 * 2, 7.0f);
  pagoda_test::serial_items serial;
  const auto refused = [&](const rows_view<const float>& queries, pagoda::rows_shape output, const char* why) {
    CHECK_THROWS_WITH_AS(pagoda_test::attend(batch.view, queries, rows_view<float>(memory, output), {}, serial),
                         doctest::Contains(why), pagoda::invalid_argument);
  };
  refused(rows_view<const float>(batch.queries, {4, 8, 64}), {4, 8, 64}, "there are 4 query rows, but the step has 5");
  refused(rows_view<const float>(memory, {5, 7, 64}), {5, 7, 64},
          "there are 7 query heads, but they must be a multiple of the 2 kv heads: pass as many query heads for each "
          "kv head");
  refused(rows_view<const float>(memory, {5, 8, 56}), {5, 8, 64},
          "query rows have 56 elements, but the keys have 64: pass rows of the storage's head_dim");
  refused(batch.query_rows(), {5, 8, 56},
          "the output is [5, 8, 56], but must be [5, 8, 64]: pass as many rows and heads as there are queries, of the "
          "values' dim");
  refused(batch.query_rows(), {4, 8, 64}, "the output is [4, 8, 64]");
  CHECK_THROWS_WITH_AS(
      pagoda_test::attend(batch.view, batch.query_rows(), rows_view<float>(memory, {5, 8, 64}, {512, 32}), {}, serial),
      doctest::Contains(
          "rows of the output overlap: strides (512, 32) are too small for 8 heads of 64 elements: pass larger ones"),
      pagoda::invalid_argument);
  CHECK(memory == std::vector<float>(memory.size(), 7.0f));
}

TEST_CASE("a block table that leaves the pool is refused before a byte is read") {
  attention_case<f16> batch(plain);
  for (const std::int32_t wrong : {-1, batch.view.num_blocks, INT32_MAX}) {
    CAPTURE(wrong);
    std::vector<pagoda::block_id> table(4, pagoda::block_id{0});
    table[2] = pagoda::block_id{wrong};
    const std::vector<std::int64_t> offsets{0, 2};
    attention_case<f16>::view_type view = batch.view;
    view.batch.block_table = table.data();
    view.batch.table_offsets = offsets.data();
    std::vector<float> output(batch.output_size(), 7.0f);
    pagoda_test::serial_items serial;
    const rows_view<float> rows(output, batch.output_shape());
    CHECK_THROWS_AS(pagoda_test::attend(view, batch.query_rows(), rows, {}, serial), pagoda::out_of_range);
    const std::vector<float> new_rows(5 * 2 * 64);
    const rows_view keys(new_rows, {5, 2, 64});
    CHECK_THROWS_AS(pagoda::host::append(view, keys, keys), pagoda::out_of_range);
    CHECK(output == std::vector<float>(output.size(), 7.0f));
  }
}

TEST_CASE("tables whose offsets fall, or whose context is shorter than its new tokens, are refused") {
  attention_case<f16> batch(plain);
  const auto refused = [&](const attention_case<f16>::view_type& view, const char* why) {
    std::vector<float> output(batch.output_size());
    pagoda_test::serial_items serial;
    CHECK_THROWS_WITH_AS(
        pagoda_test::attend(view, batch.query_rows(), rows_view<float>(output, batch.output_shape()), {}, serial),
        doctest::Contains(why), pagoda::invalid_argument);
  };
  const std::vector<std::int32_t> falling{0, 6, 5};
  const std::vector<std::int32_t> short_context{3, 9};
  const std::vector<std::int32_t> negative_context{20, -1};
  attention_case<f16>::view_type view = batch.view;
  view.batch.token_offsets = falling.data();
  refused(view, "the offsets of batch entry 1 fall");
  view = batch.view;
  view.batch.query_offsets = falling.data();
  refused(view, "the offsets of batch entry 1 fall");
  view = batch.view;
  view.batch.context_lengths = short_context.data();
  refused(view, "batch entry 0 has context length 3, 4 new tokens");
  view.batch.context_lengths = negative_context.data();
  refused(view, "batch entry 1 has context length -1");
}

}  // namespace
