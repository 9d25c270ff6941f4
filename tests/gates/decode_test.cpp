// SPDX-License-Identifier: Apache-2.0
// The reader on instructions and files written here byte by byte.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "cubin/elf.hpp"
#include "cubin/flow.hpp"
#include "cubin/resources.hpp"
#include "cubin/sass.hpp"

namespace {

using cubin::instruction;
using cubin::operation;

constexpr std::uint64_t always = 7;

std::uint64_t word(std::uint64_t twelve_bits, std::uint64_t guard = always) {
  return twelve_bits | guard << 12;
}

/// An instruction that only its operation matters of.
instruction plain(std::size_t index, std::uint64_t twelve_bits, std::uint64_t guard = always) {
  return {static_cast<std::uint32_t>(index * 16), word(twelve_bits, guard), 0, 80};
}

/// A branch of sm_80.
instruction branch(std::size_t from, std::size_t to, std::uint64_t guard = always) {
  const std::int64_t distance = (static_cast<std::int64_t>(to) - static_cast<std::int64_t>(from) - 1) * 4;
  const auto field = static_cast<std::uint64_t>(distance);
  return {static_cast<std::uint32_t>(from * 16), word(0x947, guard) | field << 34,
          (field >> 30 & 0x3ffffu) | std::uint64_t{7} << 23, 80};
}

cubin::kernel kernel_of(std::vector<instruction> code) {
  cubin::kernel k;
  k.architecture = 80;
  k.code = std::move(code);
  return k;
}

constexpr std::uint64_t nop = 0x918;
constexpr std::uint64_t exit_op = 0x94d;

}  // namespace

TEST_CASE("an unknown operation is printed as a number, not dropped") {
  const instruction i = plain(0, 0x9ff);
  CHECK_FALSE(i.is_known());
  CHECK(i.name() == "0x9ff");
  CHECK(i.text().find("0x9ff") != std::string::npos);
}

TEST_CASE("operations are named whatever the form of their operands") {
  for (const std::uint64_t form : {0x200u, 0x400u, 0x800u, 0xa00u}) {
    CHECK(plain(0, 0x023 | form).name() == "FFMA");
  }
  CHECK(plain(0, 0x9ab).name() == "ERRBAR");
  CHECK(plain(0, 0x5ab).name() == "CGAERRBAR");
}

TEST_CASE("the width of an access is read from bits 73 to 75") {
  const int widths[7] = {8, 8, 16, 16, 32, 64, 128};
  for (std::uint64_t i = 0; i < 7; ++i) {
    const instruction load(0, word(0x981), i << 9, 80);
    CHECK(load.width() == widths[i]);
    CHECK(load.name() == std::string("LDG.").append(std::to_string(widths[i])));
  }
  CHECK(plain(0, 0x023).width() == 0);
}

TEST_CASE("branch targets, as ptxas wrote them") {
  // forward, sm_80 and sm_90
  CHECK(instruction(0x70, 0x00000c1000000947, 0x000fea0003800000, 80).target() == 0xc90);
  CHECK(instruction(0xc0, 0x0000000800e40947, 0x000fea0003800000, 90).target() == 0xc60);
  CHECK(instruction(0x2c0, 0x0000000000487947, 0x000fec0003800000, 90).target() == 0x3f0);
  // to itself, behind the end of a kernel
  CHECK(instruction(0x200, 0xfffffff000007947, 0x000fc0000383ffff, 80).target() == 0x200);
  CHECK(instruction(0x200, 0xfffffffc00fc7947, 0x000fc0000383ffff, 90).target() == 0x200);
  // BRA.DIV
  CHECK(instruction(0x36d0, 0x000023927f007947, 0x000fea000b800000, 80).target() == 0x5a70);
  // a call
  CHECK(instruction(0x290, 0x0000000800887944, 0x003fea0003c00000, 90).target() == 0xcc0);
  CHECK_FALSE(plain(0, nop).target().has_value());
}

TEST_CASE("only a branch or an exit that nothing guards ends the flow") {
  CHECK(branch(0, 3).ends_flow());
  CHECK_FALSE(branch(0, 3, 0).ends_flow());
  CHECK_FALSE(instruction(0, 0x000023927f007947, 0x000fea000b800000, 80).ends_flow());  // BRA.DIV
  CHECK(plain(0, exit_op).ends_flow());
  CHECK_FALSE(plain(0, exit_op, 2).ends_flow());
  CHECK_FALSE(plain(0, nop).ends_flow());
}

TEST_CASE("loops: nested ones, and code that the compiler moved behind the end") {
  // 0; outer loop 1-5 with inner loop 2-3; 6 exit; 7-8 moved out of the outer loop, which jumps there from 4; 9 a trap.
  const std::vector<instruction> code{plain(0, nop),   plain(1, nop),   plain(2, 0x23c),   branch(3, 2, 0),
                                      branch(4, 7, 1), branch(5, 1, 0), plain(6, exit_op), plain(7, nop),
                                      branch(8, 5),    branch(9, 9)};
  const cubin::control_flow flow(code);
  CHECK(flow.is_complete());
  REQUIRE(flow.loops().size() == 2);
  CHECK(flow.loops()[0].first == 1);
  CHECK(flow.loops()[0].last == 5);
  CHECK(flow.loops()[1].first == 2);
  CHECK(flow.loops()[1].last == 3);
  const std::vector<bool> repeats{false, true, true, true, true, true, false, true, true, false};
  for (std::size_t i = 0; i < code.size(); ++i) CHECK(flow.repeats(i) == repeats[i]);
}

