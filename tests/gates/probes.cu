// SPDX-License-Identifier: Apache-2.0
// Kernels whose machine code is known beforehand. The reader is tested on them: see reader_test.cpp.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace {

__device__ std::uint32_t shared_address(const void* p) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(p));
}

__device__ void mma(float (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ void ldmatrix_x4(std::uint32_t (&r)[4], std::uint32_t from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(from)
               : "memory");
}

__device__ float fast_log2(float x) {
  float result;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

}  // namespace

// One 16-byte load in a loop, one 16-byte store behind it.
extern "C" __global__ void __launch_bounds__(128) probe_loop_of_loads(const uint4* from, uint4* to, int count) {
  uint4 sum{0, 0, 0, 0};
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < count; i += 128) {
    const uint4 v = __ldg(from + i);
    sum = {sum.x + v.x, sum.y ^ v.y, sum.z + v.z, sum.w ^ v.w};
  }
  to[threadIdx.x] = sum;
}

// A load and a store of each width, global and shared; 32 + 64 * 31 bytes of shared memory.
extern "C" __global__ void probe_widths(const std::uint8_t* a, const std::uint16_t* b, const std::uint32_t* c,
                                        const uint2* d, const uint4* e) {
  __shared__ std::uint8_t sa[64];
  __shared__ std::uint16_t sb[64];
  __shared__ std::uint32_t sc[64];
  __shared__ uint2 sd[64];
  __shared__ uint4 se[64];
  const unsigned i = threadIdx.x;
  sa[i] = a[i], sb[i] = b[i], sc[i] = c[i], sd[i] = d[i], se[i] = e[i];
  __syncthreads();
  const unsigned j = i ^ 1;
  const_cast<std::uint8_t*>(a)[i] = sa[j];
  const_cast<std::uint16_t*>(b)[i] = sb[j];
  const_cast<std::uint32_t*>(c)[i] = sc[j];
  const_cast<uint2*>(d)[i] = sd[j];
  const_cast<uint4*>(e)[i] = se[j];
}

// More live values than 16 blocks of 128 threads leave registers for: it spills.
extern "C" __global__ void __launch_bounds__(128, 16) probe_spills(const float* from, float* to) {
  float x[48];
#pragma unroll
  for (int i = 0; i < 48; ++i) x[i] = from[i * 128 + static_cast<int>(threadIdx.x)];
  __syncthreads();
#pragma unroll
  for (int j = 0; j < 2; ++j) {
    float sum = 0;
#pragma unroll
    for (int i = 0; i < 48; ++i) sum += x[i] * x[(i * 7 + j) % 48];
    to[j * 128 + static_cast<int>(threadIdx.x)] = sum;
    __syncthreads();
  }
}

// An array of 64 ints that is indexed at run time: 256 bytes of local memory, no spills.
extern "C" __global__ void probe_local_array(const int* from, int* to, int count) {
  int x[64];
  for (int i = 0; i < count; ++i) x[i & 63] = from[i];
  to[threadIdx.x] = x[from[threadIdx.x] & 63];
}

extern "C" __global__ void probe_division_in_loop(const long long* from, long long* to, long long divisor, int count) {
  long long sum = 0;
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < count; i += 128) sum += from[i] / divisor;
  to[threadIdx.x] = sum;
}

extern "C" __global__ void probe_remainder_in_loop(const unsigned long long* from, unsigned long long* to,
                                                   unsigned long long divisor, int count) {
  unsigned long long sum = 0;
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < count; i += 128) sum += from[i] % divisor;
  to[threadIdx.x] = sum;
}

// The same division, but the loop only adds.
extern "C" __global__ void probe_division_before_loop(const long long* from, long long* to, long long divisor,
                                                      int count) {
  long long sum = from[0] / divisor;
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < count; i += 128) sum += from[i];
  to[threadIdx.x] = sum;
}

// A division that costs nothing like one: by a constant, and of 32 bits.
extern "C" __global__ void probe_cheap_division_in_loop(const long long* from, long long* to, int divisor, int count) {
  long long sum = 0;
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < count; i += 128) sum += from[i] / 7 + i / divisor;
  to[threadIdx.x] = sum;
}

// A loop with two LDSM.x4, three HMMA and a MOVM inside a loop with one HMMA; copies of 16 and of 4 bytes before them.
extern "C" __global__ void __launch_bounds__(32) probe_mma(const std::uint32_t* from, float* to, int outer, int inner) {
  __shared__ __align__(16) std::uint32_t tile[1024];
  const std::uint32_t base = shared_address(tile) + threadIdx.x * 16;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(base), "l"(from + threadIdx.x * 4) : "memory");
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(base + 512), "l"(from + threadIdx.x) : "memory");
  asm volatile("cp.async.commit_group;\ncp.async.wait_group 0;" ::: "memory");
  __syncthreads();
  float d[4] = {0, 0, 0, 0};
