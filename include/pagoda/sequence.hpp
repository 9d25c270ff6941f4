// SPDX-License-Identifier: Apache-2.0
/// @file sequence: the handle of one sequence's tokens in a cache.
#pragma once

#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>

#include <pagoda/manager_core.hpp>

namespace pagoda {

struct transferred;

/// Owns one sequence of a block manager; its blocks go back when it dies. Not a template: a request type that holds one
/// does not depend on how the cache stores its bytes.
///
/// A handle may outlive its manager; it then owns nothing. Handles follow the manager's rule: one thread at a time.
class [[nodiscard]] sequence {
 public:
  sequence() noexcept = default;
  sequence(sequence&& other) noexcept : core_(std::exchange(other.core_, nullptr)), id_(std::exchange(other.id_, {})) {}
  sequence& operator=(sequence&& other) noexcept {
    sequence(std::move(other)).swap(*this);
    return *this;
  }
  ~sequence() {
    if (core_ != nullptr) {
      core_->release(id_);
      core_->drop_handle();
    }
  }

  sequence_id id() const noexcept { return id_; }
  operator sequence_id() const noexcept { return id_; }  // NOLINT: a batch is written {{seq, 7}}

  /// Whether this handle owns a sequence of a living manager.
  explicit operator bool() const noexcept { return core_ != nullptr && !core_->closed(); }

  /// Committed tokens, dropped ones included: the position of the next token.
  /// Throws: invalid_argument for an empty handle; logic_error if the manager has died.
  std::int64_t position() const { return core().position(id_); }

  /// Committed tokens that the group still holds; less than position() where retention has dropped blocks.
  std::int64_t resident(int group = only_group) const { return core().resident(id_, group); }

 private:
  friend class block_manager;
  friend transferred transfer(block_manager& from, std::span<const sequence_id> ids, block_manager& to);

  sequence(manager_core& core, sequence_id id) noexcept : core_(&core), id_(id) { core.add_handle(); }

  manager_core& core() const {
    if (core_ == nullptr) detail::fail("this sequence handle is empty: make one with make_sequence() or fork()");
    return *core_;
  }
  void swap(sequence& other) noexcept {
    std::swap(core_, other.core_);
    std::swap(id_, other.id_);
  }

  manager_core* core_ = nullptr;
  sequence_id id_{};
};

static_assert(sizeof(sequence) == 16 && std::is_nothrow_move_constructible_v<sequence>);

}  // namespace pagoda
