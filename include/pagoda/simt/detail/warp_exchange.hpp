// SPDX-License-Identifier: Apache-2.0
/// @file Where the lanes of a warp meet: every collective is "deposit a value, wait for the mask, read all deposits".
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>
#include <type_traits>
#include <vector>

#include <pagoda/simt/detail/fault.hpp>

namespace pagoda::simt::detail {

// clang-format off
enum class collective : std::uint8_t {
  none, sync, sync_warp, shfl, shfl_xor, shfl_up, shfl_down, ballot, ldmatrix_x2, ldmatrix_x4, ldmatrix_x2_trans,
  ldmatrix_x4_trans, movmatrix_trans, mma_half, mma_bfloat16
};

inline std::string_view name_of(collective kind) {
  constexpr std::string_view names[] = {
      "nothing", "sync", "sync_warp", "shfl", "shfl_xor", "shfl_up", "shfl_down", "ballot", "ldmatrix_x2",
      "ldmatrix_x4", "ldmatrix_x2_trans", "ldmatrix_x4_trans", "movmatrix_trans", "mma_m16n8k16 of half",
      "mma_m16n8k16 of bfloat16"};
  return names[static_cast<std::size_t>(kind)];
}
// clang-format on

inline constexpr std::size_t largest_deposit = 40;

/// The values that the lanes brought, by lane. Only those of the mask's lanes mean anything.
template <class T>
class deposits {
 public:
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= largest_deposit);
  explicit deposits(std::byte* bytes) : bytes_(bytes) {}
  T get(int lane) const {
    T value;
    std::memcpy(&value, bytes_ + static_cast<std::size_t>(lane) * sizeof(T), sizeof(T));
    return value;
  }
  void set(int lane, const T& value) const {
    std::memcpy(bytes_ + static_cast<std::size_t>(lane) * sizeof(T), &value, sizeof(T));
  }

 private:
  std::byte* bytes_;
};

/// One meeting of the lanes in a mask.
struct meeting {
  std::uint32_t mask = 0;
  std::uint32_t arrived = 0;
  std::uint32_t unread = 0;  ///< lanes that have not fetched the last result yet
  collective kind = collective::none;
  unsigned parity = 0;  ///< lanes may deposit for the next meeting while others still read this one's
  source_position at;
  alignas(64) std::byte bytes[2][warp_size * largest_deposit];

  bool is_free() const { return (arrived | unread) == 0; }
};

/// All meetings of one warp.
class warp_meetings {
 public:
  void reset() {
    for (auto& one : all_) one->arrived = one->unread = 0;
  }

  /// The meeting of these lanes: one under way, else one nobody uses. At most 31 others are in use, a lane each.
  meeting& of(std::uint32_t mask) {
    if (recent_ != nullptr && recent_->mask == mask) return *recent_;
    meeting* free = nullptr;
    recent_ = nullptr;
    for (auto& one : all_) {
      if (one->mask == mask) recent_ = one.get();
      if (one->is_free()) free = one.get();
    }
    if (recent_ != nullptr) return *recent_;
    if (free == nullptr) {
      all_.push_back(std::make_unique<meeting>());
      free = all_.back().get();
    }
    free->mask = mask;
    recent_ = free;
    return *free;
  }

  static void close(meeting& one) {
    one.unread = one.mask;
    one.arrived = 0;
    one.parity ^= 1u;
  }

  /// A meeting under way that waits for this lane, or nothing.
  const meeting* waiting_for(std::uint32_t lane_bit) const {
    for (const auto& one : all_) {
      if (one->arrived != 0 && (one->mask & lane_bit) != 0) return one.get();
    }
    return nullptr;
  }

 private:
  std::vector<std::unique_ptr<meeting>> all_;
  meeting* recent_ = nullptr;
};

}  // namespace pagoda::simt::detail
