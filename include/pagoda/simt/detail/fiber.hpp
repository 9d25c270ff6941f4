// SPDX-License-Identifier: Apache-2.0
/// @file Fibres: stacks that one OS thread switches between. A CUDA thread of the host context is one of them.
///
/// The switch is written by hand for x86-64 and AArch64 on ELF systems; elsewhere, or with PAGODA_SIMT_UCONTEXT
/// defined, it is the C library's swapcontext, which makes two system calls a switch.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <new>

#include <pagoda/config.hpp>

#if defined(__SANITIZE_ADDRESS__)
#define PAGODA_SIMT_ASAN 1
#elif defined(__SANITIZE_THREAD__)
#define PAGODA_SIMT_TSAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define PAGODA_SIMT_ASAN 1
#elif __has_feature(thread_sanitizer)
#define PAGODA_SIMT_TSAN 1
#endif
#endif
// Defined by a file that is not instrumented itself, but switches between fibres that run instrumented code. Switches
// then order nothing, so that the sanitizer sees the fibres as threads.
#if defined(PAGODA_SIMT_TSAN_UNORDERED)
#define PAGODA_SIMT_TSAN 1
#endif

#if defined(PAGODA_SIMT_ASAN)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(PAGODA_SIMT_TSAN)
extern "C" {
void* __tsan_get_current_fiber(void);
void* __tsan_create_fiber(unsigned flags);
void __tsan_destroy_fiber(void* fiber);
void __tsan_switch_to_fiber(void* fiber, unsigned flags);
}
#endif

#if !defined(PAGODA_SIMT_UCONTEXT) && !(defined(__ELF__) && (defined(__x86_64__) || defined(__aarch64__)))
#define PAGODA_SIMT_UCONTEXT 1
#endif
#if defined(PAGODA_SIMT_UCONTEXT)
#include <ucontext.h>
#endif

namespace pagoda::simt::detail {

/// The stack that a launch takes a thread unless told otherwise. Pages that no frame reaches cost nothing.
#if defined(PAGODA_SIMT_ASAN) || defined(PAGODA_SIMT_TSAN)
inline constexpr std::size_t default_stack_bytes = std::size_t{512} << 10;
#else
inline constexpr std::size_t default_stack_bytes = std::size_t{128} << 10;
#endif

#if !defined(PAGODA_SIMT_UCONTEXT)
/// Leaves the frame pointer and a place to go on at on this stack, this stack's pointer in *from, and goes on where the
/// stack `to` says; a function that starts there gets `argument`. Whatever else is in a register, the compiler saves:
/// all of them are named as changed. It is code inside a function, not a symbol, so that any number of object files,
/// and link-time optimisation, can hold it. On x86-64 it steps over the 128 bytes that a function may use below its
/// stack pointer.
PAGODA_ALWAYS_INLINE void switch_stack(void** from, void* to, void* argument) {
#if defined(__CUDA_ARCH__)
#elif defined(__x86_64__)
  __asm__ volatile(R"(
    leaq -128(%%rsp), %%rsp
    pushq %%rbp
    leaq 1f(%%rip), %%rax
    pushq %%rax
    movq %%rsp, (%%rdi)
    movq %%rsi, %%rsp
    movq %%rdx, %%rdi
    xorl %%ebp, %%ebp
    popq %%rax
    jmp *%%rax
  1:
    endbr64
    popq %%rbp
    leaq 128(%%rsp), %%rsp
  )"
                   : "+D"(from), "+S"(to), "+d"(argument)
                   :
                   : "memory", "cc", "rax", "rbx", "rcx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "xmm0",
                     "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12",
                     "xmm13", "xmm14", "xmm15", "st", "st(1)", "st(2)", "st(3)", "st(4)", "st(5)", "st(6)", "st(7)"
#if defined(__AVX512F__)
                     ,
                     "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23", "xmm24", "xmm25", "xmm26",
                     "xmm27", "xmm28", "xmm29", "xmm30", "xmm31", "k1", "k2", "k3", "k4", "k5", "k6", "k7"
#endif
  );
#else
  register void** x0 __asm__("x0") = from;
  register void* x1 __asm__("x1") = to;
  register void* x2 __asm__("x2") = argument;
  __asm__ volatile(R"(
    adr x17, 1f
    stp x29, x17, [sp, #-16]!
    mov x16, sp
    str x16, [x0]
    mov sp, x1
    mov x0, x2
    mov x30, xzr
    ldp x29, x17, [sp], #16
    br x17
  1:
    hint #34
  )"
                   : "+r"(x0), "+r"(x1), "+r"(x2)
                   :
                   : "memory", "cc", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14", "x15",
                     "x16", "x17", "x18", "x19", "x20", "x21", "x22", "x23", "x24", "x25", "x26", "x27", "x28", "x30",
                     "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14",
                     "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28",
                     "v29", "v30", "v31");
#endif
}
#endif

/// A stack and the place where its execution stands. A default-constructed fibre stands for the code that the OS thread
/// runs already.
class fiber {
 public:
  using entry_function = void (*)(void* argument);

  fiber() = default;
  fiber(const fiber&) = delete;
  fiber& operator=(const fiber&) = delete;
  ~fiber() {
#if defined(PAGODA_SIMT_TSAN)
    if (mapping_ != nullptr) __tsan_destroy_fiber(tsan_fiber_);
#endif
    if (mapping_ != nullptr) {
      forget_frames();  // the addresses will be others'
      munmap(mapping_, mapping_bytes_);
    }
  }

