// SPDX-License-Identifier: Apache-2.0
/// @file write_words: a few kilobytes of the host's reach device memory inside a launch's arguments.
#pragma once

#include <cstdint>

#include <pagoda/simt/execution_context.hpp>

namespace pagoda::kernels {

/// Writes its arguments to device memory. The host need not keep them, pin them or wait for a copy, and a captured
/// graph holds them. Launch one block.
struct write_words {
  static constexpr int threads = 128;
  static constexpr int shared_bytes = 0;
  static constexpr std::int32_t capacity = 240;  // a launch takes 4 KiB of arguments

  struct arguments {
    simt::words4* to = nullptr;
    std::int32_t count = 0;  ///< at most capacity
    simt::words4 words[capacity]{};
  };
  static_assert(sizeof(arguments) <= 4096);

  template <simt::execution_context Context>
  PAGODA_HOST_DEVICE static void run(Context& ctx, const arguments& args) {
    for (std::int32_t i = ctx.thread_index(); i < args.count; i += threads) ctx.store(args.to + i, args.words[i]);
  }
};

}  // namespace pagoda::kernels
