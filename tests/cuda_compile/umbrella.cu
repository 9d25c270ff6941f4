// SPDX-License-Identifier: Apache-2.0
// The headers under nvcc: both passes parse them, and transfers, which need no kernel, compile. Nothing runs, so no GPU
// is needed.
#include <pagoda/cuda/execute.hpp>
#include <pagoda/cuda/memory.hpp>
#include <pagoda/pagoda.hpp>

using device_cache = pagoda::cache<pagoda::cuda::device_memory>;
using host_cache = pagoda::cache<pagoda::cuda::pinned_memory>;

pagoda::transferred park(device_cache& device, host_cache& host, const pagoda::sequence& sequence) {
  pagoda::transferred made = transfer(device.manager(), {sequence}, host.manager());
  pagoda::cuda::execute(device, host, made.copies);
  return made;
}
pagoda::transferred resume(host_cache& host, device_cache& device, const pagoda::sequence& sequence) {
  pagoda::transferred made = transfer(host.manager(), {sequence}, device.manager());
  pagoda::cuda::execute(host, device, made.copies);
  return made;
}
