// SPDX-License-Identifier: Apache-2.0
/// @file Checks a layout of your own.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include <pagoda/conformance/report.hpp>
#include <pagoda/layout.hpp>

namespace pagoda::conformance {

/// Places blocks of several geometries and checks that every chunk of every row has 16 bytes of its own, on a multiple
/// of 16, inside the size that the layout states; and that the layout answers the same geometry the same way.
///
/// Complexity: some hundred thousand chunks; well under a second.
template <block_layout L>
report check_layout() {
  report result;
  constexpr std::array<block_geometry, 8> geometries{{
      {1, 1, 16, 16},
      {1, 16, 256, 256},
      {8, 16, 128, 64},
      {3, 32, 48, 144},
      {8, 1, 256, 256},
      {2, 64, 1152, 1024},
      {1, 16, 1152, 0},
      {3, 4, 48, 0},
  }};
  for (const block_geometry& g : geometries) {
    const block_planes planes = L::place(g);
    result.expect(planes == L::place(g), L::name, ": two calls with one geometry differ");
    const std::int64_t needed = g.heads * g.slots * (g.key_row_bytes + g.value_row_bytes);
    result.expect(planes.size_bytes >= needed, L::name, ": size_bytes is ", planes.size_bytes, ", but the rows take ",
                  needed);
    result.expect(planes.size_bytes >= 0 && planes.size_bytes <= 16 * needed, L::name, ": size_bytes is ",
                  planes.size_bytes, " for rows of ", needed);
    if (!result.ok()) return result;
    std::vector<char> taken(static_cast<std::size_t>(planes.size_bytes / chunk_bytes), 0);
    const auto walk = [&](std::string_view kind, const plane& p, std::int64_t row_bytes) {
      for (std::int64_t head = 0; head < g.heads; ++head) {
        for (std::int64_t slot = 0; slot < g.slots; ++slot) {
          for (std::int64_t chunk = 0; chunk < row_bytes / chunk_bytes; ++chunk) {
            const std::int64_t at = p.offset + head * p.head + slot * p.slot + chunk * p.chunk;
            const bool fits = at >= 0 && at % chunk_bytes == 0 && at + chunk_bytes <= planes.size_bytes;
            result.expect(fits, L::name, ": ", kind, " chunk ", chunk, " of head ", head, ", slot ", slot, " lies at ",
                          at, ", outside the block's ", planes.size_bytes, " bytes or on no multiple of 16");
            if (!fits) continue;
            char& owner = taken[static_cast<std::size_t>(at / chunk_bytes)];
            result.expect(owner == 0, L::name, ": ", kind, " chunk ", chunk, " of head ", head, ", slot ", slot,
                          " shares byte ", at, " with another chunk");
            owner = 1;
          }
        }
      }
    };
    walk("key", planes.keys, g.key_row_bytes);
    walk("value", planes.values, g.value_row_bytes);
  }
  return result;
}

}  // namespace pagoda::conformance
