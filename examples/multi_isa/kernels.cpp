// SPDX-License-Identifier: Apache-2.0
// Compiled once for each instruction set; CMakeLists.txt gives the flags and makes each object one that shares nothing.
//
// That matters. Pagoda's own loops lie in a namespace named after the instruction set, so those of two objects do not
// mix. But each object also holds copies of other inline functions, such as std::vector's, compiled with its flags, and
// a linker keeps one copy of each for the whole program, whichever comes first. If that is the AVX-512 one, a processor
// without AVX-512 dies in std::vector. No order of linking prevents it, since an object may hold what no other does.
#include "kernels.hpp"

#define MULTI_ISA_JOIN(a, b) a##b
#define MULTI_ISA_TABLE_OF(isa) MULTI_ISA_JOIN(kernels_, isa)
#define MULTI_ISA_STRING(a) #a
#define MULTI_ISA_STRING_OF(isa) MULTI_ISA_STRING(isa)

// PAGODA_ISA is plain, avx2 or avx512, as the flags say: wrong flags do not link.
extern "C" constexpr multi_isa::kernel_table MULTI_ISA_TABLE_OF(PAGODA_ISA){
    .name = MULTI_ISA_STRING_OF(PAGODA_ISA),
    .append = [](const auto& view, const auto& keys, const auto& values) { pagoda::host::append(view, keys, values); },
    .attention = [](const auto& view, const auto& queries, const auto& output,
                    const auto& options) { pagoda::host::attention(view, queries, output, options); },
};
