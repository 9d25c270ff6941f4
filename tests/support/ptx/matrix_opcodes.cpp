// SPDX-License-Identifier: Apache-2.0
// ldmatrix, movmatrix and mma: instructions of the whole warp.
#include <array>
#include <cstring>
#include <vector>

#include "ptx/lanes.hpp"

namespace pagoda_test::ptx {
namespace {

/// The 16-bit element (row, column) of an 8 x 8 matrix of registers, two elements each, the lower first.
struct matrix {
  std::uint16_t element[8][8];
};

matrix read_matrix(const std::uint64_t* registers) {
  matrix result;
  for (std::size_t lane = 0; lane < 32; ++lane) {
    result.element[lane / 4][2 * (lane % 4)] = static_cast<std::uint16_t>(registers[lane]);
    result.element[lane / 4][2 * (lane % 4) + 1] = static_cast<std::uint16_t>(registers[lane] >> 16);
  }
  return result;
}

void write_matrix(const matrix& from, bool transposed, std::uint64_t* registers) {
  for (std::size_t lane = 0; lane < 32; ++lane) {
    const std::size_t major = lane / 4;
    const std::size_t minor = 2 * (lane % 4);
    const std::uint64_t low = transposed ? from.element[minor][major] : from.element[major][minor];
    const std::uint64_t high = transposed ? from.element[minor + 1][major] : from.element[major][minor + 1];
    registers[lane] = low | high << 16;
  }
}

/// Lane 8 m + r gives the address of row r of matrix m. The whole warp reads every row.
template <std::size_t Count, bool Transposed>
void execute_ldmatrix(warp& w, const instruction& i, std::uint32_t) {
  std::array<matrix, Count> matrices;
  const std::uint64_t* addresses = w.row(i, Count);
  for (std::size_t n = 0; n < 8 * Count; ++n) {
    const int lane = static_cast<int>(n);
    const std::uint32_t offset = resolve_shared(w, i, lane, addresses[n] + static_cast<std::uint64_t>(i.offset[0]), 16);
    const std::string why = w.owner().shared.read({w.thread_of(lane), true}, offset, 16);
    if (!why.empty()) w.fail(i, lane, why);
    std::memcpy(matrices[n / 8].element[n % 8], w.owner().shared.at(offset), 16);
  }
  for (std::size_t m = 0; m < Count; ++m) write_matrix(matrices[m], Transposed, w.row(i, m));
}

void execute_movmatrix(warp& w, const instruction& i, std::uint32_t) {
  write_matrix(read_matrix(w.row(i, 1)), true, w.row(i, 0));
}

/// Widening is most of the work of an mma: all halves are widened once.
template <class Element>
const float* widened() {
  static const std::vector<float> table = [] {
    std::vector<float> result(65536);
    for (std::uint32_t bits = 0; bits < 65536; ++bits) result[bits] = register_as<Element>::read(bits);
    return result;
  }();
  return table.data();
}

/// d = a b + c: a has 16 x 16 elements in four registers, b 16 x 8 in two, c and d 16 x 8 floats in four. Products are
/// exact, sums are rounded to float in the order of k.
template <class Element>
void execute_mma(warp& w, const instruction& i, std::uint32_t) {
  const float* wide = widened<Element>();
  float a[16][16];
  float b[16][8];
  float d[16][8];
  for (std::size_t part = 0; part < 4; ++part) {
    const matrix m = read_matrix(w.row(i, 4 + part));
    for (std::size_t r = 0; r < 8; ++r) {
      for (std::size_t k = 0; k < 8; ++k) a[r + 8 * (part % 2)][k + 8 * (part / 2)] = wide[m.element[r][k]];
    }
  }
  for (std::size_t part = 0; part < 2; ++part) {
    const matrix m = read_matrix(w.row(i, 8 + part));
    for (std::size_t n = 0; n < 8; ++n) {
      for (std::size_t k = 0; k < 8; ++k) b[k + 8 * part][n] = wide[m.element[n][k]];
    }
  }
  for (std::size_t e = 0; e < 4; ++e) {
    const std::uint64_t* c = w.row(i, 10 + e);
    for (std::size_t lane = 0; lane < 32; ++lane) {
      d[lane / 4 + 8 * (e / 2)][2 * (lane % 4) + e % 2] = register_as<f32>::read(c[lane]);
    }
  }
  for (std::size_t row = 0; row < 16; ++row) {
    for (std::size_t k = 0; k < 16; ++k) {
      for (std::size_t n = 0; n < 8; ++n) d[row][n] += a[row][k] * b[k][n];
    }
  }
  for (std::size_t e = 0; e < 4; ++e) {
    std::uint64_t* result = w.row(i, e);
    for (std::size_t lane = 0; lane < 32; ++lane) {
      result[lane] = register_as<f32>::write(d[lane / 4 + 8 * (e / 2)][2 * (lane % 4) + e % 2]);
    }
  }
}

template <std::size_t Count>
void add_ldmatrix(opcode_table& t) {
  const std::string count = std::to_string(Count);
  for (const char* shared : {".shared", ".shared::cta"}) {
    const std::string name = "ldmatrix.sync.aligned.m8n8.x" + count;
    const std::string end = std::string(shared) + ".b16/" + count + "a";
    t.add(name + end, {&execute_ldmatrix<Count, false>, flow::aligned});
    t.add(name + ".trans" + end, {&execute_ldmatrix<Count, true>, flow::aligned});
  }
}

}  // namespace

void add_matrix_opcodes(opcode_table& table) {
  add_ldmatrix<1>(table);
  add_ldmatrix<2>(table);
  add_ldmatrix<4>(table);
  table.add("movmatrix.sync.aligned.m8n8.trans.b16/11", {&execute_movmatrix, flow::aligned});
  table.add("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32/4424", {&execute_mma<f16>, flow::aligned});
  table.add("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32/4424", {&execute_mma<bf16>, flow::aligned});
}

}  // namespace pagoda_test::ptx
