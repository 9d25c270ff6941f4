// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include <pagoda/kernels/generic_attention.hpp>
#include <pagoda/kernels/merge.hpp>
#include <pagoda/kernels/plan_chunks.hpp>
#include <pagoda/kernels/tensor_decode.hpp>
#include <pagoda/kernels/tensor_prefill.hpp>
#include <pagoda/quantizer/fp8_e4m3.hpp>
#include <pagoda/quantizer/identity.hpp>
#include <pagoda/quantizer/int4_per_token.hpp>
#include <pagoda/quantizer/int8_per_token.hpp>

#include "budgets.hpp"

namespace pagoda_gates {
namespace {

using namespace pagoda;
using namespace pagoda::kernels;

/// Of a kernel on both architectures: registers of a thread, and instructions of the main loop for 16 KV tokens.
struct limits {
  int registers;
  int loop;
};

/// The copies of 16 bytes that each of `lanes` threads issues for a tile of 16 rows.
template <class Quantizer, int Dim>
constexpr int copies_of_tile(int lanes) {
  constexpr int chunks = 16 * static_cast<int>(row_bytes<Quantizer>(Dim) / 16);
  return (chunks + lanes - 1) / lanes;
}

template <class Kernel, class Quantizer, int Dim>
budget tensor_budget(const std::string& group, int lanes, limits most) {
  budget b = budget_of<Kernel>(group);
  b.launch.tiles_per_iteration = Kernel::tiles;
  b.registers = {most.registers, most.registers};
  b.blocks = {1, 2};
  if constexpr (requires { Kernel::resident_blocks; }) b.blocks.sm_90 = Kernel::resident_blocks;
  b.loop_instructions = {most.loop, most.loop};
  b.loop_copies_16 = Kernel::tiles * 2 * copies_of_tile<Quantizer, Dim>(lanes);
  b.narrow_copies = has_scale_v<typename Quantizer::scale_type> ? 6 : 0;
  return b;
}

template <class Quantizer, int Dim, bool Extras>
budget decode_budget(const std::string& group, limits most) {
  using kernel = tensor_decode<Quantizer, Quantizer, Dim, Extras>;
  budget b = tensor_budget<kernel, Quantizer, Dim>(group, simt::warp_size, most);
  // While a warp works on one slot of its ring, the copies to the others are under way.
  b.launch.bytes_in_flight = kernel::warps * (kernel::slots - 1) * kernel::slot_bytes;
  b.kib_in_flight = {Dim == 128 ? 64 : 32, Dim == 128 ? 96 : 54};
  b.loop_narrow_loads = Extras ? 8 : 0;
  return b;
}

template <class Quantizer, int Dim, bool Extras>
budget prefill_budget(const std::string& group, limits most) {
  using kernel = tensor_prefill<Quantizer, Quantizer, Dim, Extras>;
  budget b = tensor_budget<kernel, Quantizer, Dim>(group, kernel::threads, most);
  b.launch.bytes_in_flight = (kernel::slots - 1) * kernel::slot_bytes;
  b.loop_narrow_loads = Extras ? 22 : 6;
  return b;
}

/// Enters the kernels of one head dim: decode and prefill, each without and with extras. Continuous integration gates
/// decode at 64, 128 and 256 and prefill at 128; the others are in groups of their own.
template <class Quantizer, int Dim>
void add(std::vector<budget>& table, const std::string& name, limits decode, limits decode_extras, limits prefill,
         limits prefill_extras) {
  const std::string decode_group = "decode_" + name + (Dim == 64 || Dim == 128 || Dim == 256 ? "" : "_more");
  const std::string prefill_group = "prefill_" + name + (Dim == 128 ? "" : "_more");
  table.push_back(decode_budget<Quantizer, Dim, false>(decode_group, decode));
  table.push_back(decode_budget<Quantizer, Dim, true>(decode_group, decode_extras));
  table.push_back(prefill_budget<Quantizer, Dim, false>(prefill_group, prefill));
  table.push_back(prefill_budget<Quantizer, Dim, true>(prefill_group, prefill_extras));
}

template <class Quantizer>
void add_16_bits(std::vector<budget>& table, const std::string& name) {
  add<Quantizer, 64>(table, name, {144, 220}, {144, 400}, {216, 280}, {216, 600});
  add<Quantizer, 80>(table, name, {168, 250}, {176, 420}, {224, 350}, {232, 670});
  add<Quantizer, 96>(table, name, {176, 270}, {192, 440}, {240, 370}, {255, 690});
  add<Quantizer, 128>(table, name, {192, 340}, {200, 480}, {255, 380}, {200, 450});
  add<Quantizer, 192>(table, name, {240, 500}, {255, 670}, {255, 320}, {255, 510});
  add<Quantizer, 256>(table, name, {208, 600}, {216, 760}, {255, 380}, {224, 690});
}

void add_int8(std::vector<budget>& table) {
  add<int8_per_token, 64>(table, "int8", {136, 310}, {152, 510}, {208, 430}, {216, 790});
  add<int8_per_token, 80>(table, "int8", {152, 370}, {160, 550}, {224, 460}, {232, 820});
  add<int8_per_token, 96>(table, "int8", {160, 390}, {168, 570}, {232, 500}, {240, 850});
  add<int8_per_token, 128>(table, "int8", {168, 480}, {176, 640}, {255, 530}, {184, 640});
  add<int8_per_token, 192>(table, "int8", {224, 560}, {240, 750}, {200, 580}, {208, 770});
  add<int8_per_token, 256>(table, "int8", {232, 670}, {248, 870}, {224, 660}, {208, 1030});
}

void add_int4(std::vector<budget>& table) {
  add<int4_per_token, 64>(table, "int4", {160, 340}, {176, 530}, {224, 460}, {224, 830});
  add<int4_per_token, 80>(table, "int4", {176, 400}, {168, 590}, {248, 540}, {255, 900});
  add<int4_per_token, 96>(table, "int4", {176, 400}, {168, 590}, {248, 540}, {255, 900});
  add<int4_per_token, 128>(table, "int4", {176, 490}, {184, 650}, {255, 590}, {184, 690});
  add<int4_per_token, 192>(table, "int4", {240, 570}, {216, 760}, {208, 590}, {208, 800});
  add<int4_per_token, 256>(table, "int4", {255, 680}, {255, 870}, {232, 680}, {224, 1030});
}

void add_fp8(std::vector<budget>& table) {
  add<fp8_e4m3, 64>(table, "fp8", {136, 360}, {152, 540}, {208, 460}, {216, 820});
  add<fp8_e4m3, 80>(table, "fp8", {152, 410}, {160, 590}, {224, 520}, {224, 870});
  add<fp8_e4m3, 96>(table, "fp8", {160, 440}, {168, 620}, {232, 550}, {240, 900});
  add<fp8_e4m3, 128>(table, "fp8", {168, 540}, {176, 700}, {255, 600}, {176, 700});
  add<fp8_e4m3, 192>(table, "fp8", {216, 670}, {240, 860}, {200, 690}, {208, 880});
  add<fp8_e4m3, 256>(table, "fp8", {232, 820}, {240, 1010}, {216, 800}, {208, 1170});
}

/// The path on CUDA cores, and the joining of its and other kernels' partial results.
template <class Quantizer>
void add_generic(std::vector<budget>& table) {
  budget attention = budget_of<generic_attention<Quantizer, Quantizer>>("generic");
  attention.blocks = {2, 2};
  table.push_back(attention);
  budget merge = budget_of<merge_chunks<Quantizer, Quantizer>>("generic");
  merge.registers = {96, 96};
  merge.blocks = {4, 4};
  merge.loop_loads_16 = 1;
  merge.loop_narrow_loads = 8;
  table.push_back(merge);
}

}  // namespace

void add_attention_budgets(std::vector<budget>& table) {
  add_16_bits<identity<half>>(table, "half");
  add_16_bits<identity<bfloat16>>(table, "bfloat16");
  add_int8(table);
  add_int4(table);
  add_fp8(table);
  add_generic<identity<float>>(table);
  add_generic<identity<half>>(table);
  add_generic<identity<bfloat16>>(table);
  add_generic<int8_per_token>(table);
  add_generic<int4_per_token>(table);
  add_generic<fp8_e4m3>(table);
  budget plan = budget_of<plan_chunks>("generic");
  plan.registers = {64, 64};
  table.push_back(plan);
}

}  // namespace pagoda_gates
