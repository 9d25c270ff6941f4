// SPDX-License-Identifier: Apache-2.0
// What each instruction set provides, and the type of cache that all of them work on. Nothing here depends on the
// instruction set: a view, rows and options have the same layout in every object.
#pragma once

#include <pagoda/pagoda.hpp>

namespace multi_isa {

using cache = pagoda::cache<pagoda::int8_per_token>;
using cache_view = pagoda::cache_view<pagoda::int8_per_token, pagoda::int8_per_token>;

struct kernel_table {
  const char* name;
  void (*append)(const cache_view& view, const pagoda::rows_view<const float>& keys,
                 const pagoda::rows_view<const float>& values);
  void (*attention)(const cache_view& view, const pagoda::rows_view<const float>& queries,
                    const pagoda::rows_view<float>& output, const pagoda::attention_options& options);
};

}  // namespace multi_isa

// The tables, one for each time that kernels.cpp is compiled.
extern "C" {
extern const multi_isa::kernel_table kernels_plain;
#if defined(__x86_64__)
extern const multi_isa::kernel_table kernels_avx2;
extern const multi_isa::kernel_table kernels_avx512;
#endif
}
