// SPDX-License-Identifier: Apache-2.0
/// @file The bytes of one slot of a storage, found by the layout's own definition, and the bytes that they ought to be.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <pagoda/cache_view.hpp>
#include <pagoda/quantizer/row_codec.hpp>

namespace pagoda_test {

/// Calls visit(byte) with the address of every byte of the codes and scales of (block, head, slot): key codes, value
/// codes, key scales, value scales.
template <class KeyQuantizer, class ValueQuantizer, class Visit>
void visit_slot(const pagoda::cache_view<KeyQuantizer, ValueQuantizer>& layer, pagoda::block_id block,
                std::int64_t head, std::int64_t slot, Visit&& visit) {
  const auto at = [&](const pagoda::plane_view& plane) {
    return plane.base + static_cast<std::int64_t>(block) * plane.block_stride + head * plane.head_stride +
           slot * plane.slot_stride;
  };
  const auto codes = [&](const pagoda::plane_view& plane, std::int64_t bytes) {
    for (std::int64_t i = 0; i < bytes; ++i) visit(at(plane) + i / 16 * plane.chunk_stride + i % 16);
  };
  const auto scales = [&](const pagoda::plane_view& plane, std::int64_t bytes) {
    for (std::int64_t i = 0; i < bytes; ++i) visit(at(plane) + i);
  };
  codes(layer.keys, pagoda::code_bytes<KeyQuantizer>(layer.key_dim));
  codes(layer.values, pagoda::code_bytes<ValueQuantizer>(layer.value_dim));
  scales(layer.key_scales, pagoda::row_scale_bytes<KeyQuantizer>(layer.key_dim));
  scales(layer.value_scales, pagoda::row_scale_bytes<ValueQuantizer>(layer.value_dim));
}

/// What visit_slot finds, in its order.
template <class View>
std::vector<std::byte> stored_slot(const View& layer, pagoda::block_id block, std::int64_t head, std::int64_t slot) {
  std::vector<std::byte> result;
  visit_slot(layer, block, head, slot, [&](const std::byte* byte) { result.push_back(*byte); });
  return result;
}

/// All heads of a slot.
template <class View>
std::vector<std::byte> stored_slot(const View& layer, pagoda::block_id block, std::int64_t slot) {
  std::vector<std::byte> result;
  for (std::int64_t head = 0; head < layer.kv_heads; ++head) {
    visit_slot(layer, block, head, slot, [&](const std::byte* byte) { result.push_back(*byte); });
  }
  return result;
}

/// What stored_slot ought to give for a key and a value row of floats.
template <class KeyQuantizer, class ValueQuantizer>
std::vector<std::byte> coded_slot(const float* key, std::int64_t key_dim, const float* value, std::int64_t value_dim) {
  const auto size = [](std::int64_t bytes) { return static_cast<std::size_t>(bytes); };
  std::vector<std::byte> key_codes(size(pagoda::code_bytes<KeyQuantizer>(key_dim)));
  std::vector<std::byte> value_codes(size(pagoda::code_bytes<ValueQuantizer>(value_dim)));
  std::vector<std::byte> key_scales(size(pagoda::row_scale_bytes<KeyQuantizer>(key_dim)));
  std::vector<std::byte> value_scales(size(pagoda::row_scale_bytes<ValueQuantizer>(value_dim)));
  pagoda::row_codec<KeyQuantizer>::encode(key, key_dim, key_codes.data(), key_scales.data());
  pagoda::row_codec<ValueQuantizer>::encode(value, value_dim, value_codes.data(), value_scales.data());
  std::vector<std::byte> result = key_codes;
  for (const auto& part : {value_codes, key_scales, value_scales})
    result.insert(result.end(), part.begin(), part.end());
  return result;
}

}  // namespace pagoda_test
