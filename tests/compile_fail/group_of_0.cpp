// SPDX-License-Identifier: Apache-2.0
// expected-error: int4_grouped<Group> takes a multiple of 16 elements, such as 32
#include <pagoda/pagoda.hpp>

#ifdef PAGODA_CONTROL
constexpr int group = 16;
#else
constexpr int group = 0;
#endif
constexpr auto name = pagoda::int4_grouped<group>::name;
