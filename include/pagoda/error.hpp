// SPDX-License-Identifier: Apache-2.0
/// @file The exceptions of the library, each derived from a standard one, and the helpers that throw them.
///
/// A message names the value, the limit and the remedy. A call that throws has changed nothing.
#pragma once

#include <cstdint>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>

#include <pagoda/config.hpp>

namespace pagoda {

/// An argument that can never be right: a zero size, an unknown name, a stale sequence, a mask that does not fit.
class invalid_argument : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

/// An index outside its range: a block id, a layer, a group.
class out_of_range : public std::out_of_range {
 public:
  using std::out_of_range::out_of_range;
};

/// A product or sum of sizes that does not fit 64 bits, or a length that does not fit its type.
class size_overflow : public std::overflow_error {
 public:
  using std::overflow_error::overflow_error;
};

/// A call at the wrong time: committing a step twice, planning a sequence that is in an open step.
class logic_error : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

/// A capacity fixed at construction is used up: sequences, batch, open steps.
class capacity_exceeded : public std::length_error {
 public:
  using std::length_error::length_error;
};

/// Why a plan did not fit: the first layer group that lacks blocks, and what it has.
/// Units: blocks.
struct shortage {
  std::int32_t group = 0;      ///< index of the layer group
  std::int32_t needed = 0;     ///< blocks that the whole batch needs in it
  std::int32_t free = 0;       ///< blocks free at once
  std::int32_t evictable = 0;  ///< cached blocks that may be reused at once
  std::int32_t retiring = 0;   ///< blocks that come free when their ticket completes
};

/// The pool has fewer free and evictable blocks than a call needs.
class out_of_blocks : public std::bad_alloc {
 public:
  explicit out_of_blocks(const shortage& why)
      : why_(why),
        message_("pagoda: layer group " + std::to_string(why.group) + " needs " + std::to_string(why.needed) +
                 " more blocks and has " + std::to_string(why.free) + " free, " + std::to_string(why.evictable) +
                 " evictable (" + std::to_string(why.retiring) +
                 " retiring): release or truncate a sequence, complete a ticket, or build the pool with more blocks") {}
  const char* what() const noexcept override { return message_.c_str(); }
  const shortage& why() const noexcept { return why_; }

 private:
  shortage why_;
  std::string message_;
};

namespace detail {

/// One piece of an error message: text or a number.
class message_part {
 public:
  message_part(const char* text) : text_(text) {}                           // NOLINT: implicit on purpose
  message_part(std::string_view text) : text_(text) {}                      // NOLINT
  message_part(const std::string& text) : text_(text) {}                    // NOLINT
  message_part(std::int32_t value) : text_(std::to_string(value)) {}        // NOLINT
  message_part(std::uint32_t value) : text_(std::to_string(value)) {}       // NOLINT
  message_part(long value) : text_(std::to_string(value)) {}                // NOLINT
  message_part(long long value) : text_(std::to_string(value)) {}           // NOLINT
  message_part(unsigned long value) : text_(std::to_string(value)) {}       // NOLINT
  message_part(unsigned long long value) : text_(std::to_string(value)) {}  // NOLINT
  message_part(double value) : text_(std::to_string(value)) {}              // NOLINT
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

/// Throws Exception with the parts joined after "pagoda: ".
template <class Exception = invalid_argument, class... Parts>
PAGODA_COLD void fail(const Parts&... parts) {
  std::string message = "pagoda: ";
  ((message += message_part(parts).text()), ...);
  throw Exception(message);
}

}  // namespace detail
}  // namespace pagoda
