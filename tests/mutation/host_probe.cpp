// SPDX-License-Identifier: Apache-2.0
// A short run of every kernel in the host context: exit status 1, and why, if a result or an access is wrong. It is
// compiled against headers with a planted fault, so it includes nothing that it does not run.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <vector>

#include <pagoda/kernels/append.hpp>
#include <pagoda/kernels/merge.hpp>
#include <pagoda/kernels/plan_chunks.hpp>
#include <pagoda/kernels/tensor_decode.hpp>
#include <pagoda/kernels/tensor_prefill.hpp>
#include <pagoda/simt/host_context.hpp>

#include "mutation_case.hpp"

namespace {

struct host_launcher {
  pagoda::simt::host_machine machine;
  template <class Kernel>
  void launch(pagoda::simt::index3 grid, const typename Kernel::arguments& arguments) {
    machine.launch<Kernel>(grid, arguments);
  }
};

}  // namespace

int main() {
  host_launcher launcher;
  return mutation::run_all(launcher);
}
