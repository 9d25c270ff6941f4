// SPDX-License-Identifier: Apache-2.0
#include <cxxabi.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <stdexcept>

#include "ptx/module.hpp"
#include "ptx/opcode_table.hpp"
#include "ptx/syntax.hpp"

#include "ptx/fault.hpp"

namespace pagoda_test::ptx {
namespace {

using lines_of_file = std::shared_ptr<const std::vector<std::string>>;

/// The file's variables with initial values: name and address.
using global_addresses = std::map<std::string, std::uint64_t>;

const std::map<std::string, special_register>& special_registers() {
  using enum special_register;
  static const std::map<std::string, special_register> names = {{"%tid.x", tid_x},
                                                                {"%tid.y", tid_y},
                                                                {"%tid.z", tid_z},
                                                                {"%ntid.x", ntid_x},
                                                                {"%ntid.y", ntid_y},
                                                                {"%ntid.z", ntid_z},
                                                                {"%ctaid.x", ctaid_x},
                                                                {"%ctaid.y", ctaid_y},
                                                                {"%ctaid.z", ctaid_z},
                                                                {"%nctaid.x", nctaid_x},
                                                                {"%nctaid.y", nctaid_y},
                                                                {"%nctaid.z", nctaid_z},
                                                                {"%laneid", laneid},
                                                                {"%warpid", warpid},
                                                                {"%nwarpid", nwarpid},
                                                                {"%lanemask_eq", lanemask_eq},
                                                                {"%lanemask_lt", lanemask_lt},
                                                                {"%lanemask_le", lanemask_le},
                                                                {"%lanemask_gt", lanemask_gt},
                                                                {"%lanemask_ge", lanemask_ge},
                                                                {"%total_smem_size", total_shared},
                                                                {"%dynamic_smem_size", dynamic_shared}};
  return names;
}

std::int64_t align_up(std::int64_t value, std::int64_t align) {
  return (value + align - 1) / align * align;
}

class decoder {
 public:
  decoder(const entry_syntax& entry, const module_syntax& source, const std::string& file, lines_of_file lines,
          std::shared_ptr<std::vector<std::byte>> globals, const global_addresses& addresses)
      : entry_(entry), file_(file), line_(entry.line) {
    out_.name = entry.name;
    out_.readable = readable_name(entry.name);
    out_.max_threads = entry.max_threads;
    out_.lines = std::move(lines);
    out_.globals = std::move(globals);
    out_.slots = sink_slot + 1;
    for (const auto& [name, address] : addresses) symbols_[name] = address;
    place_variables(source);
    for (const register_range& range : entry.registers) registers_[range.name] = range.count;
  }

  program run() {
    std::vector<std::size_t> start_of;  // of each statement: an inverted operand takes an instruction of its own
    for (const statement& s : entry_.statements) {
      start_of.push_back(out_.code.size());
      decode(s);
    }
    start_of.push_back(out_.code.size());
    // Falling off the end is a return.
    line_ = entry_.statements.empty() ? entry_.line : entry_.statements.back().line;
    emit("ret", "");
    std::map<std::string, std::int32_t> labels;
    for (const label& l : entry_.labels) labels[l.name] = static_cast<std::int32_t>(start_of[l.statement]);
    for (const auto& [at, name, line] : jumps_) {
      const auto found = labels.find(name);
      if (found == labels.end()) throw load_error(file_, line, "no label '" + name + "'");
      out_.code[at].target = found->second;
    }
    return std::move(out_);
  }

 private:
  [[noreturn]] void fail(const std::string& why) const {
    throw load_error(file_, line_, why + ": " + (*out_.lines)[static_cast<std::size_t>(line_ - 1)]);
  }

