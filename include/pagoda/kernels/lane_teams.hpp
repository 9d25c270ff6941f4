// SPDX-License-Identifier: Apache-2.0
/// @file lane_teams: how the lanes of a warp share rows of any dim.
#pragma once

#include <cstdint>

#include <pagoda/simt/execution_context.hpp>

namespace pagoda::kernels {

/// How the lanes of a warp share rows of 8-element units: `lanes` of them take one row, unit by unit, and the warp's
/// 32 / lanes teams take keys of their own. Lane l sees to key l of a tile of 32, which is a key of its own team.
struct lane_teams {
  PAGODA_KERNEL_FUNCTION lane_teams(std::int32_t dim, int lane)
      : units(dim / 8),
        lanes(units <= 4    ? 4
              : units <= 8  ? 8
              : units <= 16 ? 16
                            : 32) {
    in_team = lane & (lanes - 1);
    first_key = lane - in_team;
  }

  std::int32_t units;  ///< of a row
  int lanes;           ///< of a team, and keys of a team
  int in_team;
  int first_key;  ///< of the team
};

}  // namespace pagoda::kernels
