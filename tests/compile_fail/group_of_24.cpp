// SPDX-License-Identifier: Apache-2.0
// expected-error: int8_grouped<Group> takes a multiple of 16 elements, such as 32
#include <pagoda/pagoda.hpp>

#ifdef PAGODA_CONTROL
constexpr int group = 48;
#else
constexpr int group = 24;
#endif
constexpr auto name = pagoda::int8_grouped<group>::name;
