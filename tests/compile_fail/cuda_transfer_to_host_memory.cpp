// SPDX-License-Identifier: Apache-2.0
// expected-error: host_memory, which a device does not reach in stream order: use cuda::pinned_memory
#include <pagoda/cuda/execute.hpp>
#include <pagoda/cuda/memory.hpp>
#include <pagoda/pagoda.hpp>

#ifdef PAGODA_CONTROL
using memory = pagoda::cuda::pinned_memory;
#else
using memory = pagoda::host_memory;
#endif

void move(const pagoda::cache<pagoda::cuda::device_memory>& from, pagoda::cache<memory>& to,
          const pagoda::copy_list& copies) {
  pagoda::cuda::execute(from, to, copies);
}