#pragma unroll 1
  for (int i = 0; i < outer; ++i) {
    std::uint32_t a[4] = {1, 2, 3, 4};
#pragma unroll 1
    for (int j = 0; j < inner; ++j) {
      std::uint32_t b[4];
      ldmatrix_x4(a, base + static_cast<std::uint32_t>(j) * 512);
      ldmatrix_x4(b, base + static_cast<std::uint32_t>(j) * 512 + 256);
      std::uint32_t turned;
      asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(turned) : "r"(b[3]));
      mma(d, a, b[0], b[1]);
      mma(d, a, b[1], b[2]);
      mma(d, a, b[2], turned);
    }
    mma(d, a, 5, 6);
    to[i] = d[0];
  }
  to[threadIdx.x] = d[0] + d[1] + d[2] + d[3];
}

// A pointer of which nobody knows where it points: generic accesses.
extern "C" __global__ void probe_generic(int** pointers, int use_shared) {
  __shared__ int x[128];
  x[threadIdx.x] = 1;
  __syncthreads();
  volatile int* p = use_shared != 0 ? &x[threadIdx.x ^ 1] : pointers[threadIdx.x];
  *p = *p + 1;
  __syncthreads();
  pointers[0][threadIdx.x] = x[threadIdx.x];
}

// Exactly 5 KiB of static shared memory.
extern "C" __global__ void probe_shared_memory(int* to) {
  __shared__ int x[1280];
  for (unsigned i = threadIdx.x; i < 1280; i += 32) x[i] = to[i];
  __syncthreads();
  to[threadIdx.x] = x[to[threadIdx.x]];
}

// Operations that kernels may come to use: each must have its name in the reader's table.
extern "C" __global__ void probe_operations(const float* f, float* out, const int* n, int* counters, double* wide) {
  const unsigned t = threadIdx.x;
  const float x = f[t];
  const float y = f[t + 64];
  const int i = n[t];
  const int j = n[t + 64];
  const __half2 h = __floats2half2_rn(x, y);
  const __half2 g = __halves2half2(__float2half(y), __float2half(x));
  float r = fminf(x, y) + fmaxf(x, 2.0f) + exp2f(x) + fast_log2(y) + __frcp_rn(x) + sqrtf(y) + rsqrtf(x) + rintf(y) +
            floorf(x) + (x > y ? x : j) + static_cast<float>(i) + __fdividef(x, y) + x / y;
  const __half2 k = __hadd2(__hfma2(h, g, h), __hmul2_rn(g, __hmax2(h, g)));
  const __nv_bfloat162 b =
      __hfma2(__floats2bfloat162_rn(x, y), __floats2bfloat162_rn(y, x), __floats2bfloat162_rn(x, x));
  r += __low2float(k) + __high2float(k) + __bfloat162float(b.x) + (__hbgt2(h, g) ? 1.0f : 0.0f);
  int m = __popc(i) + __clz(j) + static_cast<int>(__brev(i)) + __ffs(j) + min(i, j) + max(i, 7) + abs(j) +
          static_cast<int>(x) + __dp4a(i, j, 3) + static_cast<int>(__byte_perm(i, j, 0x5140)) +
          static_cast<int>(__funnelshift_l(i, j, 3)) + (i >> (j & 7)) + __mulhi(i, j) +
          static_cast<int>(__vabsdiffs4(i, j)) + static_cast<int>(__float2ll_rz(x) >> 3) +
          static_cast<int>(__sad(i, j, 2));
  r += static_cast<float>(static_cast<long long>(i) * j);
  m += static_cast<int>(__ballot_sync(0xffffffffu, i > j)) + __any_sync(0xffffffffu, i == j) +
       __shfl_xor_sync(0xffffffffu, i, 3);
  m += static_cast<int>(__match_any_sync(0xffffffffu, i)) +
       static_cast<int>(__reduce_add_sync(0xffffffffu, static_cast<unsigned>(j)));
  m += static_cast<int>(atomicCAS(counters, i, j)) + atomicAdd(counters + 1, i) + static_cast<int>(__activemask());
  atomicAdd(counters + 2, m);
  __threadfence();
  __nanosleep(20);
  wide[t] =
      wide[t] * static_cast<double>(x) + wide[t + 1] * static_cast<double>(i) + (wide[t] > 3.0 ? 1.0 : wide[t + 2]);
  out[t] = r + static_cast<float>(m) + static_cast<float>(wide[t + 3]) + static_cast<float>(clock64());
  if (i == 12345) __trap();
}
