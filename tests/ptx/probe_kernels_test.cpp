// SPDX-License-Identifier: Apache-2.0
// Every member of the execution context, as nvcc compiled it and as the host context runs it, against plain loops.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>

#include "every_way.hpp"
#include "probe_kernels.hpp"

namespace {

using pagoda_test::in_every_way;
using pagoda_test::kernel_way;
using namespace pagoda_test;
using ptx::global_range;

std::uint32_t bits_of(float x) {
  return std::bit_cast<std::uint32_t>(x);
}

template <class T>
std::vector<T> random_integers(std::size_t count, std::uint32_t seed) {
  std::mt19937_64 engine(seed);
  std::vector<T> result(count);
  for (T& x : result) x = static_cast<T>(engine());
  return result;
}

TEST_CASE("indices") {
  in_every_way([](const kernel_way& way) {
    std::vector<std::uint32_t> to(12 * 64 * 9, 77);
    way.launch<probe_indices>({2, 3, 2}, {to.data()}, {global_range(to)});
    std::vector<std::uint32_t> expected;
    for (std::uint32_t z = 0; z < 2; ++z) {
      for (std::uint32_t y = 0; y < 3; ++y) {
        for (std::uint32_t x = 0; x < 2; ++x) {
          for (std::uint32_t t = 0; t < 64; ++t) {
            for (const std::uint32_t value : {t, t % 32, t / 32, x, y, z, 2u, 3u, 2u}) expected.push_back(value);
          }
        }
      }
    }
    CHECK(to == expected);
  });
}

TEST_CASE("shuffles and ballots") {
  std::vector<float> floats(64);
  std::vector<std::uint32_t> numbers(64);
  for (std::uint32_t t = 0; t < 64; ++t) {
    floats[t] = std::ldexp(1.0f + static_cast<float>(t), static_cast<int>(t) - 30) * (t % 2 == 0 ? 1.0f : -1.0f);
    numbers[t] = t * t * 7 + 1;
  }
  std::vector<std::uint32_t> steps(64, 0);
  for (std::size_t t = 0; t < 64; ++t) {
    for (std::uint32_t v = numbers[t]; v > 1; ++steps[t]) v = v % 2 == 0 ? v / 2 : 3 * v + 1;
  }
  const auto votes = [](std::size_t first, std::size_t last, auto holds) {
    std::uint32_t result = 0;
    for (std::size_t t = first; t < last; ++t) result |= holds(t) ? 1u << (t % 32) : 0u;
    return result;
  };
  in_every_way([&](const kernel_way& way) {
    constexpr std::size_t results = probe_warp::results;
    std::vector<std::uint32_t> to(64 * results, 77);
    way.launch<probe_warp>({1, 1, 1}, {floats.data(), numbers.data(), to.data()},
                           {global_range(floats), global_range(numbers), global_range(to)});
    for (std::size_t t = 0; t < 64; ++t) {
      CAPTURE(t);
      const std::size_t lane = t % 32;
      const std::size_t warp = t - lane;
      const std::uint32_t* got = &to[t * results];
      CHECK(got[0] == bits_of(floats[warp + (lane * 7 + 3) % 32]));
      CHECK(got[1] == bits_of(floats[t ^ 5]));
      CHECK(got[2] == bits_of(floats[lane < 3 ? t : t - 3]));
      CHECK(got[3] == bits_of(floats[lane + 9 < 32 ? t + 9 : t]));
      CHECK(got[4] == numbers[warp + 31 - lane]);
      CHECK(got[5] == numbers[t ^ 16]);
      CHECK(got[6] == numbers[lane == 0 ? t : t - 1]);
      CHECK(got[7] == numbers[lane == 0 ? t + 31 : t]);
      CHECK(got[8] == votes(warp, warp + 32, [&](std::size_t n) { return numbers[n] % 2 == 1; }));
      CHECK(got[9] == numbers[lane < 16 ? t ^ 1 : t ^ 2]);
      const std::size_t half = lane < 16 ? warp : warp + 16;
      CHECK(got[10] == votes(half, half + 16, [&](std::size_t n) { return numbers[n] > (lane < 16 ? 100u : 1000u); }));
      CHECK(got[11] == steps[t] + (votes(warp, warp + 32, [&](std::size_t n) { return steps[n] % 2 == 1; }) << 16));
    }
  });
}

TEST_CASE("global memory in all widths, and atomic_cas") {
  constexpr std::size_t count = 150;  // the third block is not full
  const auto from1 = random_integers<std::uint8_t>(count, 1);
  const auto from2 = random_integers<std::uint16_t>(count, 2);
  const auto from4 = random_integers<std::uint32_t>(count, 3);
  const auto from8 = random_integers<std::uint64_t>(count, 4);
  std::vector<words4> from16(count);
  const auto words = random_integers<std::uint32_t>(4 * count, 5);
  std::memcpy(from16.data(), words.data(), 16 * count);
  in_every_way([&](const kernel_way& way) {
    std::vector<std::uint8_t> to1(count);
    std::vector<std::uint16_t> to2(count);
    std::vector<std::uint32_t> to4(count);
    std::vector<std::uint64_t> to8(count);
    std::vector<words4> to16(count);
    std::vector<std::uint32_t> counter(1, 1000);
    way.launch<probe_global>({3, 1, 1},
                             {from1.data(), from2.data(), from4.data(), from8.data(), from16.data(), to1.data(),
                              to2.data(), to4.data(), to8.data(), to16.data(), counter.data(), static_cast<int>(count)},
                             {global_range(from1), global_range(from2), global_range(from4), global_range(from8),
                              global_range(from16), global_range(to1), global_range(to2), global_range(to4),
                              global_range(to8), global_range(to16), global_range(counter)});
    for (std::size_t i = 0; i < count; ++i) {
      CAPTURE(i);
      const std::size_t j = count - 1 - i;
      CHECK(to1[i] == static_cast<std::uint8_t>(from1[i] + from1[j]));
      CHECK(to2[i] == (from2[i] ^ from2[j]));
      CHECK(to4[i] == from4[i] * 3 + from4[j]);
      CHECK(to8[i] == from8[i] - 5 * from8[j]);
      for (std::size_t w = 0; w < 4; ++w) CHECK(to16[i].w[w] == from16[i].w[3 - w] + from16[j].w[w]);
    }
    CHECK(counter[0] == 1000 + count + count * (count - 1) / 2);
  });
}

TEST_CASE("shared memory in all widths") {
  in_every_way([](const kernel_way& way) {
    constexpr std::size_t results = probe_shared::results;
    std::vector<std::uint32_t> to(64 * results, 77);
    way.launch<probe_shared>({1, 1, 1}, {to.data()}, {global_range(to)});
    for (std::uint32_t t = 0; t < 64; ++t) {
      CAPTURE(t);
      const std::uint32_t seed = (63 - t) * 0x01000193u + 0x811c9dc5u;
      const std::uint32_t* got = &to[t * results];
      CHECK(got[0] == 16 * seed + 3 + 10 + 21);
      CHECK(got[1] == seed);
      CHECK(got[2] == (seed ^ 0xffu));
      CHECK(got[3] == ((seed >> 3) & 0xffffu));
      CHECK(got[4] == ((seed >> 5) & 0xffu));
      CHECK(got[5] == bits_of(0.5f * static_cast<float>(63 - t)));
      CHECK(got[6] == bits_of(0.5f * static_cast<float>(63 - (t ^ 1)) + 1.0f));
      CHECK(got[7] == bits_of(0.25f * static_cast<float>(63 - t)));
    }
  });
}

TEST_CASE("asynchronous copies, with zeros for what is not valid") {
  const auto from = random_integers<std::uint32_t>(32 * 5, 6);
  in_every_way([&](const kernel_way& way) {
    std::vector<std::uint32_t> to(32 * 8, 77);
    way.launch<probe_async>({1, 1, 1}, {reinterpret_cast<const std::byte*>(from.data()), to.data()},
                            {global_range(from), global_range(to)});
    const auto word16 = [&](std::size_t t, std::size_t w) { return t % 3 != 1 ? from[4 * t + w] : 0u; };
    for (std::size_t t = 0; t < 32; ++t) {
      CAPTURE(t);
      const std::uint32_t* got = &to[8 * t];
      for (std::size_t w = 0; w < 4; ++w) CHECK(got[w] == word16(t, w));
      const std::size_t other = t ^ 3;
      CHECK(got[4] == (other % 5 != 2 ? from[128 + other] : 0u));
      CHECK(got[5] == from[128 + 31 - other]);
      CHECK(got[6] == word16(t ^ 1, 0));
      CHECK(got[7] == word16(t ^ 1, 3));
    }
  });
}

TEST_CASE("ldmatrix and movmatrix") {
  const auto elements = random_integers<std::uint16_t>(4 * 64, 7);
  std::vector<words4> from(32);
  std::memcpy(from.data(), elements.data(), 512);
  const auto element = [&](std::size_t matrix, std::size_t row, std::size_t column) {
    return std::uint32_t{elements[matrix * 64 + row * 8 + column]};
  };
  const auto plain = [&](std::size_t matrix, std::size_t lane) {
    return element(matrix, lane / 4, 2 * (lane % 4)) | element(matrix, lane / 4, 2 * (lane % 4) + 1) << 16;
  };
  const auto transposed = [&](std::size_t matrix, std::size_t lane) {
    return element(matrix, 2 * (lane % 4), lane / 4) | element(matrix, 2 * (lane % 4) + 1, lane / 4) << 16;
  };
  in_every_way([&](const kernel_way& way) {
    constexpr std::size_t results = probe_matrices::results;
    std::vector<std::uint32_t> to(32 * results, 77);
    way.launch<probe_matrices>({1, 1, 1}, {from.data(), to.data()}, {global_range(from), global_range(to)});
    for (std::size_t lane = 0; lane < 32; ++lane) {
      CAPTURE(lane);
      const std::uint32_t* got = &to[lane * results];
      for (std::size_t m = 0; m < 2; ++m) CHECK(got[m] == plain(m, lane));
      for (std::size_t m = 0; m < 4; ++m) CHECK(got[2 + m] == plain(m, lane));
      for (std::size_t m = 0; m < 2; ++m) CHECK(got[6 + m] == transposed(2 + m, lane));
      for (std::size_t m = 0; m < 4; ++m) CHECK(got[8 + m] == transposed(m ^ 1, lane));
      CHECK(got[12] == transposed(3, lane));
    }
  });
}

template <class Element>
void check_mma() {
  std::mt19937 engine(8);
  std::normal_distribution<float> normal;
  std::vector<Element> a(256);
  std::vector<Element> b(128);
  std::vector<float> d(128);
  for (Element& x : a) x = pagoda::from_float<Element>(normal(engine));
  for (Element& x : b) x = pagoda::from_float<Element>(normal(engine));
  for (float& x : d) x = normal(engine);
  std::vector<std::uint32_t> a_words(128);
  std::vector<std::uint32_t> b_words(64);
  std::memcpy(a_words.data(), a.data(), 512);
  std::memcpy(b_words.data(), b.data(), 256);
  std::vector<float> expected = d;
  for (std::size_t row = 0; row < 16; ++row) {
    for (std::size_t column = 0; column < 8; ++column) {
      float& sum = expected[row * 8 + column];
      for (std::size_t k = 0; k < 16; ++k) {
        sum += pagoda::to_float(a[row * 16 + k]) * pagoda::to_float(b[column * 16 + k]);
      }
    }
  }
  in_every_way([&](const kernel_way& way) {
    std::vector<float> to = d;
    way.launch<probe_mma<Element>>({1, 1, 1}, {a_words.data(), b_words.data(), to.data()},
                                   {global_range(a_words), global_range(b_words), global_range(to)});
    CHECK(to == expected);
  });
}

TEST_CASE("mma of halves") {
  check_mma<pagoda::half>();
}
TEST_CASE("mma of bfloat16") {
  check_mma<pagoda::bfloat16>();
}

std::vector<float> interesting_floats() {
  const float inf = std::numeric_limits<float>::infinity();
  std::vector<float> result = {0.0f,
                               -0.0f,
                               1.0f,
                               -1.0f,
                               0.5f,
                               448.0f,
                               464.0f,
                               -480.0f,
                               57344.0f,
                               65504.0f,
                               65519.0f,
                               65520.0f,
                               -65520.0f,
                               1e30f,
                               inf,
                               -inf,
                               0x1p-126f,
                               0x1p-127f,
                               -0x1p-149f,
                               0x1p-24f,
                               0x1p-25f,
                               0x1.8p-25f,
                               0x1.ffep-15f,
                               0x1p-9f,
                               0x1p-10f,
                               0x1.8p-10f,
                               0x1p-16f,
                               0x1p-17f,
                               126.5f,
                               -125.9f,
                               -126.5f,
                               -149.0f,
                               128.0f,
                               0x1.fffffep127f,
                               2.0f,
                               0x1.004p0f,
                               0x1.00cp0f,
                               0x1.01p0f,
                               0x1.03p0f,
                               3.1415927f,
                               std::numeric_limits<float>::quiet_NaN()};
  std::mt19937 engine(9);
  for (int i = 0; i < 400; ++i) result.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(engine())));
  std::normal_distribution<float> normal(0, 8);
  for (int i = 0; i < 400; ++i) result.push_back(normal(engine));
  return result;
}

