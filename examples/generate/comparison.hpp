// SPDX-License-Identifier: Apache-2.0
/// @file What a narrower cache costs: the same tokens through two caches.
#pragma once

#include <cstdint>
#include <span>

#include "transformer.hpp"

struct comparison {
  double largest_difference = 0;  ///< of any two logits
  double mean_difference = 0;     ///< of their magnitudes
  double perplexity = 0;          ///< of the tokens after the first, through the first cache
  double other_perplexity = 0;    ///< and through the second
};

/// Runs the same tokens through both caches, which must be empty, and compares logits and perplexity. Neither cache's
/// own predictions are followed, so that one near-tie does not change the rest. Requires: tokens.size() >= 2; chunk
/// >= 1.
comparison compare(transformer& engine, kv_cache& cache, kv_cache& other, std::span<const std::int32_t> tokens,
                   std::int64_t chunk);
