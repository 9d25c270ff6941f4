// SPDX-License-Identifier: Apache-2.0
#include "ptx/shared_memory.hpp"

#include <cstring>

namespace pagoda_test::ptx {

void shared_memory::reset(std::size_t bytes, bool check_races, bool check_uninitialized) {
  bytes_.assign(bytes, std::byte{0xff});
  shadow_.assign(bytes, shadow{});
  check_races_ = check_races;
  check_uninitialized_ = check_uninitialized;
  time_ = 1;
  block_time_ = 1;
  warp_time_.fill(1);
}

std::string shared_memory::describe(const char* what, std::size_t offset, const char* other, std::uint32_t thread,
                                    const char* remedy) const {
  return std::string(what) + " byte " + std::to_string(offset) + " of shared memory" + other + std::to_string(thread) +
         remedy;
}

void shared_memory::note_read(shadow& s, shared_user user) const {
  const bool fresh = s.read_time == 0 || ordered(s.read_time, s.reader / 32u, user.warp());
  const bool other_warp = s.read_time >= block_time_ && s.reader / 32u != user.warp();
  s.several_warps = (s.several_warps && s.read_time >= block_time_) || other_warp;
  s.several_lanes = user.whole_warp || (!fresh && (s.several_lanes || s.reader != user.thread));
  s.reader = static_cast<std::uint16_t>(user.thread);
  s.read_time = time_;
}

template <class One>
std::string shared_memory::for_each_byte(std::size_t offset, std::size_t count, One one) {
  const shadow before = shadow_[offset];
  std::string why = one(offset);
  const shadow after = shadow_[offset];
  for (std::size_t i = offset + 1; why.empty() && i < offset + count; ++i) {
    if (shadow_[i].same_bits(before)) {
      shadow_[i] = after;
    } else {
      why = one(i);
    }
  }
  return why;
}

std::string shared_memory::read(shared_user user, std::size_t offset, std::size_t count, bool atomic) {
  return for_each_byte(offset, count, [&](std::size_t byte) { return read_byte(user, byte, atomic); });
}

std::string shared_memory::read_byte(shared_user user, std::size_t byte, bool atomic) {
  shadow& s = shadow_[byte];
  if (s.pending) {
    return describe("reads", byte, ", where a cp.async of thread ", s.writer,
                    " has not landed: cp.async.wait_group, then a barrier");
  }
  if (!s.written && check_uninitialized_) {
    return "reads byte " + std::to_string(byte) + " of shared memory, which nobody has written";
  }
  if (!check_races_) return {};
  const bool same = s.writer == user.thread && !user.whole_warp;
  if (s.written && !same && !(atomic && s.atomically) && !ordered(s.write_time, s.writer / 32u, user.warp())) {
    return describe("race: reads", byte, ", written by thread ", s.writer, " with no barrier between");
  }
  if (!atomic) note_read(s, user);
  return {};
}

std::string shared_memory::check_write(shared_user user, std::size_t byte, bool atomic) const {
  const shadow& s = shadow_[byte];
  if (s.pending) {
    return describe("writes", byte, ", where a cp.async of thread ", s.writer, " has not landed");
  }
  if (!check_races_) return {};
  if (s.written && s.writer != user.thread && !(atomic && s.atomically) &&
      !ordered(s.write_time, s.writer / 32u, user.warp())) {
    return describe("race: writes", byte, ", written by thread ", s.writer, " with no barrier between");
  }
  if (s.read_time < block_time_) return {};
  const std::uint32_t reader_warp = s.reader / 32u;
  const bool read_by_other_warp = s.several_warps || reader_warp != user.warp();
  const bool read_by_other_lane = !read_by_other_warp && (s.several_lanes || s.reader != user.thread) &&
                                  !ordered(s.read_time, reader_warp, user.warp());
  if (read_by_other_warp || read_by_other_lane) {
    return describe("race: writes", byte, ", read by thread ", s.reader, " with no barrier between");
  }
  return {};
}

std::string shared_memory::write(shared_user user, std::size_t offset, std::size_t count, bool atomic) {
  return for_each_byte(offset, count, [&](std::size_t byte) { return write_byte(user, byte, atomic); });
}

std::string shared_memory::write_byte(shared_user user, std::size_t byte, bool atomic) {
  std::string why = check_write(user, byte, atomic);
  if (!why.empty()) return why;
  shadow& s = shadow_[byte];
  s.write_time = time_;
  s.writer = static_cast<std::uint16_t>(user.thread);
  s.written = 1;
  s.atomically = atomic;
  return {};
}

std::string shared_memory::begin_copy(std::uint32_t thread, std::size_t offset, std::size_t count) {
  std::string why = write({thread}, offset, count);
  if (!why.empty()) return why;
  for (std::size_t i = offset; i < offset + count; ++i) shadow_[i].pending = 1;
  std::memset(at(offset), 0xff, count);
  return {};
}

std::string shared_memory::land_copy(std::uint32_t thread, std::size_t offset, std::size_t count, const std::byte* from,
                                     std::size_t valid) {
  for (std::size_t i = offset; i < offset + count; ++i) shadow_[i].pending = 0;
  std::string why = write({thread}, offset, count);
  if (!why.empty()) return why;
  if (valid > 0) std::memcpy(at(offset), from, valid);
  std::memset(at(offset + valid), 0, count - valid);
  return {};
}

}  // namespace pagoda_test::ptx
