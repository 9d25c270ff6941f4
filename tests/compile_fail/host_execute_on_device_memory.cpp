// SPDX-License-Identifier: Apache-2.0
// expected-error: this storage lies in device memory: call cuda::execute
#include <pagoda/cuda/memory.hpp>
#include <pagoda/pagoda.hpp>

#ifdef PAGODA_CONTROL
using memory = pagoda::cuda::pinned_memory;
#else
using memory = pagoda::cuda::device_memory;
#endif
using half_t = pagoda::identity<pagoda::half>;

void move(pagoda::block_storage<half_t, half_t, pagoda::heads_tokens_dim, memory>& storage,
          const pagoda::copy_list& copies) {
  pagoda::host::execute(storage, copies);
}
