// SPDX-License-Identifier: Apache-2.0
#include "cuda_machine.hpp"

#include <algorithm>
#include <chrono>
#include <vector>

#include <cuda_runtime_api.h>
#include <pagoda/cuda/memory.hpp>

namespace pagoda_check {

namespace {

void check(cudaError_t code, const char* call) {
  if (code == cudaSuccess) return;
  static_cast<void>(cudaGetLastError());
  throw pagoda::cuda::cuda_error(
      code, std::string(call) + " failed: " + cudaGetErrorName(code) + " (" + cudaGetErrorString(code) + ")");
}

cudaStream_t as_stream(void* stream) {
  return static_cast<cudaStream_t>(stream);
}

cudaEvent_t as_event(void* event) {
  return static_cast<cudaEvent_t>(event);
}

const std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();

}  // namespace

cuda_graph::~cuda_graph() {
  if (executable_ != nullptr) static_cast<void>(cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(executable_)));
}

std::string cuda_machine::missing() {
  int devices = 0;
  const cudaError_t code = cudaGetDeviceCount(&devices);
  if (code != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    return std::string(cudaGetErrorName(code)) + ": " + cudaGetErrorString(code);
  }
  if (devices == 0) return "cudaGetDeviceCount finds none";
  try {
    const pagoda::cuda::device_properties properties = backend::properties();
    if (properties.compute_capability >= 80) return {};
    return "device 0 has compute capability " + std::to_string(properties.compute_capability / 10) + "." +
           std::to_string(properties.compute_capability % 10) + ", the kernels need 8.0";
  } catch (const pagoda::cuda::cuda_error& error) {
    return error.what();
  }
}

cuda_machine::cuda_machine() {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreate(&stream), "cudaStreamCreate");
  stream_ = stream;
  for (void** event : {&begin_, &end_}) {
    cudaEvent_t made = nullptr;
    check(cudaEventCreate(&made), "cudaEventCreate");
    *event = made;
  }
}

cuda_machine::~cuda_machine() {
  for (void* event : {begin_, end_}) static_cast<void>(cudaEventDestroy(as_event(event)));
  static_cast<void>(cudaStreamDestroy(as_stream(stream_)));
}

machine_facts cuda_machine::facts() const {
  const pagoda::cuda::device_properties properties = backend::properties();
  machine_facts result;
  result.compute_capability = properties.compute_capability;
  result.multiprocessors = properties.multiprocessors;
  cudaDeviceProp device{};
  check(cudaGetDeviceProperties(&device, properties.device), "cudaGetDeviceProperties");
  result.name = device.name;
  result.l2_bytes = device.l2CacheSize;
  result.memory_bytes = static_cast<std::int64_t>(device.totalGlobalMem);
  const auto ask_mhz = [&](cudaDeviceAttr attribute) {
    int khz = 0;
    if (cudaDeviceGetAttribute(&khz, attribute, properties.device) != cudaSuccess) {
      static_cast<void>(cudaGetLastError());
      return 0;
    }
    return khz / 1000;
  };
  result.clock_mhz = ask_mhz(cudaDevAttrClockRate);
  result.memory_clock_mhz = ask_mhz(cudaDevAttrMemoryClockRate);
  check(cudaDriverGetVersion(&result.driver_version), "cudaDriverGetVersion");
  check(cudaRuntimeGetVersion(&result.runtime_version), "cudaRuntimeGetVersion");
  return result;
}

void cuda_machine::begin_capture() {
  check(cudaStreamBeginCapture(as_stream(stream_), cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
}

void cuda_machine::drop_capture() {
  cudaGraph_t graph = nullptr;
  if (cudaStreamEndCapture(as_stream(stream_), &graph) == cudaSuccess && graph != nullptr) {
    static_cast<void>(cudaGraphDestroy(graph));
  }
  static_cast<void>(cudaGetLastError());
}

cuda_graph cuda_machine::end_capture() {
  cudaGraph_t graph = nullptr;
  check(cudaStreamEndCapture(as_stream(stream_), &graph), "cudaStreamEndCapture");
  cudaGraphExec_t executable = nullptr;
  const cudaError_t code = cudaGraphInstantiate(&executable, graph, 0);
  static_cast<void>(cudaGraphDestroy(graph));
  check(code, "cudaGraphInstantiate");
  return cuda_graph(executable);
}

void cuda_machine::replay(const graph& kept) {
  check(cudaGraphLaunch(static_cast<cudaGraphExec_t>(kept.get()), as_stream(stream_)), "cudaGraphLaunch");
}

template <class Enqueue>
double cuda_machine::time_enqueued(Enqueue&& enqueue) {
  check(cudaEventRecord(as_event(begin_), as_stream(stream_)), "cudaEventRecord");
  enqueue();
  check(cudaEventRecord(as_event(end_), as_stream(stream_)), "cudaEventRecord");
  check(cudaEventSynchronize(as_event(end_)), "cudaEventSynchronize");
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, as_event(begin_), as_event(end_)), "cudaEventElapsedTime");
  return 1e3 * double{milliseconds};
}

double cuda_machine::time(const graph& kept) {
  return time_enqueued([&] { replay(kept); });
}

copy_rates cuda_machine::measure_copy(std::int64_t bytes) {
  const pagoda::cuda::device_memory from(bytes);
  const pagoda::cuda::device_memory to(bytes);
  backend::fill(from.data(), 1, bytes, stream());
  const auto rate = [&](auto&& enqueue) {
    std::vector<double> times;
    for (int run = 0; run < 9; ++run) times.push_back(time_enqueued(enqueue));
    std::sort(times.begin(), times.end());
    return 2e-3 * static_cast<double>(bytes) / times[times.size() / 2];  // read and written
  };
  const int multiprocessors = backend::properties().multiprocessors;
  copy_rates rates;
  rates.memcpy_rate = rate([&] { backend::copy(to.data(), from.data(), bytes, stream()); });
  for (const int blocks_each : {2, 4, 8}) {
    rates.kernel_rate = std::max(
        rates.kernel_rate,
        rate([&] { enqueue_copy_kernel(to.data(), from.data(), bytes, blocks_each * multiprocessors, stream_); }));
  }
  return rates;
}

double cuda_machine::seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace pagoda_check