TEST_CASE("a jump back from moved code alone is no loop") {
  const std::vector<instruction> code{plain(0, nop), branch(1, 4, 0), plain(2, nop), plain(3, exit_op), branch(4, 2)};
  const cubin::control_flow flow(code);
  CHECK(flow.loops().empty());
  for (std::size_t i = 0; i < code.size(); ++i) CHECK_FALSE(flow.repeats(i));
}

TEST_CASE("a branch through a register, or out of the code, is said to be unknown") {
  CHECK_FALSE(cubin::control_flow({plain(0, 0x949), plain(1, exit_op)}).is_complete());
  CHECK_FALSE(cubin::control_flow({branch(0, 9), plain(1, exit_op)}).is_complete());
}

TEST_CASE("the tensor cores' loop is the innermost one with the most HMMA") {
  // 0-3: a loop with one HMMA around one with none; 4-7: one with two HMMA.
  const cubin::kernel k = kernel_of({plain(0, 0x23c), plain(1, nop), branch(2, 1, 0), branch(3, 0, 0), plain(4, 0x23c),
                                     plain(5, nop), plain(6, 0x23c), branch(7, 4, 0), plain(8, exit_op)});
  const cubin::control_flow flow(k.code);
  const auto main = tensor_core_loop(k, flow);
  REQUIRE(main.has_value());
  CHECK(main->first == 4);
  CHECK(main->size() == 4);
  CHECK(count(k.code, *main, operation::hmma) == 2);

  const cubin::kernel none = kernel_of({plain(0, 0x23c), plain(1, nop), branch(2, 1, 0), plain(3, exit_op)});
  CHECK_FALSE(tensor_core_loop(none, cubin::control_flow(none.code)).has_value());
}

TEST_CASE("an inlined 64-bit division in a loop is found by its conversion and reciprocal") {
  const instruction reciprocal(16, word(0x308), std::uint64_t{4} << 10, 80);
  const instruction exponential(16, word(0x308), std::uint64_t{2} << 10, 80);
  const auto found = [](std::vector<instruction> code) {
    const cubin::kernel k = kernel_of(std::move(code));
    return repeated_long_divisions(k, cubin::control_flow(k.code));
  };
  CHECK(found({plain(0, 0x312), reciprocal, branch(2, 0, 0), plain(3, exit_op)}) == std::vector<std::size_t>{0});
  CHECK(found({plain(0, 0x312), exponential, branch(2, 0, 0), plain(3, exit_op)}).empty());
  CHECK(found({plain(0, 0x312), reciprocal, branch(2, 2, 0), plain(3, exit_op)}).empty());
}

TEST_CASE("blocks on a multiprocessor") {
  cubin::kernel k;
  const auto blocks = [&](int architecture, int registers, int threads, int shared) {
    k.architecture = architecture;
    k.registers = registers;
    return k.resident_blocks(threads, shared);
  };
  CHECK(blocks(80, 32, 128, 0) == 16);  // 64 warps
  CHECK(blocks(80, 16, 32, 0) == 32);   // 32 blocks
  CHECK(blocks(80, 64, 256, 0) == 4);   // 65536 registers
  CHECK(blocks(80, 65, 256, 0) == 3);   // a warp takes 2304 registers, 28 warps
  CHECK(blocks(80, 41, 256, 0) == 5);   // a warp takes 1536 registers, not 1312
  CHECK(blocks(80, 41, 64, 0) == 20);   // 10 warps in each of four partitions, not 42 in all
  CHECK(blocks(80, 255, 128, 0) == 2);
  CHECK(blocks(80, 32, 128, 81 * 1024) == 2);  // 2 * (81 + 1) KiB are all 164 KiB
  CHECK(blocks(80, 32, 128, 81 * 1024 + 1) == 1);
  CHECK(blocks(90, 32, 128, 113 * 1024) == 2);
  CHECK(blocks(90, 32, 128, 113 * 1024 + 1) == 1);
  k.static_shared_bytes = 1024;
  CHECK(blocks(90, 32, 128, 113 * 1024) == 1);
  CHECK_THROWS_AS(blocks(70, 32, 128, 0), std::runtime_error);
}

TEST_CASE("what is no cubin is refused with its path") {
  const std::string path = "no_cubin.bin";
  std::ofstream(path, std::ios::binary) << "not an ELF file, but longer than the header of one, which is 64 bytes long";
  CHECK_THROWS_WITH_AS(cubin::module_file::load(path), "no_cubin.bin: cubin: not a 64-bit little-endian ELF file",
                       std::runtime_error);
  CHECK_THROWS_WITH_AS(cubin::module_file::load("not_there.cubin"), "cubin: not_there.cubin cannot be opened",
                       std::runtime_error);
}

TEST_CASE("an ELF file of another machine, or one cut off, is refused") {
  std::vector<std::byte> bytes(64);
  const std::uint8_t magic[6] = {0x7f, 'E', 'L', 'F', 2, 1};
  std::memcpy(bytes.data(), magic, sizeof(magic));
  const auto put = [&bytes](std::size_t at, auto value) { std::memcpy(bytes.data() + at, &value, sizeof(value)); };
  put(18, std::uint16_t{62});
  CHECK_THROWS_WITH_AS(cubin::elf_file{bytes}, "cubin: ELF machine 62 is not CUDA's, 190", std::runtime_error);
  put(18, cubin::elf_file::cuda_machine);
  put(40, std::uint64_t{64});  // section headers behind the end
  put(58, std::uint16_t{64});
  put(60, std::uint16_t{1});
  CHECK_THROWS_WITH_AS(cubin::elf_file{bytes}, "cubin: offset 64 of 64 bytes passes the end at 64", std::runtime_error);
}
