// SPDX-License-Identifier: Apache-2.0
// Handles, steps, views and copies in the wrong hands: each is refused, and nothing has changed.
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <pagoda/attention/reference.hpp>
#include <pagoda/conformance/quantizer.hpp>
#include <pagoda/pagoda.hpp>

namespace {

using pagoda::rows_view;
using float_cache = pagoda::cache<pagoda::identity<float>>;
using view_type = float_cache::view_type;
constexpr std::int64_t dim = 8;

float_cache make_cache() {
  return {{.layers = 1, .kv_heads = 1, .head_dim = dim}, pagoda::num_blocks{8}};
}

/// A quantizer that stores nothing.
struct lossy {
  static constexpr std::string_view name = "lossy";
  static constexpr int bits = 8;
  static constexpr int group = 0;
  using scale_type = pagoda::no_scale;
  static scale_type fit(pagoda::row_stats) { return {}; }
  static std::uint32_t encode(float, scale_type) { return 0; }
  static float codeword(std::uint32_t) { return 0.0f; }
};

/// Runs another call on the waiting thread before its own items, as executors that steal work may.
template <class Call>
struct nesting_executor {
  Call call;
  template <class Function>
  void parallel_for(std::int64_t count, Function&& function) {
    call();
    for (std::int64_t i = 0; i < count; ++i) function(i);
  }
  static std::int64_t concurrency() { return std::numeric_limits<std::int64_t>::max(); }
};
template <class Call>
nesting_executor(Call) -> nesting_executor<Call>;

}  // namespace

TEST_CASE("a step is viewed by its own cache alone, and only while it is open") {
  float_cache cache = make_cache();
  float_cache other = make_cache();
  const pagoda::sequence seq = cache.make_sequence();
  const pagoda::sequence stranger = other.make_sequence();
  pagoda::step step = cache.plan({{seq, 3}});
  pagoda::step foreign = other.plan({{stranger, 3}});
  CHECK_NOTHROW((void)cache.view(0, step));
  CHECK_THROWS_WITH_AS((void)cache.view(0, foreign), doctest::Contains("was not planned by this cache"),
                       pagoda::invalid_argument);
  step.commit();
  CHECK_THROWS_AS((void)cache.view(0, step), pagoda::invalid_argument);
}

TEST_CASE("a step is not viewed before its copies are taken") {
  float_cache cache = make_cache();
  const pagoda::sequence parent = cache.make_sequence();
  cache.plan({{parent, 3}}).commit();
  const pagoda::sequence child = cache.fork(parent);
  pagoda::step step = cache.plan({{child, 1}});
  CHECK(step.copies_pending());
  CHECK_THROWS_WITH_AS((void)cache.view(0, step), doctest::Contains("copies were not taken"), pagoda::logic_error);
  pagoda::host::execute(cache, step.take_copies());
  CHECK_FALSE(step.copies_pending());
  CHECK_NOTHROW((void)cache.view(0, step));
}

TEST_CASE("copies are executed on the storage of their manager, for a group that it has") {
  float_cache cache = make_cache();
  const pagoda::sequence parent = cache.make_sequence();
  cache.plan({{parent, 3}}).commit();
  const pagoda::sequence child = cache.fork(parent);
  pagoda::step step = cache.plan({{child, 1}});
  const pagoda::copy_list copies = step.take_copies();
  CHECK_THROWS_AS(pagoda::host::execute(cache.storage(), copies, 1), pagoda::out_of_range);
  CHECK_THROWS_AS(pagoda::host::execute(cache.storage(), copies, -2), pagoda::out_of_range);
  pagoda::block_storage<pagoda::identity<float>> smaller({.head_dim = dim}, 8, pagoda::num_blocks{8});
  CHECK_THROWS_WITH_AS(pagoda::host::execute(smaller, copies), doctest::Contains("blocks of 16 tokens"),
                       pagoda::invalid_argument);
  CHECK_NOTHROW(pagoda::host::execute(cache.storage(), copies));
}

