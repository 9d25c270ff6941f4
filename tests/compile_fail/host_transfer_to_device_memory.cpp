// SPDX-License-Identifier: Apache-2.0
// expected-error: one of these storages lies in device memory: call cuda::execute
#include <pagoda/cuda/memory.hpp>
#include <pagoda/pagoda.hpp>

#ifdef PAGODA_CONTROL
using memory = pagoda::cuda::pinned_memory;
#else
using memory = pagoda::cuda::device_memory;
#endif

void move(const pagoda::cache<>& from, pagoda::cache<memory>& to, const pagoda::copy_list& copies) {
  pagoda::host::execute(from, to, copies);
}
