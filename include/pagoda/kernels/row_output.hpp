// SPDX-License-Identifier: Apache-2.0
/// @file How a finished row leaves a kernel.
#pragma once

#include <cstddef>
#include <cstdint>

#include <pagoda/detail/half2.hpp>
#include <pagoda/kernels/attention_arguments.hpp>

namespace pagoda::kernels {

/// Four consecutive floats in one transaction.
struct alignas(16) floats4 {
  float x[4];
};

/// Writes four consecutive elements, rounded to the rows' type. p is aligned to four elements.
template <class Context>
PAGODA_KERNEL_FUNCTION void store_four(Context& ctx, element_type type, std::byte* p, const floats4& values) {
  struct alignas(8) words2 {
    std::uint32_t w[2];
  };
  if (type == element_type::float32) {
    ctx.store(reinterpret_cast<floats4*>(p), values);
  } else if (type == element_type::half) {
    ctx.store(reinterpret_cast<words2*>(p), words2{{pagoda::detail::pack_half2(values.x[0], values.x[1]),
                                                    pagoda::detail::pack_half2(values.x[2], values.x[3])}});
  } else {
    ctx.store(reinterpret_cast<words2*>(p), words2{{pagoda::detail::pack_bfloat162(values.x[0], values.x[1]),
                                                    pagoda::detail::pack_bfloat162(values.x[2], values.x[3])}});
  }
}

/// One query row of a sequence and kv head: where its result goes.
struct row_place {
  std::int64_t query_row;
  std::int32_t query_head;
  bool wanted;  ///< false for rows past the sequence's queries, or past the tensors
};

template <class Arguments>
PAGODA_KERNEL_FUNCTION row_place place_of_row(const Arguments& args, const sequence_keys& keys, std::int32_t kv_head,
                                              std::int32_t row) {
  const std::int32_t query = row / args.group;
  const std::int64_t query_row = std::int64_t{keys.first_query} + query;
  return {query_row, kv_head * args.group + row - query * args.group,
          query < keys.queries && query_row < args.output.tokens};
}

/// Writes the LSE of a row, if it is wanted.
template <class Context, class Arguments>
PAGODA_KERNEL_FUNCTION void store_lse(Context& ctx, const Arguments& args, const row_place& place, float lse) {
  if (args.lse == nullptr) return;
  ctx.store(args.lse + place.query_row * args.view.kv_heads * args.group + place.query_head, lse);
}

}  // namespace pagoda::kernels
