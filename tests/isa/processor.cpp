// SPDX-License-Identifier: Apache-2.0
// Says by its exit status whether this processor and its operating system run the named instruction set. A program of
// its own: what is built for an instruction set may use it before main.
#include <cpuid.h>

#include <cstdio>
#include <string_view>

namespace {

// Not a name of __builtin_cpu_supports in every compiler. The registers it needs are those of AVX.
bool has_f16c() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & (1u << 29)) != 0;
}

bool has_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
}

bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl");
}

// AVX-VNNI, for the registers of AVX2; likewise.
bool has_avx2_vnni() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return has_avx2() && __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a & (1u << 4)) != 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view isa = argc == 2 ? argv[1] : "";
  if (isa == "plain") return 0;
  if (isa == "avx2") return has_avx2() ? 0 : 1;
  if (isa == "avx2_vnni") return has_avx2_vnni() ? 0 : 1;
  if (isa == "avx512") return has_avx512() ? 0 : 1;
  std::fprintf(stderr, "usage: pagoda_processor plain|avx2|avx2_vnni|avx512\n");
  return 2;
}
