// SPDX-License-Identifier: Apache-2.0
/// @file built_in_evictions: every eviction policy of the library, for a choice by name at run time.
#pragma once

#include <pagoda/eviction/fifo.hpp>
#include <pagoda/eviction/lfu.hpp>
#include <pagoda/eviction/lru.hpp>
#include <pagoda/eviction/never.hpp>
#include <pagoda/eviction/priority.hpp>
#include <pagoda/policy.hpp>

namespace pagoda {

/// What dispatch(built_in_evictions{}, name, visitor) chooses from.
using built_in_evictions = type_list<lru, fifo, lfu, priority, never>;

}  // namespace pagoda
