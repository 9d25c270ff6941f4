// SPDX-License-Identifier: Apache-2.0
/// @file Runs the threads of one block as fibres, each until it must wait for others.
#pragma once

#include <bit>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <pagoda/simt/detail/fault.hpp>
#include <pagoda/simt/detail/fiber.hpp>
#include <pagoda/simt/detail/random.hpp>
#include <pagoda/simt/detail/shadow_memory.hpp>
#include <pagoda/simt/detail/warp_exchange.hpp>

namespace pagoda::simt::detail {

/// The threads of the block that runs. A warp is drained before the next one is looked at, which keeps 32 stacks in the
/// first cache, not all of the block's.
class block_scheduler {
 public:
  using body_function = void (*)(void* closure, int thread);

  explicit block_scheduler(std::size_t stack_bytes) : stack_bytes_(stack_bytes) {}
  block_scheduler(const block_scheduler&) = delete;
  block_scheduler& operator=(const block_scheduler&) = delete;

  /// Prepares for blocks of this many threads. A seed other than 0 draws which lane and warp runs next.
  void begin_launch(std::string_view kernel, int threads, std::uint32_t seed) {
    place_.kernel = kernel;
    thread_count_ = static_cast<std::uint32_t>(threads);
    while (threads_.size() < thread_count_) {
      auto one = std::make_unique<thread_state>();
      one->stack.allocate(stack_bytes_ != 0 ? stack_bytes_ : default_stack_bytes);
      one->owner = this;
      one->index = static_cast<std::uint32_t>(threads_.size());
      threads_.push_back(std::move(one));
    }
    warps_.resize(thread_count_ / warp_size);
    random_ = random_numbers(seed);
    shuffled_ = seed != 0;
  }

  /// Runs body(closure, thread) for every thread of a block. Throws: fault, and what the body throws.
  void run_block(index3 block, body_function body, void* closure) {
    place_.block = block;
    body_ = body;
    closure_ = closure;
    at_barrier_ = left_ = current_warp_ = 0;
    remaining_ = thread_count_;
    failure_ = nullptr;
    cancelling_ = false;
    pass_barrier();
    clock_.block_start = clock_.now;
    for (warp_state& w : warps_) {
      w.ready = full_mask;
      w.left = 0;
      w.meetings.reset();
    }
    for (std::uint32_t i = 0; i < thread_count_; ++i) {
      threads_[i]->state = progress::fresh;
      threads_[i]->stack.prepare(&enter, threads_[i].get(), i);
    }
    main_.become_current();
    while (remaining_ != 0 && failure_ == nullptr) {
      thread_state* next = take_ready();
      if (next == nullptr) {
        failure_ = deadlock();
      } else {
        resume(*next);
      }
    }
    if (failure_ != nullptr) {
      unwind_all();
      std::rethrow_exception(std::exchange(failure_, nullptr));
    }
  }

  const launch_place& place() const { return place_; }
  std::uint32_t thread_count() const { return thread_count_; }
  const barrier_clock& clock() const { return clock_; }

  /// Sets the clock back, between launches, when stamps would soon no longer fit. Returns whether it did.
  bool rewind_clock() {
    if (clock_.now < 0x80000000u) return false;
    clock_ = {};
    return true;
  }

  int running() const { return static_cast<int>(running_->index); }

  accessor accessor_of_running(int line) const {
    return {.thread = running_->index,
            .warp_barrier = warps_[running_->index / warp_size].last_barrier,
            .line = static_cast<std::uint32_t>(line)};
  }

  template <class... Parts>
  PAGODA_COLD void fail(source_position at, const Parts&... parts) const {
    place_.fail(running(), at, parts...);
  }

  /// Waits for all threads of the block. Returns whether the caller came last.
  bool sync(source_position at) {
    if (left_ != 0)
      fail(at, "sync() after thread ", first_that_left(), " has left the kernel: keep every thread to the last sync()");
    if (at_barrier_ == 0) {
      barrier_at_ = at;
    } else if (!(barrier_at_ == at)) {
      fail(at, "sync() here, while ", at_barrier_, " threads wait at sync() ", detail::place(barrier_at_),
           ": a barrier must be one line for all threads of the block");
    }
    thread_state& self = *running_;
    if (++at_barrier_ != thread_count_) {
      wait(self, collective::sync, 0, at);
      return false;
    }
    at_barrier_ = 0;
    for (warp_state& w : warps_) w.ready = full_mask;
    warps_[self.index / warp_size].ready &= ~self.bit();
    pass_barrier();
    return true;
  }

