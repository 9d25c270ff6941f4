// SPDX-License-Identifier: Apache-2.0
/// @file basic_cache: one block manager and one storage. cache<Options...>: the same, its policies named in any order.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <utility>

#include <pagoda/block_manager.hpp>
#include <pagoda/block_storage.hpp>
#include <pagoda/policy.hpp>

namespace pagoda {

/// The run-time choices of a cache; see manager_config for each.
struct cache_options {
  retention keep{};
  std::int32_t max_sequences = 256;
  std::int32_t max_batch = 0;
  std::int32_t max_open_steps = 1;
  std::int64_t max_resident_tokens = 0;
  reuse_rule reuse = reuse_rule::stream_ordered;
  pool_order order = pool_order::by_layer;
  std::uint64_t prefix_seed = 0;
  std::int32_t max_events = 0;
  bool track_reuse = false;
};

/// A paged KV cache of layers that share one block table. For several layer groups, use a block_manager and one
/// block_storage for each group.
///
///     using my_cache = pagoda::cache<pagoda::int8_per_token, pagoda::block_size<32>>;
///     my_cache cache{{.layers = 32, .kv_heads = 8, .head_dim = 128}, pagoda::num_blocks{4096}};
///
/// Multi-head latent attention keeps no value rows: values_in_keys<512> takes the values from the key rows' beginning.
///
///     pagoda::cache<values_in_keys<512>> cache{{.layers = 60, .kv_heads = 1, .head_dim = 576}, num_blocks{4096}};
///
/// The calls that it shares with block_manager are documented there.
template <class KeyQuantizer, class ValueQuantizer, class Layout, class BlockSize, class Memory, class Eviction>
class basic_cache {
 public:
  using storage_type = block_storage<KeyQuantizer, ValueQuantizer, Layout, Memory>;
  using view_type = typename storage_type::view_type;
  static constexpr std::int32_t block_size = BlockSize::value;

  /// Throws: as block_storage and block_manager do.
  basic_cache(storage_shape shape, num_blocks blocks,
              const cache_options& options = {}) requires allocating_memory<Memory>
      : storage_(shape, block_size, blocks, options.order),
        manager_(config(shape, blocks, options), evict_by<Eviction>) {}

  basic_cache(storage_shape shape, num_blocks blocks, Memory memory, const cache_options& options = {})
      : storage_(shape, block_size, blocks, std::move(memory), options.order),
        manager_(config(shape, blocks, options), evict_by<Eviction>) {}

  /// Bytes that one token takes in all layers.
  static std::int64_t bytes_per_token(const storage_shape& shape) { return storage_type::bytes_per_token(shape); }

  /// Bytes of the blocks that `tokens` tokens of one sequence fill.
  static std::int64_t bytes_for(const storage_shape& shape, std::int64_t tokens) {
    check_range("tokens", tokens, 1, INT32_MAX);
    const auto blocks = static_cast<std::int32_t>(divide_up(tokens, block_size));
    return storage_type::size_bytes(shape, block_size, num_blocks{blocks});
  }

  /// The most blocks that fit a budget of bytes. Throws: invalid_argument if not even one does.
  static num_blocks blocks_for_budget(const storage_shape& shape, std::int64_t budget_bytes) {
    const std::int32_t blocks = storage_type::max_blocks(shape, block_size, budget_bytes);
    if (blocks == 0) {
      detail::fail("a budget of ", budget_bytes, " bytes holds no block: one takes ",
                   storage_type::size_bytes(shape, block_size, num_blocks{1}), " in all layers; raise the budget");
    }
    return {blocks};
  }

  sequence make_sequence() { return manager_.make_sequence(); }
  sequence make_sequence(prefix_match&& match) { return manager_.make_sequence(std::move(match)); }
  prefix_match match(const token_history& history, std::int64_t at_most) { return manager_.match(history, at_most); }
  std::int64_t publish(sequence_id id, const token_history& history, const block_advice& advice = {}) {
    return manager_.publish(id, history, advice);
  }
  std::int64_t advise(const token_history& history, const block_advice& advice) {
    return manager_.advise(history, advice);
  }
  void clear_prefixes() { manager_.clear_prefixes(); }
  sequence fork(sequence_id parent) { return manager_.fork(parent); }
  void truncate(sequence_id id, std::int64_t tokens) { manager_.truncate(id, tokens); }
  step plan(std::span<const growth> batch) { return manager_.plan(batch); }
  step plan(std::initializer_list<growth> batch) { return manager_.plan(batch); }
  std::optional<step> try_plan(std::span<const growth> batch, shortage* why = nullptr) noexcept {
    return manager_.try_plan(batch, why);
  }
  std::optional<step> try_plan(std::initializer_list<growth> batch, shortage* why = nullptr) noexcept {
    return manager_.try_plan(batch, why);
  }
  void complete(ticket done) noexcept { manager_.complete(done); }
  block_stats stats() const { return manager_.stats(); }

  /// One layer, as a step's sequences see it: what append and attention take.
  /// Throws: as block_storage::view; invalid_argument for a step of another cache, or one that was closed.
  view_type view(std::int32_t layer, const step& step) const {
    if (!manager_.owns(step)) {
      (void)manager_.config();  // a cache that was moved from says that instead
      detail::fail("the step was not planned by this cache, or is committed already: plan it here, and view it before ",
                   "its commit");
    }
    return storage_.view(layer, step);
  }

