// SPDX-License-Identifier: Apache-2.0
/// @file evictor: an eviction policy behind virtual functions, so that a block manager is one type for all of them.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include <pagoda/eviction.hpp>

namespace pagoda::detail {

class evictor {
 public:
  virtual ~evictor() = default;
  virtual void insert(const cached_block& block) noexcept = 0;
  virtual void erase(block_id id) noexcept = 0;
  virtual block_id evict() noexcept = 0;
  virtual std::int32_t size() const noexcept = 0;
  virtual void stored(block_id id) noexcept = 0;
  virtual void forgotten(block_id id) noexcept = 0;
  virtual void advance(std::int64_t now) noexcept = 0;
};

template <class Policy>
class evictor_of final : public evictor {
  static_assert(require_eviction_policy<Policy>());

 public:
  explicit evictor_of(std::int32_t num_blocks) : policy_(num_blocks) {}

  void insert(const cached_block& block) noexcept override { policy_.insert(block); }
  void erase(block_id id) noexcept override { policy_.erase(id); }
  block_id evict() noexcept override { return policy_.evict(); }
  std::int32_t size() const noexcept override { return policy_.size(); }
  void stored(block_id id) noexcept override {
    if constexpr (has_stored<Policy>) policy_.stored(id);
  }
  void forgotten(block_id id) noexcept override {
    if constexpr (has_forgotten<Policy>) policy_.forgotten(id);
  }
  void advance(std::int64_t now) noexcept override {
    if constexpr (has_advance<Policy>) policy_.advance(now);
  }

 private:
  Policy policy_;
};

/// How a manager makes the policy of each of its layer groups.
struct eviction_choice {
  std::unique_ptr<evictor> (*make)(std::int32_t num_blocks);
  std::string_view name;
};

template <class Policy>
inline constexpr eviction_choice eviction_choice_of{[](std::int32_t num_blocks) -> std::unique_ptr<evictor> {
                                                      return std::make_unique<evictor_of<Policy>>(num_blocks);
                                                    },
                                                    Policy::name};

}  // namespace pagoda::detail
