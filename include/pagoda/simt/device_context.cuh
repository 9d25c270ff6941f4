// SPDX-License-Identifier: Apache-2.0
/// @file device_context: the execution context of a CUDA thread. Every member is one instruction, or a few.
#pragma once

#include <cstddef>
#include <cstdint>

#include <pagoda/simt/execution_context.hpp>

namespace pagoda::simt {

/// The execution context that nvcc compiles. Requires compute capability 8.0.
class device_context {
 public:
  template <class T>
  class shared_array {
   public:
    __device__ explicit shared_array(T* data) : data_(data) {}
    __device__ __forceinline__ T& operator[](int i) const { return data_[i]; }
    __device__ __forceinline__ T* data() const { return data_; }

   private:
    T* data_;
  };

  __device__ __forceinline__ int thread_index() const { return static_cast<int>(threadIdx.x); }
  __device__ __forceinline__ int lane() const { return static_cast<int>(threadIdx.x % warp_size); }
  __device__ __forceinline__ int warp() const { return static_cast<int>(threadIdx.x / warp_size); }
  __device__ __forceinline__ index3 block_index() const { return {blockIdx.x, blockIdx.y, blockIdx.z}; }
  __device__ __forceinline__ index3 grid_dim() const { return {gridDim.x, gridDim.y, gridDim.z}; }

  __device__ __forceinline__ void sync() const { __syncthreads(); }
  __device__ __forceinline__ void sync_warp() const { __syncwarp(); }

  template <class T>
  __device__ __forceinline__ T shfl(T value, int lane, std::uint32_t mask = full_mask) const {
    return __shfl_sync(mask, value, lane);
  }
  template <class T>
  __device__ __forceinline__ T shfl_xor(T value, int lanes, std::uint32_t mask = full_mask) const {
    return __shfl_xor_sync(mask, value, lanes);
  }
  template <class T>
  __device__ __forceinline__ T shfl_up(T value, int distance, std::uint32_t mask = full_mask) const {
    return __shfl_up_sync(mask, value, static_cast<unsigned>(distance));
  }
  template <class T>
  __device__ __forceinline__ T shfl_down(T value, int distance, std::uint32_t mask = full_mask) const {
    return __shfl_down_sync(mask, value, static_cast<unsigned>(distance));
  }
  __device__ __forceinline__ std::uint32_t ballot(bool predicate, std::uint32_t mask = full_mask) const {
    return __ballot_sync(mask, predicate);
  }

  template <class T>
  __device__ __forceinline__ T ldg(const T* from) const {
    using word = word_of<sizeof(T)>;
    return __builtin_bit_cast(T, __ldg(reinterpret_cast<const word*>(from)));
  }
  template <class T>
  __device__ __forceinline__ T load(const T* from) const {
    return __builtin_bit_cast(T, *reinterpret_cast<const word_of<sizeof(T)>*>(from));
  }
  template <class T>
  __device__ __forceinline__ void store(T* to, const std::type_identity_t<T>& value) const {
    using word = word_of<sizeof(T)>;
    *reinterpret_cast<word*>(to) = __builtin_bit_cast(word, value);
  }
  __device__ __forceinline__ std::uint32_t atomic_cas(std::uint32_t* at, std::uint32_t expected,
                                                      std::uint32_t desired) const {
    return atomicCAS(at, expected, desired);
  }

  template <class T>
  __device__ __forceinline__ shared_array<T> shared(int count) {
    extern __shared__ __align__(16) unsigned char pagoda_shared_memory[];
    T* first = reinterpret_cast<T*>(pagoda_shared_memory + taken_);
    taken_ += (static_cast<unsigned>(count) * static_cast<unsigned>(sizeof(T)) + 15u) / 16u * 16u;
    return shared_array<T>(first);
  }
  template <class T>
  __device__ __forceinline__ void lds(shared_array<std::byte> from, int offset, T& value) const {
    value = __builtin_bit_cast(T, *reinterpret_cast<const word_of<sizeof(T)>*>(from.data() + offset));
  }
  template <class T>
  __device__ __forceinline__ void sts(shared_array<std::byte> to, int offset, const T& value) const {
    using word = word_of<sizeof(T)>;
    *reinterpret_cast<word*>(to.data() + offset) = __builtin_bit_cast(word, value);
  }