float flushed(float x) {
  return std::fabs(x) < std::numeric_limits<float>::min() ? std::copysign(0.0f, x) : x;
}

/// Bits, with one pattern for every NaN: which one a calculation gives is not defined.
std::uint32_t defined_bits(std::uint32_t bits) {
  return (bits & 0x7fffffffu) > 0x7f800000u ? 0x7fffffffu : bits;
}

TEST_CASE("exp2, log2 and the conversions") {
  const std::vector<float> from = interesting_floats();
  in_every_way([&](const kernel_way& way) {
    constexpr std::size_t results = probe_math::results;
    std::vector<std::uint32_t> to(from.size() * results, 77);
    const auto blocks = static_cast<std::uint32_t>((from.size() + 31) / 32);
    way.launch<probe_math>({blocks, 1, 1}, {from.data(), to.data(), static_cast<int>(from.size())},
                           {global_range(from), global_range(to)});
    for (std::size_t i = 0; i < from.size(); ++i) {
      const float x = from[i];
      CAPTURE(x);
      const auto h = pagoda::from_float<pagoda::half>(x);
      const auto b = pagoda::from_float<pagoda::bfloat16>(x);
      const auto e4 = pagoda::from_float<pagoda::float8_e4m3>(x);
      const auto e5 = pagoda::from_float<pagoda::float8_e5m2>(x);
      const std::uint32_t* got = &to[i * results];
      CHECK(defined_bits(got[0]) == defined_bits(bits_of(flushed(std::exp2(flushed(x))))));
      CHECK(defined_bits(got[1]) == defined_bits(bits_of(std::log2(flushed(x)))));
      CHECK(got[2] == h.bits);
      CHECK(got[3] == b.bits);
      CHECK(got[4] == e4.bits);
      CHECK(got[5] == e5.bits);
      CHECK(defined_bits(got[6]) == defined_bits(bits_of(pagoda::to_float(h))));
      CHECK(defined_bits(got[7]) == defined_bits(bits_of(pagoda::to_float(b))));
      CHECK(defined_bits(got[8]) == defined_bits(bits_of(pagoda::to_float(e4))));
      CHECK(defined_bits(got[9]) == defined_bits(bits_of(pagoda::to_float(e5))));
    }
  });
}

