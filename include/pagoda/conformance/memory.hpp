// SPDX-License-Identifier: Apache-2.0
/// @file Checks a memory policy of your own.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>

#include <pagoda/conformance/report.hpp>
#include <pagoda/memory.hpp>

namespace pagoda::conformance {

/// Checks one memory that the host can write: its alignment, that every byte can be written and read back, and that
/// moving it moves the bytes and not their place. Effects: overwrites the bytes; returns the memory through `memory`.
///
/// Complexity: O(size).
template <block_memory M>
report check_memory(M& memory) {
  report result;
  std::byte* data = memory.data();
  const std::int64_t size = memory.size_bytes();
  result.expect(data != nullptr && size > 0, "the memory is empty: data() is null or size_bytes() is ", size);
  if (!result.ok()) return result;
  const auto past = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(data) %
                                              static_cast<std::uintptr_t>(storage_alignment));
  result.expect(past == 0, "data() lies ", past, " past a multiple of ", storage_alignment);
  const auto pattern = [](std::int64_t i) { return static_cast<std::byte>((i * 131 + 7) >> 3 & 255); };
  for (std::int64_t i = 0; i < size; ++i) data[i] = pattern(i);
  M moved(std::move(memory));
  result.expect(moved.data() == data && moved.size_bytes() == size, "moving the memory changes its place or size");
  for (std::int64_t i = 0; i < size; ++i) {
    if (moved.data()[i] != pattern(i)) {
      result.expect(false, "byte ", i, " does not read back as written");
      break;
    }
  }
  // Not an assignment, which a memory need not have.
  std::destroy_at(&memory);
  std::construct_at(&memory, std::move(moved));
  return result;
}

}  // namespace pagoda::conformance
