// SPDX-License-Identifier: Apache-2.0
/// @file The check's machine with a GPU: CUDA graphs, timed by events.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include <pagoda/cuda/runtime.hpp>

#include "machine_facts.hpp"

namespace pagoda_check {

/// A CUDA graph that can be replayed.
class cuda_graph {
 public:
  explicit cuda_graph(void* executable) : executable_(executable) {}
  cuda_graph(cuda_graph&& other) noexcept : executable_(std::exchange(other.executable_, nullptr)) {}
  cuda_graph& operator=(cuda_graph&&) = delete;
  ~cuda_graph();
  void* get() const { return executable_; }

 private:
  void* executable_;
};

class cuda_machine {
 public:
  using backend = pagoda::cuda::device_backend;
  using graph = cuda_graph;

  /// Why there is no such machine; empty where there is one.
  static std::string missing();

  cuda_machine();
  cuda_machine(const cuda_machine&) = delete;
  cuda_machine& operator=(const cuda_machine&) = delete;
  ~cuda_machine();

  machine_facts facts() const;
  /// It waits for the default stream, and the default stream for it.
  pagoda::cuda::stream_ref stream() const { return stream_; }

  /// Keeps what `enqueue` launches, without running it.
  template <class Enqueue>
  graph capture(Enqueue&& enqueue) {
    begin_capture();
    try {
      enqueue(stream());
    } catch (...) {
      drop_capture();
      throw;
    }
    return end_capture();
  }
  void replay(const graph& kept);
  /// Microseconds of one replay, between two events.
  double time(const graph& kept);
  copy_rates measure_copy(std::int64_t bytes);
  double seconds() const;

 private:
  void begin_capture();
  void drop_capture();
  graph end_capture();
  template <class Enqueue>
  double time_enqueued(Enqueue&& enqueue);

  void* stream_ = nullptr;
  void* begin_ = nullptr;
  void* end_ = nullptr;
};

/// Enqueues a kernel that copies; bytes is a multiple of 16.
void enqueue_copy_kernel(void* to, const void* from, std::int64_t bytes, int blocks, void* stream);

}  // namespace pagoda_check