  /// Brings a value to the lanes of the mask and returns all of theirs. The lane that comes last calls complete(all)
  /// before anybody reads.
  template <class T, class Complete>
  deposits<T> exchange(collective kind, std::uint32_t mask, const T& value, source_position at, Complete&& complete) {
    thread_state& self = *running_;
    warp_state& w = warps_[self.index / warp_size];
    const std::uint32_t bit = self.bit();
    if ((mask & bit) == 0) {
      fail(at, name_of(kind), ": the mask ", hex(mask), " lacks the calling lane ", self.lane(),
           ": let the lanes of the mask alone call it");
    }
    meeting& here = w.meetings.of(mask);
    if (here.arrived == 0) {
      if ((w.left & mask) != 0) {
        fail(at, name_of(kind), ": the mask ", hex(mask), " names lane ", std::countr_zero(w.left & mask),
             ", which has left the kernel: keep it until here, or take it out of the mask");
      }
      here.kind = kind;
      here.at = at;
    } else if (here.kind != kind || !(here.at == at)) {
      fail(at, "divergent warp: ", name_of(kind), " here, while lanes ", hex(here.arrived), " wait at ",
           name_of(here.kind), " ", detail::place(here.at), ": let all lanes of a mask make the same call");
    }
    const deposits<T> all(here.bytes[here.parity]);
    all.set(self.lane(), value);
    here.arrived |= bit;
    if (here.arrived == mask) {
      complete(all);
      if (kind == collective::sync_warp) w.last_barrier = ++clock_.now;
      warp_meetings::close(here);
      w.ready |= mask & ~bit;
    } else {
      wait(self, kind, mask, at);
    }
    here.unread &= ~bit;
    return all;
  }

 private:
  enum class progress : std::uint8_t { fresh, waiting, finished };

  struct thread_state {
    fiber stack;
    block_scheduler* owner = nullptr;
    std::uint32_t index = 0;
    progress state = progress::finished;
    collective waits_at = collective::none;
    std::uint32_t waits_with = 0;  ///< the mask of a warp's collective
    source_position position;

    int lane() const { return static_cast<int>(index % warp_size); }
    std::uint32_t bit() const { return std::uint32_t{1} << (index % warp_size); }
  };

  struct warp_state {
    std::uint32_t ready = 0;
    std::uint32_t left = 0;
    std::uint32_t last_barrier = 1;
    warp_meetings meetings;
  };

  /// Unwinds a fibre whose launch has failed elsewhere.
  struct cancelled {};

  static void enter(void* argument) {
    auto& self = *static_cast<thread_state*>(argument);
    block_scheduler& owner = *self.owner;
    try {
      owner.body_(owner.closure_, static_cast<int>(self.index));
      owner.leave(self);
    } catch (const cancelled&) {
    } catch (...) {
      if (owner.failure_ == nullptr) owner.failure_ = std::current_exception();
    }
    owner.retire(self);
  }

  /// A thread returns from the kernel: nobody may be waiting for it.
  void leave(thread_state& self) {
    warp_state& w = warps_[self.index / warp_size];
    if (at_barrier_ != 0) {
      fail(barrier_at_, "the thread leaves the kernel while ", at_barrier_, " threads wait for it at sync() ",
           detail::place(barrier_at_), ": keep every thread to the last sync()");
    }
    if (const meeting* other = w.meetings.waiting_for(self.bit())) {
      fail(other->at, "the thread leaves the kernel while lanes ", hex(other->arrived), " wait for it at ",
           name_of(other->kind), " ", detail::place(other->at), " with the mask ", hex(other->mask),
           ": keep it until there, or take it out of the mask");
    }
    w.left |= self.bit();
    ++left_;
  }

  /// The end of a fibre: nothing of it is needed any more.
  void retire(thread_state& self) {
    self.state = progress::finished;
    --remaining_;
    thread_state* next = failure_ != nullptr ? nullptr : take_ready();
    running_ = next;
    fiber::finish(self.stack, next != nullptr ? next->stack : main_);
  }

  void wait(thread_state& self, collective kind, std::uint32_t mask, source_position at) {
    self.waits_at = kind;
    self.waits_with = mask;
    self.position = at;
    self.state = progress::waiting;
    thread_state* next = cancelling_ ? nullptr : take_ready();
    running_ = next;
    fiber::switch_to(self.stack, next != nullptr ? next->stack : main_);
    if (cancelling_) throw cancelled{};
  }

