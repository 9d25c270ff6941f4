// SPDX-License-Identifier: Apache-2.0
// Comparisons and choices by a predicate.
#include "ptx/lanes.hpp"

namespace pagoda_test::ptx {
namespace {

/// What is made of a comparison: setp writes it as a predicate, joins it with another one, or writes its opposite too;
/// set writes all ones or zeros, or the float 1 or 0.
enum class outcome : std::uint8_t { plain, conjunction, disjunction, difference, opposite, mask, number };

template <class T, class Compare>
void execute_comparison(warp& w, const instruction& i, std::uint32_t lanes) {
  const auto what = static_cast<outcome>(i.op.variant);
  const std::size_t first = what == outcome::opposite ? 2 : 1;
  const std::uint64_t* a = w.row(i, first);
  const std::uint64_t* b = w.row(i, first + 1);
  const std::uint64_t* joined = i.operand_count > 3 ? w.row(i, 3) : nullptr;
  std::uint64_t* result = w.row(i, 0);
  for_each_lane(lanes, [&](int lane) {
    const bool holds = Compare{}(register_as<T>::read(a[lane]), register_as<T>::read(b[lane]));
    const bool other = joined != nullptr && register_as<predicate>::read(joined[lane]);
    switch (what) {
      case outcome::plain:
        result[lane] = holds;
        break;
      case outcome::conjunction:
        result[lane] = holds && other;
        break;
      case outcome::disjunction:
        result[lane] = holds || other;
        break;
      case outcome::difference:
        result[lane] = holds != other;
        break;
      case outcome::opposite:
        result[lane] = holds;
        w.row(i, 1)[lane] = !holds;
        break;
      case outcome::mask:
        result[lane] = holds ? 0xffffffffu : 0u;
        break;
      case outcome::number:
        result[lane] = register_as<f32>::write(holds ? 1.0f : 0.0f);
        break;
    }
  });
}

template <class T, class Compare>
void add_comparison(opcode_table& t, const std::string& compare, const std::string& type, Compare) {
  const auto add = [&](const std::string& key, outcome what) {
    t.add(key, {&execute_comparison<T, Compare>, flow::lanes, {}, static_cast<std::uint8_t>(what)});
  };
  const std::string setp = "setp." + compare;
  const std::string set = "set." + compare;
  add(setp + type + "/111", outcome::plain);
  add(setp + type + "/p11", outcome::opposite);
  add(setp + ".and" + type + "/1111", outcome::conjunction);
  add(setp + ".or" + type + "/1111", outcome::disjunction);
  add(setp + ".xor" + type + "/1111", outcome::difference);
  add(set + ".u32" + type + "/111", outcome::mask);
  add(set + ".s32" + type + "/111", outcome::mask);
  add(set + ".f32" + type + "/111", outcome::number);
}

template <class T>
void add_integer_comparisons(opcode_table& t, const std::string& type) {
  add_comparison<T>(t, "eq", type, [](T a, T b) { return a == b; });
  add_comparison<T>(t, "ne", type, [](T a, T b) { return a != b; });
  add_comparison<T>(t, "lt", type, [](T a, T b) { return a < b; });
  add_comparison<T>(t, "le", type, [](T a, T b) { return a <= b; });
  add_comparison<T>(t, "gt", type, [](T a, T b) { return a > b; });
  add_comparison<T>(t, "ge", type, [](T a, T b) { return a >= b; });
  if (std::is_unsigned_v<T>) {
    add_comparison<T>(t, "lo", type, [](T a, T b) { return a < b; });
    add_comparison<T>(t, "ls", type, [](T a, T b) { return a <= b; });
    add_comparison<T>(t, "hi", type, [](T a, T b) { return a > b; });
    add_comparison<T>(t, "hs", type, [](T a, T b) { return a >= b; });
  }
}

/// With a NaN the ordered forms are false and those that end in u are true.
template <class T>
void add_float_comparisons(opcode_table& t, const std::string& type) {
  using V = typename register_as<T>::value;
  add_comparison<T>(t, "eq", type, [](V a, V b) { return a == b; });
  add_comparison<T>(t, "ne", type, [](V a, V b) { return a < b || a > b; });
  add_comparison<T>(t, "lt", type, [](V a, V b) { return a < b; });
  add_comparison<T>(t, "le", type, [](V a, V b) { return a <= b; });
  add_comparison<T>(t, "gt", type, [](V a, V b) { return a > b; });
  add_comparison<T>(t, "ge", type, [](V a, V b) { return a >= b; });
  add_comparison<T>(t, "equ", type, [](V a, V b) { return !(a < b || a > b); });
  add_comparison<T>(t, "neu", type, [](V a, V b) { return a != b; });
  add_comparison<T>(t, "ltu", type, [](V a, V b) { return !(a >= b); });
  add_comparison<T>(t, "leu", type, [](V a, V b) { return !(a > b); });
  add_comparison<T>(t, "gtu", type, [](V a, V b) { return !(a <= b); });
  add_comparison<T>(t, "geu", type, [](V a, V b) { return !(a < b); });
  add_comparison<T>(t, "num", type, [](V a, V b) { return a == a && b == b; });
  add_comparison<T>(t, "nan", type, [](V a, V b) { return a != a || b != b; });
}

template <class T>
void add_choice(opcode_table& t, const std::string& type) {
  on<T, T, T, predicate>(t, "selp." + type, [](T a, T b, bool p) { return p ? a : b; });
  on<T, T, T, std::int32_t>(t, "slct." + type + ".s32", [](T a, T b, std::int32_t c) { return c >= 0 ? a : b; });
  on<T, T, T, f32>(t, "slct." + type + ".f32", [](T a, T b, float c) { return c >= 0 ? a : b; });
  on<T, T, T, f32_ftz>(t, "slct.ftz." + type + ".f32", [](T a, T b, float c) { return c >= 0 ? a : b; });
}

}  // namespace

void add_comparison_opcodes(opcode_table& table) {
  add_integer_comparisons<std::int16_t>(table, ".s16");
  add_integer_comparisons<std::int32_t>(table, ".s32");
  add_integer_comparisons<std::int64_t>(table, ".s64");
  add_integer_comparisons<std::uint16_t>(table, ".u16");
  add_integer_comparisons<std::uint32_t>(table, ".u32");
  add_integer_comparisons<std::uint64_t>(table, ".u64");
  add_integer_comparisons<std::uint16_t>(table, ".b16");
  add_integer_comparisons<std::uint32_t>(table, ".b32");
  add_integer_comparisons<std::uint64_t>(table, ".b64");
  add_float_comparisons<f32>(table, ".f32");
  add_float_comparisons<f32_ftz>(table, ".ftz.f32");
  add_float_comparisons<f64>(table, ".f64");
  add_float_comparisons<f16>(table, ".f16");
  add_float_comparisons<bf16>(table, ".bf16");
  for (const char* type : {"b16", "u16", "s16"}) add_choice<std::uint16_t>(table, type);
  for (const char* type : {"b32", "u32", "s32", "f32"}) add_choice<std::uint32_t>(table, type);
  for (const char* type : {"b64", "u64", "s64", "f64"}) add_choice<std::uint64_t>(table, type);
}

}  // namespace pagoda_test::ptx
