// SPDX-License-Identifier: Apache-2.0
/// @file stream_ref: a CUDA stream, as code sees it that is compiled without the toolkit.
#pragma once

#include <cstddef>

#include <pagoda/config.hpp>

namespace pagoda::cuda {

/// Names a stream that somebody else owns. A cudaStream_t or CUstream converts to it; {} is the default stream.
class stream_ref {
 public:
  constexpr stream_ref() noexcept = default;
  constexpr stream_ref(std::nullptr_t) noexcept {}  // NOLINT: implicit on purpose
  template <class Stream>
  constexpr stream_ref(Stream* stream) noexcept : stream_(stream) {}  // NOLINT

  constexpr void* get() const noexcept { return stream_; }

 private:
  void* stream_ = nullptr;
};

}  // namespace pagoda::cuda
