// SPDX-License-Identifier: Apache-2.0
/// @file The sections and symbols of a 64-bit little-endian ELF file, which is what a cubin is.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace cubin {

/// Units: bytes. `data` is empty for a section that takes no room in the file; `size` holds for every section.
struct section {
  std::string name;
  std::uint32_t type = 0;
  std::uint32_t info = 0;
  std::uint64_t size = 0;
  std::span<const std::byte> data;
};

/// Units: value and size in bytes, value within the section.
struct symbol {
  std::string name;
  std::uint8_t type = 0;
  std::uint32_t section = 0;
  std::uint64_t value = 0;
  std::uint64_t size = 0;
};

/// The integer or trivial struct at a byte offset.
/// Throws: std::runtime_error when it would pass the end.
template <class T>
T read_at(std::span<const std::byte> bytes, std::uint64_t offset) {
  static_assert(std::is_trivially_copyable_v<T>);
  if (offset > bytes.size() || sizeof(T) > bytes.size() - offset) {
    throw std::runtime_error("cubin: offset " + std::to_string(offset) + " of " + std::to_string(sizeof(T)) +
                             " bytes passes the end at " + std::to_string(bytes.size()));
  }
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

/// A file read whole. Sections point into it, so it is moved, not copied.
class elf_file {
 public:
  static constexpr std::uint8_t function_type = 2;
  static constexpr std::uint16_t cuda_machine = 190;

  /// Throws: std::runtime_error naming the path when it is not the ELF file of a CUDA device.
  static elf_file load(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) throw std::runtime_error("cubin: " + path + " cannot be opened");
    std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    std::vector<std::byte> bytes(text.size());
    std::transform(text.begin(), text.end(), bytes.begin(), [](char c) { return static_cast<std::byte>(c); });
    try {
      return elf_file(std::move(bytes));
    } catch (const std::runtime_error& error) {
      throw std::runtime_error(path + ": " + error.what());
    }
  }

  explicit elf_file(std::vector<std::byte> bytes) : bytes_(std::move(bytes)) {
    constexpr std::uint8_t magic[6] = {0x7f, 'E', 'L', 'F', 2, 1};
    if (bytes_.size() < sizeof(header) || std::memcmp(bytes_.data(), magic, sizeof(magic)) != 0) {
      throw std::runtime_error("cubin: not a 64-bit little-endian ELF file");
    }
    const auto head = read_at<header>(bytes_, 0);
    if (head.machine != cuda_machine) {
      throw std::runtime_error("cubin: ELF machine " + std::to_string(head.machine) + " is not CUDA's, " +
                               std::to_string(cuda_machine));
    }
    // Up to ABI 7 the architecture is the lowest byte of the flags, from ABI 8 on the second.
    architecture_ = static_cast<int>(head.abi_version >= 8 ? head.flags >> 8 & 0xffffu : head.flags & 0xffu);
    read_sections(head);
    read_symbols();
  }

  elf_file(elf_file&&) = default;
  elf_file& operator=(elf_file&&) = default;

  /// 80 for sm_80.
  int architecture() const noexcept { return architecture_; }
  const std::vector<section>& sections() const noexcept { return sections_; }
  const std::vector<symbol>& symbols() const noexcept { return symbols_; }

  /// The section of that name, or null.
  const section* find(std::string_view name) const noexcept {
    for (const section& s : sections_) {
      if (s.name == name) return &s;
    }
    return nullptr;
  }

 private:
  static constexpr std::uint32_t symbol_table = 2;
  static constexpr std::uint32_t no_bits = 8;

  struct header {
    std::uint8_t magic[7];
    std::uint8_t os_abi;
    std::uint8_t abi_version;
    std::uint8_t padding[7];
    std::uint16_t type, machine;
    std::uint32_t version;
    std::uint64_t entry, program_headers, section_headers;
    std::uint32_t flags;
    std::uint16_t header_size, program_size, program_count, section_size, section_count, section_names;
  };
  struct section_header {
    std::uint32_t name, type;
    std::uint64_t flags, address, offset, size;
    std::uint32_t link, info;
    std::uint64_t alignment, entry_size;
  };
  struct symbol_entry {
    std::uint32_t name;
    std::uint8_t info, other;
    std::uint16_t section;
    std::uint64_t value, size;
  };
  static_assert(sizeof(header) == 64 && sizeof(section_header) == 64 && sizeof(symbol_entry) == 24);

  std::span<const std::byte> range(std::uint64_t offset, std::uint64_t size) const {
    if (offset > bytes_.size() || size > bytes_.size() - offset) {
      throw std::runtime_error("cubin: a section passes the end of the file");
    }
    return std::span<const std::byte>(bytes_).subspan(static_cast<std::size_t>(offset), static_cast<std::size_t>(size));
  }

  static std::string text_at(std::span<const std::byte> strings, std::uint64_t offset) {
    std::string text;
    for (;; ++offset) {
      const char c = read_at<char>(strings, offset);
      if (c == '\0') return text;
      text += c;
    }
  }

  void read_sections(const header& head) {
    if (head.section_size != sizeof(section_header)) throw std::runtime_error("cubin: section headers of another size");
    std::vector<section_header> headers;
    for (std::uint64_t i = 0; i < head.section_count; ++i) {
      headers.push_back(read_at<section_header>(bytes_, head.section_headers + i * sizeof(section_header)));
    }
    const section_header& names = headers.at(head.section_names);
    const auto strings = range(names.offset, names.size);
    for (const section_header& h : headers) {
      section s{text_at(strings, h.name), h.type, h.info, h.size, {}};
      if (h.type != no_bits && h.type != 0) s.data = range(h.offset, h.size);
      sections_.push_back(std::move(s));
      links_.push_back(h.link);
    }
  }

  void read_symbols() {
    for (std::size_t table = 0; table < sections_.size(); ++table) {
      if (sections_[table].type != symbol_table) continue;
      const auto strings = sections_.at(links_[table]).data;
      for (std::uint64_t at = 0; at + sizeof(symbol_entry) <= sections_[table].size; at += sizeof(symbol_entry)) {
        const auto entry = read_at<symbol_entry>(sections_[table].data, at);
        symbols_.push_back({text_at(strings, entry.name), static_cast<std::uint8_t>(entry.info & 15u), entry.section,
                            entry.value, entry.size});
      }
    }
  }

  std::vector<std::byte> bytes_;
  int architecture_ = 0;
  std::vector<section> sections_;
  std::vector<std::uint32_t> links_;
  std::vector<symbol> symbols_;
};

}  // namespace cubin
