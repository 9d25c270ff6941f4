// SPDX-License-Identifier: Apache-2.0
/// @file Runs one kernel in the host context and, where nvcc is, from its PTX for both architectures.
#pragma once

#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <pagoda/simt/host_context.hpp>

#include "ptx/machine.hpp"

namespace pagoda_test {

/// The PTX files of probe_kernels.cu; none, and a word about it, without nvcc.
inline std::vector<std::string> probe_files() {
#if defined(PAGODA_PTX_DIRECTORY)
  const std::string stem = std::string(PAGODA_PTX_DIRECTORY) + "/probe_kernels.";
  return {stem + "compute_80.ptx", stem + "compute_90.ptx"};
#else
  std::cout << "[SKIPPED] nvcc was not found: its PTX is not run\n";
  return {};
#endif
}

/// One way to run a kernel: the host context if there is no module.
class kernel_way {
 public:
  kernel_way() = default;
  explicit kernel_way(const ptx::module& from) : module_(&from) {}

  /// `ranges` is all global memory that the kernel may touch.
  template <class Kernel>
  void launch(pagoda::simt::index3 grid, const typename Kernel::arguments& arguments,
              std::vector<ptx::global_range> ranges) const {
    if (module_ == nullptr) {
      pagoda::simt::host_machine().launch<Kernel>(grid, arguments);
    } else {
      ptx::launch<Kernel>(*module_, grid, arguments, {.ranges = std::move(ranges)});
    }
  }

 private:
  const ptx::module* module_ = nullptr;
};

template <class Test>
void in_every_way(Test test) {
  {
    INFO("host context");
    test(kernel_way());
  }
  for (const std::string& file : probe_files()) {
    INFO(file);
    test(kernel_way(ptx::module::load(file)));
  }
}

}  // namespace pagoda_test
