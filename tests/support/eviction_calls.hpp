// SPDX-License-Identifier: Apache-2.0
/// @file Short forms of the calls of an eviction policy, for tests.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <vector>

#include <pagoda/eviction.hpp>

namespace pagoda_test {

/// Inserts blocks in that order, with nothing known of them but the id.
template <class P>
void insert(P& policy, std::initializer_list<int> ids) {
  for (const int id : ids) policy.insert({.id = pagoda::block_id{id}});
}

template <class P>
void erase(P& policy, std::initializer_list<int> ids) {
  for (const int id : ids) policy.erase(pagoda::block_id{id});
}

template <class P>
void store(P& policy, std::initializer_list<int> ids) {
  for (const int id : ids) policy.stored(pagoda::block_id{id});
}

/// The number of the block that evict() gives; -1 for none.
template <class P>
int evict(P& policy) {
  return static_cast<int>(policy.evict());
}

/// Everything that the policy evicts, in order.
template <class P>
std::vector<int> drain(P& policy) {
  std::vector<int> order;
  for (int id = evict(policy); id != -1; id = evict(policy)) order.push_back(id);
  return order;
}

}  // namespace pagoda_test
