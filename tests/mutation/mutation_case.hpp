// SPDX-License-Identifier: Apache-2.0
/// @file What both probes run: append, then decode, prefill and merge on what the host wrote, against the reference.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <limits>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include <pagoda/attention/reference.hpp>
#include <pagoda/block_manager.hpp>
#include <pagoda/block_storage.hpp>
#include <pagoda/host/append.hpp>
#include <pagoda/kernels/append.hpp>
#include <pagoda/kernels/chunk_plan.hpp>
#include <pagoda/kernels/merge.hpp>
#include <pagoda/kernels/plan_chunks.hpp>
#include <pagoda/kernels/tensor_decode.hpp>
#include <pagoda/kernels/tensor_prefill.hpp>
#include <pagoda/layout/heads_tokens_dim.hpp>
#include <pagoda/memory/borrowed.hpp>
#include <pagoda/memory/host.hpp>
#include <pagoda/quantizer/identity.hpp>
#include <pagoda/quantizer/int8_per_token.hpp>

#include <sys/mman.h>

namespace mutation {

using f16 = pagoda::identity<pagoda::half>;
using int8 = pagoda::int8_per_token;

inline constexpr std::int32_t dim = 64;
inline constexpr std::int32_t kv_heads = 2;
inline constexpr std::int32_t group = 3;
inline constexpr std::int32_t block_size = 16;

inline float noise(std::uint32_t& state) {
  state = state * 1664525u + 1013904223u;
  return static_cast<float>(state >> 8) * 0x1p-23f - 1.0f;
}
inline std::vector<float> noises(std::int64_t count, std::uint32_t seed) {
  std::vector<float> result(static_cast<std::size_t>(count));
  for (float& x : result) x = noise(seed);
  return result;
}

/// One quantizer's pool, more than 4 GiB long, of which only the blocks in use have pages.
template <class Quantizer>
class far_pool {
 public:
  using storage = pagoda::block_storage<Quantizer, Quantizer, pagoda::heads_tokens_dim, pagoda::borrowed_memory>;
  static constexpr pagoda::storage_shape shape{.kv_heads = kv_heads, .head_dim = dim};

  far_pool() : bytes_(std::size_t{5} << 30) {
    memory_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory_ == MAP_FAILED) throw std::bad_alloc();
  }
  ~far_pool() { munmap(memory_, bytes_); }
  far_pool(const far_pool&) = delete;
  far_pool& operator=(const far_pool&) = delete;

  std::int32_t blocks() const {
    return static_cast<std::int32_t>(static_cast<std::int64_t>(bytes_) / storage::block_bytes(shape, block_size));
  }
  storage make() const {
    return storage(shape, block_size, pagoda::num_blocks{blocks()},
                   pagoda::borrowed_memory(std::span(static_cast<std::byte*>(memory_), bytes_)));
  }

 private:
  std::size_t bytes_;
  void* memory_;
};

/// A batch whose blocks lie at both ends of the pool; every slot in use or not begins as NaN.
struct tables {
  std::int32_t sequences = 0;
  std::vector<std::int32_t> contexts;
  std::vector<std::int32_t> query_offsets{0};
  std::vector<std::int32_t> token_offsets{0};
  std::vector<std::int64_t> table_offsets;
  std::vector<std::int32_t> skipped;
  std::vector<pagoda::block_id> blocks;
  std::int32_t pool = 0;

  explicit tables(std::int32_t pool_blocks) : pool(pool_blocks) {}
  void add(std::int32_t context, std::int32_t queries) {
    ++sequences;
    contexts.push_back(context);
    query_offsets.push_back(query_offsets.back() + queries);
    token_offsets.push_back(token_offsets.back() + context);  // everything is appended in one step
    table_offsets.push_back(static_cast<std::int64_t>(blocks.size()));
    skipped.push_back(0);
    for (std::int32_t b = 0; b < (context + block_size - 1) / block_size; ++b) {
      const auto n = static_cast<std::int32_t>(blocks.size());
      blocks.push_back(pagoda::block_id{n % 2 == 0 ? pool - 1 - n : n});
    }
  }
  pagoda::batch_view batch(int) const {
    pagoda::batch_view view;
    view.num_sequences = &sequences;
    view.context_lengths = contexts.data();
    view.query_offsets = query_offsets.data();
    view.token_offsets = token_offsets.data();
    view.table_offsets = table_offsets.data();
    view.skipped_blocks = skipped.data();
    view.block_table = blocks.data();
    view.block_size = block_size;
    view.num_blocks = pool;
    return view;
  }
};

inline bool report(const char* what, const std::string& why) {
  std::printf("caught: %s: %s\n", what, why.c_str());
  return false;
}

/// Runs one kind of check; an exception counts as caught.
template <class Check>
bool holds(const char* what, Check&& check) {
  try {
    const std::string why = check();
    return why.empty() || report(what, why);
  } catch (const std::exception& error) {
    return report(what, error.what());
  }
}

