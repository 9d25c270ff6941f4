// SPDX-License-Identifier: Apache-2.0
/// @file thread_pool: an executor of std::threads. Not part of the umbrella: engines usually bring their own.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

#include <pagoda/error.hpp>
#include <pagoda/host/executor.hpp>

namespace pagoda::host {

/// Runs items on `threads` threads, the calling one among them. Each takes the next item when it is free.
/// Requires: one parallel_for at a time; a function must not call it again.
class thread_pool {
 public:
  /// Throws: invalid_argument for fewer than one thread or more than 4096; std::system_error if the system gives no
  /// more.
  explicit thread_pool(std::int32_t threads) {
    if (threads < 1 || threads > 4096) {
      pagoda::detail::fail("thread_pool of ", threads,
                           " threads: the number must lie between 1 and 4096; pass 1 for the calling thread alone");
    }
    workers_.reserve(static_cast<std::size_t>(threads) - 1);
    try {
      for (std::int32_t i = 1; i < threads; ++i) workers_.emplace_back([this] { work(); });
    } catch (...) {
      stop();
      throw;
    }
  }
  thread_pool(const thread_pool&) = delete;
  thread_pool& operator=(const thread_pool&) = delete;
  ~thread_pool() { stop(); }

  std::int64_t concurrency() const noexcept { return static_cast<std::int64_t>(workers_.size()) + 1; }

  /// Calls function(i) once for every i from 0 to count - 1 and returns when all calls have. If calls throw, the first
  /// exception is thrown here, after all have ended. Allocates nothing.
  template <class Function>
  void parallel_for(std::int64_t count, Function&& function) {
    if (count <= 1 || workers_.empty()) {
      for (std::int64_t i = 0; i < count; ++i) function(i);
      return;
    }
    {
      const std::lock_guard lock(mutex_);
      context_ = const_cast<void*>(static_cast<const void*>(&function));
      call_ = [](void* context, std::int64_t i) { (*static_cast<std::remove_reference_t<Function>*>(context))(i); };
      count_ = count;
      next_.store(0, std::memory_order_relaxed);
      failure_ = nullptr;
      busy_ = static_cast<std::int64_t>(workers_.size());
      ++round_;
    }
    wake_.notify_all();
    drain();
    std::unique_lock lock(mutex_);
    done_.wait(lock, [this] { return busy_ == 0; });
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  void drain() noexcept {
    for (std::int64_t i = next_.fetch_add(1, std::memory_order_relaxed); i < count_;
         i = next_.fetch_add(1, std::memory_order_relaxed)) {
      try {
        call_(context_, i);
      } catch (...) {
        const std::lock_guard lock(mutex_);
        if (!failure_) failure_ = std::current_exception();
      }
    }
  }

  void work() noexcept {
    std::uint64_t seen = 0;
    std::unique_lock lock(mutex_);
    while (true) {
      wake_.wait(lock, [&] { return stopping_ || round_ != seen; });
      if (stopping_) return;
      seen = round_;
      lock.unlock();
      drain();
      lock.lock();
      if (--busy_ == 0) done_.notify_one();
    }
  }

  void stop() noexcept {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_all();
    for (std::thread& worker : workers_) worker.join();
    workers_.clear();
  }

  std::vector<std::thread> workers_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable done_;
  void* context_ = nullptr;
  void (*call_)(void*, std::int64_t) = nullptr;
  std::int64_t count_ = 0;
  std::atomic<std::int64_t> next_{0};
  std::exception_ptr failure_;
  std::int64_t busy_ = 0;
  std::uint64_t round_ = 0;
  bool stopping_ = false;
};

static_assert(executor<thread_pool>);

}  // namespace pagoda::host