  /// Maps a stack with a guard page below it. Throws: std::bad_alloc.
  void allocate(std::size_t stack_bytes) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    stack_bytes_ = (stack_bytes + page - 1) / page * page;
    mapping_bytes_ = stack_bytes_ + page;
    void* mapped =
        mmap(nullptr, mapping_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) throw std::bad_alloc();
    if (mprotect(mapped, page, PROT_NONE) != 0) {
      munmap(mapped, mapping_bytes_);
      throw std::bad_alloc();
    }
    mapping_ = static_cast<std::byte*>(mapped);
    stack_ = mapping_ + page;
#if defined(PAGODA_SIMT_TSAN)
    tsan_fiber_ = __tsan_create_fiber(0);
#endif
  }

  /// Makes the next switch to this fibre call entry(argument), which must never return. Stacks are whole pages, so
  /// that equal frames would share one set of the first cache; `colour` moves them apart.
  void prepare(entry_function entry, void* argument, unsigned colour) {
#if defined(PAGODA_SIMT_ASAN) && defined(PAGODA_SIMT_UCONTEXT)
    forget_frames();
#elif defined(PAGODA_SIMT_ASAN)
    // The last frames of the former run never returned.
    if (stack_pointer_ != nullptr) {
      const auto* last = static_cast<std::byte*>(stack_pointer_);
      __asan_unpoison_memory_region(last, static_cast<std::size_t>(stack_ + stack_bytes_ - last));
    }
#endif
    std::byte* top = stack_ + stack_bytes_ - colour % 48 * 320;
    entry_ = entry;
    argument_ = argument;
#if defined(PAGODA_SIMT_UCONTEXT)
    getcontext(&context_);
    context_.uc_stack.ss_sp = stack_;
    context_.uc_stack.ss_size = static_cast<std::size_t>(top - stack_);
    context_.uc_link = nullptr;
    const auto self = reinterpret_cast<std::uintptr_t>(this);
    makecontext(&context_, reinterpret_cast<void (*)()>(&start_from_halves), 2, static_cast<unsigned>(self >> 16 >> 16),
                static_cast<unsigned>(self));
#else
    auto* words = reinterpret_cast<void**>(top) - 2;  // as the switch leaves them
#if defined(__x86_64__)
    words[0] = reinterpret_cast<void*>(&start);
    words[1] = nullptr;  // no caller
#else
    words[0] = nullptr;  // no frame above
    words[1] = reinterpret_cast<void*>(&start);
#endif
    stack_pointer_ = words;
#endif
  }

  /// Takes from the address sanitizer what it still holds against the stack, after an exception unwound it.
  void forget_frames() {
#if defined(PAGODA_SIMT_ASAN)
    __asan_unpoison_memory_region(stack_, stack_bytes_);
#endif
  }

  /// To be called by the fibre that stands for the OS thread, before it switches away.
  void become_current() {
#if defined(PAGODA_SIMT_TSAN)
    tsan_fiber_ = __tsan_get_current_fiber();
#endif
  }

  /// Leaves `from`, which runs, for `to`. Returns when something switches back.
  PAGODA_ALWAYS_INLINE static void switch_to(fiber& from, fiber& to) {
    leave(from, to, false);
  }

  /// The same for a fibre that nothing will switch back to before it is prepared anew.
  PAGODA_ALWAYS_INLINE static void finish(fiber& from, fiber& to) {
    leave(from, to, true);
  }

 private:
  PAGODA_ALWAYS_INLINE static void leave(fiber& from, fiber& to, [[maybe_unused]] bool last) {
#if defined(PAGODA_SIMT_ASAN)
    __sanitizer_start_switch_fiber(last ? nullptr : &from.fake_stack_, to.stack_, to.stack_bytes_);
    to.came_from_ = &from;
#endif
#if defined(PAGODA_SIMT_TSAN_UNORDERED)
    __tsan_switch_to_fiber(to.tsan_fiber_, 1);
#elif defined(PAGODA_SIMT_TSAN)
    __tsan_switch_to_fiber(to.tsan_fiber_, 0);
#endif
#if defined(PAGODA_SIMT_UCONTEXT)
    swapcontext(&from.context_, &to.context_);
#else
    switch_stack(&from.stack_pointer_, to.stack_pointer_, &to);
#endif
#if defined(PAGODA_SIMT_ASAN)
    __sanitizer_finish_switch_fiber(from.fake_stack_, nullptr, nullptr);
#endif
  }

  static void start(void* self_pointer) {
    auto& self = *static_cast<fiber*>(self_pointer);
#if defined(PAGODA_SIMT_ASAN)
    // The bounds of the OS thread's own stack are known here only.
    const void* bottom = nullptr;
    std::size_t bytes = 0;
    __sanitizer_finish_switch_fiber(nullptr, &bottom, &bytes);
    if (self.came_from_->mapping_ == nullptr) {
      self.came_from_->stack_ = static_cast<std::byte*>(const_cast<void*>(bottom));
      self.came_from_->stack_bytes_ = bytes;
    }
#endif
    self.entry_(self.argument_);
    __builtin_unreachable();
  }

#if defined(PAGODA_SIMT_UCONTEXT)
  static void start_from_halves(unsigned high, unsigned low) {
    start(reinterpret_cast<void*>((static_cast<std::uintptr_t>(high) << 16 << 16) | low));
  }
  ucontext_t context_;
#else
  void* stack_pointer_ = nullptr;
#endif
  std::byte* stack_ = nullptr;
  std::size_t stack_bytes_ = 0;
  std::byte* mapping_ = nullptr;
  std::size_t mapping_bytes_ = 0;
  entry_function entry_ = nullptr;
  void* argument_ = nullptr;
#if defined(PAGODA_SIMT_ASAN)
  void* fake_stack_ = nullptr;
  fiber* came_from_ = nullptr;
#endif
#if defined(PAGODA_SIMT_TSAN)
  void* tsan_fiber_ = nullptr;
#endif
};

}  // namespace pagoda::simt::detail
