// SPDX-License-Identifier: Apache-2.0
/// @file All ranges of the benchmarks: public model shapes, KV types, contexts, batches.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <pagoda/policy.hpp>
#include <pagoda/quantizer/built_in.hpp>

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

/// Decode and append are measured for every quantizer of the library.
using decode_quantizers = pagoda::built_in_quantizers;
using append_quantizers = pagoda::built_in_quantizers;
using prefill_quantizers = pagoda::type_list<pagoda::identity<float>, pagoda::identity<pagoda::half>,
                                             pagoda::int8_per_token, pagoda::int4_per_token>;

/// The benchmarks of the quantizers are spread over this many files, which compile side by side.
inline constexpr int parts = 4;

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

/// The same for the types whose number in the list, divided by `parts`, leaves Part.
template <int Part, class... Types, class Visit>
void for_each_type_of_part(pagoda::type_list<Types...>, Visit&& visit) {
  [&]<int... Numbers>(std::integer_sequence<int, Numbers...>) {
    const auto visit_one = [&]<class T, int Number>(pagoda::type_tag<T> tag, std::integral_constant<int, Number>) {
      if constexpr (Number % parts == Part) visit(tag);
    };
    (visit_one(pagoda::type_tag<Types>{}, std::integral_constant<int, Numbers>{}), ...);
  }
  (std::make_integer_sequence<int, sizeof...(Types)>{});
}

/// "key:value", as a part of a benchmark's name.
inline std::string axis(std::string_view key, std::string_view value) {
  return std::string(key).append(":").append(value);
}
inline std::string axis(std::string_view key, std::int64_t value) {
  return axis(key, std::to_string(value));
}

}  // namespace pagoda_bench
