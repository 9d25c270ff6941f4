// SPDX-License-Identifier: Apache-2.0
// rotate_rows as nvcc compiled it: the bits of the host's rotation.
#include <algorithm>
#include <cstdint>
#include <iostream>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <pagoda/detail/hadamard.hpp>
#include <pagoda/kernels/rotate_rows.hpp>

#include "attention_case.hpp"
#include "ptx/machine.hpp"

namespace {

namespace ptx = pagoda_test::ptx;
using pagoda::kernels::rotate_rows;

TEST_CASE("rotated rows have the host's bits, and rows behind the batch's are left alone") {
#if defined(PAGODA_PTX_DIRECTORY)
  constexpr std::int64_t tokens = 3;
  constexpr std::int64_t heads = 5;
  for (const char* target : {"compute_80", "compute_90"}) {
    const ptx::module module =
        ptx::module::load(std::string(PAGODA_PTX_DIRECTORY) + "/rotate_kernels." + target + ".ptx");
    for (const std::int64_t dim : {8, 24, 80, 112, 128, 576}) {
      for (const bool back : {false, true}) {
        CAPTURE(dim);
        CAPTURE(back);
        const auto size = static_cast<std::size_t>((tokens + 1) * heads * dim);
        std::vector<float> from(size);
        for (std::size_t i = 0; i < size; ++i) from[i] = pagoda_test::noise(1, 2, static_cast<std::int64_t>(i), 3, 4);
        std::vector<float> to(size, 77.0f);
        const std::int32_t sequences = 1;
        const std::vector<std::int32_t> offsets{0, tokens};
        const rotate_rows::arguments args{
            .from = pagoda::kernels::erase(pagoda::rows_view<const float>(from, {tokens + 1, heads, dim})),
            .to = pagoda::kernels::erase(pagoda::rows_view<float>(to, {tokens + 1, heads, dim})),
            .num_sequences = &sequences,
            .offsets = offsets.data(),
            .heads = heads,
            .how = pagoda::detail::make_rotation(dim, back)};
        ptx::launch<rotate_rows>(
            module, {3, 1, 1}, args,
            {.ranges = {ptx::global_range(from), ptx::global_range(to),
                        ptx::global_range(&sequences, sizeof(sequences)), ptx::global_range(offsets)}});
        std::vector<float> expected = from;
        for (std::int64_t row = 0; row < (tokens + 1) * heads; ++row) {
          float* at = expected.data() + row * dim;
          if (row >= tokens * heads) {
            std::fill(at, at + dim, 77.0f);
          } else {
            back ? pagoda::detail::rotate_back(at, dim) : pagoda::detail::rotate(at, dim);
          }
        }
        CHECK(to == expected);
      }
    }
  }
#else
  std::cout << "[SKIPPED] nvcc was not found: its PTX is not run\n";
#endif
}

}  // namespace