TEST_CASE("where there are several layer groups, one has to be named") {
  pagoda::block_manager manager({.groups = {{.num_blocks = 8, .layers = {0}}, {.num_blocks = 8, .layers = {1}}}});
  pagoda::block_storage<pagoda::identity<float>> storage({.head_dim = dim}, 16, pagoda::num_blocks{8});
  const pagoda::sequence parent = manager.make_sequence();
  manager.plan({{parent, 3}}).commit();
  const pagoda::sequence child = manager.fork(parent);
  pagoda::step step = manager.plan({{child, 1}});
  const pagoda::copy_list copies = step.take_copies();
  const auto refused = [](auto call) {
    CHECK_THROWS_WITH_AS(call(), doctest::Contains("no layer group is named, but there are 2: pass one from 0 to 1"),
                         pagoda::out_of_range);
  };
  refused([&] { pagoda::host::execute(storage, copies); });
  refused([&] { (void)copies.blocks(); });
  refused([&] { (void)storage.view(0, step); });
  refused([&] { (void)step.batch(); });
  refused([&] { (void)manager.stats(); });
  refused([&] { (void)manager.blocks(child); });
  refused([&] { (void)manager.exclusive_blocks(child); });
  refused([&] { (void)child.resident(); });
  for (const int group : {0, 1}) {
    CHECK_NOTHROW(pagoda::host::execute(storage, copies, group));
    CHECK_NOTHROW((void)storage.view(0, step, group));
    CHECK(manager.stats(group).used == 2);
  }
}

TEST_CASE("commit_paths uses all its values or none") {
  float_cache cache = make_cache();
  const pagoda::sequence seq = cache.make_sequence();
  pagoda::step step = cache.plan({{seq, 3}});
  const std::vector<std::int32_t> values{0, 1, 2};
  for (const auto& offsets : {std::vector<std::int32_t>{1, 3}, {0, 2}}) {
    CHECK_THROWS_WITH_AS((void)step.commit_paths({values, offsets}), doctest::Contains("begin at 0 and end at"),
                         pagoda::invalid_argument);
  }
  const std::vector<std::int32_t> twice{0, 1, 1};
  CHECK_THROWS_WITH_AS((void)step.commit_paths({twice, std::vector<std::int32_t>{0, 3}}),
                       doctest::Contains("accepts token 1 after token 1: pass a path that rises strictly and stays "
                                         "below the 3 tokens planned"),
                       pagoda::invalid_argument);
  CHECK(seq.position() == 0);
  (void)step.commit_paths({values, std::vector<std::int32_t>{0, 3}});
  CHECK(seq.position() == 3);
}

TEST_CASE("a cache that was moved from says so") {
  float_cache from = make_cache();
  const pagoda::sequence seq = from.make_sequence();
  const pagoda::step step = from.plan({{seq, 3}});
  const float_cache to = std::move(from);
  const char* const why = "was moved from: use the one that it went to";
  CHECK_THROWS_WITH_AS((void)from.view(0, step), doctest::Contains(why), pagoda::logic_error);
  CHECK_THROWS_WITH_AS((void)from.storage().view(0, step), doctest::Contains(why), pagoda::logic_error);
  CHECK_THROWS_WITH_AS((void)from.make_sequence(), doctest::Contains(why), pagoda::logic_error);
  CHECK(to.view(0, step).keys.base != nullptr);
}

TEST_CASE("a manager that was moved from says so") {
  pagoda::block_manager from({.groups = {{.num_blocks = 4}}});
  const pagoda::block_manager to = std::move(from);
  CHECK(to.stats().total == 4);
  CHECK_THROWS_WITH_AS((void)from.make_sequence(), doctest::Contains("was moved from"), pagoda::logic_error);
  CHECK_THROWS_AS((void)from.stats(), pagoda::logic_error);
  pagoda::shortage why;
  CHECK_FALSE(from.try_plan({}, &why).has_value());
  CHECK(why.group == -1);
  from.complete(pagoda::ticket{3});
}

