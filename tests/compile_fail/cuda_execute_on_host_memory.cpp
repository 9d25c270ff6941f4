// SPDX-License-Identifier: Apache-2.0
// expected-error: this storage lies in host memory: call host::execute, or use cuda::device_memory
#include <pagoda/cuda/execute.hpp>
#include <pagoda/cuda/memory.hpp>

#ifdef PAGODA_CONTROL
using memory = pagoda::cuda::device_memory;
#else
using memory = pagoda::host_memory;
#endif
using half_t = pagoda::identity<pagoda::half>;

void move(pagoda::block_storage<half_t, half_t, pagoda::heads_tokens_dim, memory>& storage,
          const pagoda::copy_list& copies) {
  pagoda::cuda::execute(storage, copies);
}
