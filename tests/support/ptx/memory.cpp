// SPDX-License-Identifier: Apache-2.0
// Loads and stores, and where an address leads.
#include <array>
#include <cstdio>
#include <cstring>

#include "ptx/lanes.hpp"

namespace pagoda_test::ptx {
namespace {

std::string hex(std::uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

void check_alignment(const warp& w, const instruction& i, int lane, std::uint64_t address, std::uint32_t bytes) {
  if ((address & (bytes - 1)) == 0) return;  // sizes are powers of two
  w.fail(i, lane, "misaligned: " + std::to_string(bytes) + " bytes at address " + hex(address));
}

/// Null pointers and small offsets from them are never global memory.
constexpr std::uint64_t first_global_address = 0x10000;
constexpr std::uint64_t last_global_address = std::uint64_t{1} << 56;

std::byte* resolve_local(warp& w, const instruction& i, int lane, std::uint64_t address, std::uint32_t bytes) {
  std::vector<std::byte>& local = w.local_memory(lane);
  const std::uint64_t offset = address & ~window_mask;
  if (offset + bytes > local.size()) w.fail(i, lane, "local memory out of range: " + hex(offset));
  return local.data() + offset;
}

std::byte* resolve_parameter(warp& w, const instruction& i, int lane, std::uint64_t address, std::uint32_t bytes,
                             bool writes) {
  std::vector<std::byte>& parameters = w.owner().parameters;
  const std::uint64_t offset = address & ~window_mask;
  if ((address & window_mask) != parameter_window || offset + bytes > parameters.size()) {
    w.fail(i, lane, "parameters out of range: " + std::to_string(bytes) + " bytes at " + hex(offset));
  }
  if (writes) w.fail(i, lane, "writes the kernel's parameters");
  return parameters.data() + offset;
}

}  // namespace

std::byte* resolve_global(warp& w, const instruction& i, int lane, std::uint64_t address, std::uint32_t bytes) {
  check_alignment(w, i, lane, address, bytes);
  if (address < first_global_address || address >= last_global_address) {
    w.fail(i, lane,
           "not global memory: address " + hex(address) +
               (address < first_global_address ? ", a null pointer and an offset" : ""));
  }
  const std::vector<global_range>& ranges = w.owner().options->ranges;
  bool inside = ranges.empty();
  for (const global_range& range : ranges) inside |= address >= range.begin && address + bytes <= range.end;
  if (!inside) {
    const std::vector<std::byte>& own = *w.owner().code->globals;
    const auto begin = reinterpret_cast<std::uintptr_t>(own.data());
    inside = address >= begin && address + bytes <= begin + own.size();
  }
  if (!inside) {
    w.fail(i, lane,
           "global memory out of range: " + std::to_string(bytes) + " bytes at " + hex(address) +
               " lie in none of the " + std::to_string(ranges.size()) + " ranges allowed");
  }
  return reinterpret_cast<std::byte*>(address);
}

std::uint32_t resolve_shared(warp& w, const instruction& i, int lane, std::uint64_t address, std::uint32_t bytes) {
  check_alignment(w, i, lane, address, bytes);
  const auto place = static_cast<std::uint32_t>(address);
  const std::uint64_t offset = std::uint64_t{place} - shared_begin;
  const std::uint64_t size = w.owner().shared.size();
  if (place < shared_begin || offset + bytes > size) {
    w.fail(i, lane,
           "shared memory out of range: " + std::to_string(bytes) + " bytes at offset " +
               std::to_string(static_cast<std::int64_t>(offset)) + " of " + std::to_string(size));
  }
  return static_cast<std::uint32_t>(offset);
}

std::byte* resolve(warp& w, const instruction& i, int lane, state_space space, std::uint64_t address,
                   std::uint32_t bytes, bool reads, bool writes, bool atomic) {
  if (space == state_space::generic) {
    space = (address & window_mask) == shared_window      ? state_space::shared
            : (address & window_mask) == local_window     ? state_space::local
            : (address & window_mask) == parameter_window ? state_space::parameter
                                                          : state_space::global;
  }
  if (space == state_space::global) return resolve_global(w, i, lane, address, bytes);
  if (space == state_space::shared) {
    const std::uint32_t offset = resolve_shared(w, i, lane, address, bytes);
    shared_memory& shared = w.owner().shared;
    std::string why;
    if (reads) why = shared.read({w.thread_of(lane)}, offset, bytes, atomic);
    if (writes && why.empty()) why = shared.write({w.thread_of(lane)}, offset, bytes, atomic);
    if (!why.empty()) w.fail(i, lane, why);
    return shared.at(offset);
  }
  check_alignment(w, i, lane, address, bytes);
  return space == state_space::local ? resolve_local(w, i, lane, address, bytes)
                                     : resolve_parameter(w, i, lane, address, bytes, writes);
}

namespace {

template <class T>
std::uint64_t load_as(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return static_cast<std::uint64_t>(value);  // signed types extend their sign
}

std::uint64_t load_element(const std::byte* from, const memory_access& access) {
  switch (access.element_bytes) {
    case 1:
      return access.sign_extended ? load_as<std::int8_t>(from) : load_as<std::uint8_t>(from);
    case 2:
      return access.sign_extended ? load_as<std::int16_t>(from) : load_as<std::uint16_t>(from);
    case 4:
      return access.sign_extended ? load_as<std::int32_t>(from) : load_as<std::uint32_t>(from);
    default:
      return load_as<std::uint64_t>(from);
  }
}

void execute_load(warp& w, const instruction& i, std::uint32_t lanes) {
  const memory_access& access = i.op.memory;
  const std::uint32_t bytes = std::uint32_t{access.element_bytes} * access.elements;
  const std::uint64_t* address = w.row(i, access.elements);
  for_each_lane(lanes, [&](int lane) {
    const std::byte* from =
        resolve(w, i, lane, access.space, address[lane] + static_cast<std::uint64_t>(i.offset[0]), bytes, true, false);
    for (std::size_t e = 0; e < access.elements; ++e) {
      w.row(i, e)[lane] = load_element(from + e * access.element_bytes, access);
    }
  });
}

void execute_store(warp& w, const instruction& i, std::uint32_t lanes) {
  const memory_access& access = i.op.memory;
  const std::uint32_t bytes = std::uint32_t{access.element_bytes} * access.elements;
  const std::uint64_t* address = w.row(i, 0);
  for_each_lane(lanes, [&](int lane) {
    std::byte* to =
        resolve(w, i, lane, access.space, address[lane] + static_cast<std::uint64_t>(i.offset[0]), bytes, false, true);
    for (std::size_t e = 0; e < access.elements; ++e) {
      // Registers are little-endian, as memory is.
      std::memcpy(to + e * access.element_bytes, &w.row(i, e + 1)[lane], access.element_bytes);
    }
  });
}

struct element_type {
  const char* name;
  std::uint8_t bytes;
  bool is_signed;
};

constexpr std::array<element_type, 17> element_types = {{{"b8", 1, false},
                                                         {"u8", 1, false},
                                                         {"s8", 1, true},
                                                         {"b16", 2, false},
                                                         {"u16", 2, false},
                                                         {"s16", 2, true},
                                                         {"f16", 2, false},
                                                         {"bf16", 2, false},
                                                         {"b32", 4, false},
                                                         {"u32", 4, false},
                                                         {"s32", 4, true},
                                                         {"f32", 4, false},
                                                         {"f16x2", 4, false},
                                                         {"b64", 8, false},
                                                         {"u64", 8, false},
                                                         {"s64", 8, false},
                                                         {"f64", 8, false}}};

struct named_space {
  const char* name;
  state_space space;
};

}  // namespace

void add_memory_opcodes(opcode_table& table) {
  constexpr std::array<named_space, 8> spaces = {{{"", state_space::generic},
                                                  {".global", state_space::global},
                                                  {".global.nc", state_space::global},
                                                  {".const", state_space::global},
                                                  {".shared", state_space::shared},
                                                  {".shared::cta", state_space::shared},
                                                  {".local", state_space::local},
                                                  {".param", state_space::parameter}}};
  for (const named_space& from : spaces) {
    for (const element_type& type : element_types) {
      for (const int elements : {1, 2, 4}) {
        if (type.bytes * elements > 16) continue;
        const std::string count(1, static_cast<char>('0' + elements));
        const std::string vector = elements == 1 ? std::string() : ".v" + count;
        const memory_access access = {from.space, type.bytes, static_cast<std::uint8_t>(elements), type.is_signed};
        const std::string name = from.name + vector + "." + type.name;
        table.add("ld" + name + "/" + count + "a", {&execute_load, flow::lanes, access});
        table.add("st" + name + "/a" + count, {&execute_store, flow::lanes, access});
      }
    }
  }
}

}  // namespace pagoda_test::ptx