TEST_CASE("append and attention refuse views whose tables cannot be") {
  float_cache cache = make_cache();
  const pagoda::sequence seq = cache.make_sequence();
  const pagoda::step step = cache.plan({{seq, 2}});
  std::vector<float> rows(2 * dim, 1.0f);
  const rows_view data(rows, {2, 1, dim});
  const view_type good = cache.view(0, step);
  CHECK_NOTHROW(pagoda::host::append(good, data, data));
  const auto refused = [&](view_type view) {
    const std::vector<float> before = rows;
    CHECK_THROWS_AS(pagoda::host::append(view, data, data), std::logic_error);
    CHECK_THROWS_AS(pagoda::host::attention(view, data, data), std::logic_error);
    CHECK(rows == before);
  };
  refused(cache.storage().layer_view(0));
  const std::vector<std::int32_t> late{1, 2}, negative{-1, 0}, falling{0, -3},
      extremes{0, std::numeric_limits<std::int32_t>::min()}, minus{-100000}, huge{1 << 30};
  for (const auto* offsets : {&late, &negative, &falling, &extremes}) {
    view_type view = good;
    view.batch.token_offsets = offsets->data();
    refused(view);
    view = good;
    view.batch.query_offsets = offsets->data();
    refused(view);
  }
  view_type view = good;
  view.batch.skipped_blocks = minus.data();
  refused(view);
  view = good;
  view.batch.block_table = nullptr;
  refused(view);
  view = good;
  view.batch.context_lengths = minus.data();
  refused(view);
  const std::vector<pagoda::block_id> table{pagoda::block_id{8}, pagoda::block_id::none};
  for (const pagoda::block_id& entry : table) {
    view = good;
    view.batch.block_table = &entry;
    refused(view);
  }
  for (const std::int32_t number : {0, -1, 100000}) {
    view = good;
    view.key_dim = number;
    refused(view);
    view = good;
    view.block_shift = number == 0 ? 17 : number;
    refused(view);
  }
  view = good;
  view.kv_heads = 0;
  refused(view);
  view = good;
  view.batch.keep.window = 0;
  refused(view);
}

TEST_CASE("sinks without a window are refused, not ignored") {
  CHECK_THROWS_WITH_AS(pagoda::block_manager({.groups = {{.num_blocks = 4, .keep = {.sinks = 4}}}}),
                       doctest::Contains("retention sinks are 4"), pagoda::invalid_argument);
  float_cache cache = make_cache();
  const pagoda::sequence seq = cache.make_sequence();
  const pagoda::step step = cache.plan({{seq, 1}});
  std::vector<float> rows(dim);
  const rows_view data(rows, {1, 1, dim});
  CHECK_THROWS_WITH_AS(pagoda::host::attention(cache.view(0, step), data, data, {.sinks = 3}),
                       doctest::Contains("attention sinks are 3"), pagoda::invalid_argument);
}

TEST_CASE("the reference checks where its log-sum-exp goes") {
  float_cache cache = make_cache();
  const pagoda::sequence seq = cache.make_sequence();
  const pagoda::step step = cache.plan({{seq, 2}});
  std::vector<float> rows(2 * dim);
  std::vector<double> output(2 * dim);
  std::vector<double> lse(1);
  const auto view = cache.view(0, step);
  pagoda::host::append(view, rows_view(rows, {2, 1, dim}), rows_view(rows, {2, 1, dim}));
  CHECK_THROWS_AS(
      pagoda::reference_attention(view, rows_view(rows, {2, 1, dim}), rows_view(output, {2, 1, dim}), {}, lse),
      pagoda::invalid_argument);
}

TEST_CASE("a call may run inside the parallel_for of another") {
  float_cache cache({.layers = 1, .kv_heads = 1, .head_dim = dim}, pagoda::num_blocks{200});
  const pagoda::sequence a = cache.make_sequence();
  const pagoda::sequence b = cache.make_sequence();
  const pagoda::step step = cache.plan({{a, 1500, 1}, {b, 700, 1}});
  const auto view = cache.view(0, step);
  std::vector<float> rows(2200 * dim);
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<float>(i * 7919 % 1000) * 0.001f;
  pagoda::host::append(view, rows_view(rows, {2200, 1, dim}), rows_view(rows, {2200, 1, dim}));
  const std::vector<float> queries(rows.begin(), rows.begin() + 2 * dim);
  std::vector<float> alone(2 * dim), outer(2 * dim), inner(2 * dim);
  pagoda::host::attention(view, rows_view(queries, {2, 1, dim}), rows_view(alone, {2, 1, dim}));
  nesting_executor nesting{[&] {
    pagoda::host::attention(view, rows_view(queries, {2, 1, dim}), rows_view(inner, {2, 1, dim}));
  }};
  pagoda::host::attention(view, rows_view(queries, {2, 1, dim}), rows_view(outer, {2, 1, dim}), {}, nesting);
  CHECK(outer == alone);
  CHECK(inner == alone);
}

TEST_CASE("conformance finds a quantizer that stores nothing") {
  CHECK_FALSE(pagoda::conformance::check_quantizer<lossy>().ok());
}
