// SPDX-License-Identifier: Apache-2.0
/// @file Reading binary files: all bytes of a file, and little-endian numbers from bytes.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <fstream>
#include <new>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "error.hpp"

static_assert(std::endian::native == std::endian::little, "the files are little-endian: swap bytes on this machine");

/// Throws: std::runtime_error if the file cannot be read.
inline std::vector<std::byte> read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  const std::streamoff size = file ? static_cast<std::streamoff>(file.tellg()) : -1;
  std::vector<std::byte> bytes;
  // A directory opens, and claims to be as large as can be.
  if (size >= 0 && size < (std::streamoff{1} << 48)) {
    bytes.resize(static_cast<std::size_t>(size));
    file.seekg(0).read(reinterpret_cast<char*>(bytes.data()), size);
  }
  if (!file || static_cast<std::streamoff>(bytes.size()) != size) {
    refuse("cannot read \"", path, "\": pass the path of a readable file");
  }
  return bytes;
}

/// What parse(bytes of the file) returns. Throws: std::runtime_error, with the path in front of what parse has to say.
template <class Parse>
auto parse_file(const std::string& path, Parse&& parse) {
  const std::vector<std::byte> bytes = read_file(path);
  try {
    return parse(bytes);
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    refuse("\"", path, "\": ", error.what());
  }
}

/// Takes numbers from the front of some bytes.
class byte_reader {
 public:
  /// `what` names the bytes in messages.
  byte_reader(std::span<const std::byte> bytes, std::string what) : bytes_(bytes), what_(std::move(what)) {}

  std::int64_t remaining() const { return static_cast<std::int64_t>(bytes_.size()); }

  /// Throws: std::runtime_error if fewer than `count` bytes remain. `part` names them in the message.
  std::span<const std::byte> take(std::int64_t count, const char* part) {
    if (count > remaining()) {
      refuse("the ", what_, " is truncated: ", part, " takes ", count, " bytes, but only ", remaining(),
             " remain: download the file again");
    }
    const auto taken = bytes_.first(static_cast<std::size_t>(count));
    bytes_ = bytes_.subspan(static_cast<std::size_t>(count));
    return taken;
  }

  template <class T>
  T number(const char* part) {
    T value;
    std::memcpy(&value, take(sizeof(T), part).data(), sizeof(T));
    return value;
  }

  std::vector<float> floats(std::int64_t count, const char* part) {
    const auto taken = take(count * static_cast<std::int64_t>(sizeof(float)), part);
    std::vector<float> values(static_cast<std::size_t>(count));
    if (count > 0) std::memcpy(values.data(), taken.data(), taken.size());
    return values;
  }

 private:
  std::span<const std::byte> bytes_;
  std::string what_;
};
