// SPDX-License-Identifier: Apache-2.0
/// @file All ranges of the benchmarks: public model shapes, KV types, contexts, batches.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include <pagoda/policy.hpp>
#include <pagoda/quantizer/identity.hpp>
#include <pagoda/quantizer/int8_per_token.hpp>

namespace pagoda_bench {

/// The attention heads of one layer of a model.
struct model_shape {
  std::string_view name;
  std::int32_t query_heads;
  std::int32_t kv_heads;
  std::int32_t head_dim;

  constexpr std::int32_t group() const { return query_heads / kv_heads; }
};

inline constexpr model_shape llama_2_7b{"Llama-2-7B", 32, 32, 128};
inline constexpr model_shape llama_3_8b{"Llama-3-8B", 32, 8, 128};
inline constexpr model_shape yi_6b{"Yi-6B", 32, 4, 128};

/// The same query heads with groups of 1, 4 and 8: only the sharing of keys and values differs.
inline constexpr std::array decode_models{llama_2_7b, llama_3_8b, yi_6b};

using decode_quantizers = pagoda::type_list<pagoda::identity<float>, pagoda::identity<pagoda::half>,
                                            pagoda::identity<pagoda::bfloat16>, pagoda::int8_per_token>;
using prefill_quantizers =
    pagoda::type_list<pagoda::identity<float>, pagoda::identity<pagoda::half>, pagoda::int8_per_token>;
using append_quantizers = decode_quantizers;

inline constexpr std::array decode_contexts{512, 4096, 16384};
inline constexpr std::array thread_counts{1, 2};
inline constexpr std::int32_t ragged_batch = 16;
inline constexpr std::int32_t ragged_context = 1024;  // the mean of the batch
inline constexpr std::int32_t prefill_context = 4096;
inline constexpr std::array prefill_queries{64, 512};  // a chunk of chunked prefill, and a larger one
inline constexpr std::array append_tokens{16, 512};    // a decode batch's worth, and a prefill chunk
inline constexpr std::int32_t block_size = 16;

inline constexpr std::array manager_batches{1, 16, 256};
inline constexpr std::int32_t manager_context = 1000;

/// Calls visit(type_tag<T>) for every type of a list.
template <class... Types, class Visit>
void for_each_type(pagoda::type_list<Types...>, Visit&& visit) {
  (visit(pagoda::type_tag<Types>{}), ...);
}

/// "key:value", as a part of a benchmark's name.
inline std::string axis(std::string_view key, std::string_view value) {
  return std::string(key).append(":").append(value);
}
inline std::string axis(std::string_view key, std::int64_t value) {
  return axis(key, std::to_string(value));
}

}  // namespace pagoda_bench
