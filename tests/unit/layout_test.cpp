// SPDX-License-Identifier: Apache-2.0
// Every chunk of every row has 16 bytes of its own, on every layout and geometry.
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <pagoda/conformance/layout.hpp>

#include "policy_products.hpp"

namespace {

using pagoda::block_geometry;
using pagoda::block_planes;
using pagoda::plane;

#define EVERY_LAYOUT pagoda::heads_tokens_dim, pagoda::tokens_heads_dim, pagoda_test::user_chunked

/// Marks the 16-byte units of one plane; returns how many chunks lie outside, on no multiple of 16, or on another.
int mark(std::vector<char>& units, const plane& p, const block_geometry& g, std::int64_t row_bytes) {
  int faults = 0;
  for (std::int64_t head = 0; head < g.heads; ++head) {
    for (std::int64_t slot = 0; slot < g.slots; ++slot) {
      for (std::int64_t chunk = 0; chunk < row_bytes / 16; ++chunk) {
        const std::int64_t at = p.offset + head * p.head + slot * p.slot + chunk * p.chunk;
        if (at < 0 || at % 16 != 0 || at / 16 >= static_cast<std::int64_t>(units.size())) {
          ++faults;
        } else if (units[static_cast<std::size_t>(at / 16)]++ != 0) {
          ++faults;
        }
      }
    }
  }
  return faults;
}

TEST_CASE_TEMPLATE("chunks of keys and values are disjoint, aligned and fill the block without a gap", L,
                   EVERY_LAYOUT) {
  for (const std::int64_t heads : {1, 2, 3, 8}) {
    for (const std::int64_t slots : {1, 2, 16, 64}) {
      for (const std::int64_t key_row : {16, 48, 256}) {
        for (const std::int64_t value_row : {16, 80, 256}) {
          const block_geometry g{heads, slots, key_row, value_row};
          const block_planes planes = L::place(g);
          CHECK(planes.size_bytes == heads * slots * (key_row + value_row));
          std::vector<char> units(static_cast<std::size_t>(planes.size_bytes / 16), 0);
          CHECK(mark(units, planes.keys, g, key_row) == 0);
          CHECK(mark(units, planes.values, g, value_row) == 0);
        }
      }
    }
  }
}

TEST_CASE_TEMPLATE("the conformance check finds no fault in any layout", L, EVERY_LAYOUT) {
  const pagoda::conformance::report report = pagoda::conformance::check_layout<L>();
  CHECK(report.checks > 1000);
  for (const std::string& fault : report.faults) FAIL_CHECK(fault);
}

TEST_CASE_TEMPLATE("a geometry whose bytes do not fit 64 bits is refused", L, pagoda::heads_tokens_dim,
                   pagoda::tokens_heads_dim) {
  CHECK_THROWS_AS((void)L::place({std::int64_t{1} << 40, std::int64_t{1} << 16, 1 << 12, 16}), pagoda::size_overflow);
}

TEST_CASE("heads_tokens_dim keeps a head together, tokens_heads_dim a token") {
  const block_geometry g{.heads = 4, .slots = 16, .key_row_bytes = 128, .value_row_bytes = 64};
  const block_planes hnd = pagoda::heads_tokens_dim::place(g);
  CHECK(hnd.keys == plane{.offset = 0, .head = 16 * 192, .slot = 128});
  CHECK(hnd.values == plane{.offset = 16 * 128, .head = 16 * 192, .slot = 64});
  const block_planes nhd = pagoda::tokens_heads_dim::place(g);
  CHECK(nhd.keys == plane{.offset = 0, .head = 128, .slot = 512});
  CHECK(nhd.values == plane{.offset = 16 * 512, .head = 64, .slot = 256});
}

}  // namespace