  void place_variables(const module_syntax& source) {
    std::vector<const variable*> all;
    for (const variable& v : source.variables) all.push_back(&v);
    for (const variable& v : entry_.variables) all.push_back(&v);
    std::int64_t shared = 0;
    for (const variable* v : all) {
      std::int64_t* end = v->space == variable_space::shared && !v->dynamic ? &shared
                          : v->space == variable_space::local               ? &out_.local_bytes
                          : v->space == variable_space::parameter           ? &out_.parameter_bytes
                                                                            : nullptr;
      if (end == nullptr) continue;
      *end = align_up(*end, v->align);
      const std::uint64_t window = v->space == variable_space::shared  ? shared_begin
                                   : v->space == variable_space::local ? local_window
                                                                       : parameter_window;
      symbols_[v->name] = window + static_cast<std::uint64_t>(*end);
      *end += v->bytes;
    }
    out_.static_shared_bytes = align_up(shared, 16);
    for (const variable* v : all) {
      if (v->space == variable_space::shared && v->dynamic) {
        symbols_[v->name] = shared_begin + static_cast<std::uint64_t>(out_.static_shared_bytes);
      }
    }
  }

  void decode(const statement& s) {
    line_ = s.line;
    const bool jump = s.opcode == "bra" || s.opcode == "bra.uni";
    std::string shape;
    std::vector<std::uint32_t> slots;
    std::vector<std::int64_t> offsets;
    for (const operand_syntax& o : s.operands) {
      shape += jump ? 'l' : o.shape;
      if (o.shape == 'a') offsets.push_back(o.offset);
      if (jump) continue;
      for (const std::string& word : o.words) slots.push_back(slot_of(word, o.shape == '1' ? o.offset : 0));
      if (o.inverted) slots.back() = inverted(slots.back());
    }
    if (jump) jumps_.push_back({out_.code.size(), s.operands.at(0).words.at(0), s.line});
    instruction& result = emit(s.opcode, shape);
    result.first_operand = static_cast<std::uint32_t>(out_.operands.size());
    result.operand_count = static_cast<std::uint32_t>(slots.size());
    out_.operands.insert(out_.operands.end(), slots.begin(), slots.end());
    if (offsets.size() > 2) fail("more than two addresses");
    std::copy(offsets.begin(), offsets.end(), result.offset);
    if (!s.predicate.empty()) {
      result.predicate = static_cast<std::int32_t>(slot_of(s.predicate, 0));
      result.negated = s.negated;
    }
  }

  instruction& emit(const std::string& mnemonic, const std::string& shape) {
    const opcode* meaning = opcode_table::all().find(without_hints(mnemonic), shape);
    if (meaning == nullptr) fail("unknown instruction '" + mnemonic + "' with operands '" + shape + "'");
    const auto [known, fresh] = mnemonics_.try_emplace(mnemonic, static_cast<std::int32_t>(out_.mnemonics.size()));
    if (fresh) out_.mnemonics.push_back(mnemonic);
    instruction result;
    result.op = *meaning;
    result.line = line_;
    result.mnemonic = known->second;
    out_.code.push_back(result);
    return out_.code.back();
  }

  /// `!p` as an operand: a register that holds the opposite, made by an instruction before.
  std::uint32_t inverted(std::uint32_t slot) {
    const std::uint32_t opposite = out_.slots++;
    instruction& result = emit("not.pred", "11");
    result.first_operand = static_cast<std::uint32_t>(out_.operands.size());
    result.operand_count = 2;
    out_.operands.insert(out_.operands.end(), {opposite, slot});
    return opposite;
  }

  std::uint32_t slot_of(const std::string& word, std::int64_t offset) {
    if (word == "_") return sink_slot;
    if (const auto known = slots_.find(word); known != slots_.end() && offset == 0) return known->second;
    if (is_register(word)) {
      if (offset != 0) fail("an offset outside an address");
      return slots_[word] = out_.slots++;
    }
    if (const auto special = special_registers().find(word); special != special_registers().end()) {
      out_.special_slots.push_back({out_.slots, special->second});
      return slots_[word] = out_.slots++;
    }
    const std::optional<std::uint64_t> value = value_of(word);
    if (!value) fail("'" + word + "' is neither declared nor a number");
    return constant(*value + static_cast<std::uint64_t>(offset));
  }

  bool is_register(const std::string& word) const {
    if (const auto found = registers_.find(word); found != registers_.end()) return found->second == 0;
    // %r12 of `.reg .b32 %r<13>`
    std::size_t digits = word.size();
    while (digits > 0 && std::isdigit(static_cast<unsigned char>(word[digits - 1])) != 0) --digits;
    if (digits == word.size()) return false;
    const auto found = registers_.find(word.substr(0, digits));
    return found != registers_.end() && std::strtoll(word.c_str() + digits, nullptr, 10) < found->second;
  }