  void resume(thread_state& next) {
    running_ = &next;
    fiber::switch_to(main_, next.stack);
  }

  /// Runs every fibre that has begun to its end, by an exception, so that its objects are destroyed.
  void unwind_all() {
    cancelling_ = true;
    for (warp_state& w : warps_) w.ready = 0;
    for (std::uint32_t i = 0; i < thread_count_; ++i) {
      while (threads_[i]->state == progress::waiting) resume(*threads_[i]);
      for (warp_state& w : warps_) w.ready = 0;
      threads_[i]->stack.forget_frames();
    }
  }

  thread_state* take_ready() {
    if (shuffled_) return take_any();
    const auto count = static_cast<std::uint32_t>(warps_.size());
    for (std::uint32_t i = 0; i < count; ++i) {
      std::uint32_t& ready = warps_[current_warp_].ready;
      if (ready != 0) {
        const auto lane = static_cast<std::uint32_t>(std::countr_zero(ready));
        ready &= ready - 1;
        return threads_[current_warp_ * warp_size + lane].get();
      }
      current_warp_ = current_warp_ + 1 == count ? 0 : current_warp_ + 1;
    }
    return nullptr;
  }

  thread_state* take_any() {
    const auto count = static_cast<std::uint32_t>(warps_.size());
    const std::uint32_t first = random_.below(count);
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::uint32_t chosen = (first + i) % count;
      std::uint32_t& ready = warps_[chosen].ready;
      if (ready == 0) continue;
      const auto turn = static_cast<int>(random_.below(warp_size));
      const int lane = (std::countr_zero(std::rotr(ready, turn)) + turn) % warp_size;
      ready &= ~(std::uint32_t{1} << lane);
      return threads_[chosen * warp_size + static_cast<std::uint32_t>(lane)].get();
    }
    return nullptr;
  }

  void pass_barrier() {
    clock_.last_barrier = ++clock_.now;
    for (warp_state& w : warps_) w.last_barrier = clock_.now;
  }

  std::uint32_t first_that_left() const {
    std::uint32_t warp = 0;
    while (warps_[warp].left == 0) ++warp;
    return warp * warp_size + static_cast<std::uint32_t>(std::countr_zero(warps_[warp].left));
  }

  /// Nobody can run: says who waits where.
  std::exception_ptr deadlock() const {
    std::map<std::string, std::vector<std::uint32_t>> waiting;
    const thread_state* first = nullptr;
    for (std::uint32_t i = 0; i < thread_count_; ++i) {
      const thread_state& t = *threads_[i];
      if (t.state != progress::waiting) continue;
      if (first == nullptr) first = &t;
      std::string where = joined(name_of(t.waits_at), " ", detail::place(t.position));
      if (t.waits_at != collective::sync && t.waits_with != full_mask) where += " with the mask " + hex(t.waits_with);
      waiting[where].push_back(i);
    }
    std::string text = "deadlock, the threads diverged:";
    for (const auto& [where, threads] : waiting) {
      text += joined(text.back() == ':' ? " " : "; ", threads.size(), " at ", where, " (");
      for (std::size_t i = 0; i < threads.size() && i < 4; ++i) text += joined(i == 0 ? "thread " : ", ", threads[i]);
      text += threads.size() > 4 ? ", ...)" : ")";
    }
    try {
      place_.fail(static_cast<int>(first->index), first->position, text);
    } catch (...) {
      return std::current_exception();
    }
  }

  static std::string hex(std::uint32_t mask) {
    std::string text = "0x00000000";
    for (std::size_t i = 0; i < 8; ++i) text[9 - i] = "0123456789abcdef"[(mask >> (4 * i)) & 15u];
    return text;
  }

  const std::size_t stack_bytes_;
  launch_place place_;
  std::uint32_t thread_count_ = 0;
  std::vector<std::unique_ptr<thread_state>> threads_;
  std::vector<warp_state> warps_;
  barrier_clock clock_;
  random_numbers random_{0};
  bool shuffled_ = false;

  fiber main_;
  thread_state* running_ = nullptr;
  body_function body_ = nullptr;
  void* closure_ = nullptr;
  std::uint32_t current_warp_ = 0;
  std::uint32_t remaining_ = 0;  ///< threads that have not ended
  std::uint32_t left_ = 0;       ///< threads that returned from the kernel
  std::uint32_t at_barrier_ = 0;
  source_position barrier_at_;
  std::exception_ptr failure_;
  bool cancelling_ = false;
};

}  // namespace pagoda::simt::detail
