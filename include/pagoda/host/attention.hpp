// SPDX-License-Identifier: Apache-2.0
/// @file attention: the queries of a step against the cache, on the host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <vector>

#include <pagoda/attention/options.hpp>
#include <pagoda/attention/work_plan.hpp>
#include <pagoda/detail/scratch.hpp>
#include <pagoda/dtype.hpp>
#include <pagoda/host/attention_job.hpp>
#include <pagoda/host/executor.hpp>

namespace pagoda::host {

namespace detail {

/// What one call needs beside its items' working memory.
struct call_memory {
  work_plan plan;
  pagoda::detail::scratch partials;
};

/// What one thread keeps from call to call. Calls may nest: an executor may start another call on the thread that waits
/// in parallel_for, as pools that steal work do.
class thread_memory {
 public:
  /// The memory of the call that begins, for as long as this object lives.
  class call {
   public:
    call() : owner_(current()) {
      if (owner_.depth_ == owner_.calls_.size()) owner_.calls_.push_back(std::make_unique<call_memory>());
      memory_ = owner_.calls_[owner_.depth_++].get();
    }
    ~call() { --owner_.depth_; }
    call(const call&) = delete;
    call& operator=(const call&) = delete;
    call_memory* operator->() const noexcept { return memory_; }

   private:
    thread_memory& owner_;
    call_memory* memory_;
  };

  /// Working memory of an item, which calls nobody.
  static pagoda::detail::scratch& item() { return current().item_; }

 private:
  static thread_memory& current() {
    static thread_local thread_memory memory;
    return memory;
  }

  std::vector<std::unique_ptr<call_memory>> calls_;
  std::size_t depth_ = 0;
  pagoda::detail::scratch item_;
};

}  // namespace detail

inline namespace PAGODA_ISA {

/// Attention of a step's queries over one layer of the cache: decode, prefill, chunked prefill and ragged batches are
/// one call. See attention_options for what it computes; reference_attention defines it.
///
/// Shapes:     queries [queries of the batch, query_heads, key_dim]; output [same, query_heads, value_dim]; float, half
///             or bfloat16, strided. query_heads is any multiple of kv_heads. options.lse is [queries, query_heads].
/// Requires:   the step's new tokens have been appended; queries, output and cache do not overlap.
/// Effects:    a result does not depend on where blocks lie, on the layout, the block size, the executor or the other
///             sequences of the batch, to the bit. (Other numbers of queries a sequence may change the last bits.)
///             Sums are float. Against the reference on the stored values, a row's relative error stays below 2e-5,
///             whatever the length, as long as scores stay below some tens and sums of values within float; it grows in
///             proportion to larger scores. Codes that are whole numbers, with one scale a row, may meet queries and
///             weights rounded to 16 bits (with AVX2, few query rows), relative to the largest of a row: below 2e-4 for
///             8 bits (int8) and 1e-3 for 4 bits (int4), rotated ones alike, for scores up to about 6 and no query
///             element beyond 3.5 times the others' deviation, and in proportion beyond; and a query whose elements,
///             times scale, all lie below 2^-110 then scores 0.
///             A NaN or an infinity touches only what is computed from it: in a query, the output of that query and
///             head; in a key or a value, those of its kv head's queries that see its token. They are NaN or infinite
///             where the reference is, but for two cases. An infinity in a key with a scale may score -infinity, which
///             is weight 0 and a finite output, or with soft_cap a finite number, where the reference has NaN. And an
///             infinity in a query may with soft_cap give NaN where the reference is finite, over keys that are
///             rotated, or coded as integers.
/// Throws:     invalid_argument or out_of_range for what does not fit, before anything is written; std::bad_alloc if
///             working memory must grow and cannot: rows of the output may then be written, and the cache is as it was.
///             A call no larger than an earlier one of the same threads allocates nothing.
/// Complexity: O(queries * query_heads * visible keys * dim); each key and value row is read once for the whole query
///             group, and for up to 128 query rows of its kv head.
/// Source:     online softmax over tiles: FlashAttention (Dao et al. 2022), split over keys: Flash-Decoding (2023).
template <class KeyQuantizer, class ValueQuantizer, floating_element Query, writable_element Output,
          executor Executor = const serial_executor>
void attention(const cache_view<KeyQuantizer, ValueQuantizer>& view, const rows_view<Query>& queries,
               const rows_view<Output>& output, const attention_options& options = {},
               Executor&& run = serial_executor{}) {
  const resolved_options how = resolve_attention(view, queries, output, options);
  const detail::attention_job<KeyQuantizer, ValueQuantizer, std::remove_const_t<Query>, Output> job(
      view, rows_view<const std::remove_const_t<Query>>(queries), output, how, options.lse);

  const detail::thread_memory::call memory;
  work_plan& plan = memory->plan;
  plan.build(view.batch, how.mask, view.kv_heads, job.group(), concurrency_of(run));
  const std::int64_t floats = job.partial_floats(work_plan::max_partial_queries(job.group()));
  memory->partials.reserve(
      pagoda::detail::scratch::size_of<float>(checked_multiply(floats, plan.partials(), "partials")));
  float* partials = memory->partials.template take<float>(floats * plan.partials());

  run.parallel_for(static_cast<std::int64_t>(plan.items().size()), [&](std::int64_t i) {
    const work_item& item = plan.items()[static_cast<std::size_t>(i)];
    job.run_item(item, item.partial < 0 ? nullptr : partials + item.partial * floats, detail::thread_memory::item());
  });
  if (plan.merges().empty()) return;
  run.parallel_for(static_cast<std::int64_t>(plan.merges().size()), [&](std::int64_t i) {
    job.run_merge(plan.merges()[static_cast<std::size_t>(i)], partials, floats);
  });
}

}  // namespace PAGODA_ISA
}  // namespace pagoda::host
