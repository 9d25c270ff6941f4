// SPDX-License-Identifier: Apache-2.0
/// @file borrowed_memory: bytes that the engine owns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <pagoda/memory.hpp>

namespace pagoda {

/// Bytes that somebody else owns and keeps alive: an engine's arena, a region registered with a network card.
/// Copied or moved, both name the same bytes.
/// Throws: invalid_argument if the bytes do not start on a multiple of 256.
class borrowed_memory {
 public:
  explicit borrowed_memory(std::span<std::byte> bytes) : bytes_(bytes) {
    const auto address = reinterpret_cast<std::uintptr_t>(bytes.data());
    if (bytes.empty() || address % static_cast<std::uintptr_t>(storage_alignment) != 0) {
      detail::fail("borrowed_memory has ", bytes.size(), " bytes at an address that is ",
                   address % static_cast<std::uintptr_t>(storage_alignment), " past a multiple of ", storage_alignment,
                   ": lend a non-empty range that is aligned to ", storage_alignment, " bytes");
    }
  }

  std::byte* data() const noexcept { return bytes_.data(); }
  std::int64_t size_bytes() const noexcept { return static_cast<std::int64_t>(bytes_.size()); }

 private:
  std::span<std::byte> bytes_;
};

static_assert(block_memory<borrowed_memory> && !allocating_memory<borrowed_memory>);

}  // namespace pagoda
