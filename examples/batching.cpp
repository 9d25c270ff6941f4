// SPDX-License-Identifier: Apache-2.0
// Continuous batching: requests arrive and leave, long prompts are prefilled in chunks beside decodes, one request is
// cancelled in mid-step. The last token of every finished request is then decoded again, alone, and must give the same
// bits.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <vector>

#include <pagoda/pagoda.hpp>

namespace {
using model_cache = pagoda::cache<pagoda::int8_per_token>;
using pagoda::rows_view;
constexpr int query_heads = 8, kv_heads = 2, head_dim = 32, budget = 64;  // budget: tokens of one step
constexpr pagoda::storage_shape shape{.layers = 1, .kv_heads = kv_heads, .head_dim = head_dim};

struct request {
  int id, arrival, prompt, total;  // total: prompt and generated tokens
  pagoda::sequence sequence{};
  std::vector<float> last_output{};
  bool hung_up = false;  // its user is gone
  std::int64_t left() const { return total - sequence.position(); }
  bool prefilling() const { return sequence.position() < prompt; }
};

// A stand-in for a model: the rows of a token depend on the request and the position alone.
void fill_rows(std::vector<float>& rows, int heads, int request, std::int64_t position, std::uint32_t kind) {
  auto state = static_cast<std::uint32_t>(request * 7919 + position * 104729) + kind * 15485863u;
  for (int i = 0; i < heads * head_dim; ++i) {
    state = state * 1664525u + 1013904223u;
    rows.push_back(static_cast<float>(static_cast<std::int32_t>(state)) * 0x1p-31f);
  }
}

// Appends and attends for one planned batch; leaves each request the output of its last token.
void run_step(const model_cache& cache, const pagoda::step& step, const std::vector<request*>& batch,
              const std::vector<pagoda::growth>& growths) {
  std::vector<float> keys, values, queries;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const std::int64_t begin = batch[i]->sequence.position();
    for (std::int64_t position = begin; position < begin + growths[i].new_tokens; ++position) {
      fill_rows(keys, kv_heads, batch[i]->id, position, 0);
      fill_rows(values, kv_heads, batch[i]->id, position, 1);
      fill_rows(queries, query_heads, batch[i]->id, position, 2);
    }
  }
  std::vector<float> output(queries.size());
  const auto view = cache.view(0, step);
  const std::int64_t tokens = view.batch.total_new_tokens();
  const auto rows = [&](auto& data, int heads) { return rows_view(data, {tokens, heads, head_dim}); };
  pagoda::host::append(view, rows(keys, kv_heads), rows(values, kv_heads));
  pagoda::host::attention(view, rows(queries, query_heads), rows(output, query_heads));
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const auto end = output.begin() + std::ptrdiff_t{view.batch.query_offsets[i + 1]} * query_heads * head_dim;
    batch[i]->last_output.assign(end - query_heads * head_dim, end);
  }
}

// The same request with the cache to itself: all its tokens but the last in one step, then the last.
std::vector<float> alone(const request& like) {
  model_cache cache(shape, pagoda::num_blocks{64});
  request copy{like.id, 0, like.prompt, like.total, cache.make_sequence()};
  for (const std::int32_t tokens : {like.total - 1, 1}) {
    const std::vector<pagoda::growth> growths{{copy.sequence, tokens}};
    auto step = cache.plan(growths);
    run_step(cache, step, {&copy}, growths);
    step.commit();
  }
  return copy.last_output;
}
}  // namespace

int main() {
  model_cache cache(shape, pagoda::num_blocks{24});  // 384 tokens: not enough for all requests at once
  std::vector<request> waiting, running, finished;
  for (const auto& [arrival, prompt, total] :
       {std::array{0, 20, 32}, {0, 150, 156}, {1, 5, 35}, {2, 90, 99}, {3, 60, 80}, {9, 130, 133}}) {
    waiting.push_back({static_cast<int>(waiting.size()), arrival, prompt, total});
  }
  std::int64_t promised = 0;  // blocks that the running requests may still come to need
  const auto blocks_of = [](const request& r) { return pagoda::divide_up(r.total, model_cache::block_size); };
  for (int tick = 0; !waiting.empty() || !running.empty(); ++tick) {
    while (!waiting.empty() && waiting.front().arrival <= tick &&
           promised + blocks_of(waiting.front()) <= cache.stats().total) {
      promised += blocks_of(waiting.front());
      running.push_back(std::move(waiting.front()));
      running.back().sequence = cache.make_sequence();
      waiting.erase(waiting.begin());
    }
    // Decodes first, one token each; the rest of the budget goes to prompts, in chunks.
    std::stable_partition(running.begin(), running.end(), [](const request& r) { return !r.prefilling(); });
    std::vector<pagoda::growth> growths;
    std::vector<request*> batch;
    int left = budget, decodes = 0;
    for (request& r : running) {
      const auto tokens = r.prefilling() ? std::min<std::int64_t>(left, r.prompt - r.sequence.position()) : 1;
      if (tokens == 0) break;
      batch.push_back(&r);
      growths.push_back({r.sequence, static_cast<std::int32_t>(tokens)});
      decodes += r.prefilling() ? 0 : 1;
      left -= growths.back().new_tokens;
    }
    auto step = cache.plan(growths);
    run_step(cache, step, batch, growths);
    for (int i = 0; request * r : batch) {
      if ((r->hung_up = r->id == 3 && tick == 5)) step.cancel(i);
      ++i;
    }
    step.commit();
    std::printf("tick %2d: %d decodes, %2d prompt tokens, %2ld of %ld blocks\n", tick, decodes, budget - left - decodes,
                long{cache.stats().used}, long{cache.stats().total});
    for (auto r = running.begin(); r != running.end();) {
      const bool done = r->hung_up || r->left() == 0;
      if (done) promised -= blocks_of(*r), r->sequence = {};  // the blocks go back
      if (done && !r->hung_up) finished.push_back(std::move(*r));
      r = done ? running.erase(r) : r + 1;
    }
  }
  const auto differ = std::ranges::count_if(finished, [](const request& r) { return r.last_output != alone(r); });
  std::printf("%zu finished, %ld differ from a run alone, %ld blocks still used\n", finished.size(), differ,
              long{cache.stats().used});
  return finished.size() == 5 && differ == 0 && cache.stats().used == 0 ? 0 : 1;
}
