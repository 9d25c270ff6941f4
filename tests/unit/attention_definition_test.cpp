// SPDX-License-Identifier: Apache-2.0
// The reference, and the host with it, against numbers worked out by hand.
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include "attention_case.hpp"

namespace {

using pagoda::attention_options;
using pagoda_test::attention_case;
using pagoda_test::attention_result;
using pagoda_test::batch_entry;
using pagoda_test::f32;
using pagoda_test::reference_result;

constexpr double infinity = std::numeric_limits<double>::infinity();

/// Two tokens, one head: keys (1, 0, ...) and (2, 0, ...), values all 1 and all 3; the last token's query is (1, 0,
/// ...).
attention_case<f32> two_tokens() {
  attention_case<f32> batch({.shape = {.kv_heads = 1, .head_dim = 8},
                             .block_size = 1,
                             .query_group = 1,
                             .batch = {{.context = 2, .new_tokens = 2, .queries = 1}}});
  const std::vector<float> keys{1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0};
  const std::vector<float> values{1, 1, 1, 1, 1, 1, 1, 1, 3, 3, 3, 3, 3, 3, 3, 3};
  pagoda::host::append(batch.view, pagoda::rows_view(keys, {2, 1, 8}), pagoda::rows_view(values, {2, 1, 8}));
  batch.queries.assign(8, 0.0f);
  batch.queries[0] = 1.0f;
  return batch;
}

void check_two_tokens(const attention_options& options, double output, double lse) {
  const attention_case<f32> batch = two_tokens();
  const reference_result reference = batch.reference(options);
  const attention_result host = batch.run(options);
  for (std::size_t d = 0; d < 8; ++d) {
    CHECK(reference.output[d] == doctest::Approx(output).epsilon(1e-8));
    CHECK(host.output[d] == doctest::Approx(output).epsilon(1e-6));
  }
  CHECK(reference.lse[0] == doctest::Approx(lse).epsilon(1e-8));
  CHECK(host.lse[0] == doctest::Approx(lse).epsilon(1e-6));
}

TEST_CASE("two tokens by hand: scores 1 and 2 weigh values 1 and 3") {
  // (e + 3 e^2) / (e + e^2), and log(e + e^2)
  check_two_tokens({.scale = 1.0f}, 2.4621171572600096, 2.3132616875182226);
}

TEST_CASE("two tokens by hand: the default scale is 1 / sqrt(dim), and a scale may be negative") {
  check_two_tokens({}, 2.1749580016792196, 1.2390215580409036);
  check_two_tokens({.scale = -1.0f}, 1.5378828427399902, -0.6867383124817771);
}

TEST_CASE("two tokens by hand: a soft cap of 2 makes the scores 2 tanh(1/2) and 2 tanh(1)") {
  check_two_tokens({.scale = 1.0f, .soft_cap = 2.0f}, 2.290833921738817, 1.9610470319969866);
}

TEST_CASE("two tokens by hand: an ALiBi slope of 1/2 takes 1/2 from the key one step back") {
  const std::vector<float> slopes{0.5f};
  check_two_tokens({.scale = 1.0f, .alibi_slopes = slopes}, 2.6351489523872873, 2.2014132779827524);
}

TEST_CASE("two tokens by hand: a sink logit of 2 joins the sum and adds no value") {
  const std::vector<float> logits{2.0f};
  check_two_tokens({.scale = 1.0f, .sink_logits = logits}, 1.4223187982515182, 2.8619948040582512);
}

TEST_CASE("two tokens by hand: a window of 1 sees the query's own token, a sink beside it both") {
  check_two_tokens({.scale = 1.0f, .window = 1}, 3.0, 2.0);
  check_two_tokens({.scale = 1.0f, .window = 1, .sinks = 1}, 2.4621171572600096, 2.3132616875182226);
}

TEST_CASE("two tokens by hand: a tree bit decides which new token is seen") {
  const std::vector<std::uint32_t> first{1u};
  const std::vector<std::uint32_t> second{2u};
  const std::vector<std::uint32_t> neither{0u};
  check_two_tokens({.scale = 1.0f, .tree = {first, 1}}, 1.0, 1.0);
  check_two_tokens({.scale = 1.0f, .tree = {second, 1}}, 3.0, 2.0);
  const attention_case<f32> batch = two_tokens();
  CHECK(batch.reference({.tree = {neither, 1}}).lse[0] == -infinity);
  CHECK(batch.reference({.tree = {neither, 1}}).output == std::vector<double>(8, 0.0));
  CHECK(batch.run({.tree = {neither, 1}}).lse[0] == -infinity);
  CHECK(batch.run({.tree = {neither, 1}}).output == std::vector<float>(8, 0.0f));
}

TEST_CASE("an empty row with a sink logit has that logit as its LSE, and output 0") {
  const attention_case<f32> batch({.shape = {.kv_heads = 1, .head_dim = 8}, .query_group = 1, .batch = {{0, 0, 1}}});
  const std::vector<float> logits{1.5f};
  CHECK(batch.reference({.sink_logits = logits}).lse[0] == 1.5);
  CHECK(batch.run({.sink_logits = logits}).lse[0] == 1.5f);
  CHECK(batch.run({.sink_logits = logits}).output == std::vector<float>(8, 0.0f));
}

/// The visible keys of a query by the words of attention_options, with nothing of the library's masks.
bool visible(std::int64_t key, std::int64_t position, const attention_options& options) {
  if (!options.causal) return true;
  if (key > position) return false;
  return options.window == 0 || key > position - options.window || key < options.sinks;
}

TEST_CASE("a zero query gives the mean of the visible values, and the log of their number as LSE") {
  for (const std::int32_t length : {1, 2, 15, 16, 17, 63, 64, 65, 127, 128, 129, 511, 512, 513, 1023, 1024, 1025}) {
    attention_case<f32> batch({.shape = {.kv_heads = 1, .head_dim = 8},
                               .query_group = 1,
                               .batch = {batch_entry{length, length, length < 3 ? length : 3, 9}}});
    batch.queries.assign(batch.queries.size(), 0.0f);
    const std::int32_t queries = batch.view.batch.total_queries();
    for (const attention_options& options :
         {attention_options{}, attention_options{.causal = false}, attention_options{.window = 1},
          attention_options{.window = 16}, attention_options{.window = 65, .sinks = 3},
          attention_options{.window = 513, .sinks = 1}}) {
      CAPTURE(length);
      CAPTURE(options.causal);
      CAPTURE(options.window);
      const reference_result reference = batch.reference(options);
      const attention_result host = batch.run(options);
      for (std::int32_t q = 0; q < queries; ++q) {
        double count = 0;
        double sum = 0;
        for (std::int64_t key = 0; key < length; ++key) {
          if (!visible(key, length - queries + q, options)) continue;
          count += 1;
          sum += double{pagoda_test::noise(9, 2, key, 0, 5)};
        }
        const auto row = static_cast<std::size_t>(q);
        CHECK(reference.output[row * 8 + 5] == doctest::Approx(sum / count).epsilon(1e-9));
        CHECK(reference.lse[row] == doctest::Approx(std::log(count)).epsilon(1e-9));
        CHECK(std::fabs(double{host.output[row * 8 + 5]} - sum / count) < 1e-6);
        CHECK(std::fabs(double{host.lse[row]} - std::log(count)) < 1e-6);
      }
    }
  }
}

TEST_CASE("query heads share the kv head of their group: head h reads kv head h / group") {
  attention_case<f32> batch({.shape = {.kv_heads = 3, .head_dim = 8}, .query_group = 5, .batch = {{1, 1}}});
  const std::vector<float> host = batch.run().output;
  const std::vector<double> reference = batch.reference().output;
  for (std::size_t head = 0; head < 15; ++head) {
    const float value = pagoda_test::noise(0, 2, 0, static_cast<std::int64_t>(head / 5), 7);
    CHECK(host[head * 8 + 7] == value);
    CHECK(reference[head * 8 + 7] == double{value});
  }
}

}  // namespace