  __device__ __forceinline__ void cp_async16(shared_array<std::byte> to, int offset, const void* from,
                                             bool valid = true) const {
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(address(to, offset)), "l"(from),
                 "r"(valid ? 16 : 0)
                 : "memory");
  }
  __device__ __forceinline__ void cp_async4(shared_array<std::byte> to, int offset, const void* from,
                                            bool valid = true) const {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(address(to, offset)), "l"(from),
                 "r"(valid ? 4 : 0)
                 : "memory");
  }
  __device__ __forceinline__ void cp_async_commit() const { asm volatile("cp.async.commit_group;" ::: "memory"); }
  template <int Groups>
  __device__ __forceinline__ void cp_async_wait_group(std::integral_constant<int, Groups>) const {
    asm volatile("cp.async.wait_group %0;" ::"n"(Groups) : "memory");
  }

  __device__ __forceinline__ void ldmatrix_x2(std::uint32_t (&r)[2], shared_array<std::byte> from, int offset) const {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1])
                 : "r"(address(from, offset))
                 : "memory");
  }
  __device__ __forceinline__ void ldmatrix_x4(std::uint32_t (&r)[4], shared_array<std::byte> from, int offset) const {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address(from, offset))
                 : "memory");
  }
  __device__ __forceinline__ void ldmatrix_x2_trans(std::uint32_t (&r)[2], shared_array<std::byte> from,
                                                    int offset) const {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1])
                 : "r"(address(from, offset))
                 : "memory");
  }
  __device__ __forceinline__ void ldmatrix_x4_trans(std::uint32_t (&r)[4], shared_array<std::byte> from,
                                                    int offset) const {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address(from, offset))
                 : "memory");
  }
  __device__ __forceinline__ std::uint32_t movmatrix_trans(std::uint32_t value) const {
    std::uint32_t result;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(result) : "r"(value));
    return result;
  }

  __device__ __forceinline__ void mma_m16n8k16(half, float (&d)[4], const std::uint32_t (&a)[4],
                                               const std::uint32_t (&b)[2]) const {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
        "%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
  __device__ __forceinline__ void mma_m16n8k16(bfloat16, float (&d)[4], const std::uint32_t (&a)[4],
                                               const std::uint32_t (&b)[2]) const {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, "
        "%2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }

  __device__ __forceinline__ float exp2(float x) const {
    float result;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
  }
  __device__ __forceinline__ float log2(float x) const {
    float result;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
  }

 private:
  template <std::size_t Bytes>
  struct word_type;
  template <std::size_t Bytes>
  using word_of = typename word_type<Bytes>::type;

  __device__ __forceinline__ static unsigned address(shared_array<std::byte> array, int offset) {
    return static_cast<unsigned>(__cvta_generic_to_shared(array.data() + offset));
  }

  unsigned taken_ = 0;
};

template <>
struct device_context::word_type<1> {
  using type = unsigned char;
};
template <>
struct device_context::word_type<2> {
  using type = unsigned short;
};
template <>
struct device_context::word_type<4> {
  using type = unsigned int;
};
template <>
struct device_context::word_type<8> {
  using type = uint2;
};
template <>
struct device_context::word_type<16> {
  using type = uint4;
};

static_assert(execution_context<device_context>);

/// The entry point of a kernel on the device: launch it with K::threads threads and K::shared_bytes bytes.
template <kernel K>
__global__ void __launch_bounds__(K::threads, resident_blocks<K>)
    entry(const __grid_constant__ typename K::arguments arguments) {
  device_context ctx;
  K::run(ctx, arguments);
}

}  // namespace pagoda::simt
