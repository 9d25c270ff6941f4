// SPDX-License-Identifier: Apache-2.0
// Memory policies of a backend, and the words of a failed call.
#include <cstdint>
#include <new>
#include <string>
#include <utility>

#include <doctest/doctest.h>
#include <pagoda/conformance/memory.hpp>
#include <pagoda/cuda/host_backend.hpp>

namespace {

using pagoda::cuda::host_backend;
using device_memory = pagoda::cuda::basic_device_memory<host_backend>;
using pinned_memory = pagoda::cuda::basic_pinned_memory<host_backend>;

TEST_CASE("device and pinned memory are memory policies that give back what they take") {
  const std::int64_t alive = host_backend::device().live_allocations;
  const std::int64_t ordered_calls = host_backend::device().ordered;
  {
    device_memory device(5000);
    CHECK(pagoda::conformance::check_memory(device).ok());
    pinned_memory pinned(300);
    CHECK(pagoda::conformance::check_memory(pinned).ok());
    int stream = 0;
    device_memory ordered(700, &stream);
    CHECK(pagoda::conformance::check_memory(ordered).ok());
    ordered = std::move(device);
    CHECK(ordered.size_bytes() == 5000);
    const pagoda::block_storage<pagoda::identity<pagoda::half>, pagoda::identity<pagoda::half>,
                                pagoda::heads_tokens_dim, pinned_memory>
        storage({.head_dim = 64}, 16, pagoda::num_blocks{3});
    CHECK(host_backend::device().live_allocations > alive);
  }
  CHECK(host_backend::device().live_allocations == alive);
  CHECK(host_backend::device().ordered == ordered_calls + 2);
  CHECK_THROWS_AS(device_memory(0), pagoda::invalid_argument);
  CHECK_THROWS_AS(pinned_memory(-1), pagoda::invalid_argument);
}

TEST_CASE("the host may read pinned memory, and no device memory") {
  CHECK(pagoda::is_host_accessible_v<pagoda::host_memory>);
  CHECK(pagoda::is_host_accessible_v<pagoda::borrowed_memory>);
  CHECK(pagoda::is_host_accessible_v<pagoda::cuda::pinned_memory>);
  CHECK_FALSE(pagoda::is_host_accessible_v<pagoda::cuda::device_memory>);
}

TEST_CASE("a failed call names itself, CUDA's error and the remedy") {
  using pagoda::cuda::detail::failure;
  const auto raised = [](const failure& why) {
    try {
      pagoda::cuda::detail::raise(why, "cudaExample of 12 bytes");
    } catch (const pagoda::cuda::cuda_error& error) {
      CHECK(error.code() == why.code);
      return std::string(error.what());
    }
    return std::string();
  };
  const auto contains = [](const std::string& text, const char* part) { return text.find(part) != std::string::npos; };
  const std::string none = raised({100, "cudaErrorNoDevice", "no CUDA-capable device is detected", 13000, 13000});
  CHECK(
      contains(none, "pagoda: cudaExample of 12 bytes failed: cudaErrorNoDevice (no CUDA-capable device is detected)"));
  CHECK(contains(none, "no CUDA device is visible"));
  const std::string old = raised({35, "cudaErrorInsufficientDriver", "text", 12040, 13000});
  CHECK(contains(old, "the driver is too old: it serves CUDA 12.4, the program needs 13.0"));
  CHECK(contains(raised({35, "cudaErrorInsufficientDriver", "text", 0, 13000}), "no CUDA driver is installed"));
  CHECK(contains(raised({209, "cudaErrorNoKernelImageForDevice", "text"}), "holds no code for this device"));
  CHECK(contains(raised({700, "cudaErrorIllegalAddress", "text"}), "compute-sanitizer"));
  CHECK_THROWS_WITH_AS(pagoda::cuda::detail::raise({2, "cudaErrorMemoryAllocation", "out of memory"}, "cudaMalloc"),
                       doctest::Contains("cudaMalloc failed: cudaErrorMemoryAllocation (out of memory): ask for fewer"),
                       pagoda::cuda::out_of_device_memory);
  CHECK_THROWS_AS(pagoda::cuda::detail::raise({2, "cudaErrorMemoryAllocation", "out of memory"}, "cudaMalloc"),
                  std::bad_alloc);
}

TEST_CASE("any stream handle converts to a stream_ref") {
  struct handle;
  handle* const stream = reinterpret_cast<handle*>(0x40);
  const pagoda::cuda::stream_ref reference = stream;
  CHECK(reference.get() == static_cast<void*>(stream));
  CHECK(pagoda::cuda::stream_ref().get() == nullptr);
  CHECK(pagoda::cuda::stream_ref(nullptr).get() == nullptr);
}

}  // namespace
