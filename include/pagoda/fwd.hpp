// SPDX-License-Identifier: Apache-2.0
/// @file Forward declarations, and the defaults of the templates, once.
#pragma once

#include <cstdint>

#include <pagoda/config.hpp>

namespace pagoda {

struct half;
struct bfloat16;

template <class T>
struct identity;
struct int8_per_token;
struct int4_per_token;
struct fp8_e4m3;
struct fp8_e5m2;
template <int Group = 32>
struct int8_grouped;
template <int Group = 32>
struct int4_grouped;
template <class Quantizer>
struct hadamard;

struct heads_tokens_dim;
struct tokens_heads_dim;

class host_memory;
class borrowed_memory;

class lru;
class fifo;
class lfu;
class priority;
class never;

/// Option of cache<...>: tokens of a block.
template <std::int32_t Tokens>
struct block_size;

/// The value policy of caches that keep key rows only: see policy.hpp.
template <std::int32_t Elements>
struct values_in_keys;

class sequence;
class prefix_match;
class step;
class block_manager;

template <class KeyQuantizer, class ValueQuantizer>
struct cache_view;

template <class KeyQuantizer = identity<half>, class ValueQuantizer = KeyQuantizer, class Layout = heads_tokens_dim,
          class Memory = host_memory>
class block_storage;

template <class KeyQuantizer = identity<half>, class ValueQuantizer = KeyQuantizer, class Layout = heads_tokens_dim,
          class BlockSize = block_size<16>, class Memory = host_memory, class Eviction = lru>
class basic_cache;

namespace cuda {

struct device_work;

}  // namespace cuda
}  // namespace pagoda