template <class Quantizer, class Launcher>
bool run_quantizer(const char* name, Launcher& launcher) {
  using pagoda::rows_view;
  const far_pool<Quantizer> pool;
  const auto storage = pool.make();
  tables batch(pool.blocks());
  batch.add(37, 1);
  batch.add(530, 2);
  batch.add(48, 20);
  batch.add(16, 16);
  batch.add(1, 1);
  for (const pagoda::block_id block : batch.blocks) {
    const auto bytes = storage.block_bytes(block, 0);
    std::memset(bytes.data(), 0xff, bytes.size());
  }
  const auto view = storage.view(0, batch);
  const std::int64_t tokens = view.batch.total_new_tokens();
  const std::int64_t queries = view.batch.total_queries();
  const std::vector<float> keys = noises(tokens * kv_heads * dim, 1);
  const std::vector<float> values = noises(tokens * kv_heads * dim, 2);
  const std::vector<float> query = noises(queries * kv_heads * group * dim, 3);
  const rows_view<const float> key_rows(keys, {tokens, kv_heads, dim});
  const rows_view<const float> value_rows(values, {tokens, kv_heads, dim});
  const rows_view<const float> query_rows(query, {queries, kv_heads * group, dim});

  const auto block_copy = [&] {
    std::vector<std::byte> bytes;
    for (const pagoda::block_id block : batch.blocks) {
      const auto from = storage.block_bytes(block, 0);
      bytes.insert(bytes.end(), from.begin(), from.end());
    }
    return bytes;
  };
  bool good = holds((std::string(name) + " append").c_str(), [&]() -> std::string {
    using append = pagoda::kernels::append<Quantizer, Quantizer>;
    const std::vector<std::byte> before = block_copy();
    pagoda::host::append(view, key_rows, value_rows);
    const std::vector<std::byte> expected = block_copy();
    std::size_t at = 0;
    for (const pagoda::block_id block : batch.blocks) {
      const auto to = storage.block_bytes(block, 0);
      std::memcpy(to.data(), before.data() + at, to.size());
      at += to.size();
    }
    typename append::arguments args{};
    args.view = view;
    args.keys = pagoda::kernels::erase(key_rows);
    args.values = pagoda::kernels::erase(value_rows);
    launcher.template launch<append>({3, 1, 1}, args);
    return block_copy() == expected ? "" : "stored bytes differ from the host's";
  });
  pagoda::host::append(view, key_rows, value_rows);

  good = holds((std::string(name) + " attention").c_str(),
               [&]() -> std::string {
                 using decode = pagoda::kernels::tensor_decode<Quantizer, Quantizer, dim, false>;
                 using prefill = pagoda::kernels::tensor_prefill<Quantizer, Quantizer, dim, false>;
                 using merge = pagoda::kernels::merge_chunks<Quantizer, Quantizer>;
                 constexpr float unwritten = std::numeric_limits<float>::quiet_NaN();
                 std::vector<float> output(query.size(), unwritten);
                 std::vector<float> lse(output.size() / dim, unwritten);
                 const rows_view<float> output_rows(output, {queries, kv_heads * group, dim});
                 typename decode::arguments args{};
                 args.view = view;
                 args.queries = pagoda::kernels::erase(query_rows);
                 args.output = pagoda::kernels::erase(output_rows);
                 args.lse = lse.data();
                 args.group = group;
                 args.decode_queries = 2;
                 args.scale = 1.0f;
                 std::vector<pagoda::kernels::chunk_item> items(16);
                 std::vector<std::int32_t> offsets(static_cast<std::size_t>(batch.sequences) + 1);
                 args.plan = {items.data(), offsets.data()};
                 pagoda::kernels::plan_chunks::arguments plan{};
                 plan.batch = view.batch;
                 plan.plan = args.plan;
                 plan.max_items = 16;
                 launcher.template launch<pagoda::kernels::plan_chunks>({1, 1, 1}, plan);
                 std::vector<float> partial_output(16u * kv_heads * 2 * group * dim, unwritten);
                 std::vector<float> partial_state(16u * kv_heads * 2 * group * 2, unwritten);
                 args.partial_output = partial_output.data();
                 args.partial_state = partial_state.data();
                 launcher.template launch<decode>({4, 1, 1}, args);
                 launcher.template launch<prefill>({3, 1, 1}, args);
                 launcher.template launch<merge>({2, 1, 1}, args);
                 std::vector<double> expected(output.size());
                 std::vector<double> expected_lse(lse.size());
                 pagoda::reference_attention(view, query_rows,
                                             rows_view<double>(expected, {queries, kv_heads * group, dim}),
                                             {.scale = 1.0f}, expected_lse);
                 for (std::size_t row = 0; row < lse.size(); ++row) {
                   double difference = 0;
                   double norm = 0;
                   for (std::size_t d = row * dim; d < (row + 1) * dim; ++d) {
                     difference += (output[d] - expected[d]) * (output[d] - expected[d]);
                     norm += expected[d] * expected[d];
                   }
                   const double error = std::sqrt(difference / norm);
                   const double lse_error = std::fabs(double{lse[row]} - expected_lse[row]);
                   if (!(error < 4e-3 && lse_error < 4e-3)) {
                     return "row " + std::to_string(row) + " is wrong by " + std::to_string(error) + ", its LSE by " +
                            std::to_string(lse_error);
                   }
                 }
                 return "";
               }) &&
         good;
  return good;
}

template <class Launcher>
int run_all(Launcher& launcher) {
  const bool half_good = run_quantizer<f16>("half", launcher);
  const bool int8_good = run_quantizer<int8>("int8", launcher);
  if (half_good && int8_good) std::printf("nothing found\n");
  return half_good && int8_good ? 0 : 1;
}

}  // namespace mutation