TEST_CASE("a product of matrices through a ring of asynchronous copies") {
  constexpr std::size_t size = probe_product::size;
  std::mt19937 engine(10);
  std::normal_distribution<float> normal;
  std::vector<pagoda::half> a(size * size);
  std::vector<pagoda::half> b(size * size);
  for (pagoda::half& x : a) x = pagoda::from_float<pagoda::half>(normal(engine));
  for (pagoda::half& x : b) x = pagoda::from_float<pagoda::half>(normal(engine));
  std::vector<float> expected(size * size, 0.0f);
  for (std::size_t row = 0; row < size; ++row) {
    for (std::size_t column = 0; column < size; ++column) {
      for (std::size_t k = 0; k < size; ++k) {
        expected[row * size + column] += pagoda::to_float(a[row * size + k]) * pagoda::to_float(b[column * size + k]);
      }
    }
  }
  in_every_way([&](const kernel_way& way) {
    std::vector<float> c(size * size, -1.0f);
    way.launch<probe_product>({1, 1, 1}, {a.data(), b.data(), c.data()},
                              {global_range(a), global_range(b), global_range(c)});
    CHECK(c == expected);
  });
}

TEST_CASE("the instructions of a kernel are counted") {
  for (const std::string& file : probe_files()) {
    INFO(file);
    const ptx::module module = ptx::module::load(file);
    constexpr std::size_t size = probe_product::size;
    std::vector<pagoda::half> a(size * size, pagoda::half{0});
    std::vector<float> c(size * size);
    ptx::machine machine(module.entry_of<probe_product>());
    machine.launch<probe_product>({1, 1, 1}, {a.data(), a.data(), c.data()});
    const auto counts = machine.histogram();
    // Four warps and four steps: one A tile, eight B tiles and products each.
    CHECK(counts.at("ldmatrix.sync.aligned.m8n8.x4.shared.b16").warps == 16);
    CHECK(counts.at("ldmatrix.sync.aligned.m8n8.x2.shared.b16").warps == 128);
    CHECK(counts.at("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32").lanes == 128 * 32);
    CHECK(counts.at("cp.async.cg.shared.global.L2::128B").lanes == 4 * 2 * 128);
    CHECK(counts.at("cp.async.commit_group").warps == 4 * 5);
    CHECK(counts.at("bar.sync").warps == 4 * 8);
  }
}

}  // namespace
