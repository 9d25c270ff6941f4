// SPDX-License-Identifier: Apache-2.0
/// @file All of the host library: caches, policies, attention.
#pragma once

#include <pagoda/attention/online_softmax.hpp>
#include <pagoda/block_manager.hpp>
#include <pagoda/cache.hpp>
#include <pagoda/eviction/built_in.hpp>
#include <pagoda/host/append.hpp>
#include <pagoda/host/attention.hpp>
#include <pagoda/host/execute.hpp>
#include <pagoda/layout/tokens_heads_dim.hpp>
#include <pagoda/memory/borrowed.hpp>
#include <pagoda/quantizer/fp8_e4m3.hpp>
#include <pagoda/quantizer/fp8_e5m2.hpp>
#include <pagoda/quantizer/hadamard.hpp>
#include <pagoda/quantizer/int4_grouped.hpp>
#include <pagoda/quantizer/int4_per_token.hpp>
#include <pagoda/quantizer/int8_grouped.hpp>
#include <pagoda/quantizer/int8_per_token.hpp>