  std::optional<std::uint64_t> value_of(const std::string& word) const {
    if (const auto symbol = symbols_.find(word); symbol != symbols_.end()) return symbol->second;
    const bool negative = word[0] == '-';
    const char* digits = word.c_str() + (negative ? 1 : 0);
    if (std::isdigit(static_cast<unsigned char>(*digits)) == 0) return std::nullopt;
    char* end = nullptr;
    std::uint64_t value = 0;
    if (digits[0] == '0' && std::strchr("fFdD", digits[1]) != nullptr && digits[1] != '\0') {
      value = std::strtoull(digits + 2, &end, 16);  // the bits of a float or double
    } else {
      value = std::strtoull(digits, &end, 0);
      if (*end == 'U') ++end;
    }
    if (*end != '\0') return std::nullopt;
    return negative ? ~value + 1 : value;
  }

  std::uint32_t constant(std::uint64_t value) {
    const auto [known, fresh] = constant_slots_.try_emplace(value, out_.slots);
    if (fresh) {
      out_.constants.push_back({out_.slots, value});
      ++out_.slots;
    }
    return known->second;
  }

  struct jump {
    std::size_t at;
    std::string label;
    int line;
  };

  const entry_syntax& entry_;
  std::string file_;
  int line_ = 0;
  program out_;
  std::map<std::string, std::uint64_t> symbols_;
  std::map<std::string, std::int64_t> registers_;
  std::map<std::string, std::uint32_t> slots_;
  std::map<std::uint64_t, std::uint32_t> constant_slots_;
  std::map<std::string, std::int32_t> mnemonics_;
  std::vector<jump> jumps_;
};

}  // namespace

std::string readable_name(const std::string& mangled) {
  int status = 0;
  char* name = abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status);
  std::string result = status == 0 && name != nullptr ? name : mangled;
  std::free(name);
  return result;
}

module module::load(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw load_error(path, 0, "cannot be read");
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  return parse(text, path);
}

module module::parse(std::string_view text, const std::string& name) {
  auto lines = std::make_shared<std::vector<std::string>>();
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    const std::size_t first = std::min(line.find_first_not_of(" \t"), line.size());
    lines->emplace_back(line.substr(first));
    std::replace(lines->back().begin(), lines->back().end(), '\t', ' ');
    begin = end + 1;
  }
  const module_syntax source = ptx::parse(text, name);
  std::int64_t bytes = 0;
  global_addresses offsets;
  for (const variable& v : source.variables) {
    if (v.space != variable_space::global) continue;
    bytes = align_up(bytes, std::max<std::int64_t>(v.align, 16));
    offsets[v.name] = static_cast<std::uint64_t>(bytes);
    bytes += v.bytes;
  }
  auto globals = std::make_shared<std::vector<std::byte>>(static_cast<std::size_t>(bytes));
  for (const variable& v : source.variables) {
    if (!v.initial.empty()) std::memcpy(globals->data() + offsets[v.name], v.initial.data(), v.initial.size());
  }
  for (auto& [unused, offset] : offsets) offset += reinterpret_cast<std::uintptr_t>(globals->data());
  module result;
  for (const entry_syntax& entry : source.entries) {
    result.entries_.push_back(
        std::make_shared<const program>(decoder(entry, source, name, lines, globals, offsets).run()));
  }
  return result;
}

std::shared_ptr<const program> module::entry(std::string_view part) const {
  std::vector<std::shared_ptr<const program>> found;
  std::string names;
  for (const auto& candidate : entries_) {
    if (candidate->name == part || candidate->readable == part) return candidate;
    if (candidate->name.find(part) != std::string::npos || candidate->readable.find(part) != std::string::npos) {
      found.push_back(candidate);
    }
    names += "\n  " + candidate->readable;
  }
  if (found.size() == 1) return found[0];
  throw std::invalid_argument(std::to_string(found.size()) + " entries contain '" + std::string(part) +
                              "', and one is wanted; the file has:" + names);
}

}  // namespace pagoda_test::ptx