  block_manager& manager() noexcept { return manager_; }
  const block_manager& manager() const noexcept { return manager_; }
  storage_type& storage() noexcept { return storage_; }
  const storage_type& storage() const noexcept { return storage_; }

 private:
  static manager_config config(const storage_shape& shape, num_blocks blocks, const cache_options& options) {
    const std::int64_t block_bytes = storage_type::size_bytes(shape, block_size, num_blocks{1});
    return {.groups = {{.num_blocks = blocks.value, .keep = options.keep, .block_bytes = block_bytes}},
            .block_size = block_size,
            .max_sequences = options.max_sequences,
            .max_batch = options.max_batch,
            .max_open_steps = options.max_open_steps,
            .max_resident_tokens = options.max_resident_tokens,
            .reuse = options.reuse,
            .prefix_seed = options.prefix_seed,
            .max_events = options.max_events,
            .track_reuse = options.track_reuse};
  }

  storage_type storage_;
  block_manager manager_;
};

/// transfer() between the managers of two caches: see there. host::execute(from, to, copies) moves the bytes.
template <class... From, class... To>
transferred transfer(basic_cache<From...>& from, std::span<const sequence_id> ids, basic_cache<To...>& to) {
  static_assert(std::is_same_v<typename basic_cache<From...>::view_type, typename basic_cache<To...>::view_type>,
                "pagoda: transfer between caches of different quantizers: blocks move as encoded bytes");
  return transfer(from.manager(), ids, to.manager());
}
template <class... From, class... To>
transferred transfer(basic_cache<From...>& from, std::initializer_list<sequence_id> ids, basic_cache<To...>& to) {
  return transfer(from, std::span<const sequence_id>(ids.begin(), ids.size()), to);
}

namespace detail {

template <class T>
struct is_quantizer_option : std::bool_constant<quantizer_like<T>> {};
template <class T>
struct is_keys_option : std::bool_constant<is_keys_v<T>> {};
template <class T>
struct is_values_option : std::bool_constant<is_values_v<T>> {};
template <class T>
struct is_layout_option : std::bool_constant<layout_like<T>> {};
template <class T>
struct is_block_size_option : std::bool_constant<is_block_size_v<T>> {};
template <class T>
struct is_memory_option : std::bool_constant<memory_like<T>> {};
template <class T>
struct is_eviction_option : std::bool_constant<eviction_like<T>> {};

template <class Option>
consteval bool require_known_option() {
  static_assert(is_quantizer_option<Option>::value || is_keys_option<Option>::value ||
                    is_values_option<Option>::value || is_layout_option<Option>::value ||
                    is_block_size_option<Option>::value || is_memory_option<Option>::value ||
                    is_eviction_option<Option>::value,
                "pagoda::cache: this option is no policy: name a quantizer, keys<Q>, values<Q>, values_in_keys<N>, a "
                "layout, block_size<N>, a memory or an eviction policy");
  return true;
}

template <class... Options>
struct resolve_cache {
  static_assert((require_known_option<Options>() && ...));
  static_assert(count_options_v<is_quantizer_option, Options...> <= 1,
                "pagoda::cache: two quantizers are named: name one for both, or keys<Q> and values<Q>");
  static_assert(count_options_v<is_keys_option, Options...> <= 1, "pagoda::cache: keys<Q> is named twice");
  static_assert(count_options_v<is_values_option, Options...> <= 1,
                "pagoda::cache: the values are named twice: leave one values<Q> or values_in_keys<N>");
  static_assert(count_options_v<is_layout_option, Options...> <= 1, "pagoda::cache: two layouts are named");
  static_assert(count_options_v<is_block_size_option, Options...> <= 1, "pagoda::cache: two block sizes are named");
  static_assert(count_options_v<is_memory_option, Options...> <= 1, "pagoda::cache: two memories are named");
  static_assert(count_options_v<is_eviction_option, Options...> <= 1, "pagoda::cache: two eviction policies are named");
  static_assert(
      count_options_v<is_quantizer_option, Options...> == 0 || count_options_v<is_keys_option, Options...> == 0 ||
          count_options_v<is_values_option, Options...> == 0,
      "pagoda::cache: a quantizer, keys<Q> and values<Q> (or values_in_keys<N>) are all named: leave one out");

  using both = typename find_option<is_quantizer_option, identity<half>, Options...>::type;
  using key_quantizer = typename find_option<is_keys_option, keys<both>, Options...>::type::type;
  using value_quantizer = typename find_option<is_values_option, values<both>, Options...>::type::type;
  using layout = typename find_option<is_layout_option, heads_tokens_dim, Options...>::type;
  using tokens = typename find_option<is_block_size_option, pagoda::block_size<16>, Options...>::type;
  using memory = typename find_option<is_memory_option, host_memory, Options...>::type;
  using eviction = typename find_option<is_eviction_option, lru, Options...>::type;
  using type = basic_cache<key_quantizer, value_quantizer, layout, tokens, memory, eviction>;
};

}  // namespace detail

/// basic_cache with the policies named in any order; what is not named takes its default: identity<half>,
/// heads_tokens_dim, block_size<16>, host_memory, lru. The same policies in any order are the same type.
template <class... Options>
using cache = typename detail::resolve_cache<Options...>::type;

}  // namespace pagoda
