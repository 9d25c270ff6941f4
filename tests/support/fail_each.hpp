// SPDX-License-Identifier: Apache-2.0
/// @file Lets each allocation of a call fail in turn.
#pragma once

#include <cstdint>
#include <new>

#include <doctest/doctest.h>

#include "counting_new.hpp"

namespace pagoda_test {

/// Makes the call with its allocation number fail_at failing. Returns whether that made it throw; then it must have
/// given back what it had allocated before.
template <class Call>
bool fails_at(std::int64_t fail_at, Call&& call) {
  bool failed = false;
  std::int64_t live = 0;
  {
    const allocation_scope scope(fail_at);
    try {
      call();
    } catch (const std::bad_alloc&) {
      failed = true;
    }
    live = scope.live();
  }
  if (failed) CHECK(live == 0);
  return failed;
}

/// Lets each allocation of a call fail in turn, until the call succeeds. Returns how many failed.
/// `check` runs after each failure.
template <class Call, class Check>
std::int64_t fail_each(Call call, Check check) {
  for (std::int64_t fail_at = 0; fail_at < 1000; ++fail_at) {
    if (!fails_at(fail_at, call)) return fail_at;
    check();
  }
  FAIL("the call never succeeded");
  return 0;
}

}  // namespace pagoda_test
