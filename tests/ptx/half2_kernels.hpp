// SPDX-License-Identifier: Apache-2.0
/// @file A kernel over everything of dtype.hpp, half2.hpp and the quantizers that has a body of its own on the device.
#pragma once

#include <cstdint>

#include <pagoda/detail/half2.hpp>
#include <pagoda/quantizer/fp8_e4m3.hpp>
#include <pagoda/quantizer/fp8_e5m2.hpp>
#include <pagoda/quantizer/identity.hpp>
#include <pagoda/quantizer/int4_per_token.hpp>
#include <pagoda/quantizer/int8_grouped.hpp>
#include <pagoda/quantizer/int8_per_token.hpp>
#include <pagoda/simt/execution_context.hpp>

namespace pagoda_test {

/// Numbers of one thread, as a list that is filled.
struct number_list {
  static constexpr int capacity = 56;
  std::uint32_t* to;
  int count = 0;

  PAGODA_HOST_DEVICE void add(std::uint32_t number) { to[count++] = number; }
  PAGODA_HOST_DEVICE void add(float number) { add(pagoda::detail::float_bits(number)); }
  /// The result of arithmetic, where the bits of a NaN are nobody's promise.
  PAGODA_HOST_DEVICE void add_number(float number) { add(number == number ? number : -77.25f); }
};

template <class Q>
PAGODA_HOST_DEVICE void list_quantizer(std::uint32_t a, std::uint32_t b, number_list& list) {
  using pagoda::detail::float_from_bits;
  std::uint32_t pairs[static_cast<std::size_t>(Q::half2_pairs)];
  Q::unpack_half2(a, pairs);
  for (int i = 0; i < Q::half2_pairs; ++i) list.add(pairs[i]);
  list.add(Q::codeword(a % 65536u));
  const float x = float_from_bits(a);
  const float y = float_from_bits(b);
  const pagoda::row_stats stats = x < y ? pagoda::row_stats{x, y} : pagoda::row_stats{y, x};
  const typename Q::scale_type scale = Q::fit(stats);
  list.add_number(scale_of(scale));
  list.add_number(offset_of(scale));
  list.add(Q::encode(x, scale));
  list.add(Q::encode(0.3f * y, scale));
}

/// All results for three words.
PAGODA_HOST_DEVICE inline int list_results(std::uint32_t a, std::uint32_t b, std::uint32_t c, std::uint32_t* to) {
  using namespace pagoda;
  number_list list{to};
  const float x = detail::float_from_bits(a);
  const float y = detail::float_from_bits(b);
  const auto low = static_cast<std::uint16_t>(a & 0xffffu);
  const auto byte = static_cast<std::uint8_t>(a & 0xffu);
  list.add(detail::byte_permute(a, b, c & 0xffffu));
  list.add(detail::and_or(a, b, c));
  list.add(detail::pack_half2(x, y));
  list.add(detail::pack_bfloat162(x, y));
  list.add(detail::half2_low(a));
  list.add(detail::half2_high(a));
  list.add(detail::half2_sub(a, b));
  list.add(detail::half2_mul(a, b));
  list.add(detail::half2_fma(a, b, c));
  list.add(detail::half2_from_e4m3x2(low));
  list.add(to_float(half{low}));
  list.add(to_float(float8_e4m3{byte}));
  list.add(to_float(float8_e5m2{byte}));
  list.add(std::uint32_t{from_float<half>(x).bits});
  list.add(std::uint32_t{from_float<bfloat16>(x).bits});
  list.add(std::uint32_t{from_float<float8_e4m3>(x).bits});
  list.add(std::uint32_t{from_float<float8_e5m2>(x).bits});
  list_quantizer<int8_per_token>(a, b, list);
  list_quantizer<int4_per_token>(a, b, list);
  list_quantizer<fp8_e4m3>(a, b, list);
  list_quantizer<fp8_e5m2>(a, b, list);
  list_quantizer<int8_grouped<32>>(a, b, list);
  return list.count;
}

/// Three words a thread in, number_list::capacity words out.
struct list_kernel {
  static constexpr int threads = 128;
  static constexpr int shared_bytes = 0;
  struct arguments {
    const std::uint32_t* from;
    std::uint32_t* to;
  };

  template <pagoda::simt::execution_context Context>
  PAGODA_HOST_DEVICE static void run(Context& ctx, const arguments& args) {
    const auto thread = static_cast<std::int64_t>(ctx.block_index().x) * threads + ctx.thread_index();
    const std::uint32_t* from = args.from + 3 * thread;
    std::uint32_t results[number_list::capacity];
    const int count = list_results(ctx.ldg(from), ctx.ldg(from + 1), ctx.ldg(from + 2), results);
    for (int i = 0; i < count; ++i) ctx.store(args.to + number_list::capacity * thread + i, results[i]);
  }
};

}  // namespace pagoda_test
